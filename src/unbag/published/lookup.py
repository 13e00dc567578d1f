"""Published numbers: which model, benchmark, metric and averaging rule each one is for.

The tables lie in tables/*.json as their sources print them; doubts.json has what does not add up in
them, found by a script of the study.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from unbag.published.averaging import PrintedNumber, averages
from unbag.types import Published

TABLE_FILES = ("aro", "hard_positives", "ce_clip", "chat_models", "vl_compo", "others")
"""In the order in which their numbers are listed."""
NO_CUTOFF = "@?"
"""Ends the metric of a recall whose source does not say at which rank."""
GAP = "-"
"""A cell of a row that the source leaves empty."""
Unit = Literal["percent", "fraction", "score"]
"""How a table prints: 59.0, 0.59 (read as percent), or a mean score .234 (no share of anything)."""


def published_for(benchmark: str) -> tuple[Published, ...]:
    """Every number known for a benchmark, source by source."""
    return tuple(e.published for e in entries() if e.cell.column.benchmark == benchmark)


@dataclass(frozen=True, eq=False)
class NumberEntry:
    """A printed number and what it turned out to be."""

    cell: TableCell
    published: Published

    @property
    def number(self) -> PrintedNumber:
        """As printed."""
        return self.cell.number


@cache
def entries() -> tuple[NumberEntry, ...]:
    """Every number of ours, in the order of the tables."""
    return tuple(
        NumberEntry(cell, _published(cell))
        for cell in all_cells()
        if cell.column.benchmark and not cell.column.is_part
    )


def _published(cell: TableCell) -> Published:
    benchmark, metric = cell.column.benchmark, cell.column.metric
    if metric.endswith(NO_CUTOFF):
        known = likely_cutoffs(benchmark, metric)
        metric = known[0] if len(known) == 1 else metric
    return Published(
        model=cell.model,
        metric=metric,
        value=round(float(cell.number.value / 100), 6),
        source=cell.table.source,
        aggregate=_rule(cell),
        scoring=cell.table.scoring,
        has_errata=benchmark in cell.table.mended,
        digits=cell.number.shown_digits,
        note=cell.table.notes.get(benchmark, ""),
    )


def _rule(cell: TableCell) -> str:
    """As stated, or the one that fits; of several that fit, the one that most rows follow."""
    if cell.column.rule is not None:
        return cell.column.rule
    fitting = fitting_rules(cell)
    usual = usual_rule(cell.table.paper, cell.column.benchmark)
    return usual if usual in fitting else fitting[0] if fitting else ""


def fitting_rules(cell: TableCell) -> tuple[str, ...]:
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


def row(cell: TableCell) -> Mapping[str, PrintedNumber]:
    """All cells with a rule that the same source prints for that model, by their rule."""
    found = _rows().get(_row_key(cell), {})
    return {name: number for name, number in found.items() if name != cell.column.rule}


@cache
def _rows() -> Mapping[tuple[str, str, str, str, str], Mapping[str, PrintedNumber]]:
    found: dict[tuple[str, str, str, str, str], dict[str, PrintedNumber]] = {}
    for cell in all_cells():
        if cell.column.benchmark and cell.column.rule is not None:
            found.setdefault(_row_key(cell), {}).setdefault(cell.column.rule, cell.number)
    return found


def _row_key(cell: TableCell) -> tuple[str, str, str, str, str]:
    column, table = cell.column, cell.table
    return (table.paper, table.scoring, column.benchmark, column.metric, cell.model)


@cache
def all_cells() -> tuple[TableCell, ...]:
    """Every number of every table."""
    return tuple(cell for table in tables() for cell in table.cells())


@cache
def tables() -> tuple[Table, ...]:
    """All tables, source by source."""
    return tuple(
        _table(one) for name in TABLE_FILES for one in _json(f"tables/{name}.json")["tables"]
    )


def _table(fields: Mapping[str, Any]) -> Table:
    columns = tuple(
        TableColumn(**{name: _frozen(value) for name, value in one.items()})
        for one in fields["columns"]
    )
    mended = frozenset(fields.get("mended", ()))
    return Table(**{**fields, "columns": columns, "mended": mended})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, eq=False)
class Table:
    """One table of one source, number by number."""

    paper: str
    place: str
    """Where in it: table 1."""
    columns: tuple[TableColumn, ...]
    rows: Mapping[str, str]
    """Model to its numbers as printed, with spaces between them and - where there is none."""
    scoring: str = "cosine"
    digits: int = 1
    """Decimals of the percentages; one printed with fewer (80 among 79.8) still has these."""
    unit: Unit = "percent"
    mended: frozenset[str] = frozenset()
    """Benchmarks whose known errors the source mended first."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Benchmark to what else the source did otherwise than we do."""

    @property
    def source(self) -> str:
        """Paper and place."""
        return f"{self.paper}, {self.place}"

    def cells(self) -> Iterator[TableCell]:
        """Every number of the table."""
        for model, row in self.rows.items():
            for column, text in zip(self.columns, row.split(), strict=True):
                if text != GAP:
                    yield TableCell(self, model, column, self.number(text))

    def cell(self, model: str, column: str) -> TableCell | None:
        """The number of one model in one column; None where there is none."""
        found = (c for c in self.cells() if (c.model, c.column.name) == (model, column))
        return next(found, None)

    def number(self, text: str) -> PrintedNumber:
        """One printed number."""
        value, decimals = Fraction(text), len(text.partition(".")[2])
        if self.unit != "percent":
            value, decimals = 100 * value, decimals - 2
        return PrintedNumber(value, max(decimals, self.digits), decimals, self.unit == "score")


@dataclass(frozen=True)
class TableColumn:
    """What the numbers of one column are."""

    name: str
    """As the source heads it, or shorter."""
    benchmark: str = ""
    """Empty for a column that belongs to none of our benchmarks."""
    metric: str = "accuracy"
    rule: str | None = "micro"
    """Name of the averaging rule; None where the source averages and does not say how."""
    is_part: bool = False
    """Part of an average, but no number that one of our rules gives."""
    mean_of: tuple[str, ...] = ()
    """Columns of this table whose plain mean is printed here."""
    minus: tuple[str, str] | None = None
    """Columns of this table whose difference (first minus second) is printed here."""


@dataclass(frozen=True, eq=False)
class TableCell:
    """One number of a table."""

    table: Table
    model: str
    column: TableColumn
    number: PrintedNumber


def doubts(published: Published) -> tuple[str, ...]:
    """What is doubtful about one number, in sentences; empty where nothing is known against it."""
    return _doubts().get(published, ())


@cache
def _doubts() -> dict[Published, tuple[str, ...]]:
    found: dict[Published, list[str]] = {}
    for flag in flags():
        for number in flag.concerns:
            found.setdefault(number, []).append(str(flag))
    for remark in _json("doubts.json")["remarks"]:
        found.setdefault(Published(**remark["number"]), []).append(remark["text"])
    return {number: tuple(some) for number, some in found.items()}


@dataclass(frozen=True)
class Flag:
    """Something in a source that does not add up, found from its numbers alone."""

    source: str
    model: str
    what: str
    """Which number, and what is wrong with it."""
    found: str
    """As the source has it."""
    expected: str
    """What would follow instead."""
    concerns: tuple[Published, ...] = ()
    """The numbers of ours that are in doubt by it."""

    def __str__(self) -> str:
        """One sentence without the source."""
        return f"{self.what}: {self.found} is printed, {self.expected}"


@cache
def flags() -> tuple[Flag, ...]:
    """Everything that does not add up in the sources."""
    return tuple(
        Flag(**{**one, "concerns": tuple(Published(**number) for number in one["concerns"])})
        for one in _json("doubts.json")["flags"]
    )


def _json(name: str) -> Any:
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def published_name(name: str, published_as: str = "") -> str:
    """What papers call the model of this name; the name itself where nothing else is known.

    `published_as` is what the user, or the model itself, says it is.
    """
    return published_as or known_as(name) or name


def known_as(name: str) -> str:
    """What papers call the model that is loaded by this name; empty where that is not sure.

    A scorer of OpenCLIP is called ARCH/TAG, which says as much as what the user typed. One of
    transformers is called after the last part of its path only, which says too little.
    """
    written = (name, f"open_clip:{name}")
    return next((m for m, loaded in LOADED_AS.items() if any(w in loaded for w in written)), "")


def is_same(published: str, name: str) -> bool:
    """Whether two names are of one model; capitals do not matter."""
    return published.casefold() == name.casefold()


LOADED_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # In open_clip the tag `openai` itself turns QuickGELU on, which these weights need.
        "CLIP ViT-B/32 (openai)": (
            "open_clip:ViT-B-32/openai",
            "open_clip:ViT-B-32-quickgelu/openai",
            "hf:openai/clip-vit-base-patch32",
        ),
        "CLIP ViT-L/14 (openai)": (
            "open_clip:ViT-L-14/openai",
            "open_clip:ViT-L-14-quickgelu/openai",
            "hf:openai/clip-vit-large-patch14",
        ),
        "CLIP ViT-L/14-336 (openai)": (
            "open_clip:ViT-L-14-336/openai",
            "open_clip:ViT-L-14-336-quickgelu/openai",
            "hf:openai/clip-vit-large-patch14-336",
        ),
        "SigLIP-L/16-384": (
            "open_clip:ViT-L-16-SigLIP-384/webli",
            "hf:google/siglip-large-patch16-384",
        ),
        "LLaVA-1.5-7B": ("hf:llava-hf/llava-1.5-7b-hf",),
    }
)
"""Published name to the names under which that very model is loaded; only where this is sure."""
