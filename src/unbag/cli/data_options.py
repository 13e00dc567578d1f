"""The options of `unbag data`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_data(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """List, check and get."""
    text = "which benchmarks are read from files, whether yours are complete, and getting them"
    data = commands.add_parser("data", help=text, description=text[0].upper() + text[1:] + ".")
    actions = data.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="benchmarks that need files")
    check = actions.add_parser("check", help="what is there and what is missing")
    check.add_argument("name", metavar="NAME", help="a benchmark")
    get = actions.add_parser(
        "get",
        help="fetch what has a public address",
        description="Say what will be fetched, fetch it, and check it. A download that was stopped "
        "goes on where it was. What needs an account or a form is explained.",
    )
    get.add_argument("names", nargs="+", metavar="NAME", help="benchmarks")
    get.add_argument(
        "--pictures",
        action="store_true",
        help="pictures too, often gigabytes (default: annotation files only)",
    )
    for action in (check, get):
        action.add_argument(
            "--data", type=Path, required=True, metavar="DIR", help="holds one folder a benchmark"
        )


def start_data(options: argparse.Namespace) -> int:
    """One of the three."""
    from unbag.cli import data

    if options.action == "list":
        return data.list_data()
    if options.action == "check":
        return data.check_data(options.name, options.data)
    from unbag.cli.get import get_data

    return get_data(options.names, options.data, pictures=options.pictures)
