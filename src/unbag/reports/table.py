"""What the terminal shows of a run: its table, and the lines above and under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.reports.formatting import chance_text, count_text, trouble_text, value_text
from unbag.reports.join import notes_of
from unbag.reports.layout import (
    LOWER_IS_BETTER,
    Column,
    Layout,
    Sheet,
    lay_out,
    over_prompts,
    published_only,
)
from unbag.reports.references import BesideVerdict, beside, verdict_of
from unbag.reports.summary import against_chance, chance_legend, summarise
from unbag.types import Estimate, Reference, RunContents

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

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
            tables.append(_table(self.layout, here, spare=self._spare(here, console, options)))
        return tables

    def _spare(self, columns: Sequence[Column], console: Console, options: ConsoleOptions) -> int:
        """Width beyond the least that these scorers need; below 0 if there is less than that."""
        from rich.measure import Measurement

        unlimited = options.update(max_width=_UNLIMITED)
        table = _table(self.layout, columns, spare=_UNLIMITED)
        found = Measurement.get(console, unlimited, table)
        is_wide = found.maximum <= options.max_width
        return _UNLIMITED if is_wide else options.max_width - found.minimum


def _table(layout: Layout, columns: Sequence[Column], *, spare: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    # The last way out of a very narrow terminal is to break the names of benchmarks.
    is_narrow = spare < 0
    # Rich takes the longest word for the least width even of a column that it may not wrap.
    names = 0 if is_narrow else max((len(name) for name in _names(layout)), default=0)
    table.add_column("benchmark", no_wrap=not is_narrow, overflow="fold", min_width=names)
    for at, column in enumerate(columns):
        title = f"{column.label}\nblind" if column.is_blind else column.label
        least = 0 if is_narrow else _least_width(column)
        # Shared out here: rich narrows all columns alike, and crops where one cannot follow.
        most = None if is_narrow else least + (spare + at) // len(columns)
        table.add_column(
            Text(title, overflow="fold"), min_width=least, max_width=most, overflow="fold"
        )
    table.add_column("chance", justify="right", no_wrap=True)
    for sheet in layout.overview:
        _add_sheet(table, sheet, columns)
    return table


def _least_width(column: Column) -> int:
    """An interval on its own line, or the name, unless that is very long."""
    return min(max(13, len(column.label)), 20)


def _add_sheet(table: Table, sheet: Sheet, columns: Sequence[Column]) -> None:
    """Ties and invalid items stand beside the benchmark's name, once, if all its metrics agree."""
    from rich.text import Text

    first = sheet.row(sheet.headline).estimates
    headline = [trouble_text(e) if (e := first[c.place]) else "" for c in columns]
    notes = [Text(note, style="dim italic") for note in headline]
    table.add_row(Text(sheet.title, style="bold"), *notes)
    for metric in sheet.main_metrics:
        row = sheet.row(metric)
        name = _metric_name(metric)
        here = [row.estimates[column.place] for column in columns]
        cells = [_cell(e, said=said) for e, said in zip(here, headline, strict=True)]
        table.add_row(Text(name), *cells, chance_text(row.first))


def _metric_name(metric: str) -> str:
    return f"  {metric} ↓" if metric in LOWER_IS_BETTER else f"  {metric}"


def _names(layout: Layout) -> list[str]:
    """All that stands in the first column."""
    titles = [sheet.title for sheet in layout.overview]
    return titles + [_metric_name(m) for sheet in layout.overview for m in sheet.main_metrics]


def _cell(estimate: Estimate | None, *, said: str) -> Text:
    from rich.text import Text

    if estimate is None:
        return Text("    –", style="dim")
    is_at_chance = against_chance(estimate) == "at"
    cell = Text(f"{value_text(estimate):>5}", style="dim" if is_at_chance else "")
    cell.append("=" if is_at_chance else " ")
    if estimate.low == estimate.low:
        ends = f"{estimate.show(estimate.low)}–{estimate.show(estimate.high)}"
        cell.append(f" [{ends}]", style="dim")
    trouble = trouble_text(estimate)
    if trouble and trouble != said:
        cell.append(f"\n{trouble}", style="dim italic")
    return cell


def _caption(layout: Layout) -> str:
    metrics = {metric for sheet in layout.overview for metric in sheet.main_metrics}
    parts = ["percent [interval]", chance_legend(layout)]
    parts += ["↓ lower is better"] if metrics & LOWER_IS_BETTER else []
    parts += ["blind: never sees a picture"] if any(c.is_blind for c in layout.columns) else []
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
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    numbers = notes(references)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("benchmark", "metric, rule"):
        table.add_column(name, overflow="fold")
    for name in ("n", "ours", "theirs", "differ"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("notes")
    earlier = ""
    for reference in references:
        row, name = beside(reference), reference.benchmark
        ours = f"{row.ours} {row.interval.replace(', ', '–')}".strip()
        cells = ["" if name == earlier else name, f"{row.metric}, {row.rule}", f"{row.n:,}", ours]
        # Text, since a rule such as micro[kind=add_obj] would be read as markup.
        texts = [Text(cell) for cell in (*cells, row.theirs, row.difference)]
        said = ",".join(str(numbers[text]) for text in (row.source, *row.doubts))
        table.add_row(*texts, Text(row.verdict, style=_STYLES[row.verdict]), said)
        earlier = name
    return table


def notes(references: Sequence[Reference]) -> dict[str, int]:
    """Every source and then every doubt once, with the number that stands for it in the table."""
    sources = (reference.published.source for reference in references)
    doubts = (doubt for reference in references for doubt in reference.doubts)
    said = dict.fromkeys([*sources, *doubts])
    return {text: at for at, text in enumerate(said, start=1)}
