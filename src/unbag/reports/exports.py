"""Write results as an HTML page, Markdown, a LaTeX table, CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from unbag.errors import UnbagError
from unbag.evaluation.store import read_contents
from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.formatting import DASH, chance_text, estimate_text, trouble_text
from unbag.reports.join import merge_runs, notes_of, parts_of
from unbag.reports.layout import LOWER_IS_BETTER, Column, Layout, Sheet, compared, lay_out
from unbag.reports.page import render_page
from unbag.reports.references import same_model, scales
from unbag.reports.summary import against_chance, chance_legend, summarise
from unbag.reports.table import Cell, Marked, Table, csv_text, in_markdown, latex, markdown
from unbag.runs.files import write_text
from unbag.types import Comparison, Estimate, Reference, Result, RunContents, RunRecord
from unbag.types.json import JsonObject
from unbag.types.json import to_json as as_objects

CSV_HEAD = (
    "benchmark", "scorer", "protocol", "aggregate", "is_blind", "is_headline", "tag", "tag_value",
    "metric", "value", "low", "high", "n", "ties", "invalid", "unparsed", "chance",
    "chance_independent", "interval", "is_rate", "source",
)  # fmt: skip
_LATEX_HEAD = "% unbag report; needs \\usepackage{booktabs}\n"
_COMPARED = ("in words", "metric", "difference", "interval", "p", "p (Holm)", "n")
_BESIDE = ("model", "metric", "rule", "ours", "theirs", "difference", "verdict", "source", "doubts")
_BEGINNINGS = {
    ".html": "<title>unbag report: ",
    ".md": "# unbag report\n",
    ".tex": _LATEX_HEAD,
    ".csv": ",".join(CSV_HEAD[:5]) + ",",
}
"""Text at the start of a report in each format; for CSV, columns that all versions write."""


@runtime_checkable
class HasContents(Protocol):
    """The `Results` of an evaluation, or a finished run."""

    @property
    def contents(self) -> RunContents:
        """Results with their comparisons, references and problems."""


Reportable = (
    HasContents
    | Result
    | RunContents
    | str
    | Path
    | Sequence[HasContents]
    | Sequence[Result]
    | Sequence[str | Path]
)
"""What a report can be written from."""


def report(results: Reportable, path: str | Path) -> Path:
    """Write results as HTML, Markdown, a LaTeX table, CSV or JSON, by the file extension.

    Args:
        results: What `evaluate` returns, single results of it, or one run folder or several.
        path: A new file, or an earlier report, which is replaced: `.html`, `.md`, `.tex`, `.csv`
            or `.json`.

    Examples:
        >>> import unbag as ub
        >>> results = ub.evaluate("caption:short", "world-order", out="runs/order")
        >>> ub.report(results, "order.html").name
        'order.html'
        >>> ub.report("runs/order", "order.md").read_text().splitlines()[0]
        '# unbag report'
    """
    path = Path(path)
    check_place(path)
    text = form_of(path)(_contents(results))
    try:
        write_text(path, text)
    except OSError as error:
        raise UnbagError(
            f"cannot write {path}: {error.strerror or error}", hint="choose another path"
        ) from error
    return path


def _contents(results: Reportable) -> RunContents:
    if isinstance(results, RunContents):
        return results
    if isinstance(results, HasContents):
        return results.contents
    items = [results] if isinstance(results, Result | str | Path) else results
    all_items = list(items) if isinstance(items, Sequence) else [items]
    results_given = [item for item in all_items if isinstance(item, Result)]
    folders = [Path(item) for item in all_items if isinstance(item, str | Path)]
    if all_items and len(results_given) == len(all_items):
        record = next((result.run for result in results_given if result.run is not None), None)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        empty = RunRecord("", now, 0, "", versions={}, fingerprints={})
        return RunContents(record or empty, tuple(results_given))
    if all_items and len(folders) == len(all_items):
        return read_runs(folders)
    runs = [item.contents for item in all_items if isinstance(item, HasContents)]
    if all_items and len(runs) == len(all_items):
        return merge_runs(runs)
    kinds = ", ".join(sorted({type(item).__name__ for item in all_items}))
    raise UnbagError(
        f"a report of {kinds}" if all_items else "a report of no results",
        expected="results of ub.evaluate, or run folders, at least one and all of one type",
        hint="write ub.report(results, path) with results of ub.evaluate, or "
        'ub.report("runs/first", path)',
    )


def read_runs(folders: Sequence[Path]) -> RunContents:
    """Read and merge finished runs."""
    return merge_runs([read_contents(folder) for folder in folders], folders=folders)


def check_place(path: Path) -> None:
    """Raise UnbagError unless `path` is new or a report, which is replaced."""
    form_of(path)
    if not path.parent.is_dir():
        raise UnbagError(
            f"there is no folder {path.parent}", hint="create it, or choose another path"
        )
    if path.is_file() and not _is_report(path):
        raise UnbagError(
            f"{path} exists and is not a report of unbag",
            expected="a new file, or an earlier report, which is replaced",
            hint="choose another name, or delete it",
        )


def _is_report(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as file:
            if path.suffix == ".json":
                content = json.load(file)
                keys = {"results", "references", "warnings", "problems"}
                return isinstance(content, dict) and set(content) >= keys
            head = file.read(2048)
    except (OSError, ValueError, RecursionError):
        return False
    begins = _BEGINNINGS[path.suffix]
    return begins in head if path.suffix == ".html" else head.startswith(begins)


def form_of(path: Path) -> Callable[[RunContents], str]:
    """Return the writer for the file extension of a path."""
    if path.suffix not in FORMS:
        raise UnbagError(
            f"the file extension {path.suffix!r} of {path.name!r} is not known",
            expected=f"one of {', '.join(FORMS)}",
            hint="the file extension determines the format",
        )
    return FORMS[path.suffix]


def to_html(contents: RunContents) -> str:
    """Return the HTML page, with definitions of the metrics."""
    return render_page(contents, DEFINITIONS)


def to_markdown(run: RunContents) -> str:
    """Return the summary, an overview table and a table of all metrics for each benchmark."""
    layout = lay_out(run)
    parts = ["# unbag report"]
    folders = [part.folder for part in parts_of(run) if part.folder]
    parts += [f"Joined runs: {in_markdown(', '.join(folders))}."] if folders else []
    parts += [f"**Warning:** {in_markdown(warning)}" for warning in run.warnings]
    parts += [
        f"**{in_markdown(paragraph.subject)}** {in_markdown(paragraph.text)}"
        for paragraph in summarise(layout, run.comparisons)
    ]
    parts += [f"**Not measured:** {in_markdown(problem)}" for problem in run.problems]
    parts += ["## Overview", markdown(overview(layout)), legend(layout)]
    parts += [f"{in_markdown(note)}." for note in notes_of(run)]
    earlier = ""
    for sheet in layout.sheets:
        parts += [f"## {in_markdown(sheet.title)}"]
        parts += [in_markdown(sheet.about)] if sheet.about and sheet.benchmark != earlier else []
        variant = f"; {sheet.variant}" if sheet.variant else ""
        parts += [f"Averaged: {in_markdown(sheet.aggregate + variant)}."]
        earlier = sheet.benchmark
        rows = [_cells(sheet, metric) for metric in sheet.metrics]
        parts.append(markdown(Table.of(_heads(layout.columns), rows)))
    parts += _compared_markdown(run.comparisons, layout)
    parts += _published_markdown(run.references)
    return "\n\n".join(parts) + "\n"


def to_latex(run: RunContents) -> str:
    """Return the overview as a LaTeX table."""
    layout = lay_out(run)
    table = replace(overview(layout), caption=legend(layout))
    return _LATEX_HEAD + latex(table)


def overview(layout: Layout) -> Table:
    """Return a table of the main metrics of every benchmark, with a column per model."""
    rows = [
        [sheet.title, *_cells(sheet, metric)]
        for sheet in layout.overview
        for metric in sheet.main_metrics
    ]
    return Table.of(["benchmark", *_heads(layout.columns)], rows)


def legend(layout: Layout) -> str:
    """Return the legend of an overview table."""
    return f"Percent [interval]; {chance_legend(layout)}; ↓ lower is better."


def _compared_markdown(comparisons: Sequence[Comparison], layout: Layout) -> list[str]:
    """Return the paired comparisons of each benchmark."""
    parts = []
    for name in dict.fromkeys(comparison.benchmark for comparison in comparisons):
        sheets = [sheet for sheet in layout.sheets if sheet.benchmark == name]
        rows = [
            [pair.words, pair.metric, pair.difference, Marked(pair.interval), pair.p, pair.p_holm,
             f"{pair.n}"]
            for pair in compared(comparisons, sheets, benchmark=name)
        ]  # fmt: skip
        table = markdown(Table.of(_COMPARED, rows))
        parts += [f"## {in_markdown(name)}: compared, item by item", table]
    return parts


def _published_markdown(references: Sequence[Reference]) -> list[str]:
    """Return published numbers of the same models, and those of other models for scale."""
    parts = []
    for name in dict.fromkeys(reference.benchmark for reference in references):
        here = [reference for reference in references if reference.benchmark == name]
        parts += [f"## {in_markdown(name)}: published numbers"]
        rows: list[list[Cell]] = [
            [row.scorer, row.metric, row.rule, f"{row.ours} {row.interval}".strip(), row.theirs,
             row.difference, row.verdict, row.source, "; ".join(row.doubts)]
            for row in same_model(here)
        ]  # fmt: skip
        parts += [markdown(Table.of(_BESIDE, rows))] if rows else []
        for scale in scales(here):
            heads = ["model", scale.metric, "source"]
            rows = [
                [mark.name, Marked(f"{mark.shown} {mark.interval}".strip()), mark.source]
                for mark in scale.marks
            ]
            rule = in_markdown(scale.rule or "not stated")
            parts += [f"Averaged: {rule}.", markdown(Table.of(heads, rows))]
    return parts


def _heads(columns: Sequence[Column]) -> list[str]:
    names = [column.label + (" (blind)" if column.is_blind else "") for column in columns]
    return ["metric", *names, "chance", "n"]


def _cells(sheet: Sheet, metric: str) -> list[Cell]:
    row = sheet.row(metric)
    name = metric + (" ↓" if metric in LOWER_IS_BETTER else "")
    n = f"{row.first.n}" if row.first else DASH
    return [name, *(_cell(estimate) for estimate in row.estimates), chance_text(row.first), n]


def _cell(estimate: Estimate | None) -> Cell:
    if estimate is None:
        return DASH
    mark = "=" if against_chance(estimate) == "at" else ""
    trouble = trouble_text(estimate)
    parts = [estimate_text(estimate), mark, trouble and f"({trouble})"]
    return Marked(" ".join(part for part in parts if part))


def to_csv(run: RunContents) -> str:
    """Return one row per result, tag and metric, as fractions; `tag` is empty for overall numbers.

    Published numbers follow, each once and with its source. If several runs were merged, the last
    column is the folder of the run.
    """
    parts = parts_of(run)
    rows = [
        {"run": part.folder, **row}
        for part in parts
        for result in part.run.results
        for row in _result_rows(result)
    ]
    references = [reference for part in parts for reference in part.run.references]
    # Each published number once, although it is a reference of several scorers.
    published = {(r.benchmark, r.published): r.ours.is_rate for r in references}
    for (benchmark, number), is_rate in published.items():
        rule, _, tag_text = number.aggregate.removesuffix("]").partition("micro[")
        tag, _, value = tag_text.partition("=")
        rows.append(
            {
                "benchmark": benchmark,
                "scorer": number.model,
                "protocol": number.scoring,
                "aggregate": "micro" if tag_text else rule,
                "tag": tag,
                "tag_value": value,
                "metric": number.metric,
                "value": number.value,
                "is_rate": is_rate,
                "source": number.source,
            }
        )
    head = [*CSV_HEAD, *(["run"] if len(parts) > 1 else [])]
    return csv_text(head, [[row.get(name, "") for name in head] for row in rows])


def _result_rows(result: Result) -> Iterator[dict[str, object]]:
    """Yield a row (values by column) for each overall estimate and each estimate of a tag."""
    for key, estimates in [("", result.overall), *result.by_tag.items()]:
        tag, _, value = key.partition("=")
        for metric, estimate in estimates.items():
            yield {
                "benchmark": result.benchmark,
                "scorer": result.scorer,
                "protocol": result.protocol.key,
                # Estimates of a tag are always micro averages.
                "aggregate": "micro" if tag else result.aggregate,
                "is_blind": result.is_blind,
                "is_headline": metric == result.headline,
                "tag": tag,
                "tag_value": value,
                "metric": metric,
                **vars(estimate),
            }


def to_json(run: RunContents) -> str:
    """Return results, comparisons and published numbers in the format of run folders.

    If several runs were merged, each entry has the folder of its run.
    """
    parts = parts_of(run)

    def entries(kind: Literal["results", "comparisons", "references"]) -> list[JsonObject]:
        return [
            {**({"run": part.folder} if part.folder else {}), **as_objects(entry)}
            for part in parts
            for entry in getattr(part.run, kind)
        ]

    content = {
        "results": entries("results"),
        "comparisons": entries("comparisons"),
        "references": entries("references"),
        "warnings": list(run.warnings),
        "problems": list(run.problems),
    }
    if notes := notes_of(run):
        content["notes"] = list(notes)
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


FORMS: dict[str, Callable[[RunContents], str]] = {
    ".html": to_html,
    ".md": to_markdown,
    ".tex": to_latex,
    ".csv": to_csv,
    ".json": to_json,
}
