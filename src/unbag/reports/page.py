"""A run and definitions of metrics come in; one HTML page that needs no network goes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from unbag.reports import charts
from unbag.reports.beside import Beside, Scale, same_model, scales
from unbag.reports.compared import ComparedPair, compared
from unbag.reports.environment import environment
from unbag.reports.gallery import Card, card
from unbag.reports.join import notes_of, parts_of
from unbag.reports.layout import LOWER_IS_BETTER, Column, Layout, Row, Sheet, lay_out, records
from unbag.reports.prompts import over_prompts, published_only
from unbag.reports.summary import against_chance, chance_legend, summarise
from unbag.reports.wording import (
    chance_text,
    count_text,
    interval_text,
    trouble_text,
    value_text,
)
from unbag.types import Result, RunContents, RunRecord
from unbag.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from unbag.metrics.definitions import Definition

SHOWN_CARDS = 6
"""Failures of a benchmark that are open at first; the others are folded away."""
SHOWN_TAGS = 12
"""Values a tag can have before its chart is folded away."""
REMARKS = ("share_", "mean_")
"""Metrics that explain the others; they stand in a folded table of their own."""


@dataclass(frozen=True)
class ChartRow:
    """A named strip of a chart."""

    name: str
    note: str
    drawing: Markup


@dataclass(frozen=True)
class Chart:
    """Strips under one another with one axis."""

    title: str
    rows: tuple[ChartRow, ...]
    axis: Markup
    is_folded: bool = False


@dataclass(frozen=True)
class Section:
    """Everything about one benchmark."""

    anchor: str
    name: str
    sheets: tuple[Sheet, ...]
    tag_charts: tuple[Chart, ...]
    comparisons: tuple[ComparedPair, ...]
    beside: tuple[Beside, ...]
    scales: tuple[Scale, ...]
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Defined:
    """A metric of this page and its definition, None where nobody wrote one."""

    name: str
    definition: Definition | None


def render_page(run: RunContents, definitions: Mapping[str, Definition]) -> str:
    """The whole report as one page. Nothing in it is fetched, run or trusted."""
    prompts = over_prompts(run.results)
    run = published_only(run)
    layout = lay_out(run)
    metrics = dict.fromkeys(metric for sheet in layout.sheets for metric in sheet.metrics)
    return (
        _environment()
        .get_template("page.html")
        .render(
            version=__version__,
            columns=layout.columns,
            scorers=layout.scorers,
            sheets=layout.overview,
            summary=summarise(layout, run.comparisons),
            problems=run.problems,
            warnings=run.warnings,
            overview=_overview(layout),
            over_prompts=prompts,
            sections=_sections(run, layout),
            definitions=tuple(Defined(name, _definition(name, definitions)) for name in metrics),
            protocols=_protocols(run.results),
            confidence=max((r.protocol.confidence for r in run.results), default=0.95),
            records=_records(run),
            chance_legend=chance_legend(layout),
            notes=notes_of(run),
        )
    )


def _breakable(name: str) -> Markup:
    """A name that may go on in a new line after a sign, and not in the middle of a word."""
    from markupsafe import Markup

    parts = re.split(r"(?<=[/_@.-])(?=\w)", name)
    return Markup("<wbr>").join(parts)


def _environment() -> Environment:
    from markupsafe import Markup

    made = environment()
    made.globals.update(
        against_chance=against_chance,
        chance_text=chance_text,
        count_text=count_text,
        interval_text=interval_text,
        trouble_text=trouble_text,
        value_text=value_text,
        breakable=_breakable,
        key=lambda column: Markup(charts.key(column)),  # noqa: S704 - built by charts, which escapes
        lower_is_better=LOWER_IS_BETTER,
        remarks=REMARKS,
        shown_cards=SHOWN_CARDS,
    )
    return made


def _chart(
    title: str,
    rows: Sequence[tuple[str, str, Row]],
    columns: Sequence[Column],
    *,
    bars: bool = False,
    is_folded: bool = False,
) -> Chart:
    from markupsafe import Markup

    scale = charts.scale_for([row for _, _, row in rows])
    drawn = tuple(
        ChartRow(
            name,
            note,
            Markup(  # noqa: S704 - built by charts, which escapes
                charts.strip(row, columns, name=f"{name} {note}", scale=scale, bars=bars)
            ),
        )
        for name, note, row in rows
    )
    return Chart(title, drawn, Markup(charts.axis(scale)), is_folded)  # noqa: S704


def _overview(layout: Layout) -> Chart:
    rows = []
    for sheet in layout.overview:
        for metric in sheet.main_metrics:
            row = sheet.row(metric)
            if row.is_rate:
                rows.append((sheet.title if metric == sheet.headline else "", metric, row))
    return _chart("", rows, layout.columns)


def _sections(run: RunContents, layout: Layout) -> tuple[Section, ...]:
    found: dict[str, list[Sheet]] = {}
    for sheet in layout.sheets:
        found.setdefault(sheet.benchmark, []).append(sheet)
    return tuple(
        Section(
            anchor=f"benchmark-{at}",
            name=name,
            sheets=tuple(sheets),
            tag_charts=_tag_charts(sheets[0], layout.columns),
            comparisons=compared(run.comparisons, sheets, benchmark=name),
            beside=same_model(r for r in run.references if r.benchmark == name),
            scales=scales([r for r in run.references if r.benchmark == name]),
            cards=tuple(card(failure) for failure in run.failures if failure.benchmark == name),
        )
        for at, (name, sheets) in enumerate(found.items(), start=1)
    )


def _tag_charts(sheet: Sheet, columns: Sequence[Column]) -> tuple[Chart, ...]:
    made = []
    for tag, keys in sheet.tags.items():
        rows = [(key.partition("=")[2], sheet.tag_row(key, sheet.headline)) for key in keys]
        named = [
            (name, f"n = {row.first.n:,}", row) for name, row in rows if row.first and row.is_rate
        ]
        if named:
            is_folded = len(named) > SHOWN_TAGS
            made.append(_chart(tag, named, columns, bars=True, is_folded=is_folded))
    return tuple(made)


def _records(run: RunContents) -> tuple[tuple[str, RunRecord], ...]:
    """Each with the folder of its run, where several were joined."""
    return tuple((part.folder, record) for part in parts_of(run) for record in records(part.run))


def _definition(name: str, definitions: Mapping[str, Definition]) -> Definition | None:
    """By name, or by a pattern such as share_*."""
    if name in definitions:
        return definitions[name]
    return next((found for key, found in definitions.items() if fnmatchcase(name, key)), None)


def _protocols(results: Sequence[Result]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((result.scorer, result.protocol.key) for result in results))
