"""Plots of one or two models come in; what a template shows of them side by side goes out."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isfinite
from typing import TYPE_CHECKING

from unbag.diagnosis import drawn, strips
from unbag.diagnosis.axis import Axis
from unbag.diagnosis.drawn import Drawing, column_of
from unbag.probes.plots import Bars, Grid, Lines, Maps, Plot, Scatter, WordMap
from unbag.types import Estimate

if TYPE_CHECKING:
    from markupsafe import Markup

NEAR = (255, 120, 0)
"""Colour of patches that are near to a word; it is seen on dark and on light pictures."""
AGAINST = (0, 130, 255)
"""Of those that speak against it, where numbers have a sign."""
STRONGEST = 190
"""How much of it, of 255, where the word is nearest."""


@dataclass(frozen=True)
class BarView:
    """One bar."""

    name: str
    text: str
    note: str
    drawing: Markup


@dataclass(frozen=True)
class CellView:
    """A share, and how strongly its cell is coloured."""

    text: str
    share: str


@dataclass(frozen=True)
class TileView:
    """A word, and a glow over the patches that are near to it."""

    word: str
    glow: str
    """As a data: address."""
    text: str
    whole: str = ""


@dataclass(frozen=True)
class SideView:
    """What one model has; only the part that belongs to the kind of plot is filled."""

    model: str
    body: Markup | None = None
    numbers: Markup | None = None
    bars: tuple[BarView, ...] = ()
    axis: Markup | None = None
    cells: tuple[tuple[str, tuple[CellView, ...]], ...] = ()
    tiles: tuple[TileView, ...] = ()
    picture: str = ""
    is_signed: bool = False
    when: str = ""
    asked: str = ""
    anchor: str = ""
    more: str = ""


@dataclass(frozen=True)
class PlotView:
    """One plot of all models that have it."""

    kind: str
    title: str
    about: str
    across: str
    up: str
    sides: tuple[SideView, ...]
    legend: tuple[tuple[Markup, str], ...] = ()
    columns: tuple[str, ...] = ()
    caption: str = ""


def plot_views(sides: Sequence[tuple[str, Sequence[Plot]]], start: int = 0) -> tuple[PlotView, ...]:
    """Plots of the same kind and title stand beside each other, a side a model."""
    found: dict[tuple[type[Plot], str, str], list[tuple[str, Plot]]] = {}
    for model, plots in sides:
        for plot in plots:
            caption = plot.caption if isinstance(plot, Maps) else ""
            title = "" if isinstance(plot, Maps) else plot.title
            found.setdefault((type(plot), title, caption), []).append((model, plot))
    return tuple(_view(some, f"map-{start + at}") for at, some in enumerate(found.values()))


def _view(some: Sequence[tuple[str, Plot]], anchor: str) -> PlotView:
    first = some[0][1]
    if isinstance(first, Scatter):
        every = [plot for _, plot in some if isinstance(plot, Scatter)]
        drawings = [drawn.scatter(plot, every) for plot in every]
        return _drawing_view("plot", first, some, drawings)
    if isinstance(first, Lines):
        alike = [plot for _, plot in some if isinstance(plot, Lines)]
        return _drawing_view("plot", first, some, [drawn.lines(plot, alike) for plot in alike])
    if isinstance(first, Bars):
        return _bars_view(first, [(name, plot) for name, plot in some if isinstance(plot, Bars)])
    if isinstance(first, Grid):
        return _grid_view(first, [(name, plot) for name, plot in some if isinstance(plot, Grid)])
    maps = [(name, plot) for name, plot in some if isinstance(plot, Maps)]
    return _maps_view(maps, anchor)


def _drawing_view(
    kind: str,
    first: Scatter | Lines,
    some: Sequence[tuple[str, Plot]],
    drawings: Sequence[Drawing],
) -> PlotView:
    from markupsafe import Markup

    # Built by `drawn`, which escapes.
    sides = tuple(
        SideView(name, Markup(one.body), Markup(one.numbers), more=one.more)  # noqa: S704
        for (name, _), one in zip(some, drawings, strict=True)
    )
    keys = dict.fromkeys(pair for one in drawings for pair in one.legend)
    legend = tuple((Markup(key), name) for key, name in keys)  # noqa: S704
    return PlotView(kind, first.title, first.about, first.x, first.y, sides, legend)


def _bars_view(first: Bars, some: Sequence[tuple[str, Bars]]) -> PlotView:
    from markupsafe import Markup

    every = [bar for _, plot in some for bar in plot.bars]
    values = [v for bar in every for v in (bar.value, bar.low, bar.high, bar.chance or 0.0, 0.0)]
    axis = Axis.of_rates(values) if first.is_rate else Axis.over(values)
    sides = []
    for place, (name, plot) in enumerate(some):
        bars = tuple(
            BarView(
                bar.name,
                _bar_text(bar.value, bar.low, bar.high, is_rate=plot.is_rate),
                bar.note,
                Markup(  # noqa: S704 - built by strips, which escapes
                    strips.bar(
                        axis,
                        value=bar.value,
                        low=bar.low,
                        high=bar.high,
                        chance=bar.chance,
                        column=column_of(place),
                    )
                ),
            )
            for bar in plot.bars
        )
        sides.append(SideView(name, bars=bars, axis=Markup(strips.axis_ticks(axis))))  # noqa: S704
    return PlotView("bars", first.title, first.about, "", "", tuple(sides))


def _bar_text(value: float, low: float, high: float, *, is_rate: bool) -> str:
    from unbag.diagnosis.wording import estimate_text

    return estimate_text(Estimate(value, low, high, 0, is_rate=is_rate))


def _grid_view(first: Grid, some: Sequence[tuple[str, Grid]]) -> PlotView:
    sides = tuple(
        SideView(
            name,
            cells=tuple(
                (row, tuple(_cell(value) for value in values))
                for row, values in zip(plot.rows, plot.values, strict=True)
            ),
        )
        for name, plot in some
    )
    names = (first.column_name, first.row_name)
    return PlotView("grid", first.title, first.about, *names, sides, columns=first.columns)


def _cell(value: float) -> CellView:
    if not isfinite(value):
        return CellView("–", "0")
    return CellView(f"{100 * value:.0f}", f"{min(max(value, 0.0), 1.0):.3f}")


def _maps_view(some: Sequence[tuple[str, Maps]], anchor: str) -> PlotView:
    sides = []
    for at, (name, plot) in enumerate(some):
        # One width of scale for all words, so that a word that is nowhere looks flat.
        wide = max((_high(one) - _start(one, plot) for one in plot.maps), default=0.0)
        if plot.is_signed:
            wide = max([wide, *(-_low(one) for one in plot.maps)])
        tiles = tuple(
            TileView(one.word, _glow(one, _start(one, plot), wide), _range(one, wide), one.whole)
            for one in plot.maps
        )
        sides.append(
            SideView(
                name,
                tiles=tiles,
                picture=plot.picture,
                is_signed=plot.is_signed,
                when=plot.when,
                asked=plot.asked,
                anchor=f"{anchor}-{at}",
            )
        )
    first = some[0][1]
    return PlotView("maps", "", first.about, "", "", tuple(sides), caption=first.caption)


def _range(one: WordMap, wide: float) -> str:
    """Shares of many patches, and what one patch does to a cosine, are small numbers."""
    digits = 2 if wide >= 0.2 else 3 if wide >= 0.01 else 4
    # Nothing has no sign.
    low, high = (round(value, digits) + 0.0 for value in (_low(one), _high(one)))
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _start(one: WordMap, plot: Maps) -> float:
    """The number that is not coloured."""
    return 0.0 if plot.is_signed else _low(one)


def _low(one: WordMap) -> float:
    return min(map(min, one.values))


def _high(one: WordMap) -> float:
    return max(map(max, one.values))


def _glow(one: WordMap, start: float, wide: float) -> str:
    """A tiny picture, a pixel a patch: the nearer the word, the stronger."""
    from PIL import Image

    image = Image.new("RGBA", (len(one.values[0]), len(one.values)))
    for y, row in enumerate(one.values):
        for x, value in enumerate(row):
            strength = (value - start) / wide if wide > 0 else 0.0
            colour = NEAR if strength >= 0 else AGAINST
            image.putpixel((x, y), (*colour, round(STRONGEST * abs(strength))))
    buffer = BytesIO()
    image.save(buffer, format="PNG")
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
