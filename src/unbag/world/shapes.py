"""From a shape's name and a radius in pixels to its mask, and to the few numbers geometry needs.

Dimensions: S = 2 * radius + 1 pixels across the shape's box.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unbag.errors import unknown_name
from unbag.types import BoolArray
from unbag.world.shapes_figures import FIGURES

BITS_A_ROW = 64
"""Rows of `Outline.bits` are this far apart, so that two masks moved sideways never wrap."""


class Outline(NamedTuple):
    """A drawn shape as seen from its centre: how far it reaches, and its pixels as one integer."""

    left: int
    top: int
    right: int
    bottom: int
    """Offsets of the outermost drawn pixels; left and top are negative or zero."""
    area: int
    bits: int
    """Pixel (row, column) of the box is bit row * BITS_A_ROW + column."""


@lru_cache(maxsize=None)
def mask(shape: str, radius: int) -> BoolArray:
    """Which pixels of the box are drawn: read-only [S, S], the region sampled at pixel centres."""
    if shape not in FIGURES:
        raise unknown_name("shape", shape, FIGURES)
    steps_S = np.arange(-radius, radius + 1) / (radius + 0.5)
    x_SS, y_SS = np.meshgrid(steps_S, steps_S)
    drawn_SS = FIGURES[shape].contains(x_SS, y_SS)
    drawn_SS.setflags(write=False)
    return drawn_SS


@lru_cache(maxsize=None)
def outline(shape: str, radius: int) -> Outline:
    """Reach, area and pixels of a shape."""
    rows, columns = np.nonzero(mask(shape, radius))
    bits = sum(1 << (int(r) * BITS_A_ROW + int(c)) for r, c in zip(rows, columns, strict=True))
    return Outline(
        left=int(columns.min()) - radius,
        top=int(rows.min()) - radius,
        right=int(columns.max()) - radius,
        bottom=int(rows.max()) - radius,
        area=len(rows),
        bits=bits,
    )


def overlap(first: Outline, second: Outline, *, dx: int, dy: int) -> int:
    """Pixels both cover when the second lies (dx, dy) from the first; both of one radius.

    Whoever calls makes sure that |dx| is below the box's width, or rows would run together.
    """
    shift = dy * BITS_A_ROW + dx
    if shift >= 0:
        return (first.bits & (second.bits << shift)).bit_count()
    return ((first.bits << -shift) & second.bits).bit_count()
