"""Results or run folders in, one file out; its ending chooses the form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from unbag.engine.atomic import write_text
from unbag.engine.folder import read_contents
from unbag.errors import UserError
from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.exports import CSV_HEAD, to_csv, to_json, to_markdown
from unbag.reports.join import merge_runs
from unbag.reports.page import render_page
from unbag.types import Result, RunContents, RunRecord

Given = Result | Sequence[Result] | RunContents | str | Path | Sequence[str | Path]
"""What a report can be written of."""


def to_html(contents: RunContents) -> str:
    """The page, with our own definitions of the metrics."""
    return render_page(contents, DEFINITIONS)


FORMS: dict[str, Callable[[RunContents], str]] = {
    ".html": to_html,
    ".md": to_markdown,
    ".csv": to_csv,
    ".json": to_json,
}


_BEGINS = {
    ".html": "<title>unbag report: ",
    ".md": "# unbag report\n",
    ".csv": ",".join(CSV_HEAD[:5]) + ",",
}
"""What is near the beginning of each form; of CSV the columns that reports of all versions have."""
_KEYS = {"results", "references", "warnings", "problems"}
"""Of JSON."""
_NEAR = 2048
"""Characters in which it is."""


def form_of(path: Path) -> Callable[[RunContents], str]:
    """The writer that the ending of a path asks for."""
    if path.suffix not in FORMS:
        raise UserError(
            f"the ending {path.suffix!r} of {path.name!r} is not known",
            expected=f"one of {', '.join(FORMS)}",
            way_out="choose the form with the ending of the file",
        )
    return FORMS[path.suffix]


def check_place(path: Path) -> None:
    """Whether a report can be written there; a file that is there must be one."""
    form_of(path)
    if not path.parent.is_dir():
        raise UserError(
            f"there is no folder {path.parent}", way_out="create it, or choose another place"
        )
    if path.is_file() and not _is_report(path):
        raise UserError(
            f"{path} exists and is no report of unbag",
            expected="a new file, or an earlier report, which is replaced",
            way_out="choose another name, or delete it",
        )


def read_runs(folders: Sequence[Path]) -> RunContents:
    """Finished runs as one."""
    return merge_runs([read_contents(folder) for folder in folders], folders=folders)


def report(results: Given, path: str | Path) -> Path:
    """Write results as a page, Markdown, CSV or JSON, by the ending of the path.

    Args:
        results: What `evaluate` gave, the contents of a finished run, or one run folder or several.
        path: A new file, or an earlier report, which is replaced.
    """
    path = Path(path)
    check_place(path)
    text = form_of(path)(_contents(results))
    try:
        write_text(path, text)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}", way_out="choose another place"
        ) from error
    return path


def _is_report(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as file:
            if path.suffix == ".json":
                found = json.load(file)
                return isinstance(found, dict) and set(found) >= _KEYS
            head = file.read(_NEAR)
    except (OSError, ValueError, RecursionError):
        return False
    begins = _BEGINS[path.suffix]
    return begins in head if path.suffix == ".html" else head.startswith(begins)


def _contents(results: Given) -> RunContents:
    if isinstance(results, RunContents):
        return results
    given = [results] if isinstance(results, Result | str | Path) else results
    every = list(given) if isinstance(given, Sequence) else [given]
    found = [one for one in every if isinstance(one, Result)]
    folders = [Path(one) for one in every if isinstance(one, str | Path)]
    if every and len(found) == len(every):
        return _as_run(found)
    if every and len(folders) == len(every):
        return read_runs(folders)
    kinds = ", ".join(sorted({type(one).__name__ for one in every}))
    raise UserError(
        f"a report of {kinds}" if every else "a report of no results",
        expected="results of ub.evaluate, or run folders, at least one and all of one sort",
        way_out="give ub.report([result], path), ub.report(ub.run(job).contents, path) or "
        'ub.report("runs/first", path)',
    )


def _as_run(results: Sequence[Result]) -> RunContents:
    record = next((result.run for result in results if result.run is not None), None)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    empty = RunRecord("", now, 0, "", versions={}, fingerprints={})
    return RunContents(record or empty, tuple(results))
