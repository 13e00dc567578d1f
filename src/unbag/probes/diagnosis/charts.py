"""Charts of a diagnosis: scatters, curves, bars and strips with labelled known values.

Numbers of the upright axis stand in a column of their own beside a plot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan

from unbag.probes.base import Known, Lines, Quantity, Scatter, Series
from unbag.reports.charts import (
    COLOURS,
    Axis,
    Panel,
    at,
    box,
    colour_class,
    dot,
    element,
    key,
    line,
    mark,
    page_chart,
    text,
)
from unbag.reports.formatting import and_list, estimate_text, number_text
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
    panel = Panel(across, up, high=PLOT_HIGH)
    groups = list(dict.fromkeys(p.group for one in alike for p in one.points))
    # Groups beyond the colours are hollow.
    kinds = [
        f"dot s{place % COLOURS}{' hollow' if place // COLOURS % 2 else ''}"
        for place in range(len(groups))
    ]
    shown = [p for p in plot.points if isfinite(p.x) and isfinite(p.y)][:MOST_POINTS]
    parts = [
        dot(panel.place(one.x), panel.y(one.y), 3.2, kinds[groups.index(one.group)], said=one.name)
        for one in shown
    ]
    parts += [_height(panel, value, name) for name, value in plot.lines]
    more = len(plot.points) - len(shown)
    return Drawing(
        _plot(panel, parts, plot.title, f"{len(shown):,} points; {plot.y} over {plot.x}"),
        _plot_numbers(panel),
        tuple(
            (key(element("circle", kind=kind, r="4")), name)
            for name, kind in zip(groups, kinds, strict=True)
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
    panel = Panel(Axis.over(xs), Axis.over(ys, is_rate=plot.is_rate), high=PLOT_HIGH)
    are_layers = len(xs) <= 14 and all(x == round(x) for x in xs)
    parts = [_height(panel, plot.chance, "chance")] if plot.chance is not None else []
    names = list(dict.fromkeys(series.name for series in every))
    parts += [_series(one, column_of(names.index(one.name)), panel) for one in plot.series]
    said = "; ".join(_said(one, plot.is_rate) for one in plot.series)
    return Drawing(
        _plot(panel, parts, plot.title, said, places=xs if are_layers else None),
        _plot_numbers(panel),
        tuple((key(mark(column_of(place))), name) for place, name in enumerate(names)),
    )


def _said(series: Series, is_rate: bool) -> str:
    unit = " %" if is_rate else ""
    shown = (
        f"{x:g}: {number_text(y, is_rate=is_rate)}{unit}"
        for x, y in zip(series.x, series.y, strict=True)
    )
    return f"{series.name} {', '.join(shown)}"


def _series(series: Series, column: Column, panel: Panel) -> str:
    colour = colour_class(column)
    known = [(x, y) for x, y in zip(series.x, series.y, strict=True) if isfinite(x) and isfinite(y)]
    parts = [panel.curve(known, f"curve {colour}")]
    for x, low, high in zip(series.x, series.low, series.high, strict=False):
        if isfinite(low) and isfinite(high):
            place = panel.place(x)
            parts.append(line(place, place, panel.y(low), panel.y(high), f"whisker {colour}"))
    return "".join([*parts, *(at(panel.place(x), panel.y(y), mark(column)) for x, y in known)])


def _plot(
    panel: Panel,
    parts: Iterable[str],
    title: str,
    said: str,
    *,
    places: Sequence[float] | None = None,
) -> str:
    levels = (panel.level(tick) for tick in panel.up.ticks())
    drawn = [panel.ticks(places), *levels, *parts]
    return page_chart(drawn, PLOT_HIGH + 20, title=title, said=said)


def _plot_numbers(panel: Panel) -> str:
    ticks = panel.up.ticks()
    texts = (text("100%", panel.y(one) + 4, panel.up.text(one), anchor="end") for one in ticks)
    return page_chart(texts, PLOT_HIGH + 20)


def _height(panel: Panel, value: float, name: str) -> str:
    """A named height."""
    named = text("100%", panel.y(value) - 4, name, "reference", anchor="end", shift=-3)
    return panel.level(value, "ref chance") + named


def strip(found: Estimate, column: Column, axis: Axis, known: Known, *, name: str) -> str:
    """One model: its mark with the interval, over lines of the references."""
    panel = Panel(axis, high=STRIP_HIGH)
    parts = [panel.upright(tick) for tick in axis.ticks()]
    parts += [panel.upright(one.value, f"ref {one.kind}") for one in references(known)]
    if not isnan(found.value):
        parts.append(panel.marked(found.value, found.low, found.high, STRIP_HIGH / 2, column))
    said = f"{column.label} {estimate_text(found, with_unit=True)}"
    return page_chart(parts, STRIP_HIGH, title=name, said=said)


def bar(
    axis: Axis, *, value: float, low: float, high: float, chance: float | None, column: Column
) -> str:
    """From 0 to a value, with its interval and chance."""
    panel = Panel(axis, high=STRIP_HIGH)
    parts = [panel.upright(tick) for tick in axis.ticks()]
    if chance is not None and not isnan(chance):
        parts.append(panel.upright(chance, "ref chance"))
    if not isnan(value):
        start, end = sorted((axis.part(0.0), axis.part(value)))
        wide = f"{100 * (end - start):.2f}%"
        kind = f"bar {colour_class(column)}"
        parts.append(box(f"{100 * start:.2f}%", 4, wide, STRIP_HIGH - 8, kind))
        parts.append(panel.marked(value, low, high, STRIP_HIGH / 2, column))
    return page_chart(parts, STRIP_HIGH)


def labels(quantity: Quantity, axis: Axis) -> str:
    """Each reference by name on a line of its own, so that none overlap, then ticks of the axis."""
    shown = references(quantity.known)
    panel = Panel(axis, high=ROW * len(shown))
    parts = [panel.below(tick, axis.text(tick), gap=12) for tick in axis.ticks()]
    for row, one in enumerate(shown, start=1):
        y = ROW * row - 3
        anchor, shift = ("start", 5) if axis.part(one.value) < 0.5 else ("end", -5)
        said = f"{and_list(one.names)} {quantity.estimate.show(one.value)}"
        parts.append(panel.upright(one.value, f"ref {one.kind}", to=y))
        parts.append(text(panel.place(one.value), y, said, "reference", anchor=anchor, shift=shift))
    return page_chart(parts, panel.high + 16, title=f"{quantity.name}, known values")


def axis_ticks(axis: Axis) -> str:
    """The numbers under a column of strips."""
    panel = Panel(axis)
    return page_chart((panel.below(tick, axis.text(tick), gap=11) for tick in axis.ticks()), 16)


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


def column_of(place: int, label: str = "") -> Column:
    """The mark and colour of the series at this place."""
    return Column(label, label, False, place)
