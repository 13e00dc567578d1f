"""`unbag report`: run folders in, one page, table or file out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.reports import (
    beside_lines,
    check_place,
    prompt_lines,
    read_runs,
    report,
    terminal_table,
    warning_lines,
)


def write_report(runs: Sequence[Path], *, out: Path | None) -> int:
    """Join the runs and write them in the form that the ending of `out` asks for."""
    if out is not None:
        check_place(out)
    contents = read_runs(runs)
    if out is None:
        from unbag.cli.show import output

        console = output()
        for line in warning_lines(contents):
            console.print(line, style="yellow", highlight=False, markup=False)
        console.print(terminal_table(contents))
        for line in (*prompt_lines(contents), *beside_lines(contents.references)):
            console.print(line, highlight=False, markup=False)
        return 0
    print(f"report: {report(contents, out)}")
    return 0
