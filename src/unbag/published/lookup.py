"""All tables come in; published numbers, with the rule and the cutoff that fit, go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from unbag.published import tables as aro
from unbag.published import tables as ce_clip
from unbag.published import tables as chat_models
from unbag.published import tables as hard_positives
from unbag.published import tables as others
from unbag.published import tables as vl_compo
from unbag.published.tables import Cell, Number, averages
from unbag.types import Published

TABLES = (
    *aro.ARO_TABLES,
    *hard_positives.HARD_POSITIVES_TABLES,
    *ce_clip.CE_CLIP_TABLES,
    *chat_models.CHAT_MODELS_TABLES,
    *vl_compo.VL_COMPO_TABLES,
    *others.OTHERS_TABLES,
)
NO_CUTOFF = "@?"
"""Ends the metric of a recall whose source does not say at which rank."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A printed number and what it turned out to be."""

    cell: Cell
    published: Published

    @property
    def number(self) -> Number:
        """As printed."""
        return self.cell.number


def published_for(benchmark: str) -> tuple[Published, ...]:
    """Every number known for a benchmark, source by source."""
    return tuple(e.published for e in entries() if e.cell.column.benchmark == benchmark)


@cache
def entries() -> tuple[Entry, ...]:
    """Every number of ours, in the order of the tables."""
    return tuple(
        Entry(cell, _published(cell))
        for cell in all_cells()
        if cell.column.benchmark and not cell.column.is_part
    )


@cache
def all_cells() -> tuple[Cell, ...]:
    """Every number of every table."""
    return tuple(cell for table in TABLES for cell in table.cells())


def _published(cell: Cell) -> Published:
    benchmark = cell.column.benchmark
    return Published(
        model=cell.model,
        metric=_metric(cell),
        value=round(float(cell.number.value / 100), 6),
        source=cell.table.source,
        aggregate=_rule(cell),
        scoring=cell.table.scoring,
        has_errata=benchmark in cell.table.mended,
        digits=cell.number.shown_digits,
        note=cell.table.notes.get(benchmark, ""),
    )


def _rule(cell: Cell) -> str:
    """As stated, or the one that fits; of several that fit, the one that most rows follow."""
    if cell.column.rule is not None:
        return cell.column.rule
    fitting = fitting_rules(cell)
    usual = usual_rule(cell.table.paper, cell.column.benchmark)
    return usual if usual in fitting else fitting[0] if fitting else ""


def _metric(cell: Cell) -> str:
    metric = cell.column.metric
    if not metric.endswith(NO_CUTOFF):
        return metric
    found = likely_cutoffs(cell.column.benchmark, metric)
    return found[0] if len(found) == 1 else metric


def fitting_rules(cell: Cell) -> tuple[str, ...]:
    """Names of the rules that give this average from the cells its source prints."""
    found = averages(cell.column.benchmark, row(cell))
    return tuple(name for name, ends in found.items() if cell.number.agrees(*ends))


@cache
def usual_rule(paper: str, benchmark: str) -> str:
    """The rule that fits most of the averages a source gives without a rule; empty if none fits."""
    votes = Counter(
        name
        for cell in all_cells()
        if cell.table.paper == paper
        and cell.column.benchmark == benchmark
        and cell.column.rule is None
        for name in fitting_rules(cell)
    )
    return votes.most_common(1)[0][0] if votes else ""


def row(cell: Cell) -> Mapping[str, Number]:
    """All cells with a rule that the same source prints for that model, by their rule."""
    found = _rows().get(_row_key(cell), {})
    return {name: number for name, number in found.items() if name != cell.column.rule}


def _row_key(cell: Cell) -> tuple[str, str, str, str, str]:
    column, table = cell.column, cell.table
    return (table.paper, table.scoring, column.benchmark, column.metric, cell.model)


@cache
def _rows() -> Mapping[tuple[str, str, str, str, str], Mapping[str, Number]]:
    found: dict[tuple[str, str, str, str, str], dict[str, Number]] = {}
    for cell in all_cells():
        if cell.column.benchmark and cell.column.rule is not None:
            found.setdefault(_row_key(cell), {}).setdefault(cell.column.rule, cell.number)
    return found


@cache
def likely_cutoffs(benchmark: str, metric: str) -> tuple[str, ...]:
    """Recalls at a stated rank that other sources print alike for the same models."""
    way = metric.removesuffix("?")
    here = [c for c in all_cells() if (c.column.benchmark, c.column.metric) == (benchmark, metric)]
    there = [
        c
        for c in all_cells()
        if c.column.benchmark == benchmark
        and c.column.metric.startswith(way)
        and c.column.metric != metric
    ]
    found = dict.fromkeys(
        other.column.metric
        for cell in here
        for other in there
        if other.model == cell.model and cell.number.agrees(other.number.low, other.number.high)
    )
    return tuple(found)
