"""Charts of estimates as pieces of SVG, with every text escaped.

Places along the axis are percentages and heights are pixels, so a chart fits a phone and a large
screen without its marks and letters changing size. Colours come from the page's style sheet by
class (s0, s1 ... and blind), so that dark mode and print can change them; the form of a mark says
the same as its colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

from unbag.reports.formatting import chance_levels, chance_text, interval_text, value_text
from unbag.reports.layout import Column, MetricRow
from unbag.types import Estimate

COLOURS = 6
"""Different colours before they start again; the marks then still differ."""
_SHORTEST = 1e-6
"""Shortest axis, so that equal numbers can be drawn."""
_ROOM = 0.06
"""Free part of the axis at each end."""
_LANE = 11
"""Height of one scorer's line in a strip, in pixels."""
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MARKS = (
    '<circle r="4.5"/>',
    '<rect x="-4" y="-4" width="8" height="8"/>',
    '<path d="M0-5.2 5 4H-5Z"/>',
    '<path d="M0-5.6 5.6 0 0 5.6-5.6 0Z"/>',
    '<path d="M0 5.2 5-4H-5Z"/>',
)


@dataclass(frozen=True)
class Axis:
    """From values to a part of the way, 0 to 1."""

    low: float
    high: float
    is_rate: bool = False
    """Written as percent."""

    @classmethod
    def over(cls, values: Iterable[float], *, is_rate: bool = False) -> Axis:
        """Holds all finite values, with room at both ends."""
        known = [value for value in values if isfinite(value)] or [0.0, 1.0]
        low, high = min(known), max(known)
        wide = max(high - low, _SHORTEST, 0.02 * abs(high))
        room = wide * _ROOM + (wide - (high - low)) / 2
        return cls(low - room, high + room, is_rate)

    @classmethod
    def of_rates(cls, values: Iterable[float]) -> Axis:
        """From 0 to 1, unless something lies outside."""
        known = [value for value in values if isfinite(value)]
        if all(0 <= value <= 1 for value in known):
            return cls(0.0, 1.0, is_rate=True)
        return cls.over([*known, 0.0, 1.0], is_rate=True)

    def part(self, value: float) -> float:
        """Where a value lies; what is off the axis lies at its end."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def place(self, value: float) -> str:
        """The same as a percentage, for SVG."""
        return f"{100 * self.part(value):.2f}%"

    def ticks(self) -> list[float]:
        """Four to seven round numbers."""
        rough = (self.high - self.low) / 6
        size = 10.0 ** floor(log10(rough))
        step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= rough * 0.999)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def text(self, tick: float) -> str:
        """A tick as people read it; no minus before a zero."""
        shown = 100 * tick if self.is_rate else tick
        wide = (self.high - self.low) * (100 if self.is_rate else 1)
        digits = max(0, 1 - floor(log10(wide / 6)))
        written = f"{shown:.{digits}f}"
        # As few digits as tell the ticks apart.
        written = written.rstrip("0").rstrip(".") if "." in written else written
        return "0" if written in ("-0", "") else written


def scale_for(rows: Sequence[MetricRow]) -> Axis:
    """The axis from 0 that holds every value; only ratios of two rates need more than 1."""
    values = [e.value for row in rows for e in row.estimates if e is not None and e.is_rate]
    return Axis(0.0, max([1.0, *(value for value in values if value == value)]), is_rate=True)


def strip(
    row: MetricRow, columns: Sequence[Column], *, name: str, scale: Axis, bars: bool = False
) -> str:
    """One metric: a line for each scorer with its value and interval, and the chance level."""
    height = _LANE * len(columns) + 6
    drawn = [_grid(scale), _chance(row, scale)]
    for lane, (column, estimate) in enumerate(zip(columns, row.estimates, strict=True)):
        if estimate is not None and estimate.value == estimate.value:
            y = 3 + _LANE * lane + _LANE / 2
            drawn.append(_estimate(estimate, column, y=y, scale=scale, bar=bars))
    return (
        f'<svg class="strip" width="100%" height="{height}" role="img">'
        f"<title>{escape(name)}</title><desc>{escape(describe(row, columns))}</desc>"
        f"{''.join(drawn)}</svg>"
    )


def axis(scale: Axis) -> str:
    """The numbers under (or over) a column of strips."""
    texts = [
        f'<text x="{scale.place(tick)}" y="12" text-anchor="{_anchor(tick)}">{tick:.0%}</text>'
        for tick in _TICKS
    ]
    return (
        '<svg class="strip axis" width="100%" height="16" aria-hidden="true">'
        f"{''.join(texts)}</svg>"
    )


def _anchor(tick: float) -> str:
    return "start" if tick == 0 else "end" if tick == 1 else "middle"


def _grid(scale: Axis) -> str:
    places = [scale.place(tick) for tick in _TICKS]
    return "".join(_line(x, x, "0", "100%", "grid") for x in places)


def _chance(row: MetricRow, scale: Axis) -> str:
    levels = chance_levels(row.first) if row.first else ()
    return "".join(
        _line(scale.place(level), scale.place(level), "0", "100%", "chance") for level in levels
    )


def _estimate(estimate: Estimate, column: Column, *, y: float, scale: Axis, bar: bool) -> str:
    colour = colour_class(column)
    parts = []
    if bar:
        parts.append(
            f'<rect class="bar {colour}" x="0" y="{y - _LANE / 2 + 1:g}" '
            f'width="{scale.place(estimate.value)}" height="{_LANE - 2}"/>'
        )
    if estimate.low == estimate.low and estimate.high == estimate.high:
        ends = (scale.place(estimate.low), scale.place(estimate.high))
        parts.append(_line(*ends, f"{y:g}", f"{y:g}", f"whisker {colour}"))
    where = f'x="{scale.place(estimate.value)}" y="{y:g}"'
    parts.append(f'<svg {where} overflow="visible">{mark(column)}</svg>')
    return "".join(parts)


def _line(x1: str, x2: str, y1: str, y2: str, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>'


def describe(row: MetricRow, columns: Sequence[Column]) -> str:
    """What a strip shows, for readers who do not see it."""
    parts = [
        f"{column.label} {value_text(estimate)} {interval_text(estimate)}".strip()
        for column, estimate in zip(columns, row.estimates, strict=True)
        if estimate is not None
    ]
    chance = chance_text(row.first)
    return "; ".join([*parts, *([f"chance {chance}"] if chance != "–" else [])])


def mark(column: Column) -> str:
    """A scorer's mark, centred on the origin; blind baselines have hollow ones."""
    return f'<g class="mark {colour_class(column)}">{_MARKS[column.place % len(_MARKS)]}</g>'


def key(column: Column) -> str:
    """A scorer's mark alone, for legends and table heads."""
    return (
        '<svg class="key" width="14" height="14" aria-hidden="true">'
        f'<g transform="translate(7 7)">{mark(column)}</g></svg>'
    )


def colour_class(column: Column) -> str:
    """The class that gives a scorer its colour."""
    return "blind" if column.is_blind else f"s{column.place % COLOURS}"
