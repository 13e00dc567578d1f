"""The shapes of the world: regions of the plane, their pixel masks and outlines.

A region is defined on the square [-1, 1] x [-1, 1]; x grows to the right, y grows downwards.
Dimensions: H rows, W columns, S = 2 * radius + 1 pixels across the shape's box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from unbag.errors import unknown_name
from unbag.types import BoolArray, FloatArray

BITS_A_ROW = 64
"""Bits per row of `Outline.bits`: wide enough that masks shifted sideways never wrap."""


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
    """The outline of a drawn shape: extent, area and pixels."""
    rows, columns = np.nonzero(mask(shape, radius))
    places = [(int(r) + 1) * BITS_A_ROW + int(c) + 1 for r, c in zip(rows, columns, strict=True)]
    bits = sum(1 << place for place in places)
    widened = bits | bits << 1 | bits >> 1
    return Outline(
        left=int(columns.min()) - radius,
        top=int(rows.min()) - radius,
        right=int(columns.max()) - radius,
        bottom=int(rows.max()) - radius,
        area=len(rows),
        bits=bits,
        wide_bits=widened | widened << BITS_A_ROW | widened >> BITS_A_ROW,
    )


class Outline(NamedTuple):
    """A drawn shape relative to its centre: its extent, and its pixels as one integer."""

    left: int
    top: int
    right: int
    bottom: int
    """Offsets of the outermost drawn pixels. Left and top are negative or zero."""
    area: int
    bits: int
    """Pixel (row, column) of the box is bit (row + 1) * BITS_A_ROW + column + 1."""
    wide_bits: int
    """The same, with the neighbours of every drawn pixel added."""


def overlap(first: int, second: int, *, dx: int, dy: int) -> int:
    """Number of pixels that both shapes cover when the second lies (dx, dy) from the first.

    Both are `Outline.bits` of one radius. The caller ensures that |dx| is at most the width of the
    box; otherwise rows would wrap into each other.
    """
    shift = dy * BITS_A_ROW + dx
    if shift >= 0:
        return (first & (second << shift)).bit_count()
    return ((first << -shift) & second).bit_count()


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the plane, defined by a test of which points it contains."""

    contains: Callable[[FloatArray, FloatArray], BoolArray]
    """From x_HW and y_HW to inside_HW."""

    def __or__(self, other: Region) -> Region:
        """Union."""
        return Region(lambda x, y: self.contains(x, y) | other.contains(x, y))

    def __and__(self, other: Region) -> Region:
        """Intersection."""
        return Region(lambda x, y: self.contains(x, y) & other.contains(x, y))

    def __sub__(self, other: Region) -> Region:
        """Difference: the points of the first region only."""
        return Region(lambda x, y: self.contains(x, y) & ~other.contains(x, y))


def ellipse(x0: float, y0: float, across: float, down: float) -> Region:
    """An ellipse from its centre and its two half axes."""
    return Region(lambda x, y: ((x - x0) / across) ** 2 + ((y - y0) / down) ** 2 <= 1.0)


def disc(x0: float, y0: float, radius: float) -> Region:
    """A disc."""
    return ellipse(x0, y0, radius, radius)


def box(left: float, top: float, right: float, bottom: float) -> Region:
    """An upright rectangle."""
    return Region(lambda x, y: (x >= left) & (x <= right) & (y >= top) & (y <= bottom))


def polygon(points: str) -> Region:
    """A simple polygon given by its corners. Points are tested by counting edges to their right."""
    corners = _points(points)

    def contains(x: FloatArray, y: FloatArray) -> BoolArray:
        inside = np.zeros(x.shape, dtype=np.bool_)
        for (xa, ya), (xb, yb) in zip(corners, corners[1:] + corners[:1], strict=True):
            if ya == yb:
                continue
            crosses = (ya > y) != (yb > y)
            inside ^= crosses & (x < xa + (y - ya) * (xb - xa) / (yb - ya))
        return inside

    return Region(contains)


def stroke(points: str, *, width: float) -> Region:
    """A polyline through the points, with the given width and round ends."""

    def contains(x: FloatArray, y: FloatArray) -> BoolArray:
        inside = np.zeros(x.shape, dtype=np.bool_)
        for (xa, ya), (xb, yb) in pairwise(_points(points)):
            length2 = (xb - xa) ** 2 + (yb - ya) ** 2
            along = np.clip(((x - xa) * (xb - xa) + (y - ya) * (yb - ya)) / length2, 0.0, 1.0)
            distance2 = (x - xa - along * (xb - xa)) ** 2 + (y - ya - along * (yb - ya)) ** 2
            inside |= distance2 <= (width / 2) ** 2
        return inside

    return Region(contains)


def _points(text: str) -> list[tuple[float, float]]:
    """Parse coordinates in the format of SVG: "x,y x,y ..."."""
    pairs = [point.split(",") for point in text.split()]
    return [(float(x), float(y)) for x, y in pairs]


def mirrored(region: Region) -> Region:
    """The region together with its mirror image, left for right."""
    return region | Region(lambda x, y: region.contains(-x, y))


FIGURES: dict[str, Region] = {
    # Plain geometric shapes and signs.
    "circle": disc(0.0, 0.0, 1.0),
    "square": box(-0.9, -0.9, 0.9, 0.9),
    "triangle": polygon("0,-1.05 1.05,0.95 -1.05,0.95"),
    "cross": box(-0.28, -1.0, 0.28, 1.0) | box(-1.0, -0.28, 1.0, 0.28),
    "ring": disc(0.0, 0.0, 1.0) - disc(0.0, 0.0, 0.55),
    "diamond": polygon("0,-1.05 0.82,0 0,1.05 -0.82,0"),
    "bar": box(-1.0, -0.42, 1.0, 0.42),
    "pillar": box(-0.42, -1.0, 0.42, 1.0),
    "star": polygon(
        "0,-1.1 0.3,-0.36 1.05,-0.3 0.47,0.2 0.68,1 0,0.58 -0.68,1 -0.47,0.2 -1.05,-0.3 -0.3,-0.36"
    ),
    "heart": mirrored(disc(0.53, -0.42, 0.48))
    | polygon("-0.94,-0.2 0,1.04 0.94,-0.2 0.4,-0.4 0,-0.36 -0.4,-0.4"),
    "moon": disc(0.0, 0.0, 1.0) - disc(0.48, -0.12, 0.78),
    "arrow": polygon("-1,-0.21 0.1,-0.21 0.1,-0.88 1.04,0 0.1,0.88 0.1,0.21 -1,0.21"),
    "bolt": polygon("0.05,-1 -0.75,0.22 -0.12,0.22 -0.42,1.04 0.75,-0.32 0.12,-0.32 0.55,-1"),
    "drop": disc(0.0, 0.33, 0.66) | polygon("0,-1.03 0.62,0.1 -0.62,0.1"),
    "crown": (
        polygon("-0.85,0.85 -1,-0.6 -0.45,0.1 0,-0.85 0.45,0.1 1,-0.6 0.85,0.85")
        | mirrored(disc(0.86, -0.6, 0.16))
        | disc(0.0, -0.8, 0.16)
    )
    - box(-1.0, 0.44, 1.0, 0.56),
    "flag": box(-0.87, -1.0, -0.6, 1.0)
    | polygon("-0.6,-0.93 1.02,-0.93 0.6,-0.33 1.02,0.27 -0.6,0.27"),
    "gear": (
        disc(0.0, 0.0, 0.7)
        | box(-0.22, -1.0, 0.22, 1.0)
        | box(-1.0, -0.22, 1.0, 0.22)
        | stroke("-0.6,-0.6 0.6,0.6", width=0.4)
        | stroke("-0.6,0.6 0.6,-0.6", width=0.4)
    )
    - disc(0.0, 0.0, 0.3),
    "hourglass": polygon("-0.62,-0.85 0.62,-0.85 0.1,0 -0.1,0")
    | polygon("-0.1,0 0.1,0 0.62,0.85 -0.62,0.85")
    | box(-0.8, -1.0, 0.8, -0.78)
    | box(-0.8, 0.78, 0.8, 1.0),
    # Buildings, vehicles, furniture and clothes.
    "house": (
        polygon("0,-1.03 1.05,-0.1 -1.05,-0.1")
        | box(-0.75, -0.1, 0.75, 0.98)
        | box(0.42, -0.98, 0.7, -0.3)
    )
    - box(-0.2, 0.38, 0.2, 1.0),
    "boat": polygon("-1,0.42 1,0.42 0.62,0.98 -0.62,0.98")
    | box(-0.08, -1.0, 0.08, 0.42)
    | polygon("0.18,-1 0.95,0.22 0.18,0.22")
    | polygon("-0.2,-0.6 -0.2,0.22 -0.8,0.22"),
    "car": (
        box(-1.0, -0.12, 1.0, 0.42)
        | polygon("-0.72,-0.08 -0.42,-0.68 0.38,-0.68 0.74,-0.08")
        | mirrored(disc(0.53, 0.5, 0.33))
    )
    - (
        polygon("-0.46,-0.12 -0.28,-0.5 -0.08,-0.5 -0.08,-0.12")
        | polygon("0.08,-0.12 0.08,-0.5 0.26,-0.5 0.48,-0.12")
        | mirrored(disc(0.53, 0.53, 0.1))
    ),
    "rocket": (
        (ellipse(0.0, 0.05, 0.44, 1.08) & box(-1.0, -1.0, 1.0, 0.68))
        | mirrored(polygon("0.3,0 0.88,0.55 0.88,0.92 0.3,0.65"))
        | polygon("-0.3,0.76 0.3,0.76 0,1.2")
    )
    - box(-0.15, -0.42, 0.15, -0.12),
    "chair": box(-0.72, -1.0, -0.42, 1.0) | box(-0.72, -0.05, 0.7, 0.24) | box(0.42, 0.0, 0.7, 1.0),
    "table": box(-1.0, -0.62, 1.0, -0.28) | mirrored(box(0.56, -0.3, 0.84, 0.9)),
    "boot": box(-0.62, -1.0, 0.14, 0.72)
    | (ellipse(0.25, 0.72, 0.75, 0.52) & box(-0.62, -1.0, 1.0, 0.72))
    | box(-0.62, 0.66, 1.0, 0.84)
    | box(-0.62, 0.8, -0.2, 1.0),
    "hat": (box(-1.0, 0.5, 1.0, 0.82) | box(-0.62, -0.85, 0.62, 0.5))
    - box(-0.62, 0.14, 0.62, 0.28),
    "envelope": box(-1.0, -0.68, 1.0, 0.68) - mirrored(stroke("1.1,-0.66 0,0.16", width=0.15)),
    "robot": (
        box(-0.74, -0.55, 0.74, 0.98)
        | mirrored(box(0.74, -0.1, 1.0, 0.42))
        | box(-0.08, -0.9, 0.08, -0.5)
        | disc(0.0, -0.85, 0.16)
    )
    - (mirrored(box(0.2, -0.2, 0.48, 0.1)) | box(-0.42, 0.48, 0.42, 0.64)),
    "candle": box(-0.3, -0.22, 0.3, 0.8)
    | (disc(0.0, -0.56, 0.25) | polygon("0,-1.12 0.22,-0.62 -0.22,-0.62"))
    | box(-0.72, 0.74, 0.72, 1.0),
    "lamp": polygon("-0.42,-1 0.42,-1 0.9,-0.02 -0.9,-0.02")
    | box(-0.1, 0.0, 0.1, 0.8)
    | box(-0.52, 0.74, 0.52, 1.0),
    # Tools and household things.
    "cup": box(-0.95, -0.7, 0.42, 0.6)
    | box(-0.82, 0.6, 0.28, 0.8)
    | (ellipse(0.46, -0.06, 0.54, 0.52) - ellipse(0.46, -0.06, 0.27, 0.26)),
    "key": (disc(-0.54, -0.05, 0.48) - disc(-0.55, -0.03, 0.22))
    | box(-0.12, -0.21, 1.0, 0.14)
    | box(0.3, 0.0, 0.6, 0.56)
    | box(0.78, 0.0, 1.0, 0.56),
    "bell": disc(0.0, -0.84, 0.17)
    | ellipse(0.0, -0.1, 0.68, 0.76)
    | box(-0.68, -0.1, 0.68, 0.35)
    | box(-0.95, 0.3, 0.95, 0.56)
    | (disc(0.0, 0.74, 0.27) & box(-1.0, 0.68, 1.0, 1.0)),
    "anchor": (disc(0.0, -0.72, 0.3) - disc(0.0, -0.72, 0.12))
    | box(-0.12, -0.5, 0.12, 0.9)
    | box(-0.5, -0.36, 0.5, -0.14)
    | ((disc(0.0, 0.08, 0.92) - disc(0.0, 0.0, 0.7)) & box(-1.0, 0.25, 1.0, 1.0))
    | mirrored(polygon("0.86,-0.1 1.05,0.45 0.5,0.35")),
    "umbrella": (
        (disc(0.0, 0.05, 1.05) & box(-1.0, -1.0, 1.0, 0.12))
        - (mirrored(disc(0.66, 0.2, 0.32)) | disc(0.0, 0.2, 0.32))
    )
    | box(-0.14, -0.2, 0.14, 0.86)
    | (box(-0.14, 0.72, 0.55, 1.0) - box(0.15, 0.6, 0.3, 0.8))
    | box(0.3, 0.55, 0.55, 1.0),
    "bottle": (
        box(-0.24, -1.0, 0.24, -0.82)
        | box(-0.17, -0.9, 0.17, -0.2)
        | ellipse(0.0, -0.05, 0.52, 0.35)
        | box(-0.52, -0.05, 0.52, 1.0)
    )
    - box(-0.3, 0.22, 0.3, 0.62),
    "hammer": box(-0.85, -0.98, 0.3, -0.36)
    | polygon("0.2,-0.98 0.98,-0.5 0.86,-0.34 0.2,-0.5")
    | box(-0.42, -0.5, -0.1, 1.0),
    "ladder": mirrored(box(0.36, -1.0, 0.62, 1.0))
    | box(-0.4, -0.78, 0.4, -0.58)
    | box(-0.4, -0.3, 0.4, -0.1)
    | box(-0.4, 0.18, 0.4, 0.38)
    | box(-0.4, 0.66, 0.4, 0.86),
    "spoon": ellipse(0.0, -0.46, 0.48, 0.56) | box(-0.14, 0.0, 0.14, 1.0),
    "fork": mirrored(box(0.3, -1.0, 0.56, -0.2))
    | box(-0.1, -1.0, 0.1, -0.2)
    | (ellipse(0.0, -0.3, 0.56, 0.42) & box(-1.0, -0.3, 1.0, 1.0))
    | box(-0.14, 0.0, 0.14, 1.0),
    # Plants, animals and a ghost.
    "tree": polygon("0,-1.1 0.72,-0.02 -0.72,-0.02")
    | polygon("0,-0.55 1.02,0.64 -1.02,0.64")
    | box(-0.18, 0.6, 0.18, 1.0),
    "fish": (ellipse(-0.25, 0.0, 0.75, 0.6) | polygon("0.25,0 1,-0.64 0.82,0 1,0.64"))
    - disc(-0.55, -0.14, 0.11),
    "mushroom": (
        (ellipse(0.0, 0.05, 1.0, 1.05) & box(-1.0, -1.0, 1.0, 0.08))
        | box(-0.3, 0.0, 0.3, 0.7)
        | ellipse(0.0, 0.7, 0.4, 0.3)
    )
    - (disc(-0.48, -0.3, 0.16) | disc(0.1, -0.62, 0.16) | disc(0.52, -0.22, 0.16)),
    "snake": (
        stroke(
            "-0.55,0.84 0.3,0.84 0.62,0.68 0.68,0.42 0.5,0.18 "
            "-0.35,0 -0.66,-0.2 -0.7,-0.46 -0.5,-0.7 0.1,-0.72",
            width=0.3,
        )
        | polygon("-1.05,0.62 -0.5,0.7 -0.5,0.98")
        | ellipse(0.36, -0.68, 0.46, 0.32)
        | stroke("0.7,-0.62 1,-0.36", width=0.14)
        | stroke("0.7,-0.66 1,-0.66", width=0.12)
    )
    - disc(0.4, -0.79, 0.1),
    "butterfly": mirrored(
        ellipse(0.62, -0.4, 0.4, 0.48)
        | ellipse(0.52, 0.48, 0.34, 0.42)
        | box(0.0, -0.15, 0.4, 0.22)
        | stroke("0.05,-0.6 0.2,-0.95", width=0.13)
    )
    | box(-0.09, -0.68, 0.09, 0.85),
    "flower": (
        (
            disc(0.0, -0.76, 0.27)
            | mirrored(disc(0.5, -0.42, 0.28))
            | mirrored(disc(0.3, 0.08, 0.28))
            | disc(0.0, -0.3, 0.4)
        )
        - disc(0.0, -0.3, 0.2)
    )
    | box(-0.1, 0.1, 0.1, 1.0)
    | mirrored(stroke("0.05,0.92 0.45,0.68", width=0.24)),
    "leaf": (
        (disc(-0.35, -0.35, 1.14) & disc(0.35, 0.35, 1.14)) | stroke("-0.5,0.5 -0.9,0.9", width=0.2)
    )
    - stroke("-0.5,0.5 0.4,-0.4", width=0.12),
    "ghost": (disc(0.0, -0.22, 0.78) | box(-0.78, -0.22, 0.78, 1.0))
    - mirrored(box(0.15, -0.46, 0.42, -0.08))
    - mirrored(polygon("0.27,0.6 0.5,1.06 0.04,1.06")),
}
"""The regions of all shapes, by name."""
