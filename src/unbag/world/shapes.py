"""From a shape's name and a radius in pixels to its mask, and to the few numbers geometry needs.

Dimensions: S = 2 * radius + 1 pixels across the shape's box.
"""

from __future__ import annotations

from functools import cache
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
    """Pixel (row, column) of the box is bit (row + 1) * BITS_A_ROW + column + 1."""
    wide_bits: int
    """The same, with every neighbour of a drawn pixel drawn too."""


@cache
def mask(shape: str, radius: int) -> BoolArray:
    """Which pixels of the box are drawn: read-only [S, S], the region sampled at pixel centres."""
    if shape not in FIGURES:
        raise unknown_name("shape", shape, FIGURES)
    steps_S = np.arange(-radius, radius + 1) / (radius + 0.5)
    x_SS, y_SS = np.meshgrid(steps_S, steps_S)
    drawn_SS = FIGURES[shape].contains(x_SS, y_SS)
    drawn_SS.setflags(write=False)
    return drawn_SS


@cache
def outline(shape: str, radius: int) -> Outline:
    """Reach, area and pixels of a shape."""
    rows, columns = np.nonzero(mask(shape, radius))
    places = [(int(r) + 1) * BITS_A_ROW + int(c) + 1 for r, c in zip(rows, columns, strict=True)]
    bits = sum(1 << place for place in places)
    wider = bits | bits << 1 | bits >> 1
    return Outline(
        left=int(columns.min()) - radius,
        top=int(rows.min()) - radius,
        right=int(columns.max()) - radius,
        bottom=int(rows.max()) - radius,
        area=len(rows),
        bits=bits,
        wide_bits=wider | wider << BITS_A_ROW | wider >> BITS_A_ROW,
    )


def overlap(first: int, second: int, *, dx: int, dy: int) -> int:
    """Pixels both cover when the second lies (dx, dy) from the first.

    Both are bits of outlines of one radius. Whoever calls makes sure that |dx| is at most the box's
    width, or rows would run together.
    """
    shift = dy * BITS_A_ROW + dx
    if shift >= 0:
        return (first & (second << shift)).bit_count()
    return ((first << -shift) & second).bit_count()
