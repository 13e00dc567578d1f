"""Check whether counts or averaging rules can produce the percentages that a paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor


def counts(printed: str, n: int) -> tuple[int, ...]:
    """All k for which k of n, in percent, is printed as `printed`.

    The percentage is text, because "50" and "50.0" have different precision. A value exactly
    between two printed ones may have been rounded either way.
    """
    half = Fraction(1, 2 * 10 ** _decimals(printed))
    low, high = Fraction(printed) - half, Fraction(printed) + half
    first, last = ceil(low * n / 100), floor(high * n / 100)
    return tuple(range(max(0, first), min(n, last) + 1))


def fits(printed: str, n: int) -> bool:
    """Whether a percentage is possible with n trials."""
    return bool(counts(printed, n))


@dataclass(frozen=True)
class Cell:
    """One published number that goes into an average."""

    name: str
    value: float
    group: str = ""
    parts: int = 1
    """Number of tests that this number already averages (VALSE's counting column: 3)."""


def check_average(
    cells: Sequence[Cell],
    printed: float,
    *,
    decimals: int = 1,
    group_averages: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """Names of the averaging rules that give the printed average; if none does, it is doubtful.

    The printed cells are rounded, so the tolerance is half a unit of the last place for them plus
    half a unit for the average. `group_averages` are the printed averages of the groups, which some
    papers average instead of the cells.
    """
    unit = 10.0**-decimals
    values = averages(cells, group_averages=group_averages)
    # The small tolerance is for decimals without an exact binary form, such as 0.1.
    return tuple(rule for rule, value in values.items() if abs(value - printed) <= unit + 1e-9)


def averages(
    cells: Sequence[Cell], *, group_averages: Mapping[str, float] | None = None
) -> Mapping[str, float]:
    """The average of the cells by every rule: macro over parts, cells, groups, and printed groups.

    A rule is named after how many numbers it averages, such as macro11 and macro9 of VALSE. Rules
    that coincide appear once.
    """
    parts = sum(cell.parts for cell in cells)
    groups: dict[str, list[float]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell.value)
    result = {f"macro{len(cells)}": sum(cell.value for cell in cells) / len(cells)}
    if parts != len(cells):
        result[f"macro{parts}"] = sum(cell.value * cell.parts for cell in cells) / parts
    if 1 < len(groups) < len(cells):
        means = [sum(values) / len(values) for values in groups.values()]
        result[f"macro{len(groups)}"] = sum(means) / len(means)
    if group_averages:
        value = sum(group_averages.values()) / len(group_averages)
        result[f"macro{len(group_averages)} (printed groups)"] = value
    return result


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])
