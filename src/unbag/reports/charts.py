"""SVG charts: axes, lines, bars, markers and labels. All text is escaped.

A chart on a page is as wide as the page: x positions are percentages and heights are pixels, so
that markers and text keep their size on any screen. A chart in its own file is in pixels. Colours
come from a style sheet by class (s0, s1 ... and blind), for dark mode and print; the shape of a
marker identifies a series as its colour does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from unbag.reports.formatting import chance_levels, chance_text, estimate_text
from unbag.reports.layout import Column, MetricRow

Length = float | str
"""Pixels, or a percentage of the width."""
COLOURS = 6
"""Number of colours before they repeat; the markers then still differ."""
_SHORTEST = 1e-6
"""Smallest axis range, so that equal numbers can be drawn."""
_ROOM = 0.06
"""Margin at each end of the axis, as a share of its range."""
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
    """Maps values to positions from 0 to 1."""

    low: float
    high: float
    is_rate: bool = False
    """Label the axis in percent."""

    @classmethod
    def over(
        cls,
        values: Iterable[float],
        *,
        is_rate: bool = False,
        room: float = _ROOM,
        shortest: float = _SHORTEST,
    ) -> Axis:
        """Return an axis that contains all finite values, with a margin at both ends."""
        finite = [value for value in values if isfinite(value)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        wide = max(high - low, shortest, 0.02 * abs(high))
        free = wide * room + (wide - (high - low)) / 2
        return cls(low - free, high + free, is_rate)

    @classmethod
    def of_rates(cls, values: Iterable[float]) -> Axis:
        """Return an axis from 0 to 1, or longer if a value lies outside."""
        finite = [value for value in values if isfinite(value)]
        if all(0 <= value <= 1 for value in finite):
            return cls(0.0, 1.0, is_rate=True)
        return cls.over([*finite, 0.0, 1.0], is_rate=True)

    def part(self, value: float) -> float:
        """Return the position of a value, from 0 to 1; values off the axis are clipped."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def place(self, value: float) -> str:
        """Return the position as a percentage, for SVG."""
        return f"{100 * self.part(value):.2f}%"

    def ticks(self) -> list[float]:
        """Return four to seven round numbers."""
        rough = (self.high - self.low) / 6
        size = 10.0 ** floor(log10(rough))
        step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= rough * 0.999)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def text(self, tick: float) -> str:
        """Format a tick label, without a minus sign before zero."""
        number = 100 * tick if self.is_rate else tick
        wide = (self.high - self.low) * (100 if self.is_rate else 1)
        digits = max(0, 1 - floor(log10(wide / 6)))
        text = f"{number:.{digits}f}"
        # As few digits as keep the ticks different.
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in ("-0", "") else text


UNIT = Axis(0.0, 1.0)


@dataclass(frozen=True)
class Panel:
    """A rectangle of a chart with a horizontal and a vertical axis."""

    across: Axis
    up: Axis = UNIT
    high: float = 0.0
    top: float = 0.0
    left: float = 0.0
    wide: float | None = None
    """None is the width of the page: x positions are then percentages."""

    def x(self, value: float) -> float:
        """Return the x position of a value in a chart in pixels."""
        assert self.wide is not None
        return self.left + self.wide * self.across.part(value)

    def place(self, value: float) -> Length:
        """Return the x position of a value in any chart."""
        return self.across.place(value) if self.wide is None else self.x(value)

    def y(self, value: float) -> float:
        """Return the y position of a value in pixels."""
        return self.top + self.high * (1 - self.up.part(value))

    @property
    def right(self) -> Length:
        """The right edge of the rectangle."""
        return "100%" if self.wide is None else self.left + self.wide

    @property
    def bottom(self) -> float:
        """The lower edge of the rectangle."""
        return self.top + self.high

    def upright(self, value: float, kind: str = "grid", *, to: float | None = None) -> str:
        """Draw a vertical line over the whole height, or down to `to`."""
        x = self.place(value)
        return line(x, x, self.top, self.bottom if to is None else to, kind)

    def level(self, value: float, kind: str = "grid") -> str:
        """Draw a horizontal line over the whole width."""
        return line(self.left, self.right, self.y(value), self.y(value), kind)

    def below(self, value: float, label: str, kind: str = "", *, gap: float = 15) -> str:
        """Draw text below a value; near the edges of a page it is aligned to stay inside."""
        part = self.across.part(value) if self.wide is None else 0.5
        anchor = "start" if part < 0.03 else "end" if part > 0.97 else "middle"
        return text(self.place(value), self.bottom + gap, label, kind, anchor=anchor)

    def ticks(self, values: Iterable[float] | None = None, *, gap: float = 15) -> str:
        """Draw vertical lines with labels at the given values, by default at the axis ticks."""
        return "".join(
            self.upright(tick) + self.below(tick, self.across.text(tick), gap=gap)
            for tick in (self.across.ticks() if values is None else values)
        )

    def marked(self, value: float, low: float, high: float, y: float, column: Column) -> str:
        """Draw the marker of a series at its value, with its interval if it has one."""
        return self.whisker(low, high, y, colour_class(column)) + at(
            self.place(value), y, mark(column)
        )

    def whisker(self, low: float, high: float, y: float, kind: str) -> str:
        """Draw a horizontal interval; empty if an end is not finite."""
        if not (isfinite(low) and isfinite(high)):
            return ""
        return line(self.place(low), self.place(high), y, y, f"whisker {kind}")

    def curve(self, points: Iterable[tuple[float, float]], kind: str, *, dashes: str = "") -> str:
        """Draw points joined by lines."""
        spots = [(self.place(x), self.y(y)) for x, y in points]
        if self.wide is None:
            # An SVG path cannot use percentages.
            return "".join(line(a, b, c, d, kind) for (a, c), (b, d) in pairwise(spots))
        return path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots), kind, dashes=dashes)


def element(
    name: str, inside: str = "", *, kind: str = "", said: str = "", **attributes: Length | None
) -> str:
    """Return an SVG element with its content, which is SVG; `said` is its tooltip."""
    inside = (f"<title>{escape(said)}</title>" if said else "") + inside
    all_attributes = {"class": kind or None} | attributes
    start = f"<{name}"
    for key, value in all_attributes.items():
        if value is not None:
            text = f"{value:.1f}" if isinstance(value, float) else escape(str(value))
            start += f' {key.rstrip("_").replace("_", "-")}="{text}"'
    return f"{start}>{inside}</{name}>" if inside else f"{start}/>"


def line(x1: Length, x2: Length, y1: Length, y2: Length, kind: str) -> str:
    """Draw a straight line."""
    return element("line", kind=kind, x1=x1, x2=x2, y1=y1, y2=y2)


def path(d: str, kind: str = "", *, dashes: str = "", said: str = "") -> str:
    """Draw a path."""
    return element("path", kind=kind, said=said, stroke_dasharray=dashes or None, d=d)


def box(x: Length, y: float, wide: Length, high: float, kind: str) -> str:
    """Draw a rectangle."""
    return element("rect", kind=kind, x=x, y=y, width=wide, height=high)


def dot(x: Length, y: float, size: float, kind: str, *, said: str = "") -> str:
    """Draw a filled circle."""
    return element("circle", kind=kind, said=said, cx=x, cy=y, r=f"{size:g}")


def text(
    x: Length,
    y: float,
    content: str,
    kind: str = "",
    *,
    anchor: str = "start",
    shift: int | None = None,
    colour: str = "",
) -> str:
    """Draw a line of text, anchored at its start, middle or end."""
    style = f"fill:{colour}" if colour else None
    name = kind or None
    return element(
        "text", escape(content), x=x, y=y, dx=shift, text_anchor=anchor, class_=name, style=style
    )


def at(x: Length, y: float, drawing: str, *, kind: str = "") -> str:
    """Move a drawing from the origin to a position."""
    if isinstance(x, str):
        return element("svg", drawing, kind=kind, x=x, y=y, overflow="visible")
    return element("g", drawing, kind=kind, transform=f"translate({x:.1f} {y:.1f})")


def page_chart(
    parts: Iterable[str], high: float, *, title: str = "", said: str = "", kind: str = "strip"
) -> str:
    """Return a chart as wide as its page; without a title it is hidden from screen readers."""
    size = f'class="{kind}" width="100%" height="{high:g}"'
    if not title:
        return f'<svg {size} aria-hidden="true">{"".join(parts)}</svg>'
    title_elements = f"<title>{escape(title)}</title>" + (
        f"<desc>{escape(said)}</desc>" if said else ""
    )
    return f'<svg {size} role="img">{title_elements}{"".join(parts)}</svg>'


def chart_file(
    parts: Iterable[str],
    wide: int,
    high: float,
    *,
    title: str,
    said: str,
    style: str,
    paper: str = "",
) -> str:
    """Return a chart as an SVG file; `paper` is a background colour for light and dark pages."""
    ground = element(
        "rect", kind="" if paper else "paper", width=wide, height=f"{high:.0f}", fill=paper or None
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high:.0f}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(said)}</desc><style>{style}</style>"
        f"{ground}{''.join(parts)}</svg>\n"
    )


def set_apart(heights: Mapping[str, float], least: float = 16.0) -> dict[str, float]:
    """Return label heights near the given heights, at least `least` apart, from the top."""
    placed, free = {}, 0.0
    for name in sorted(heights, key=lambda name: heights[name]):
        placed[name] = max(heights[name], free)
        free = placed[name] + least
    return placed


def scale_for(rows: Sequence[MetricRow]) -> Axis:
    """Return an axis from 0 to 1, or more for values above 1, such as ratios of rates."""
    values = [e.value for row in rows for e in row.estimates if e is not None and e.is_rate]
    return Axis(0.0, max([1.0, *(value for value in values if value == value)]), is_rate=True)


def strip(
    row: MetricRow, columns: Sequence[Column], *, name: str, scale: Axis, bars: bool = False
) -> str:
    """Draw one metric: the value and interval of each scorer, and the chance level."""
    panel = Panel(scale, high=_LANE * len(columns) + 6)
    levels = chance_levels(row.first) if row.first else ()
    drawn = [panel.upright(tick) for tick in _TICKS]
    drawn += [panel.upright(level, "chance") for level in levels]
    for lane, (column, estimate) in enumerate(zip(columns, row.estimates, strict=True)):
        if estimate is not None and estimate.value == estimate.value:
            y = 3 + _LANE * lane + _LANE / 2
            if bars:
                kind = f"bar {colour_class(column)}"
                end = scale.place(estimate.value)
                drawn.append(box(0, y - _LANE / 2 + 1, end, _LANE - 2, kind))
            drawn.append(panel.marked(estimate.value, estimate.low, estimate.high, y, column))
    return page_chart(drawn, panel.high, title=name, said=describe(row, columns))


def axis(scale: Axis) -> str:
    """Draw the tick labels of a column of strips."""
    panel = Panel(scale)
    texts = [panel.below(tick, f"{tick:.0%}", gap=12) for tick in _TICKS]
    return page_chart(texts, 16, kind="strip axis")


def describe(row: MetricRow, columns: Sequence[Column]) -> str:
    """Describe a strip in text, for screen readers."""
    parts = [
        f"{column.label} {estimate_text(estimate)}"
        for column, estimate in zip(columns, row.estimates, strict=True)
        if estimate is not None
    ]
    chance = chance_text(row.first)
    return "; ".join([*parts, *([f"chance {chance}"] if chance != "–" else [])])


def mark(column: Column) -> str:
    """Return a scorer's marker, centred on the origin; those of blind baselines are hollow."""
    return f'<g class="mark {colour_class(column)}">{_MARKS[column.place % len(_MARKS)]}</g>'


def key(drawing: str) -> str:
    """Return a marker for legends and table heads."""
    return (
        '<svg class="key" width="14" height="14" aria-hidden="true">'
        f'<g transform="translate(7 7)">{drawing}</g></svg>'
    )


def colour_class(column: Column) -> str:
    """Return the CSS class of a scorer's colour."""
    return "blind" if column.is_blind else f"s{column.place % COLOURS}"
