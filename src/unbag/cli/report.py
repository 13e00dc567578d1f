"""`unbag report`: merge run folders into one report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import add_command
from unbag.cli.run import print_run

if TYPE_CHECKING:
    from unbag.registry import Commands

_ABOUT = """\
Merge run folders into one report, without evaluating anything again. Without --out, the results
are printed.
"""

_EXAMPLES = """\
examples:
  unbag report runs/first runs/second --out both.html
  unbag report runs/first --out table.tex
"""


def add(commands: Commands) -> None:
    """Add the options: run folders and the output file."""
    text = "merge run folders into one report"
    report = add_command(commands, "report", text=text, about=_ABOUT, examples=_EXAMPLES)
    report.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="run folders")
    text = "output file; its extension is the format: .html, .md, .tex, .csv or .json"
    report.add_argument("--out", type=Path, metavar="FILE", help=text)


def start(options: argparse.Namespace) -> int:
    """Merge the runs, and write or print the report."""
    from unbag.reports.exports import check_place, read_runs, report

    if options.out is not None:
        check_place(options.out)
    contents = read_runs(options.runs)
    if options.out is not None:
        print(f"report: {report(contents, options.out)}")
        return 0
    print_run(contents, is_summarised=False)
    return 0
