"""Results in, one file out; its ending chooses the form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from unbag.engine.atomic import write_text
from unbag.errors import UserError
from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.exports import to_csv, to_json, to_markdown
from unbag.reports.page import render_page
from unbag.types import Result, RunContents, RunRecord


def to_html(contents: RunContents) -> str:
    """The page, with our own definitions of the metrics."""
    return render_page(contents, DEFINITIONS)


FORMS: dict[str, Callable[[RunContents], str]] = {
    ".html": to_html,
    ".md": to_markdown,
    ".csv": to_csv,
    ".json": to_json,
}


def form_of(path: Path) -> Callable[[RunContents], str]:
    """The writer that the ending of a path asks for."""
    if path.suffix not in FORMS:
        raise UserError(
            f"the ending {path.suffix!r} of {path.name!r} is not known",
            expected=f"one of {', '.join(FORMS)}",
            way_out="choose the form with the ending of the file",
        )
    return FORMS[path.suffix]


def report(results: Sequence[Result] | RunContents, path: str | Path) -> Path:
    """Write results as a page, Markdown, CSV or JSON, by the ending of the path."""
    path = Path(path)
    contents = results if isinstance(results, RunContents) else _as_run(results)
    text = form_of(path)(contents)
    if not path.parent.is_dir():
        raise UserError(
            f"there is no folder {path.parent}", way_out="create it, or choose another place"
        )
    try:
        write_text(path, text)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}", way_out="choose another place"
        ) from error
    return path


def _as_run(results: Sequence[Result]) -> RunContents:
    record = next((result.run for result in results if result.run is not None), None)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    empty = RunRecord("", now, 0, "", versions={}, fingerprints={})
    return RunContents(record or empty, tuple(results))
