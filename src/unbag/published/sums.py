"""All printed numbers come in; averages, differences and shares that do not follow go out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from unbag.published.every import TABLES, Entry, entries, fitting_rules, row, usual_rule
from unbag.published.flags import Flag, either, percent
from unbag.published.rules import averages
from unbag.published.tables import Cell, Number, Table


def wrong_averages() -> Iterator[Flag]:
    """Averages that no rule gives, or only another than the one stated or usual in that source.

    A number that a source prints in several tables is said once.
    """
    said: set[tuple[str, str, str, str]] = set()
    for entry in entries():
        cell = entry.cell
        key = (cell.table.paper, cell.model, cell.column.benchmark, f"{cell.number}")
        flag = _stated(entry) if cell.column.rule is not None else _unstated(entry)
        if flag and (cell.column.rule is not None or key not in said):
            said.add(key)
            yield flag


def _stated(entry: Entry) -> Flag | None:
    cell, rule = entry.cell, entry.published.aggregate
    ends = averages(cell.column.benchmark, row(cell), name=rule).get(rule)
    if ends is None or cell.number.agrees(*ends):
        return None
    expected = f"its cells give {percent(middle(ends))}"
    return _flag(entry, f"{cell.column.name} is not the mean of its cells", expected)


def _unstated(entry: Entry) -> Flag | None:
    cell = entry.cell
    found = averages(cell.column.benchmark, row(cell))
    fitting = fitting_rules(cell)
    usual = usual_rule(cell.table.paper, cell.column.benchmark)
    if not found or usual in fitting:
        return None
    if not fitting:
        gives = ", ".join(f"{name} {percent(middle(ends))}" for name, ends in found.items())
        return _flag(entry, f"{cell.column.name} fits no rule", f"its cells give {gives}")
    expected = f"{usual}, as in other rows, would be {percent(middle(found[usual]))}"
    return _flag(entry, f"{cell.column.name} fits only {either(fitting)}", expected)


def _flag(entry: Entry, what: str, expected: str) -> Flag:
    cell = entry.cell
    concerned = (entry.published,)
    return Flag(cell.table.source, cell.model, what, f"{cell.number}", expected, concerned)


def middle(ends: tuple[Fraction, Fraction]) -> Fraction:
    """Half-way between two ends."""
    return (ends[0] + ends[1]) / 2


def wrong_columns() -> Iterator[Flag]:
    """Printed means and differences of columns of one table that do not follow from the row."""
    for table in TABLES:
        for model, cells in _by_row(table).items():
            for cell in cells.values():
                ends = _of_columns(cell, cells)
                if ends is not None and not cell.number.agrees(*ends):
                    what = f"{cell.column.name} does not follow from its row"
                    gives = f"the row gives {percent(middle(ends))}"
                    yield Flag(table.source, model, what, f"{cell.number}", gives)


def _by_row(table: Table) -> dict[str, dict[str, Cell]]:
    found: dict[str, dict[str, Cell]] = {}
    for cell in table.cells():
        found.setdefault(cell.model, {})[cell.column.name] = cell
    return found


def _of_columns(cell: Cell, cells: dict[str, Cell]) -> tuple[Fraction, Fraction] | None:
    column = cell.column
    names = column.minus or column.mean_of
    if not names or not all(name in cells for name in names):
        return None
    numbers = [cells[name].number for name in names]
    if column.minus:
        return difference(numbers[0], numbers[1])
    low = sum((number.low for number in numbers), Fraction(0))
    high = sum((number.high for number in numbers), Fraction(0))
    return low / len(numbers), high / len(numbers)


def difference(first: Number, second: Number) -> tuple[Fraction, Fraction]:
    """Least and greatest difference: it may have been taken before the two were rounded."""
    return first.low - second.high, first.high - second.low


def impossible_shares() -> Iterator[Flag]:
    """Drops from original to augmented accuracy above the brittleness, which holds them all."""
    found: dict[tuple[str, str, str], dict[str, Entry]] = {}
    for entry in entries():
        key = (entry.cell.table.paper, entry.cell.column.benchmark, entry.cell.model)
        found.setdefault(key, {})[entry.cell.column.metric] = entry
    for (paper, benchmark, model), by_metric in found.items():
        if not {"original", "augmented", "brittleness"} <= set(by_metric):
            continue
        original, augmented, brittle = (
            by_metric[name].number for name in ("original", "augmented", "brittleness")
        )
        if original.low - augmented.high > brittle.high:
            yield Flag(
                paper,
                model,
                f"original - augmented exceeds brittleness on {benchmark}",
                f"{brittle}",
                f"at least {percent(original.value - augmented.value)} must be",
                tuple(entry.published for entry in by_metric.values()),
            )
