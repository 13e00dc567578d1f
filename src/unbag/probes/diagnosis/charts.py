"""SVG for the page of a diagnosis: scatters, curves, bars and strips with labelled known values.

As in `unbag.reports.charts`, places along the axis are percentages and heights are pixels, so that
a plot fits a phone without its letters changing size; colours come from the style sheet by class.
Numbers of the upright axis stand in a column of their own beside the plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import isfinite

from unbag.probes.base import Known, Lines, Quantity, Scatter, ScatterPoint, Series
from unbag.probes.diagnosis.text import estimate_text
from unbag.reports.charts import COLOURS, Axis, colour_class, mark
from unbag.reports.formatting import and_list
from unbag.reports.layout import Column
from unbag.types import Estimate

PLOT_HIGH = 280
"""Of a plot, in pixels."""
MOST_POINTS = 1_500
"""Drawn of a scatter; a page with more is slow."""
STRIP_HIGH = 20
"""Of a strip, in pixels."""
ROW = 14
"""Of a line of labels."""


@dataclass(frozen=True)
class Drawing:
    """A plot and the numbers beside it."""

    body: str
    numbers: str
    """Of the upright axis."""
    legend: tuple[tuple[str, str], ...] = ()
    """A mark and what it stands for."""
    more: str = ""
    """What is not drawn."""


def scatter(plot: Scatter, alike: Sequence[Scatter]) -> Drawing:
    """Points by group; the axes hold those of all plots that are shown beside each other."""
    points = [p for one in alike for p in one.points if isfinite(p.x) and isfinite(p.y)]
    heights = [height for one in alike for _, height in one.lines]
    across, up = Axis.over(p.x for p in points), Axis.over([*(p.y for p in points), *heights])
    groups = list(dict.fromkeys(p.group for one in alike for p in one.points))
    shown = [p for p in plot.points if isfinite(p.x) and isfinite(p.y)][:MOST_POINTS]
    parts = [_plot_grid(across, up)]
    parts += [_dot(point, groups.index(point.group), across, up) for point in shown]
    parts += [_height(up, value, name) for name, value in plot.lines]
    said = f"{len(shown):,} points; {plot.y} over {plot.x}"
    more = len(plot.points) - len(shown)
    return Drawing(
        _plot_svg("".join(parts), plot.title, said),
        _plot_numbers(up),
        tuple(
            (_key(f'<circle class="{_dot_class(at)}" r="4"/>'), name)
            for at, name in enumerate(groups)
            if name
        ),
        f"{more:,} more points are not drawn." if more else "",
    )


def lines(plot: Lines, alike: Sequence[Lines]) -> Drawing:
    """Curves with the intervals of their points."""
    every = [series for one in alike for series in one.series]
    xs = sorted({x for series in every for x in series.x if isfinite(x)})
    ys = [y for series in every for some in (series.y, series.low, series.high) for y in some]
    ys += [one.chance for one in alike if one.chance is not None]
    across, up = Axis.over(xs), Axis.over(ys, is_rate=plot.is_rate)
    are_layers = len(xs) <= 14 and all(x == round(x) for x in xs)
    parts = [_plot_grid(across, up, xs if are_layers else None)]
    if plot.chance is not None:
        parts.append(_height(up, plot.chance, "chance"))
    names = list(dict.fromkeys(series.name for series in every))
    parts += [_series(one, names.index(one.name), across, up) for one in plot.series]
    said = "; ".join(_said(one, plot.is_rate) for one in plot.series)
    return Drawing(
        _plot_svg("".join(parts), plot.title, said),
        _plot_numbers(up),
        tuple((_key(mark(column_of(at))), name) for at, name in enumerate(names)),
    )


def _said(series: Series, is_rate: bool) -> str:
    shown = (f"{x:g}: {100 * y:.1f} %" if is_rate else f"{x:g}: {y:.3f}"
             for x, y in zip(series.x, series.y, strict=True))  # fmt: skip
    return f"{series.name} {', '.join(shown)}"


def _series(series: Series, place: int, across: Axis, up: Axis) -> str:
    spots = [
        (across.place(x), PLOT_HIGH * (1 - up.part(y)))
        for x, y in zip(series.x, series.y, strict=True)
        if isfinite(x) and isfinite(y)
    ]
    colour = f"s{place % COLOURS}"
    parts = [
        f'<line class="curve {colour}" x1="{a}" x2="{b}" y1="{c:.1f}" y2="{d:.1f}"/>'
        for (a, c), (b, d) in pairwise(spots)
    ]
    for x, low, high in zip(series.x, series.low, series.high, strict=False):
        if isfinite(low) and isfinite(high):
            ends = (PLOT_HIGH * (1 - up.part(low)), PLOT_HIGH * (1 - up.part(high)))
            parts.append(
                f'<line class="whisker {colour}" x1="{across.place(x)}" x2="{across.place(x)}" '
                f'y1="{ends[0]:.1f}" y2="{ends[1]:.1f}"/>'
            )
    parts += [
        f'<svg x="{x}" y="{y:.1f}" overflow="visible">{mark(column_of(place))}</svg>'
        for x, y in spots
    ]
    return "".join(parts)


def _dot(point: ScatterPoint, place: int, across: Axis, up: Axis) -> str:
    name = f"<title>{escape(point.name)}</title>" if point.name else ""
    return (
        f'<circle class="{_dot_class(place)}" cx="{across.place(point.x)}" '
        f'cy="{PLOT_HIGH * (1 - up.part(point.y)):.1f}" r="3.2">{name}</circle>'
    )


def _dot_class(place: int) -> str:
    """Groups beyond the colours are hollow."""
    return f"dot s{place % COLOURS}{' hollow' if place // COLOURS % 2 else ''}"


def _key(drawing: str) -> str:
    return (
        '<svg class="key" width="14" height="14" aria-hidden="true">'
        f'<g transform="translate(7 7)">{drawing}</g></svg>'
    )


def _plot_grid(across: Axis, up: Axis, places: Sequence[float] | None = None) -> str:
    parts = []
    for tick in across.ticks() if places is None else places:
        x = across.place(tick)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{PLOT_HIGH}"/>')
        parts.append(_tick(across, tick, y=PLOT_HIGH + 15))
    for tick in up.ticks():
        y = f"{PLOT_HIGH * (1 - up.part(tick)):.1f}"
        parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
    return "".join(parts)


def _plot_numbers(up: Axis) -> str:
    texts = "".join(
        f'<text x="100%" y="{PLOT_HIGH * (1 - up.part(tick)) + 4:.1f}" text-anchor="end">'
        f"{up.text(tick)}</text>"
        for tick in up.ticks()
    )
    high = PLOT_HIGH + 20
    return f'<svg class="strip" width="100%" height="{high}" aria-hidden="true">{texts}</svg>'


def _height(up: Axis, value: float, name: str) -> str:
    """A named height."""
    y = PLOT_HIGH * (1 - up.part(value))
    return (
        f'<line class="ref chance" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="reference" x="100%" y="{y - 4:.1f}" dx="-3" text-anchor="end">'
        f"{escape(name)}</text>"
    )


def _plot_svg(body: str, title: str, said: str) -> str:
    return (
        f'<svg class="strip" width="100%" height="{PLOT_HIGH + 20}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(said)}</desc>{body}</svg>"
    )


def strip(found: Estimate, column: Column, axis: Axis, known: Known, *, name: str) -> str:
    """One model: its mark with the interval, over lines of the references."""
    parts = [_strip_grid(axis), *(_line(axis, one) for one in references(known))]
    if found.value == found.value:
        parts.append(_marked(axis, found.value, found.low, found.high, column))
    said = escape(f"{column.label} {estimate_text(found)}")
    return (
        f'<svg class="strip" width="100%" height="{STRIP_HIGH}" role="img">'
        f"<title>{escape(name)}</title><desc>{said}</desc>{''.join(parts)}</svg>"
    )


def bar(
    axis: Axis, *, value: float, low: float, high: float, chance: float | None, column: Column
) -> str:
    """From 0 to a value, with its interval and chance."""
    parts = [_strip_grid(axis)]
    if chance is not None and chance == chance:
        parts.append(_line(axis, KnownValue(("chance",), chance)))
    if value == value:
        ends = sorted((axis.part(0.0), axis.part(value)))
        colour = colour_class(column)
        parts.append(
            f'<rect class="bar {colour}" x="{100 * ends[0]:.2f}%" y="4" '
            f'width="{100 * (ends[1] - ends[0]):.2f}%" height="{STRIP_HIGH - 8}"/>'
        )
        parts.append(_marked(axis, value, low, high, column))
    drawn = "".join(parts)
    return f'<svg class="strip" width="100%" height="{STRIP_HIGH}" aria-hidden="true">{drawn}</svg>'


def labels(quantity: Quantity, axis: Axis) -> str:
    """Each reference by name on a line of its own, so that none overlap, then ticks of the axis."""
    shown = references(quantity.known)
    below = ROW * len(shown)
    parts = [_tick(axis, tick, y=below + 12) for tick in axis.ticks()]
    for row, one in enumerate(shown, start=1):
        y = ROW * row - 3
        x, is_left = axis.place(one.value), axis.part(one.value) < 0.5
        anchor, shift = ("start", 5) if is_left else ("end", -5)
        text = f"{and_list(one.names)} {quantity.estimate.show(one.value)}"
        parts.append(_line(axis, one, to=y))
        parts.append(
            f'<text class="reference" x="{x}" y="{y}" dx="{shift}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )
    return (
        f'<svg class="strip" width="100%" height="{below + 16}" role="img">'
        f"<title>{escape(quantity.name)}, known values</title>{''.join(parts)}</svg>"
    )


def axis_ticks(axis: Axis) -> str:
    """The numbers under a column of strips."""
    texts = "".join(_tick(axis, tick) for tick in axis.ticks())
    return f'<svg class="strip" width="100%" height="16" aria-hidden="true">{texts}</svg>'


def axis_of(quantities: Sequence[Quantity]) -> Axis:
    """Holds values, intervals and references of one quantity over several models."""
    values = []
    for one in quantities:
        found, known = one.estimate, one.known
        given = (found.value, found.low, found.high, known.bag, known.perfect, known.chance)
        values += [value for value in given if value is not None]
    is_rate = any(one.estimate.is_rate for one in quantities)
    return Axis.of_rates(values) if is_rate else Axis.over(values)


@dataclass(frozen=True)
class KnownValue:
    """A value that is known beforehand."""

    names: tuple[str, ...]
    value: float

    @property
    def kind(self) -> str:
        """The class that gives it its line."""
        return {"bag of words": "bag", "perfect": "perfect"}.get(self.names[0], "chance")


def references(known: Known) -> tuple[KnownValue, ...]:
    """Equal ones share a line."""
    found: dict[float, tuple[str, ...]] = {}
    for name, value in (
        ("bag of words", known.bag),
        ("perfect", known.perfect),
        ("chance", known.chance),
    ):
        if value is not None and value == value:
            found[value] = (*found.get(value, ()), name)
    return tuple(KnownValue(names, value) for value, names in sorted(found.items()))


def _line(axis: Axis, one: KnownValue, *, to: float | None = None) -> str:
    x, end = axis.place(one.value), "100%" if to is None else f"{to:g}"
    return f'<line class="ref {one.kind}" x1="{x}" x2="{x}" y1="0" y2="{end}"/>'


def _marked(axis: Axis, value: float, low: float, high: float, column: Column) -> str:
    """The mark of a series at its value, over the interval where there is one."""
    middle = f"{STRIP_HIGH / 2:g}"
    whisker = ""
    if low == low and high == high:
        whisker = (
            f'<line class="whisker {colour_class(column)}" x1="{axis.place(low)}" '
            f'x2="{axis.place(high)}" y1="{middle}" y2="{middle}"/>'
        )
    where = f'x="{axis.place(value)}" y="{middle}"'
    return f'{whisker}<svg {where} overflow="visible">{mark(column)}</svg>'


def _tick(axis: Axis, tick: float, *, y: float = 11) -> str:
    part = axis.part(tick)
    anchor = "start" if part < 0.03 else "end" if part > 0.97 else "middle"
    return f'<text x="{axis.place(tick)}" y="{y:g}" text-anchor="{anchor}">{axis.text(tick)}</text>'


def _strip_grid(axis: Axis) -> str:
    return "".join(
        f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
        for x in (axis.place(tick) for tick in axis.ticks())
    )


def column_of(place: int, label: str = "") -> Column:
    """The mark and colour of the series at this place."""
    return Column(label, label, False, place)
