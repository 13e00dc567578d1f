"""One number of several models comes in; strips of SVG with labelled references go out.

As in `unbag.reports.charts`, places along the axis are percentages and heights are pixels, so that
a strip fits a phone without its letters changing size; colours come from the style sheet by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from unbag.diagnosis.axis import Axis
from unbag.diagnosis.wording import estimate_text
from unbag.probes.finding import Known, Quantity
from unbag.reports.charts import colour_class, mark
from unbag.reports.layout import Column
from unbag.reports.wording import and_list
from unbag.types import Estimate

HIGH = 20
"""Of a strip, in pixels."""
ROW = 14
"""Of a line of labels."""


@dataclass(frozen=True)
class Reference:
    """A value that is known beforehand."""

    names: tuple[str, ...]
    value: float

    @property
    def kind(self) -> str:
        """The class that gives it its line."""
        return {"bag of words": "bag", "perfect": "perfect"}.get(self.names[0], "chance")


def references(known: Known) -> tuple[Reference, ...]:
    """Equal ones share a line."""
    found: dict[float, tuple[str, ...]] = {}
    for name, value in (
        ("bag of words", known.bag),
        ("perfect", known.perfect),
        ("chance", known.chance),
    ):
        if value is not None and value == value:
            found[value] = (*found.get(value, ()), name)
    return tuple(Reference(names, value) for value, names in sorted(found.items()))


def axis_of(quantities: Sequence[Quantity]) -> Axis:
    """Holds values, intervals and references of one quantity over several models."""
    values = [v for one in quantities for v in _numbers(one)]
    is_rate = any(one.estimate.is_rate for one in quantities)
    return Axis.of_rates(values) if is_rate else Axis.over(values)


def _numbers(quantity: Quantity) -> list[float]:
    found, known = quantity.estimate, quantity.known
    given = [found.value, found.low, found.high, known.bag, known.perfect, known.chance]
    return [value for value in given if value is not None]


def strip(found: Estimate, column: Column, axis: Axis, known: Known, *, name: str) -> str:
    """One model: its mark with the interval, over lines of the references."""
    parts = [_grid(axis), *(_line(axis, one) for one in references(known))]
    if found.value == found.value:
        middle = f"{HIGH / 2:g}"
        if found.low == found.low and found.high == found.high:
            parts.append(
                f'<line class="whisker {colour_class(column)}" x1="{axis.place(found.low)}" '
                f'x2="{axis.place(found.high)}" y1="{middle}" y2="{middle}"/>'
            )
        where = f'x="{axis.place(found.value)}" y="{middle}"'
        parts.append(f'<svg {where} overflow="visible">{mark(column)}</svg>')
    said = escape(f"{column.label} {estimate_text(found)}")
    return (
        f'<svg class="strip" width="100%" height="{HIGH}" role="img">'
        f"<title>{escape(name)}</title><desc>{said}</desc>{''.join(parts)}</svg>"
    )


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


def bar(
    axis: Axis, *, value: float, low: float, high: float, chance: float | None, column: Column
) -> str:
    """From 0 to a value, with its interval and chance."""
    parts = [_grid(axis)]
    if chance is not None and chance == chance:
        parts.append(_line(axis, Reference(("chance",), chance)))
    if value == value:
        ends = sorted((axis.part(0.0), axis.part(value)))
        colour = colour_class(column)
        parts.append(
            f'<rect class="bar {colour}" x="{100 * ends[0]:.2f}%" y="4" '
            f'width="{100 * (ends[1] - ends[0]):.2f}%" height="{HIGH - 8}"/>'
        )
        if low == low and high == high:
            parts.append(
                f'<line class="whisker {colour}" x1="{axis.place(low)}" x2="{axis.place(high)}" '
                f'y1="{HIGH / 2:g}" y2="{HIGH / 2:g}"/>'
            )
        where = f'x="{axis.place(value)}" y="{HIGH / 2:g}"'
        parts.append(f'<svg {where} overflow="visible">{mark(column)}</svg>')
    return (
        f'<svg class="strip" width="100%" height="{HIGH}" aria-hidden="true">{"".join(parts)}</svg>'
    )


def _tick(axis: Axis, tick: float, *, y: float = 11) -> str:
    part = axis.part(tick)
    anchor = "start" if part < 0.03 else "end" if part > 0.97 else "middle"
    return f'<text x="{axis.place(tick)}" y="{y:g}" text-anchor="{anchor}">{axis.text(tick)}</text>'


def _grid(axis: Axis) -> str:
    return "".join(
        f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
        for x in (axis.place(tick) for tick in axis.ticks())
    )


def _line(axis: Axis, one: Reference, *, to: float | None = None) -> str:
    x, end = axis.place(one.value), "100%" if to is None else f"{to:g}"
    return f'<line class="ref {one.kind}" x1="{x}" x2="{x}" y1="0" y2="{end}"/>'
