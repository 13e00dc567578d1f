"""A measured curve comes in; a page with composition against recognition goes out.

As in `unbag.reports.charts`, places along the axis are percentages and heights are pixels, so that
the chart fits a phone without its letters changing size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

from unbag.reports.environment import environment
from unbag.reports.layout import LOWER_IS_BETTER
from unbag.train.curve import Curve, Point, points_text
from unbag.train.curve_shown import UNDER, difference_of, estimate_text, point_texts
from unbag.version import __version__

HIGH = 340
"""Of the plot, in pixels."""
MARGIN = 0.12
"""Free part of the axis at each end, where labels and numbers stand."""
LEAST = 0.02
"""Shortest axis, so that two equal points do not look far apart."""


@dataclass(frozen=True)
class Axis:
    """From values to a part of the way, 0 to 1."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Axis:
        """Holds all values, with room at both ends."""
        low, high = min(values), max(values)
        wide = max(high - low, LEAST)
        middle = (low + high) / 2
        half = wide / 2 / (1 - 2 * MARGIN)
        return cls(middle - half, middle + half)

    def part(self, value: float) -> float:
        """Where a value lies."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """About five round numbers; none above 1 or below 0."""
        rough = (self.high - self.low) / 6
        size = 10.0 ** floor(log10(rough))
        step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
        first, last = ceil(self.low / step), floor(self.high / step)
        return [k * step for k in range(first, last + 1) if -1e-9 <= k * step <= 1 + 1e-9]


def curve_page(curve: Curve) -> str:
    """One page without scripts or outside resources."""
    from markupsafe import Markup

    drawn = [p for p in curve.points if p.composition is not None and p.recognition is not None]
    rows = [
        (p.weight, p.weight == curve.choice.weight, point_texts(p, curve.points[0]))
        for p in curve.points
    ]
    return (
        environment()
        .get_template("curve.html")
        .render(
            version=__version__,
            curve=curve,
            chart=Markup(_chart(curve, drawn)) if drawn else "",  # noqa: S704 - escaped there
            rows=rows,
            under=UNDER,
            estimate_text=estimate_text,
            difference_of=difference_of,
            budget="" if curve.budget is None else points_text(curve.budget),
            lower_is_better=LOWER_IS_BETTER,
        )
    )


def _chart(curve: Curve, points: Sequence[Point]) -> str:
    """To the right more recognition, upwards more composition."""
    across = Axis.over([p.recognition for p in points if p.recognition is not None])
    up = Axis.over([p.composition for p in points if p.composition is not None])
    places = [
        (across.part(p.recognition or 0.0), HIGH * (1 - up.part(p.composition or 0.0)))
        for p in points
    ]
    parts = [_grid(across, up), _bound(curve, across)]
    for (x1, y1), (x2, y2) in pairwise(places):
        parts.append(_line(x1, x2, y1, y2, "path"))
    chosen = [p.weight == curve.choice.weight for p in points]
    parts += [_mark(place, is_chosen=is_it) for place, is_it in zip(places, chosen, strict=True)]
    names = [f"{p.weight:g}" for p in points]
    parts += [_label(*one) for one in _labels(names, places)]
    said = "; ".join(
        f"weight {p.weight:g}: recognition {100 * (p.recognition or 0):.1f}, composition "
        f"{100 * (p.composition or 0):.1f}"
        for p in points
    )
    return (
        f'<svg class="strip curve" width="100%" height="{HIGH + 22}" role="img">'
        "<title>Composition against recognition over the mixing weight</title>"
        f"<desc>{escape(said)}</desc>{''.join(parts)}</svg>"
    )


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return (
        f'<line class="{kind}" x1="{100 * x1:.2f}%" x2="{100 * x2:.2f}%" '
        f'y1="{y1:.1f}" y2="{y2:.1f}"/>'
    )


def _grid(across: Axis, up: Axis) -> str:
    parts = []
    for tick in across.ticks():
        x = across.part(tick)
        parts.append(_line(x, x, 0, HIGH, "grid"))
        parts.append(
            f'<text x="{100 * x:.2f}%" y="{HIGH + 16}" text-anchor="middle">{100 * tick:.4g}</text>'
        )
    for tick in up.ticks():
        y = HIGH * (1 - up.part(tick))
        parts.append(_line(0, 1, y, y, "grid"))
        parts.append(f'<text x="0" y="{y - 4:.1f}">{100 * tick:.4g}</text>')
    return "".join(parts)


def _bound(curve: Curve, across: Axis) -> str:
    """How little recognition a chosen weight may have, where that is on the axis."""
    base = curve.points[0].recognition
    if curve.budget is None or base is None:
        return ""
    x = across.part(base - curve.budget / 100)
    return _line(x, x, 0, HIGH, "chance") if 0 <= x <= 1 else ""


def _mark(place: tuple[float, float], *, is_chosen: bool) -> str:
    ring = '<circle class="ring" r="9"/>' if is_chosen else ""
    return (
        f'<svg x="{100 * place[0]:.2f}%" y="{place[1]:.1f}" overflow="visible">{ring}'
        '<g class="mark s0"><circle r="5"/></g></svg>'
    )


def _labels(
    names: Sequence[str], places: Sequence[tuple[float, float]]
) -> list[tuple[str, tuple[float, float]]]:
    """Points whose names would lie on each other share one name: the weights with commas."""
    found: list[tuple[str, tuple[float, float]]] = []
    for name, (x, y) in zip(names, places, strict=True):
        near = [i for i, (_, (a, b)) in enumerate(found) if abs(a - x) < 0.08 and abs(b - y) < 15]
        if near:
            others, place = found[near[0]]
            found[near[0]] = (f"{others}, {name}", place)
        else:
            found.append((name, (x, y)))
    return found


def _label(name: str, place: tuple[float, float]) -> str:
    return (
        f'<svg x="{100 * place[0]:.2f}%" y="{place[1]:.1f}" overflow="visible">'
        f'<text class="label" x="13" y="4">{escape(name)}</text></svg>'
    )
