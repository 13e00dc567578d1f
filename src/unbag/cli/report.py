"""`unbag report`: run folders in, one page, table or file out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.engine.folder import read_contents
from unbag.reports import form_of, merge_runs, report, terminal_table


def write_report(runs: Sequence[Path], *, out: Path | None) -> int:
    """Join the runs and write them in the form that the ending of `out` asks for."""
    if out is not None:
        form_of(out)
    contents = merge_runs([read_contents(path) for path in runs])
    if out is None:
        from unbag.cli.show import output

        output().print(terminal_table(contents))
        return 0
    print(f"report: {report(contents, out)}")
    return 0
