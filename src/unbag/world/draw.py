"""From a scene to its image: pure, in whole numbers, the same bytes on every machine.

Dimensions: H rows, W columns, 3 colour channels, S pixels across a shape's box, K drawn pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import erf, sqrt
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UserError
from unbag.types import BoolArray, IntArray
from unbag.world.scene import Scene, is_inside, scene_key
from unbag.world.shapes import mask
from unbag.world.words import WORLDS, Texture

if TYPE_CHECKING:
    from PIL.Image import Image

ImageArray: TypeAlias = NDArray[np.uint8]

BACKGROUND = (24, 24, 28)
NOISE = 6.0
"""Standard deviation of the noise, in grey levels of 255 (methods.md 12.1)."""
DARK, BRIGHT = 60, 100
"""Brightness of the two parts of a texture, in percent."""


class Sprite(NamedTuple):
    """The drawn pixels of a shape in a texture, as seen from its centre."""

    row_K: IntArray
    column_K: IntArray
    percent_K: IntArray
    """Brightness."""


@dataclass(frozen=True)
class ScenePicture:
    """A picture of the world: drawn when opened, known by its scene."""

    scene: Scene
    name: str

    @property
    def key(self) -> str:
        """Hash of the scene's record."""
        return f"scene:{scene_key(self.scene)}"

    def open(self) -> Image:
        """Draw the scene."""
        from PIL import Image

        return Image.fromarray(draw(self.scene))


def draw(scene: Scene, *, with_noise: bool = True) -> ImageArray:
    """The scene as an image [H, W, 3]."""
    pixels = WORLDS[scene.world].pixels
    image_HW3 = np.empty((pixels, pixels, 3), dtype=np.int16)
    image_HW3[:] = BACKGROUND
    for thing in scene.things:
        if not is_inside(thing, WORLDS[scene.world]):
            raise UserError(
                f"a {thing.shape} at ({thing.x}, {thing.y}) leaves the canvas",
                expected=f"it lies within {pixels} x {pixels}",
            )
        pixel = sprite(thing.shape, WORLDS[scene.world].radii[thing.size], thing.texture)
        drawn_K3 = (pixel.percent_K[:, None] * np.array(thing.rgb) + 50) // 100
        image_HW3[pixel.row_K + thing.y, pixel.column_K + thing.x] = drawn_K3
    if with_noise:
        image_HW3 += noise(scene.noise_seed, image_HW3.size).reshape(image_HW3.shape)
    return image_HW3.clip(0, 255).astype(np.uint8)


@cache
def sprite(shape: str, radius: int, texture: Texture) -> Sprite:
    """Where a shape is drawn and how brightly."""
    row_K, column_K = np.nonzero(mask(shape, radius))
    percent_K = np.where(_is_dark(texture, row_K, column_K), DARK, BRIGHT)
    return Sprite(row_K - radius, column_K - radius, percent_K)


def _is_dark(texture: Texture, row_K: IntArray, column_K: IntArray) -> BoolArray:
    """The darker part of a texture; all repeat every 4 pixels, counted from the box's corner."""
    dark_K: dict[Texture, BoolArray] = {
        "plain": np.zeros(row_K.shape, dtype=np.bool_),
        "striped": (row_K + column_K) % 4 < 2,
        "dotted": (row_K % 4 < 2) & (column_K % 4 < 2),
        "checkered": (row_K % 4 < 2) == (column_K % 4 < 2),
    }
    return dark_K[texture]


def noise(seed: int, n: int) -> NDArray[np.int16]:
    """Whole numbers from a Gaussian of standard deviation NOISE, the same for ever.

    NumPy promises the raw bits of PCG64 but not the way from bits to normal numbers, so that way
    is ours: 16 bits each, looked up in the table of `gaussian`.
    """
    words = np.asarray(np.random.PCG64(seed).random_raw((n + 3) // 4)).astype("<u8")
    chance: NDArray[np.uint16] = words.view("<u2")[:n]
    return gaussian(NOISE).take(chance)


@cache
def gaussian(deviation: float) -> NDArray[np.int16]:
    """A rounded Gaussian as a table of 65,536 equally likely values, in growing order."""
    most = int(5 * deviation)
    edges = [
        round(65536 * (0.5 + 0.5 * erf((value + 0.5) / (deviation * sqrt(2.0)))))
        for value in range(-most - 1, most + 1)
    ]
    table = np.repeat(np.arange(-most, most + 1, dtype=np.int16), np.diff(edges))
    table.setflags(write=False)
    return table


def pixel_difference(first: ImageArray, second: ImageArray) -> float:
    """Mean absolute difference of two images, in grey levels of 255."""
    return float(np.abs(first.astype(np.int64) - second.astype(np.int64)).mean())
