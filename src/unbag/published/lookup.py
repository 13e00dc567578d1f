"""Published numbers: the model, benchmark, metric and averaging rule of each.

tables/*.json hold the tables as their sources print them. doubts.json lists inconsistencies in
them, which a script of the study finds.
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
"""Tables in the order in which their numbers are listed."""
NO_CUTOFF = "@?"
"""Suffix of a recall metric whose source does not state the rank."""
GAP = "-"
"""An empty cell."""
Unit = Literal["percent", "fraction", "score"]
"""Format of a table: 59.0, 0.59 (read as percent), or a mean score .234 (not a fraction)."""


def published_for(benchmark: str) -> tuple[Published, ...]:
    """Return all published numbers of a benchmark, by source."""
    return tuple(entry.published for entry in entries() if entry.cell.column.benchmark == benchmark)


@dataclass(frozen=True, eq=False)
class NumberEntry:
    """A printed number with its interpretation."""

    cell: TableCell
    published: Published

    @property
    def number(self) -> PrintedNumber:
        """The number as printed."""
        return self.cell.number


@cache
def entries() -> tuple[NumberEntry, ...]:
    """Return all numbers of our benchmarks, in the order of the tables."""
    return tuple(
        NumberEntry(cell, _published(cell))
        for cell in all_cells()
        if cell.column.benchmark and not cell.column.is_part
    )


def _published(cell: TableCell) -> Published:
    benchmark, metric = cell.column.benchmark, cell.column.metric
    if metric.endswith(NO_CUTOFF):
        cutoffs = likely_cutoffs(benchmark, metric)
        metric = cutoffs[0] if len(cutoffs) == 1 else metric
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
    """Return the stated rule, or one that fits, preferring the one that most rows follow."""
    if cell.column.rule is not None:
        return cell.column.rule
    fitting = fitting_rules(cell)
    usual = usual_rule(cell.table.paper, cell.column.benchmark)
    return usual if usual in fitting else fitting[0] if fitting else ""


def fitting_rules(cell: TableCell) -> tuple[str, ...]:
    """Return the names of the rules that give this average from the cells of the source."""
    intervals = averages(cell.column.benchmark, row(cell))
    return tuple(name for name, interval in intervals.items() if cell.number.agrees(*interval))


@cache
def usual_rule(paper: str, benchmark: str) -> str:
    """Return the rule that fits most averages of a source without a stated rule, or ""."""
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
    """Return recalls at a stated rank that other sources print alike for the same models."""
    direction = metric.removesuffix("?")
    cells = [c for c in all_cells() if (c.column.benchmark, c.column.metric) == (benchmark, metric)]
    candidates = [
        c
        for c in all_cells()
        if c.column.benchmark == benchmark
        and c.column.metric.startswith(direction)
        and c.column.metric != metric
    ]
    metrics = dict.fromkeys(
        other.column.metric
        for cell in cells
        for other in candidates
        if other.model == cell.model and cell.number.agrees(other.number.low, other.number.high)
    )
    return tuple(metrics)


def row(cell: TableCell) -> Mapping[str, PrintedNumber]:
    """Return all cells with a rule that the same source prints for the model, by rule."""
    cells = _rows().get(_row_key(cell), {})
    return {name: number for name, number in cells.items() if name != cell.column.rule}


@cache
def _rows() -> Mapping[tuple[str, str, str, str, str], Mapping[str, PrintedNumber]]:
    rows: dict[tuple[str, str, str, str, str], dict[str, PrintedNumber]] = {}
    for cell in all_cells():
        if cell.column.benchmark and cell.column.rule is not None:
            rows.setdefault(_row_key(cell), {}).setdefault(cell.column.rule, cell.number)
    return rows


def _row_key(cell: TableCell) -> tuple[str, str, str, str, str]:
    column, table = cell.column, cell.table
    return (table.paper, table.scoring, column.benchmark, column.metric, cell.model)


@cache
def all_cells() -> tuple[TableCell, ...]:
    """Return all numbers of all tables."""
    return tuple(cell for table in tables() for cell in table.cells())


@cache
def tables() -> tuple[Table, ...]:
    """Return all tables, by source."""
    return tuple(
        _table(fields) for name in TABLE_FILES for fields in _json(f"tables/{name}.json")["tables"]
    )


def _table(fields: Mapping[str, Any]) -> Table:
    columns = tuple(
        TableColumn(**{name: _frozen(value) for name, value in column.items()})
        for column in fields["columns"]
    )
    mended = frozenset(fields.get("mended", ()))
    return Table(**{**fields, "columns": columns, "mended": mended})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, eq=False)
class Table:
    """A table of a source."""

    paper: str
    place: str
    """Place in the paper, such as table 1."""
    columns: tuple[TableColumn, ...]
    rows: Mapping[str, str]
    """Numbers by model as printed, separated by spaces, with - for an empty cell."""
    scoring: str = "cosine"
    digits: int = 1
    """Decimals of the percentages, also of a number printed with fewer (80 among 79.8)."""
    unit: Unit = "percent"
    mended: frozenset[str] = frozenset()
    """Benchmarks whose known errors the source corrected first."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Other differences from our evaluation, by benchmark."""

    @property
    def source(self) -> str:
        """Paper and place in it."""
        return f"{self.paper}, {self.place}"

    def cells(self) -> Iterator[TableCell]:
        """Iterate over the numbers of the table."""
        for model, row in self.rows.items():
            for column, text in zip(self.columns, row.split(), strict=True):
                if text != GAP:
                    yield TableCell(self, model, column, self.number(text))

    def cell(self, model: str, column: str) -> TableCell | None:
        """Return the number of a model in a column; None if there is none."""
        cells = (c for c in self.cells() if (c.model, c.column.name) == (model, column))
        return next(cells, None)

    def number(self, text: str) -> PrintedNumber:
        """Parse a printed number."""
        value, decimals = Fraction(text), len(text.partition(".")[2])
        if self.unit != "percent":
            value, decimals = 100 * value, decimals - 2
        return PrintedNumber(value, max(decimals, self.digits), decimals, self.unit == "score")


@dataclass(frozen=True)
class TableColumn:
    """The meaning of a column."""

    name: str
    """Heading in the source, or a shorter form."""
    benchmark: str = ""
    """Empty if the column is of none of our benchmarks."""
    metric: str = "accuracy"
    rule: str | None = "micro"
    """Name of the averaging rule; None if the source averages and does not say how."""
    is_part: bool = False
    """Whether it is only part of an average and no result of our rules."""
    mean_of: tuple[str, ...] = ()
    """Columns of this table whose plain mean this is."""
    minus: tuple[str, str] | None = None
    """Columns of this table whose difference (first minus second) this is."""


@dataclass(frozen=True, eq=False)
class TableCell:
    """A number of a table."""

    table: Table
    model: str
    column: TableColumn
    number: PrintedNumber


def doubts(published: Published) -> tuple[str, ...]:
    """Return what is doubtful about a number, one sentence each; empty if nothing is known."""
    return _doubts().get(published, ())


@cache
def _doubts() -> dict[Published, tuple[str, ...]]:
    sentences: dict[Published, list[str]] = {}
    for flag in flags():
        for number in flag.concerns:
            sentences.setdefault(number, []).append(str(flag))
    for remark in _json("doubts.json")["remarks"]:
        sentences.setdefault(Published(**remark["number"]), []).append(remark["text"])
    return {number: tuple(texts) for number, texts in sentences.items()}


@dataclass(frozen=True)
class Flag:
    """An inconsistency among the numbers of a source."""

    source: str
    model: str
    what: str
    """The number and what is wrong with it."""
    found: str
    """The number that the source prints."""
    expected: str
    """What follows from the other numbers instead."""
    concerns: tuple[Published, ...] = ()
    """Numbers of our benchmarks that it puts in doubt."""

    def __str__(self) -> str:
        """Describe it in one sentence, without the source."""
        return f"{self.what}: {self.found} is printed, {self.expected}"


@cache
def flags() -> tuple[Flag, ...]:
    """Return all inconsistencies in the sources."""
    return tuple(
        Flag(**{**record, "concerns": tuple(Published(**number) for number in record["concerns"])})
        for record in _json("doubts.json")["flags"]
    )


def _json(name: str) -> Any:
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def published_name(name: str, published_as: str = "") -> str:
    """Return the name of the model in papers, or the name itself if that is not known.

    `published_as` is the name that the user or the model itself states.
    """
    return published_as or known_as(name) or name


def known_as(name: str) -> str:
    """Return the name in papers of the model loaded by this name; empty if that is uncertain.

    A scorer of OpenCLIP is named ARCH/TAG, which identifies the model. One of transformers is named
    by the last part of its path, which does not.
    """
    names = (name, f"open_clip:{name}")
    return next((m for m, loaded in LOADED_AS.items() if any(n in loaded for n in names)), "")


def is_same(published: str, name: str) -> bool:
    """Return whether two names are of the same model, ignoring case."""
    return published.casefold() == name.casefold()


LOADED_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # The tag `openai` of open_clip turns on QuickGELU, which these weights need.
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
"""Names that load exactly the model of each published name; only certain ones."""
