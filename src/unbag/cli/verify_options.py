"""The options of `unbag verify`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_verify(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """All but those of the cache, which other commands share."""
    text = "published numbers of a model beside ours"
    verify = commands.add_parser(
        "verify",
        help=text,
        description="Run every protocol that published numbers of a model need, as far as the "
        "files are there, and say which lie inside our intervals.",
        epilog="exit code: 0 all that can be compared lie inside, 3 some lie outside",
    )
    verify.add_argument("--model", required=True, metavar="M", help="the model to score")
    verify.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the runs")
    verify.add_argument("--data", type=Path, metavar="DIR", help="holds one folder a benchmark")
    verify.add_argument(
        "--as", dest="published_as", default="", metavar="NAME", help="what papers call the model"
    )
    verify.add_argument(
        "--bench", nargs="+", default=[], metavar="B", help="only these (default: all there are)"
    )
    verify.add_argument("--scorer", metavar="S", help="how the model gives a score")
    verify.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    verify.add_argument(
        "--missing",
        default="error",
        choices=["error", "skip"],
        help="a benchmark with pictures missing: skip it whole (error, default), or its items",
    )
    return verify
