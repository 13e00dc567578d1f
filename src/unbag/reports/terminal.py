"""What the terminal shows of a run: its table, and the lines above and under it."""

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
from unbag.reports.references import BesideVerdict, beside, verdict_of
from unbag.reports.summary import against_chance, chance_legend, summarise
from unbag.reports.table import STRONG, Cell, Column, Span, Table
from unbag.types import Estimate, Reference, RunContents

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_UNLIMITED = 10_000
"""Wider than any table."""
_STYLES: dict[BesideVerdict, str] = {
    "inside": "green",
    "outside": "bold red",
    "not comparable": "dim",
    "no interval": "dim",
}


def terminal_table(run: RunContents) -> TerminalTable:
    """A row per metric of a benchmark, a column per scorer, then the blind baselines, then chance.

    An interval has no space in it, so a narrow terminal puts it whole on a second line.
    """
    return TerminalTable(lay_out(published_only(run)), notes_of(run))


@dataclass(frozen=True)
class TerminalTable:
    """Prints itself as one table, or where that is too wide as several with some scorers each."""

    layout: Layout
    notes: tuple[str, ...] = ()
    """What stands once although two of the joined runs have it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich prints."""
        from rich.text import Text

        yield from self.tables(console, options)
        for line in (_caption(self.layout), *self.notes):
            yield Text(line, style="italic dim")

    def tables(self, console: Console, options: ConsoleOptions) -> list[Table]:
        """As few as hold every column; each has the benchmarks and chance."""
        tables: list[Table] = []
        rest = self.layout.columns
        while rest or not tables:
            counts = range(2, len(rest) + 1)
            most = max(
                (n for n in counts if self._spare(rest[:n], console, options) >= 0), default=1
            )
            here, rest = rest[:most], rest[most:]
            spare = self._spare(here, console, options)
            tables.append(_table(self.layout, here, spare=spare))
        return tables

    def _spare(
        self, columns: Sequence[ScorerColumn], console: Console, options: ConsoleOptions
    ) -> int:
        """Width beyond the least that these scorers need; below 0 if there is less than that."""
        from rich.measure import Measurement

        unlimited = options.update(max_width=_UNLIMITED)
        table = _table(self.layout, columns, spare=_UNLIMITED)
        found = Measurement.get(console, unlimited, table)
        is_wide = found.maximum <= options.max_width
        return _UNLIMITED if is_wide else options.max_width - found.minimum


def _table(layout: Layout, columns: Sequence[ScorerColumn], *, spare: int) -> Table:
    # The last resort in a very narrow terminal is to break the names of benchmarks.
    is_narrow = spare < 0
    # Rich takes the longest word for the least width even of a column that it may not wrap.
    names = 0 if is_narrow else max((len(name) for name in _names(layout)), default=0)
    shown = [Column("benchmark", is_whole=not is_narrow, min_width=names)]
    for at, column in enumerate(columns):
        # An interval on its own line, or the name, unless that is very long.
        least = 0 if is_narrow else min(max(13, len(column.label)), 20)
        # Shared out here: rich narrows all columns alike, and crops where one cannot follow.
        most = None if is_narrow else least + (spare + at) // len(columns)
        title = f"{column.label}\nblind" if column.is_blind else column.label
        shown.append(Column(title, min_width=least, max_width=most))
    shown.append(Column("chance", "right", is_whole=True))
    rows = [row for sheet in layout.overview for row in _sheet_rows(sheet, columns)]
    return Table(tuple(shown), rows)


def _sheet_rows(sheet: Sheet, columns: Sequence[ScorerColumn]) -> Iterator[Sequence[Cell]]:
    """Ties and invalid items stand beside the benchmark's name, once, if all its metrics agree."""
    first = sheet.row(sheet.headline).estimates
    headline = [trouble_text(e) if (e := first[c.place]) else "" for c in columns]
    yield (Span(sheet.title, STRONG), *(Span(note, "dim italic") for note in headline))
    for metric in sheet.main_metrics:
        row = sheet.row(metric)
        here = [row.estimates[column.place] for column in columns]
        cells = [_cell(e, said=said) for e, said in zip(here, headline, strict=True)]
        yield (_metric_name(metric), *cells, chance_text(row.first))


def _metric_name(metric: str) -> str:
    return f"  {metric} ↓" if metric in LOWER_IS_BETTER else f"  {metric}"


def _names(layout: Layout) -> list[str]:
    """All that stands in the first column."""
    titles = [sheet.title for sheet in layout.overview]
    return titles + [_metric_name(m) for sheet in layout.overview for m in sheet.main_metrics]


def _cell(estimate: Estimate | None, *, said: str) -> Cell:
    if estimate is None:
        return Span(f"    {DASH}", "dim")
    is_at_chance = against_chance(estimate) == "at"
    mark = "=" if is_at_chance else " "
    found = [Span(f"{value_text(estimate):>5}{mark}", "dim" if is_at_chance else "")]
    if interval := interval_text(estimate):
        found.append(Span(f" {_tight(interval)}", "dim"))
    trouble = trouble_text(estimate)
    if trouble and trouble != said:
        found.append(Span(f"\n{trouble}", "dim italic"))
    return tuple(found)


def _tight(interval: str) -> str:
    """Without a space, so that a narrow terminal puts it whole on a second line."""
    return interval.replace(", ", "–")


def _caption(layout: Layout) -> str:
    metrics = {metric for sheet in layout.overview for metric in sheet.main_metrics}
    parts = ["percent [interval]", chance_legend(layout)]
    parts += ["↓ lower is better"] if metrics & LOWER_IS_BETTER else []
    parts += ["blind: never sees an image"] if any(c.is_blind for c in layout.columns) else []
    return "; ".join(parts)


def warning_lines(run: RunContents) -> list[str]:
    """What a reader must know before trusting a number, for above the table."""
    return [f"warning: {warning}" for warning in run.warnings]


def summary_lines(run: RunContents) -> list[str]:
    """What the numbers say, a line a scorer, for under the table."""
    said = summarise(lay_out(published_only(run)), run.comparisons)
    return [f"{paragraph.subject} {paragraph.text}" for paragraph in said]


def prompt_lines(run: RunContents) -> list[str]:
    """A sentence for each, for under the table."""
    return [one.sentence for one in over_prompts(run.results)]


def beside_lines(references: Sequence[Reference]) -> list[str]:
    """For the terminal: how many published numbers of each model that was run lie inside."""
    found: dict[str, list[Reference]] = {}
    for reference in references:
        if reference.is_same_model:
            found.setdefault(reference.scorer, []).append(reference)
    lines = []
    for scorer, some in found.items():
        told = [verdict_of(reference) for reference in some]
        counts = {word: told.count(word) for word in dict.fromkeys(told)}
        parts = ", ".join(f"{count} {word}" for word, count in counts.items())
        lines.append(
            f"{scorer}: {count_text(len(some), 'published number')} of {some[0].published.model} "
            f"beside ours ({parts})"
        )
    return lines


def verified_table(references: Sequence[Reference]) -> Table:
    """A row a published number: ours with interval, theirs, the difference and the verdict."""
    numbers = notes(references)
    whole = [Column(name, "right", is_whole=True) for name in ("n", "ours", "theirs", "differ")]
    columns = (
        Column("benchmark"), Column("metric, rule"), *whole, Column("verdict", is_whole=True),
        Column("notes"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    earlier = ""
    for reference in references:
        row, name = beside(reference), reference.benchmark
        ours = f"{row.ours} {_tight(row.interval)}".strip()
        cells = ["" if name == earlier else name, f"{row.metric}, {row.rule}", f"{row.n:,}", ours]
        said = ",".join(str(numbers[text]) for text in (row.source, *row.doubts))
        verdict = Span(row.verdict, _STYLES[row.verdict])
        rows.append((*cells, row.theirs, row.difference, verdict, said))
        earlier = name
    return Table(columns, rows)


def notes(references: Sequence[Reference]) -> dict[str, int]:
    """Every source and then every doubt once, with the number that stands for it in the table."""
    sources = (reference.published.source for reference in references)
    doubts = (doubt for reference in references for doubt in reference.doubts)
    said = dict.fromkeys([*sources, *doubts])
    return {text: at for at, text in enumerate(said, start=1)}
