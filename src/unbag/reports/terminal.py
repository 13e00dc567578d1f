"""Terminal output of a run: its table, and the lines above and below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.reports.formatting import (
    DASH,
    chance_text,
    count_text,
    interval_text,
    trouble_text,
    value_text,
)
from unbag.reports.join import notes_of
from unbag.reports.layout import (
    LOWER_IS_BETTER,
    Layout,
    Sheet,
    lay_out,
    over_prompts,
    published_only,
)
from unbag.reports.layout import Column as ScorerColumn
from unbag.reports.references import PublishedVerdict, published_row, verdict_of
from unbag.reports.summary import against_chance, chance_legend, summarise
from unbag.reports.table import STRONG, Cell, Column, Span, Table
from unbag.types import Estimate, Reference, RunContents

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_UNLIMITED = 10_000
"""Wider than any table."""
_STYLES: dict[PublishedVerdict, str] = {
    "inside": "green",
    "outside": "bold red",
    "not comparable": "dim",
    "no interval": "dim",
}


def terminal_table(run: RunContents) -> TerminalTable:
    """Return a table with a row per metric and a column per scorer, baselines and chance last.

    Intervals contain no space, so that a narrow terminal wraps before them.
    """
    return TerminalTable(lay_out(published_only(run)), notes_of(run))


@dataclass(frozen=True)
class TerminalTable:
    """Prints as one table, or if that is too wide as several with some scorers each."""

    layout: Layout
    notes: tuple[str, ...] = ()
    """Statements about results that several merged runs share."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tables and the caption for rich."""
        from rich.text import Text

        yield from self.tables(console, options)
        for line in (_caption(self.layout), *self.notes):
            yield Text(line, style="italic dim")

    def tables(self, console: Console, options: ConsoleOptions) -> list[Table]:
        """Split into as few tables as possible; each has the benchmarks and chance."""
        tables: list[Table] = []
        rest = self.layout.columns
        while rest or not tables:
            counts = range(2, len(rest) + 1)
            count = max(
                (n for n in counts if self._spare(rest[:n], console, options) >= 0), default=1
            )
            here, rest = rest[:count], rest[count:]
            spare = self._spare(here, console, options)
            tables.append(_table(self.layout, here, spare=spare))
        return tables

    def _spare(
        self, columns: Sequence[ScorerColumn], console: Console, options: ConsoleOptions
    ) -> int:
        """Return the width beyond the minimum that these scorers need; negative if too narrow."""
        from rich.measure import Measurement

        unlimited = options.update(max_width=_UNLIMITED)
        table = _table(self.layout, columns, spare=_UNLIMITED)
        measured = Measurement.get(console, unlimited, table)
        is_wide = measured.maximum <= options.max_width
        return _UNLIMITED if is_wide else options.max_width - measured.minimum


def _table(layout: Layout, columns: Sequence[ScorerColumn], *, spare: int) -> Table:
    # As a last resort in a very narrow terminal, names of benchmarks are wrapped.
    is_narrow = spare < 0
    # Rich uses the longest word as minimum width even for a column that it may not wrap.
    names = 0 if is_narrow else max((len(name) for name in _names(layout)), default=0)
    table_columns = [Column("benchmark", is_whole=not is_narrow, min_width=names)]
    for i, column in enumerate(columns):
        # Room for an interval on its own line, or for the name unless it is very long.
        min_width = 0 if is_narrow else min(max(13, len(column.label)), 20)
        # Distributed here, since rich narrows all columns equally and crops some.
        max_width = None if is_narrow else min_width + (spare + i) // len(columns)
        title = f"{column.label}\nblind" if column.is_blind else column.label
        table_columns.append(Column(title, min_width=min_width, max_width=max_width))
    table_columns.append(Column("chance", "right", is_whole=True))
    rows = [row for sheet in layout.overview for row in _sheet_rows(sheet, columns)]
    return Table(tuple(table_columns), rows)


def _sheet_rows(sheet: Sheet, columns: Sequence[ScorerColumn]) -> Iterator[Sequence[Cell]]:
    """Yield the rows of a sheet; ties and invalid items are shown once, next to its title."""
    first = sheet.row(sheet.headline).estimates
    sheet_notes = [trouble_text(e) if (e := first[c.place]) else "" for c in columns]
    yield (Span(sheet.title, STRONG), *(Span(note, "dim italic") for note in sheet_notes))
    for metric in sheet.main_metrics:
        row = sheet.row(metric)
        estimates = [row.estimates[column.place] for column in columns]
        cells = [_cell(e, sheet_note=note) for e, note in zip(estimates, sheet_notes, strict=True)]
        yield (_metric_name(metric), *cells, chance_text(row.first))


def _metric_name(metric: str) -> str:
    return f"  {metric} ↓" if metric in LOWER_IS_BETTER else f"  {metric}"


def _names(layout: Layout) -> list[str]:
    """Return all texts of the first column."""
    titles = [sheet.title for sheet in layout.overview]
    return titles + [_metric_name(m) for sheet in layout.overview for m in sheet.main_metrics]


def _cell(estimate: Estimate | None, *, sheet_note: str) -> Cell:
    if estimate is None:
        return Span(f"    {DASH}", "dim")
    is_at_chance = against_chance(estimate) == "at"
    mark = "=" if is_at_chance else " "
    spans = [Span(f"{value_text(estimate):>5}{mark}", "dim" if is_at_chance else "")]
    if interval := interval_text(estimate):
        spans.append(Span(f" {_tight(interval)}", "dim"))
    trouble = trouble_text(estimate)
    if trouble and trouble != sheet_note:
        spans.append(Span(f"\n{trouble}", "dim italic"))
    return tuple(spans)


def _tight(interval: str) -> str:
    """Format an interval without a space, so that it is never wrapped."""
    return interval.replace(", ", "–")


def _caption(layout: Layout) -> str:
    metrics = {metric for sheet in layout.overview for metric in sheet.main_metrics}
    parts = ["percent [interval]", chance_legend(layout)]
    parts += ["↓ lower is better"] if metrics & LOWER_IS_BETTER else []
    parts += ["blind: never sees an image"] if any(c.is_blind for c in layout.columns) else []
    return "; ".join(parts)


def warning_lines(run: RunContents) -> list[str]:
    """Return warnings for the lines above the table."""
    return [f"warning: {warning}" for warning in run.warnings]


def summary_lines(run: RunContents) -> list[str]:
    """Return the summary, one line per scorer, for below the table."""
    paragraphs = summarise(lay_out(published_only(run)), run.comparisons)
    return [f"{paragraph.subject} {paragraph.text}" for paragraph in paragraphs]


def prompt_lines(run: RunContents) -> list[str]:
    """Return one sentence per model with several prompts, for below the table."""
    return [over.sentence for over in over_prompts(run.results)]


def published_lines(references: Sequence[Reference]) -> list[str]:
    """Count the published numbers of each model that lie inside our intervals."""
    references_of: dict[str, list[Reference]] = {}
    for reference in references:
        if reference.is_same_model:
            references_of.setdefault(reference.scorer, []).append(reference)
    lines = []
    for scorer, group in references_of.items():
        verdicts = [verdict_of(reference) for reference in group]
        counts = {word: verdicts.count(word) for word in dict.fromkeys(verdicts)}
        parts = ", ".join(f"{count} {word}" for word, count in counts.items())
        lines.append(
            f"{scorer}: {count_text(len(group), 'published number')} of {group[0].published.model} "
            f"beside ours ({parts})"
        )
    return lines


def verified_table(references: Sequence[Reference]) -> Table:
    """Return a table with a row per published number: ours, theirs, difference and verdict."""
    numbers = notes(references)
    whole = [Column(name, "right", is_whole=True) for name in ("n", "ours", "theirs", "differ")]
    columns = (
        Column("benchmark"), Column("metric, rule"), *whole, Column("verdict", is_whole=True),
        Column("notes"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    earlier = ""
    for reference in references:
        row, name = published_row(reference), reference.benchmark
        ours = f"{row.ours} {_tight(row.interval)}".strip()
        cells = ["" if name == earlier else name, f"{row.metric}, {row.rule}", f"{row.n:,}", ours]
        note_numbers = ",".join(str(numbers[text]) for text in (row.source, *row.doubts))
        verdict = Span(row.verdict, _STYLES[row.verdict])
        rows.append((*cells, row.theirs, row.difference, verdict, note_numbers))
        earlier = name
    return Table(columns, rows)


def notes(references: Sequence[Reference]) -> dict[str, int]:
    """Number every source and then every doubt, for references in the table."""
    sources = (reference.published.source for reference in references)
    doubts = (doubt for reference in references for doubt in reference.doubts)
    texts = dict.fromkeys([*sources, *doubts])
    return {text: number for number, text in enumerate(texts, start=1)}
