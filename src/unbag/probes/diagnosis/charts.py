"""Charts of a diagnosis: scatters, curves, bars, and strips with labelled known values.

The numbers of the vertical axis are in a separate column beside a plot.
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
"""Height of a plot in pixels."""
MAX_POINTS = 1_500
"""Maximum number of points of a scatter; pages with more are slow."""
STRIP_HIGH = 20
"""Height of a strip in pixels."""
ROW = 14
"""Height of a line of labels in pixels."""


@dataclass(frozen=True)
class Drawing:
    """A plot with the numbers of its axis."""

    body: str
    numbers: str
    """Numbers of the vertical axis."""
    legend: tuple[tuple[str, str], ...] = ()
    """Marks with their meaning."""
    more: str = ""
    """A note on what is not drawn."""


def scatter(plot: Scatter, plots: Sequence[Scatter]) -> Drawing:
    """Draw points by group, with axes that fit all plots side by side."""
    points = [p for each in plots for p in each.points if isfinite(p.x) and isfinite(p.y)]
    line_heights = [height for each in plots for _, height in each.lines]
    across, up = Axis.over(p.x for p in points), Axis.over([*(p.y for p in points), *line_heights])
    panel = Panel(across, up, high=PLOT_HIGH)
    groups = list(dict.fromkeys(p.group for each in plots for p in each.points))
    # Groups beyond the number of colours have hollow dots.
    kinds = [
        f"dot s{place % COLOURS}{' hollow' if place // COLOURS % 2 else ''}"
        for place in range(len(groups))
    ]
    drawn = [p for p in plot.points if isfinite(p.x) and isfinite(p.y)][:MAX_POINTS]
    parts = [
        dot(panel.place(p.x), panel.y(p.y), 3.2, kinds[groups.index(p.group)], said=p.name)
        for p in drawn
    ]
    parts += [_height(panel, value, name) for name, value in plot.lines]
    omitted = len(plot.points) - len(drawn)
    return Drawing(
        _plot(panel, parts, plot.title, f"{len(drawn):,} points; {plot.y} over {plot.x}"),
        _plot_numbers(panel),
        tuple(
            (key(element("circle", kind=kind, r="4")), name)
            for name, kind in zip(groups, kinds, strict=True)
            if name
        ),
        f"{omitted:,} more points are not drawn." if omitted else "",
    )


def lines(plot: Lines, plots: Sequence[Lines]) -> Drawing:
    """Draw curves with the intervals of their points."""
    all_series = [series for each in plots for series in each.series]
    xs = sorted({x for series in all_series for x in series.x if isfinite(x)})
    ys = [
        y for series in all_series for values in (series.y, series.low, series.high) for y in values
    ]
    ys += [each.chance for each in plots if each.chance is not None]
    panel = Panel(Axis.over(xs), Axis.over(ys, is_rate=plot.is_rate), high=PLOT_HIGH)
    are_layers = len(xs) <= 14 and all(x == round(x) for x in xs)
    parts = [_height(panel, plot.chance, "chance")] if plot.chance is not None else []
    names = list(dict.fromkeys(series.name for series in all_series))
    parts += [_series(series, column_of(names.index(series.name)), panel) for series in plot.series]
    description = "; ".join(_description(series, plot.is_rate) for series in plot.series)
    return Drawing(
        _plot(panel, parts, plot.title, description, places=xs if are_layers else None),
        _plot_numbers(panel),
        tuple((key(mark(column_of(place))), name) for place, name in enumerate(names)),
    )


def _description(series: Series, is_rate: bool) -> str:
    unit = " %" if is_rate else ""
    points = (
        f"{x:g}: {number_text(y, is_rate=is_rate)}{unit}"
        for x, y in zip(series.x, series.y, strict=True)
    )
    return f"{series.name} {', '.join(points)}"


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
    description: str,
    *,
    places: Sequence[float] | None = None,
) -> str:
    levels = (panel.level(tick) for tick in panel.up.ticks())
    drawn = [panel.ticks(places), *levels, *parts]
    return page_chart(drawn, PLOT_HIGH + 20, title=title, said=description)


def _plot_numbers(panel: Panel) -> str:
    ticks = panel.up.ticks()
    texts = (text("100%", panel.y(tick) + 4, panel.up.text(tick), anchor="end") for tick in ticks)
    return page_chart(texts, PLOT_HIGH + 20)


def _height(panel: Panel, value: float, name: str) -> str:
    """Draw a named horizontal line."""
    named = text("100%", panel.y(value) - 4, name, "reference", anchor="end", shift=-3)
    return panel.level(value, "ref chance") + named


def strip(estimate: Estimate, column: Column, axis: Axis, known: Known, *, name: str) -> str:
    """Draw the mark and interval of one model over the lines of the references."""
    panel = Panel(axis, high=STRIP_HIGH)
    parts = [panel.upright(tick) for tick in axis.ticks()]
    parts += [
        panel.upright(reference.value, f"ref {reference.kind}") for reference in references(known)
    ]
    if not isnan(estimate.value):
        parts.append(
            panel.marked(estimate.value, estimate.low, estimate.high, STRIP_HIGH / 2, column)
        )
    description = f"{column.label} {estimate_text(estimate, with_unit=True)}"
    return page_chart(parts, STRIP_HIGH, title=name, said=description)


def bar(
    axis: Axis, *, value: float, low: float, high: float, chance: float | None, column: Column
) -> str:
    """Draw a bar from 0 to a value, with its interval and chance."""
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
    """Label each reference on a line of its own, then the ticks of the axis."""
    references_shown = references(quantity.known)
    panel = Panel(axis, high=ROW * len(references_shown))
    parts = [panel.below(tick, axis.text(tick), gap=12) for tick in axis.ticks()]
    for row, reference in enumerate(references_shown, start=1):
        y = ROW * row - 3
        anchor, shift = ("start", 5) if axis.part(reference.value) < 0.5 else ("end", -5)
        label = f"{and_list(reference.names)} {quantity.estimate.show(reference.value)}"
        parts.append(panel.upright(reference.value, f"ref {reference.kind}", to=y))
        parts.append(
            text(panel.place(reference.value), y, label, "reference", anchor=anchor, shift=shift)
        )
    return page_chart(parts, panel.high + 16, title=f"{quantity.name}, known values")


def axis_ticks(axis: Axis) -> str:
    """Draw the numbers below a column of strips."""
    panel = Panel(axis)
    return page_chart((panel.below(tick, axis.text(tick), gap=11) for tick in axis.ticks()), 16)


def axis_of(quantities: Sequence[Quantity]) -> Axis:
    """Return an axis for values, intervals and references of one quantity of several models."""
    values = []
    for quantity in quantities:
        estimate, known = quantity.estimate, quantity.known
        numbers = (
            estimate.value,
            estimate.low,
            estimate.high,
            known.bag,
            known.perfect,
            known.chance,
        )
        values += [value for value in numbers if value is not None]
    is_rate = any(quantity.estimate.is_rate for quantity in quantities)
    return Axis.of_rates(values) if is_rate else Axis.over(values)


@dataclass(frozen=True)
class KnownValue:
    """A value of reference models."""

    names: tuple[str, ...]
    value: float

    @property
    def kind(self) -> str:
        """CSS class of its line."""
        return {"bag of words": "bag", "perfect": "perfect"}.get(self.names[0], "chance")


def references(known: Known) -> tuple[KnownValue, ...]:
    """Return the known values, with the names of equal ones joined."""
    names_of_value: dict[float, tuple[str, ...]] = {}
    for name, value in (
        ("bag of words", known.bag),
        ("perfect", known.perfect),
        ("chance", known.chance),
    ):
        if value is not None and value == value:
            names_of_value[value] = (*names_of_value.get(value, ()), name)
    return tuple(KnownValue(names, value) for value, names in sorted(names_of_value.items()))


def column_of(place: int, label: str = "") -> Column:
    """Return the column with the mark and colour of the series at this place."""
    return Column(label, label, False, place)
