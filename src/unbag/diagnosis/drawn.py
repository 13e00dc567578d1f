"""Scatters and curves come in; pieces of SVG go out, with every text escaped.

Places across are percentages and heights are pixels; numbers of the upright axis stand in a column
of their own beside the plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import isfinite

from unbag.diagnosis.axis import Axis
from unbag.probes.plots import Lines, Point, Scatter, Series
from unbag.reports.charts import COLOURS, mark
from unbag.reports.layout import Column

HIGH = 280
"""Of a plot, in pixels."""
MOST_POINTS = 1_500
"""Drawn of a scatter; a page with more is slow."""


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


def column_of(place: int, label: str = "") -> Column:
    """The mark and colour of the series at this place."""
    return Column(label, label, False, place)


def scatter(plot: Scatter, alike: Sequence[Scatter]) -> Drawing:
    """Points by group; the axes hold those of all plots that are shown beside each other."""
    points = [p for one in alike for p in one.points if isfinite(p.x) and isfinite(p.y)]
    heights = [height for one in alike for _, height in one.lines]
    across, up = Axis.over(p.x for p in points), Axis.over([*(p.y for p in points), *heights])
    groups = list(dict.fromkeys(p.group for one in alike for p in one.points))
    shown = [p for p in plot.points if isfinite(p.x) and isfinite(p.y)][:MOST_POINTS]
    parts = [_grid(across, up)]
    parts += [_dot(point, groups.index(point.group), across, up) for point in shown]
    parts += [_height(up, value, name) for name, value in plot.lines]
    said = f"{len(shown):,} points; {plot.y} over {plot.x}"
    more = len(plot.points) - len(shown)
    return Drawing(
        _svg("".join(parts), plot.title, said),
        _numbers(up),
        tuple((_dot_key(at), name) for at, name in enumerate(groups) if name),
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
    parts = [_grid(across, up, xs if are_layers else None)]
    if plot.chance is not None:
        parts.append(_height(up, plot.chance, "chance"))
    names = list(dict.fromkeys(series.name for series in every))
    parts += [_series(one, names.index(one.name), across, up) for one in plot.series]
    said = "; ".join(_said(one, plot.is_rate) for one in plot.series)
    return Drawing(
        _svg("".join(parts), plot.title, said),
        _numbers(up),
        tuple((_mark_key(at), name) for at, name in enumerate(names)),
    )


def _said(series: Series, is_rate: bool) -> str:
    shown = (f"{x:g}: {100 * y:.1f} %" if is_rate else f"{x:g}: {y:.3f}"
             for x, y in zip(series.x, series.y, strict=True))  # fmt: skip
    return f"{series.name} {', '.join(shown)}"


def _series(series: Series, place: int, across: Axis, up: Axis) -> str:
    spots = [
        (across.place(x), HIGH * (1 - up.part(y)))
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
            ends = (HIGH * (1 - up.part(low)), HIGH * (1 - up.part(high)))
            parts.append(
                f'<line class="whisker {colour}" x1="{across.place(x)}" x2="{across.place(x)}" '
                f'y1="{ends[0]:.1f}" y2="{ends[1]:.1f}"/>'
            )
    parts += [
        f'<svg x="{x}" y="{y:.1f}" overflow="visible">{mark(column_of(place))}</svg>'
        for x, y in spots
    ]
    return "".join(parts)


def _dot(point: Point, place: int, across: Axis, up: Axis) -> str:
    name = f"<title>{escape(point.name)}</title>" if point.name else ""
    return (
        f'<circle class="{_dot_class(place)}" cx="{across.place(point.x)}" '
        f'cy="{HIGH * (1 - up.part(point.y)):.1f}" r="3.2">{name}</circle>'
    )


def _dot_class(place: int) -> str:
    """Groups beyond the colours are hollow."""
    return f"dot s{place % COLOURS}{' hollow' if place // COLOURS % 2 else ''}"


def _dot_key(place: int) -> str:
    return _key(f'<circle class="{_dot_class(place)}" r="4"/>')


def _mark_key(place: int) -> str:
    return _key(mark(column_of(place)))


def _key(drawing: str) -> str:
    return (
        '<svg class="key" width="14" height="14" aria-hidden="true">'
        f'<g transform="translate(7 7)">{drawing}</g></svg>'
    )


def _grid(across: Axis, up: Axis, places: Sequence[float] | None = None) -> str:
    parts = []
    for tick in across.ticks() if places is None else places:
        x, part = across.place(tick), across.part(tick)
        anchor = "start" if part < 0.03 else "end" if part > 0.97 else "middle"
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{HIGH}"/>')
        parts.append(
            f'<text x="{x}" y="{HIGH + 15}" text-anchor="{anchor}">{across.text(tick)}</text>'
        )
    for tick in up.ticks():
        y = f"{HIGH * (1 - up.part(tick)):.1f}"
        parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
    return "".join(parts)


def _numbers(up: Axis) -> str:
    texts = "".join(
        f'<text x="100%" y="{HIGH * (1 - up.part(tick)) + 4:.1f}" text-anchor="end">'
        f"{up.text(tick)}</text>"
        for tick in up.ticks()
    )
    return f'<svg class="strip" width="100%" height="{HIGH + 20}" aria-hidden="true">{texts}</svg>'


def _height(up: Axis, value: float, name: str) -> str:
    """A named height."""
    y = HIGH * (1 - up.part(value))
    return (
        f'<line class="ref chance" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="reference" x="100%" y="{y - 4:.1f}" dx="-3" text-anchor="end">'
        f"{escape(name)}</text>"
    )


def _svg(body: str, title: str, said: str) -> str:
    return (
        f'<svg class="strip" width="100%" height="{HIGH + 20}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(said)}</desc>{body}</svg>"
    )
