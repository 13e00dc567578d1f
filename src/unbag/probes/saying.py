"""Estimates come in; the words and bars in which a verdict shows them go out."""

from __future__ import annotations

from collections.abc import Iterable

from unbag.probes.finding import Quantity
from unbag.probes.plots import Bar
from unbag.types import Estimate


def shown(found: Estimate, unit: str = "", *, digits: int = 3) -> str:
    """With its interval: "74.1 % [73.1, 75.1]", "0.973 [0.971, 0.975]", "1.2 degrees [1, 2]"."""
    unit = f" {unit}" if unit else " %" if found.is_rate else ""
    value, low, high = (_number(found, one, digits) for one in (found.value, found.low, found.high))
    return f"{value}{unit} [{low}, {high}]"


def _number(found: Estimate, value: float, digits: int) -> str:
    if found.is_rate or value != value:
        return found.show(value)
    # Nothing is minus nothing.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def bar(quantity: Quantity, name: str) -> Bar:
    """Beside chance, where there is one."""
    found = quantity.estimate
    return Bar(name, found.value, found.low, found.high, quantity.known.chance)


def bars_of(quantities: Iterable[Quantity], begin: str, end: str = "") -> tuple[Bar, ...]:
    """Of all quantities whose names begin and end so; what is between names the bar."""
    return tuple(
        bar(one, one.name.removeprefix(begin).removesuffix(end))
        for one in quantities
        if one.name.startswith(begin) and one.name.endswith(end)
    )
