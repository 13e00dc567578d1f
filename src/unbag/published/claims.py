"""What a source states in words comes in; what its own tables do not bear out goes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from unbag.published.every import fitting_rules, row
from unbag.published.flags import Flag, percent
from unbag.published.rules import averages
from unbag.published.sums import difference, middle
from unbag.published.tables import Cell, Table


@dataclass(frozen=True, eq=False)
class Gain:
    """A stated difference of two models."""

    source: str
    printed: str
    model: str
    base: str
    table: Table
    columns: tuple[str, ...]
    """The columns it can be meant for."""
    what: str

    def flag(self, tables: Sequence[Table]) -> Flag | None:
        """None where it follows from one of its columns, both numbers by one rule."""
        pairs = [pair for c in self.columns if (pair := self._pair(self.table, self.model, c))]
        fitting = [pair for pair in pairs if self._fits(pair)]
        if fitting:
            return self._mixed(*fitting[0])
        follow = ", ".join(percent(a.number.value - b.number.value, 1) for a, b in pairs)
        hint = self._hint(tables)
        expected = f"{follow} would follow" + (f"; it is {hint}" if hint else "")
        return Flag(self.source, self.model, self.what, self.printed, expected)

    def _pair(self, table: Table, model: str, column: str) -> tuple[Cell, Cell] | None:
        ours, base = table.cell(model, column), table.cell(self.base, column)
        return (ours, base) if ours and base else None

    def _fits(self, pair: tuple[Cell, Cell]) -> bool:
        ends = difference(pair[0].number, pair[1].number)
        return self.table.number(self.printed).agrees(*ends)

    def _mixed(self, cell: Cell, base: Cell) -> Flag | None:
        """Two averages of which no one rule gives both."""
        fitting = (*fitting_rules(cell), *fitting_rules(base))
        if cell.column.rule is not None or set(fitting_rules(cell)) & set(fitting_rules(base)):
            return None
        ours, theirs = (averages(c.column.benchmark, row(c)) for c in (cell, base))
        names = [name for name in ours if name in fitting and name in theirs]
        like = [f"{percent(middle(ours[n]) - middle(theirs[n]), 1)} ({n})" for n in names]
        what = f"{self.what}: the two are averaged by different rules"
        expected = f"like for like it is {' or '.join(like)}"
        return Flag(self.source, self.model, what, self.printed, expected)

    def _hint(self, tables: Sequence[Table]) -> str:
        """The nearest gain of another model here, or of this one in another column of it."""
        found: list[tuple[Fraction, str]] = []
        for model in self.table.rows:
            for column in self.columns if model not in (self.model, self.base) else ():
                found += self._match(self.table, model, column, f"the gain of {model}")
        names = {c.benchmark for c in self.table.columns if c.name in self.columns}
        for table in tables:
            for other in table.columns if table.paper == self.table.paper else ():
                if other.benchmark in names:
                    found += self._match(table, self.model, other.name, f"the gain in {other.name}")
        return min(found)[1] if found else ""

    def _match(
        self, table: Table, model: str, column: str, what: str
    ) -> list[tuple[Fraction, str]]:
        pair = self._pair(table, model, column)
        if not pair or not self._fits(pair):
            return []
        gain = pair[0].number.value - pair[1].number.value
        return [(abs(gain - Fraction(self.printed)), what)]


@dataclass(frozen=True, eq=False)
class Order:
    """A statement that some models lie above another one, or at least not below it."""

    source: str
    models: tuple[str, ...]
    base: str
    table: Table
    columns: tuple[str, ...]
    what: str
    is_strict: bool = True

    def flags(self) -> Iterator[Flag]:
        """One for every number that lies where it should not."""
        for model in self.models:
            for column in self.columns:
                ours, base = self.table.cell(model, column), self.table.cell(self.base, column)
                if ours is None or base is None:
                    continue
                high, low = ours.number.high, base.number.low
                if high < low or (self.is_strict and high == low):
                    what = f"{self.what}, {column}"
                    expected = f"{self.base} has {base.number}"
                    yield Flag(self.source, model, what, f"{ours.number}", expected)


@dataclass(frozen=True)
class Restated:
    """A number in words that should be one that is printed, or counted, elsewhere."""

    source: str
    model: str
    what: str
    printed: str
    elsewhere: Mapping[str, str]
    """Where to what stands there."""

    def flag(self) -> Flag | None:
        """None if all agree."""
        if all(Fraction(found) == Fraction(self.printed) for found in self.elsewhere.values()):
            return None
        expected = " and ".join(f"{found} {where}" for where, found in self.elsewhere.items())
        return Flag(self.source, self.model, self.what, self.printed, expected)
