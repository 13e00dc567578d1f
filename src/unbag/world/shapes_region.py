"""Regions of the plane from simple figures, joined with | and cut with -; out come boolean grids.

A shape lives on the square [-1, 1] x [-1, 1]; x grows to the right, y grows downwards.
Dimensions: H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from unbag.types import BoolArray, FloatArray

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the plane, known by asking which points it contains."""

    contains: Callable[[FloatArray, FloatArray], BoolArray]
    """From x_HW and y_HW to inside_HW."""

    def __or__(self, other: Region) -> Region:
        """What lies in either."""
        return Region(lambda x, y: self.contains(x, y) | other.contains(x, y))

    def __and__(self, other: Region) -> Region:
        """What lies in both."""
        return Region(lambda x, y: self.contains(x, y) & other.contains(x, y))

    def __sub__(self, other: Region) -> Region:
        """What lies in the first only."""
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


def polygon(*corners: Point) -> Region:
    """A simple polygon, by counting the edges crossed on the way to the right."""

    def contains(x: FloatArray, y: FloatArray) -> BoolArray:
        inside = np.zeros(x.shape, dtype=np.bool_)
        for (xa, ya), (xb, yb) in zip(corners, corners[1:] + corners[:1], strict=True):
            if ya == yb:
                continue
            crosses = (ya > y) != (yb > y)
            inside ^= crosses & (x < xa + (y - ya) * (xb - xa) / (yb - ya))
        return inside

    return Region(contains)


def stroke(*points: Point, width: float) -> Region:
    """A line of the given width with round ends through all points."""

    def contains(x: FloatArray, y: FloatArray) -> BoolArray:
        inside = np.zeros(x.shape, dtype=np.bool_)
        for (xa, ya), (xb, yb) in pairwise(points):
            length2 = (xb - xa) ** 2 + (yb - ya) ** 2
            along = np.clip(((x - xa) * (xb - xa) + (y - ya) * (yb - ya)) / length2, 0.0, 1.0)
            distance2 = (x - xa - along * (xb - xa)) ** 2 + (y - ya - along * (yb - ya)) ** 2
            inside |= distance2 <= (width / 2) ** 2
        return inside

    return Region(contains)


def mirrored(region: Region) -> Region:
    """The region together with its mirror image, left for right."""
    return region | Region(lambda x, y: region.contains(-x, y))
