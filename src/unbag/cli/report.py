"""`unbag report`: run folders in, one page, table or file out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from unbag.engine.atomic import write_text
from unbag.engine.folder import read_contents
from unbag.errors import UserError
from unbag.report import merge, render_page, terminal_table, to_csv, to_json, to_markdown
from unbag.types import RunContents

_FORMS: dict[str, Callable[[RunContents], str]] = {
    ".html": render_page,
    ".md": to_markdown,
    ".csv": to_csv,
    ".json": to_json,
}


def write_report(runs: Sequence[Path], *, out: Path | None) -> int:
    """Join the runs and write them in the form that the ending of `out` asks for."""
    contents = merge([read_contents(path) for path in runs])
    if out is None:
        from rich.console import Console

        Console().print(terminal_table(contents))
        return 0
    if out.suffix not in _FORMS:
        raise UserError(
            f"the ending {out.suffix!r} of {out.name} is not known",
            expected=f"one of {', '.join(_FORMS)}",
            way_out="choose the form with the ending of --out",
        )
    if not out.parent.is_dir():
        raise UserError(
            f"there is no folder {out.parent}", way_out="create it, or choose another --out"
        )
    write_text(out, _FORMS[out.suffix](contents))
    print(f"report: {out}")
    return 0
