"""`unbag report`: join run folders into one page, table or file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.run import print_run

if TYPE_CHECKING:
    from unbag.registry import Commands


def add(commands: Commands) -> None:
    """Run folders, and a file."""
    report = commands.add_parser(
        "report",
        help="one page (or table, CSV, JSON) from one or more run folders",
        description="Join run folders into one report. The ending of --out chooses the form: "
        ".html, .md, .tex, .csv or .json. Without --out the table is printed.",
    )
    report.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="run folders")
    report.add_argument("--out", type=Path, metavar="FILE", help=".html, .md, .tex, .csv or .json")


def start(options: argparse.Namespace) -> int:
    """Join the runs and write them in the form that the ending of `out` asks for."""
    from unbag.reports.exports import check_place, read_runs, report

    if options.out is not None:
        check_place(options.out)
    contents = read_runs(options.runs)
    if options.out is not None:
        print(f"report: {report(contents, options.out)}")
        return 0
    print_run(contents, is_summarised=False)
    return 0
