"""A table as its source prints it comes in; its numbers, with precision and meaning, go out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

Unit = Literal["percent", "fraction", "score"]
"""How a table prints: 59.0, 0.59 (read as percent), or a mean score .234 (no share of anything)."""
GAP = "-"
"""A cell of a row that the source leaves empty."""


@dataclass(frozen=True)
class Number:
    """What a printed number says: percent, known to half a unit of its last digit."""

    value: Fraction
    digits: int
    """Decimals of the percentage."""
    shown_digits: int
    """The same as this number alone has them: 80 among 79.8 and 90.9 has none, though its table
    counts with one."""
    is_score: bool = False

    @property
    def half(self) -> Fraction:
        """Half a unit of the last digit."""
        return Fraction(1, 2) / Fraction(10) ** self.digits

    @property
    def low(self) -> Fraction:
        """The least value that is printed like this."""
        return self.value - self.half

    @property
    def high(self) -> Fraction:
        """The greatest value that is printed like this."""
        return self.value + self.half

    def agrees(self, low: Fraction, high: Fraction) -> bool:
        """Whether some value from low to high is printed like this, at the ends either way."""
        return self.low <= high and low <= self.high

    @property
    def alone(self) -> Number:
        """With no more precision than its own digits promise."""
        return Number(self.value, self.shown_digits, self.shown_digits, self.is_score)

    def __str__(self) -> str:
        """With its digits: as percent, or a score as it is."""
        if self.is_score:
            return f"{float(self.value / 100):.{self.digits + 2}f}"
        return f"{float(self.value):.{self.digits}f}"


@dataclass(frozen=True)
class Column:
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
class Table:
    """One table of one source, number by number."""

    paper: str
    place: str
    """Where in it: table 1."""
    columns: tuple[Column, ...]
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

    def cells(self) -> Iterator[Cell]:
        """Every number of the table."""
        for model, row in self.rows.items():
            for column, text in zip(self.columns, row.split(), strict=True):
                if text != GAP:
                    yield Cell(self, model, column, self.number(text))

    def cell(self, model: str, column: str) -> Cell | None:
        """The number of one model in one column; None where there is none."""
        found = (c for c in self.cells() if (c.model, c.column.name) == (model, column))
        return next(found, None)

    def number(self, text: str) -> Number:
        """One printed number."""
        value, decimals = Fraction(text), len(text.partition(".")[2])
        if self.unit != "percent":
            value, decimals = 100 * value, decimals - 2
        return Number(value, max(decimals, self.digits), decimals, self.unit == "score")


@dataclass(frozen=True, eq=False)
class Cell:
    """One number of a table."""

    table: Table
    model: str
    column: Column
    number: Number
