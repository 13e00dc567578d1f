"""Writes results as a page, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from unbag.errors import UserError
from unbag.evaluation.store import read_contents
from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.formatting import chance_text, interval_text, trouble_text, value_text
from unbag.reports.join import RunPart, merge_runs, notes_of, parts_of
from unbag.reports.layout import LOWER_IS_BETTER, Column, Layout, Sheet, compared, lay_out
from unbag.reports.page import render_page
from unbag.reports.references import Beside, same_model, scales
from unbag.reports.summary import against_chance, chance_legend, summarise
from unbag.runs.files import write_text
from unbag.types import Comparison, Estimate, Published, Reference, Result, RunContents, RunRecord
from unbag.types.json import JsonObject
from unbag.types.json import to_json as as_objects

CSV_HEAD = (
    "benchmark", "scorer", "protocol", "aggregate", "is_blind", "is_headline", "tag", "tag_value",
    "metric", "value", "low", "high", "n", "ties", "invalid", "unparsed", "chance",
    "chance_independent", "interval", "is_rate", "source",
)  # fmt: skip
_MARKDOWN = {sign: f"\\{sign}" for sign in "\\|`*_[]#~"} | {
    "<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " ",
}  # fmt: skip
_COMPARED = ("in words", "metric", "difference", "interval", "p", "p (Holm)", "n")
_BESIDE = ("model", "metric", "rule", "ours", "theirs", "difference", "verdict", "source", "doubts")
_BEGINNINGS = {
    ".html": "<title>unbag report: ",
    ".md": "# unbag report\n",
    ".csv": ",".join(CSV_HEAD[:5]) + ",",
}
"""What is near the beginning of each form; of CSV the columns that reports of all versions have."""
_JSON_KEYS = {"results", "references", "warnings", "problems"}
"""Keys that the JSON form has."""
_HEAD_CHARACTERS = 2048
"""Characters of a file among which its beginning is looked for."""
Reportable = Result | Sequence[Result] | RunContents | str | Path | Sequence[str | Path]
"""What a report can be written of."""


def report(results: Reportable, path: str | Path) -> Path:
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


def _contents(results: Reportable) -> RunContents:
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


def read_runs(folders: Sequence[Path]) -> RunContents:
    """Finished runs as one."""
    return merge_runs([read_contents(folder) for folder in folders], folders=folders)


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


def _is_report(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as file:
            if path.suffix == ".json":
                found = json.load(file)
                return isinstance(found, dict) and set(found) >= _JSON_KEYS
            head = file.read(_HEAD_CHARACTERS)
    except (OSError, ValueError, RecursionError):
        return False
    begins = _BEGINNINGS[path.suffix]
    return begins in head if path.suffix == ".html" else head.startswith(begins)


def form_of(path: Path) -> Callable[[RunContents], str]:
    """The writer that the ending of a path asks for."""
    if path.suffix not in FORMS:
        raise UserError(
            f"the ending {path.suffix!r} of {path.name!r} is not known",
            expected=f"one of {', '.join(FORMS)}",
            way_out="choose the form with the ending of the file",
        )
    return FORMS[path.suffix]


def to_html(contents: RunContents) -> str:
    """The page, with our own definitions of the metrics."""
    return render_page(contents, DEFINITIONS)


def to_markdown(run: RunContents) -> str:
    """The summary, an overview table, and a table of every metric for each benchmark."""
    layout = lay_out(run)
    parts = ["# unbag report"]
    parts += [
        f"**{escaped(paragraph.subject)}** {escaped(paragraph.text)}"
        for paragraph in summarise(layout, run.comparisons)
    ]
    overview = [
        [escaped(sheet.title), *_cells(sheet, metric)]
        for sheet in layout.overview
        for metric in sheet.main_metrics
    ]
    parts[1:1] = [f"**Warning:** {escaped(warning)}" for warning in run.warnings]
    folders = [part.folder for part in parts_of(run) if part.folder]
    parts[1:1] = [f"Joined runs: {escaped(', '.join(folders))}."] if folders else []
    parts += [f"**Not measured:** {escaped(problem)}" for problem in run.problems]
    parts += ["## Overview", _table(["benchmark", *_heads(layout.columns)], overview)]
    parts.append(f"Percent [interval]; {chance_legend(layout)}; ↓ lower is better.")
    parts += [f"{escaped(note)}." for note in notes_of(run)]
    earlier = ""
    for sheet in layout.sheets:
        rows = [_cells(sheet, metric) for metric in sheet.metrics]
        parts += [f"## {escaped(sheet.title)}"]
        parts += [escaped(sheet.about)] if sheet.about and sheet.benchmark != earlier else []
        variant = f"; {sheet.variant}" if sheet.variant else ""
        parts += [f"Averaged: {escaped(sheet.aggregate + variant)}."]
        earlier = sheet.benchmark
        parts.append(_table(_heads(layout.columns), rows))
    parts += _compared_markdown(run.comparisons, layout)
    parts += _published_markdown(run.references)
    return "\n\n".join(parts) + "\n"


def _compared_markdown(comparisons: Sequence[Comparison], layout: Layout) -> list[str]:
    """The paired comparisons of each benchmark that has some."""
    parts = []
    for name in dict.fromkeys(made.benchmark for made in comparisons):
        sheets = [sheet for sheet in layout.sheets if sheet.benchmark == name]
        rows = [
            [escaped(one.words), escaped(one.metric), one.difference, one.interval,
             escaped(one.p), escaped(one.p_holm), f"{one.n}"]
            for one in compared(comparisons, sheets, benchmark=name)
        ]  # fmt: skip
        parts += [f"## {escaped(name)}: compared, item by item", _table(_COMPARED, rows)]
    return parts


def _published_markdown(references: Sequence[Reference]) -> list[str]:
    """Published numbers of the very models that were run, and the scale of the others."""
    parts = []
    for name in dict.fromkeys(reference.benchmark for reference in references):
        here = [reference for reference in references if reference.benchmark == name]
        parts += [f"## {escaped(name)}: published numbers"]
        if rows := [_beside_cells(row) for row in same_model(here)]:
            parts += [_table(_BESIDE, rows)]
        for scale in scales(here):
            heads = ["model", escaped(scale.metric), "source"]
            rows = [
                [escaped(mark.name), f"{mark.shown} {mark.interval}".strip(), escaped(mark.source)]
                for mark in scale.marks
            ]
            parts += [f"Averaged: {escaped(scale.rule or 'not stated')}.", _table(heads, rows)]
    return parts


def _beside_cells(row: Beside) -> list[str]:
    ours = f"{row.ours} {row.interval}".strip()
    texts = (row.scorer, row.metric, row.rule, ours, row.theirs, row.difference, row.verdict)
    return [escaped(text) for text in (*texts, row.source, "; ".join(row.doubts))]


def _heads(columns: Sequence[Column]) -> list[str]:
    names = [column.label + (" (blind)" if column.is_blind else "") for column in columns]
    return ["metric", *(escaped(name) for name in names), "chance", "n"]


def _cells(sheet: Sheet, metric: str) -> list[str]:
    row = sheet.row(metric)
    name = escaped(metric) + (" ↓" if metric in LOWER_IS_BETTER else "")
    n = f"{row.first.n}" if row.first else "–"
    return [name, *(_cell(estimate) for estimate in row.estimates), chance_text(row.first), n]


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    mark = "=" if against_chance(estimate) == "at" else ""
    trouble = trouble_text(estimate)
    parts = [value_text(estimate), interval_text(estimate), mark, trouble and f"({trouble})"]
    return " ".join(part for part in parts if part)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """A text that Markdown shows as it is and that stays in its cell."""
    return "".join(_MARKDOWN.get(sign, sign) for sign in text)


def to_csv(run: RunContents) -> str:
    """One row per result, tag and metric, as fractions; `tag` is empty for the overall numbers.

    Published numbers follow, each once and with its source. Where several runs were joined, the
    last column is the folder of the run.
    """
    file = io.StringIO(newline="")
    # Lines end as RFC 4180 has it; with "\n" a carriage return inside a name would go unquoted.
    writer = csv.writer(file, lineterminator="\r\n")
    parts = parts_of(run)
    is_joined = len(parts) > 1
    writer.writerow([*CSV_HEAD, *(["run"] if is_joined else [])])
    for part in parts:
        folder = [guarded(part.folder)] if is_joined else []
        for result in part.run.results:
            for tag, value, metric, estimate in _estimates(result):
                writer.writerow([*_csv_row(result, tag, value, metric, estimate), *folder])
    nowhere = [""] if is_joined else []
    for (benchmark, published), is_rate in _published(parts).items():
        writer.writerow([*_published_row(benchmark, published, is_rate=is_rate), *nowhere])
    return file.getvalue()


def _csv_row(
    result: Result, tag: str, value: str, metric: str, estimate: Estimate
) -> Sequence[str | float]:
    names = (result.benchmark, result.scorer, result.protocol.key)
    aggregate = "micro" if tag else result.aggregate
    return [
        *(guarded(name) for name in (*names, aggregate)),
        _truth(result.is_blind),
        _truth(metric == result.headline),
        *(guarded(name) for name in (tag, value, metric)),
        *(_number(number) for number in (estimate.value, estimate.low, estimate.high)),
        estimate.n,
        estimate.ties,
        estimate.invalid,
        estimate.unparsed,
        _number(estimate.chance),
        _number(estimate.chance_independent),
        guarded(estimate.interval),
        _truth(estimate.is_rate),
        "",
    ]


def _estimates(result: Result) -> Iterator[tuple[str, str, str, Estimate]]:
    for metric, estimate in result.overall.items():
        yield "", "", metric, estimate
    for key, estimates in result.by_tag.items():
        tag, _, value = key.partition("=")
        for metric, estimate in estimates.items():
            # A tag's entries are micro averages whatever the rule of the overall numbers is.
            yield tag, value, metric, estimate


def _published(parts: Sequence[RunPart]) -> dict[tuple[str, Published], bool]:
    """Each number once, although every scorer has it beside its own; and whether it is a rate."""
    references = (reference for part in parts for reference in part.run.references)
    return {(r.benchmark, r.published): r.ours.is_rate for r in references}


def _published_row(benchmark: str, published: Published, *, is_rate: bool) -> Sequence[str | float]:
    rule, _, chosen = published.aggregate.removesuffix("]").partition("micro[")
    tag, _, value = chosen.partition("=")
    row = dict.fromkeys(CSV_HEAD, "") | {
        "benchmark": guarded(benchmark),
        "scorer": guarded(published.model),
        "protocol": guarded(published.scoring),
        "aggregate": "micro" if chosen else guarded(rule),
        "tag": guarded(tag),
        "tag_value": guarded(value),
        "metric": guarded(published.metric),
        "is_rate": _truth(is_rate),
        "source": guarded(published.source),
    }
    return [published.value if name == "value" else text for name, text in row.items()]


def guarded(text: str) -> str:
    """A text no spreadsheet takes for a formula: those that start like one get an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _number(value: float | None) -> str | float:
    return "" if value is None or value != value else value


def to_json(run: RunContents) -> str:
    """Results, comparisons and published numbers as the files of a run hold them.

    Where several runs were joined, each has the folder of its run.
    """
    parts = parts_of(run)
    notes = {"notes": list(notes_of(run))} if notes_of(run) else {}
    content = {
        "results": [_entry(part, as_objects(r)) for part in parts for r in part.run.results],
        "comparisons": [
            _entry(part, as_objects(made)) for part in parts for made in part.run.comparisons
        ],
        "references": [_entry(part, as_objects(r)) for part in parts for r in part.run.references],
        "warnings": list(run.warnings),
        "problems": list(run.problems),
        **notes,
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def _entry(part: RunPart, found: JsonObject) -> JsonObject:
    return {"run": part.folder, **found} if part.folder else found


FORMS: dict[str, Callable[[RunContents], str]] = {
    ".html": to_html,
    ".md": to_markdown,
    ".csv": to_csv,
    ".json": to_json,
}
