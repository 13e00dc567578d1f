"""Shapes: masks by hand, differences between shapes, outlines and regions."""

from itertools import combinations

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.world.shapes import FIGURES, box, disc, mask, mirrored, outline, overlap, polygon, stroke
from unbag.world.vocabulary import DEFAULT, UNIT, World

LOPSIDED = {
    *("moon", "arrow", "house", "fish", "cup", "key", "flag", "boat", "umbrella", "mushroom"),
    *("hammer", "car", "bolt", "chair", "snake", "boot", "leaf"),
}
SYMMETRIC = [shape for shape in DEFAULT.shapes if shape not in LOPSIDED]


def test_every_shape_has_a_figure() -> None:
    assert set(FIGURES) == set(DEFAULT.shapes)


@pytest.mark.parametrize("world", [DEFAULT, UNIT], ids=lambda world: world.name)
def test_shapes_are_clearly_different(world: World) -> None:
    for radius in world.radii.values():
        cells = (2 * radius + 1) ** 2
        smallest = min(
            int((mask(a, radius) ^ mask(b, radius)).sum()) for a, b in combinations(world.shapes, 2)
        )
        assert smallest >= 0.1 * cells


@pytest.mark.parametrize("shape", DEFAULT.shapes)
def test_shapes_fill_their_box(shape: str) -> None:
    for radius in DEFAULT.radii.values():
        drawn = mask(shape, radius)
        assert drawn.shape == (2 * radius + 1, 2 * radius + 1)
        assert drawn.mean() >= 0.12
        reach = outline(shape, radius)
        span = max(reach.right - reach.left, reach.bottom - reach.top) + 1
        assert span >= 0.85 * (2 * radius + 1)
        assert abs(reach.left + reach.right) <= 4
        assert abs(reach.top + reach.bottom) <= 4


@pytest.mark.parametrize("shape", SYMMETRIC)
def test_symmetric_shapes(shape: str) -> None:
    for radius in DEFAULT.radii.values():
        differs = mask(shape, radius) ^ mask(shape, radius)[:, ::-1]
        # An edge that runs through pixel centres may cost a pixel or two on one side.
        assert differs.sum() <= 0.05 * mask(shape, radius).sum()


def test_masks_by_hand() -> None:
    assert mask("square", 3).all()
    cross = mask("cross", 3)
    assert cross[3].all()
    assert cross[:, 3].all()
    assert cross.sum() == 13
    assert mask("circle", 3).sum() == 37
    assert np.array_equal(mask("pillar", 5), mask("bar", 5).T)
    assert mask("key", 7) is mask("key", 7)
    with pytest.raises(ValueError, match="read-only"):
        mask("key", 7)[0, 0] = True
    with pytest.raises(UnbagError, match="unknown shape 'cirle'"):
        mask("cirle", 7)


def test_outline_agrees_with_the_mask() -> None:
    reach = outline("bar", 10)
    assert (reach.left, reach.right, reach.top, reach.bottom) == (-10, 10, -4, 4)
    assert reach.area == 21 * 9 == reach.bits.bit_count()
    assert reach.wide_bits.bit_count() == 23 * 11


@pytest.mark.parametrize(("dx", "dy"), [(0, 0), (3, 5), (-3, 5), (6, -2), (-20, -20), (20, 1)])
def test_overlap_counts_shared_pixels(dx: int, dy: int) -> None:
    canvas = np.zeros((2, 80, 80), dtype=bool)
    canvas[0, 30:51, 30:51] = mask("star", 10)
    canvas[1, 30 + dy : 51 + dy, 30 + dx : 51 + dx] = mask("moon", 10)
    star, moon = outline("star", 10), outline("moon", 10)
    assert overlap(star.bits, moon.bits, dx=dx, dy=dy) == canvas.all(axis=0).sum()


def test_regions() -> None:
    x, y = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5))
    assert box(-0.5, -1, 0, 1).contains(x, y).sum() == 10
    assert disc(0, 0, 0.6).contains(x, y).sum() == 5
    assert (disc(0, 0, 0.6) - box(-0.1, -0.1, 0.1, 0.1)).contains(x, y).sum() == 4
    assert (disc(0, 0, 0.6) & box(-1, 0, 1, 1)).contains(x, y).sum() == 4
    assert mirrored(box(0.4, -1, 0.6, 1)).contains(x, y).sum() == 10
    assert polygon("-0.6,-0.6 0.6,-0.6 0.6,0.6 -0.6,0.6").contains(x, y).sum() == 9
    line = stroke("-1,0 1,0", width=0.2) | stroke("0,0 0,1", width=0.2)
    assert line.contains(x, y).sum() == 7
