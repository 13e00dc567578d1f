"""Renders scenes: one at a time with numpy (the same bytes on every machine), or many with torch.

Dimensions: K drawn pixels of a shape, or kinds of sprite (shape x size x texture) in a table, S
pixels across a sprite, N scenes, T things a scene can hold, M things of all scenes, H rows, W
columns, 3 colour channels, P pixels of a padded canvas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import erf, sqrt
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UnbagError
from unbag.types import BoolArray, IntArray
from unbag.world.scenes import Scene, is_inside, scene_key
from unbag.world.shapes import mask
from unbag.world.vocabulary import MAX_THINGS, WORLDS, Size, Texture, World

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
    from torch import Tensor


ImageArray: TypeAlias = NDArray[np.uint8]
BACKGROUND = (24, 24, 28)
NOISE = 6.0
"""Standard deviation of the noise, in grey levels of 255 (methods.md 12.1)."""
DARK, BRIGHT = 60, 100
"""Brightness of the two parts of a texture, in percent."""
_SIZES: tuple[Size, ...] = get_args(Size)
_TEXTURES: tuple[Texture, ...] = get_args(Texture)


@dataclass(frozen=True)
class SceneImage:
    """An image of the world: rendered when opened, identified by its scene."""

    scene: Scene
    name: str

    @property
    def key(self) -> str:
        """Hash of the scene."""
        return f"scene:{scene_key(self.scene)}"

    def open(self) -> Image:
        """Render the scene."""
        from PIL import Image

        return Image.fromarray(draw(self.scene))


def draw(scene: Scene, *, with_noise: bool = True) -> ImageArray:
    """Render the scene as an array [H, W, 3]."""
    pixels = WORLDS[scene.world].pixels
    image_HW3 = np.empty((pixels, pixels, 3), dtype=np.int16)
    image_HW3[:] = BACKGROUND
    for thing in scene.things:
        if not is_inside(thing, WORLDS[scene.world]):
            raise UnbagError(
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
    """The pixels of a shape and their brightness."""
    row_K, column_K = np.nonzero(mask(shape, radius))
    percent_K = np.where(_is_dark(texture, row_K, column_K), DARK, BRIGHT)
    return Sprite(row_K - radius, column_K - radius, percent_K)


class Sprite(NamedTuple):
    """The drawn pixels of a shape in a texture, relative to its centre."""

    row_K: IntArray
    column_K: IntArray
    percent_K: IntArray
    """Brightness in percent."""


def _is_dark(texture: Texture, row_K: IntArray, column_K: IntArray) -> BoolArray:
    """The darker part of a texture. Textures repeat every 4 pixels from the corner of the box."""
    dark_K: dict[Texture, BoolArray] = {
        "plain": np.zeros(row_K.shape, dtype=np.bool_),
        "striped": (row_K + column_K) % 4 < 2,
        "dotted": (row_K % 4 < 2) & (column_K % 4 < 2),
        "checkered": (row_K % 4 < 2) == (column_K % 4 < 2),
    }
    return dark_K[texture]


def noise(seed: int, n: int) -> NDArray[np.int16]:
    """Rounded Gaussian noise of standard deviation NOISE, reproducible across NumPy versions.

    NumPy guarantees the raw bits of PCG64 but not its normal numbers, so 16 raw bits per value are
    looked up in the table of `gaussian`.
    """
    words = np.asarray(np.random.PCG64(seed).random_raw((n + 3) // 4)).astype("<u8")
    index: NDArray[np.uint16] = words.view("<u2")[:n]
    return gaussian(NOISE).take(index)


@cache
def gaussian(deviation: float) -> NDArray[np.int16]:
    """A rounded Gaussian as a table of 65,536 equally likely values, in ascending order."""
    limit = int(5 * deviation)
    edges = [
        round(65536 * (0.5 + 0.5 * erf((value + 0.5) / (deviation * sqrt(2.0)))))
        for value in range(-limit - 1, limit + 1)
    ]
    table = np.repeat(np.arange(-limit, limit + 1, dtype=np.int16), np.diff(edges))
    table.setflags(write=False)
    return table


def pixel_difference(first: ImageArray, second: ImageArray) -> float:
    """Mean absolute difference of two images, in grey levels of 255."""
    return float(np.abs(first.astype(np.int64) - second.astype(np.int64)).mean())


def draw_batch(
    table_KSS2: Tensor, things: Packed, *, pixels: int, generator: torch.Generator | None
) -> Tensor:
    """Images [N, 3, H, W] in [0, 1] on the device of the table, equal to `draw` except for noise.

    The noise has the distribution of that of `draw`, but comes from `generator` (on the same
    device) instead of the seed of the scene. Without a generator there is no noise.
    """
    import torch

    device = table_KSS2.device
    # A CPU is faster with few pixels, thing by thing; on a GPU each step costs more than pixels.
    image_N3HW = (_draw_by_things if device.type == "cpu" else _draw_by_pixels)(
        table_KSS2, things, pixels
    )
    if generator is not None:
        chance = torch.randint(65536, image_N3HW.shape, generator=generator, device=device)
        image_N3HW = image_N3HW + _constants(device)[1][chance]
    return image_N3HW.clamp(0, 255).float() / 255


def pack(scenes: Sequence[Scene], *, max_things: int = MAX_THINGS) -> Packed:
    """Pack scenes of one world into arrays, with room for `max_things` each."""
    shape = (len(scenes), max_things)
    place_M2: list[tuple[int, int]] = []
    fields_M6: list[tuple[int, ...]] = []
    for n, scene in enumerate(scenes):
        row = sprite_rows(scene.world)
        for t, thing in enumerate(scene.things):
            place_M2.append((n, t))
            kind = row[thing.shape, thing.size, thing.texture]
            fields_M6.append((kind, thing.x, thing.y, *thing.rgb))
    n_M, t_M = np.array(place_M2, dtype=np.int64).reshape(-1, 2).T
    fields_NT6 = np.zeros((*shape, 6), dtype=np.int64)
    fields_NT6[n_M, t_M] = np.array(fields_M6, dtype=np.int64).reshape(-1, 6)
    present_NT = np.zeros(shape, dtype=np.bool_)
    present_NT[n_M, t_M] = True
    sprite_NT, x_NT, y_NT = (fields_NT6[..., k] for k in range(3))
    return Packed(sprite_NT, x_NT, y_NT, fields_NT6[..., 3:], present_NT)


@dataclass(frozen=True, eq=False)
class Packed:
    """The things of many scenes as arrays; cells where `present_NT` is False contain zeros."""

    sprite_NT: IntArray
    """Row of `sprite_table`."""
    x_NT: IntArray
    y_NT: IntArray
    rgb_NT3: IntArray
    present_NT: BoolArray


def sprite_table(world: World) -> NDArray[np.uint8]:
    """All sprites of the world, [K, S, S, 2]: whether a pixel is drawn, and its brightness in %."""
    rim = max(world.radii.values())
    kind_of = sprite_rows(world.name)
    table_KSS2 = np.zeros((len(kind_of), 2 * rim + 1, 2 * rim + 1, 2), dtype=np.uint8)
    for (shape, size, texture), kind in kind_of.items():
        pixels = sprite(shape, world.radii[size], texture)
        row_K, column_K = pixels.row_K + rim, pixels.column_K + rim
        table_KSS2[kind, row_K, column_K, 0] = 1
        table_KSS2[kind, row_K, column_K, 1] = pixels.percent_K
    return table_KSS2


@cache
def sprite_rows(world: str) -> dict[tuple[str, Size, Texture], int]:
    """The row of `sprite_table` of each (shape, size, texture)."""
    looks = product(WORLDS[world].shapes, _SIZES, _TEXTURES)
    return {look: number for number, look in enumerate(looks)}


def _draw_by_things(table_KSS2: Tensor, things: Packed, pixels: int) -> Tensor:
    """Draw thing after thing, only the pixels of its sprite."""
    import torch

    across = table_KSS2.shape[1]
    # The canvas has a margin, cut off at the end: the empty rim of a small sprite may leave it.
    side, rim = pixels + 2 * (across // 2), across // 2
    offset_S = torch.arange(across)
    background, _ = _constants(table_KSS2.device)
    canvas_NPP3 = background.repeat(len(things.x_NT), side, side, 1)
    for t in range(things.present_NT.shape[1]):
        n_M = torch.from_numpy(np.flatnonzero(things.present_NT[:, t]))
        kind_M, x_M, y_M, rgb_M3 = (
            torch.from_numpy(values_NT)[n_M, t]
            for values_NT in (things.sprite_NT, things.x_NT, things.y_NT, things.rgb_NT3)
        )
        sprite_MSS2 = table_KSS2[kind_M]
        m, row, column = torch.nonzero(sprite_MSS2[..., 0], as_tuple=True)
        place = (n_M[m], y_M[m] + offset_S[row], x_M[m] + offset_S[column])
        canvas_NPP3[place] = _shaded(sprite_MSS2[m, row, column, 1:], rgb_M3[m].to(torch.int16))
    square = canvas_NPP3[:, rim : rim + pixels, rim : rim + pixels]
    return square.permute(0, 3, 1, 2).contiguous()


def _draw_by_pixels(table_KSS2: Tensor, things: Packed, pixels: int) -> Tensor:
    """Compute the brightness of every thing at every pixel; the last drawn thing is visible."""
    import torch
    from torch.nn.functional import pad

    device = table_KSS2.device
    # Sprite, x, y, presence and colour in one array: each copy to a GPU costs more than its
    # contents.
    values = (things.sprite_NT, things.x_NT, things.y_NT, things.present_NT)
    thing_NT7 = torch.from_numpy(
        np.concatenate([np.stack(values, axis=-1), things.rgb_NT3], axis=-1)
    )
    if device.type != "cpu":
        # Does not wait for the work that is queued on the device.
        thing_NT7 = thing_NT7.pin_memory().to(device, non_blocking=True)
    # The background is thing 0, drawn everywhere.
    percent_NTHW = pad(_brightness(table_KSS2, thing_NT7, pixels), (0, 0, 0, 0, 1, 0), value=100)
    number_T11 = torch.arange(percent_NTHW.shape[1], device=device)[:, None, None]
    last_N1HW = ((percent_NTHW > 0) * number_T11).amax(dim=1, keepdim=True)
    rgb_NT3 = pad(thing_NT7[..., 4:].to(torch.int16), (0, 0, 1, 0))
    rgb_NT3[:, 0] = _constants(device)[0]
    scene_N11 = torch.arange(len(rgb_NT3), device=device)[:, None, None]
    rgb_N3HW = rgb_NT3[scene_N11, last_N1HW[:, 0]].permute(0, 3, 1, 2)
    return _shaded(percent_NTHW.gather(1, last_N1HW), rgb_N3HW)


def _brightness(table_KSS2: Tensor, thing_NT7: Tensor, pixels: int) -> Tensor:
    """Brightness of every thing at every pixel in percent, [N, T, H, W]; 0 outside the thing."""
    import torch

    across = table_KSS2.shape[1]
    kind_NT, x_NT, y_NT, is_there_NT = thing_NT7[..., :4].unbind(-1)
    from_corner = torch.arange(pixels, device=table_KSS2.device) + across // 2
    row_NTH, column_NTW = (from_corner - centre_NT[..., None] for centre_NT in (y_NT, x_NT))
    is_row_NTH, is_column_NTW = ((i >= 0) & (i < across) for i in (row_NTH, column_NTW))
    is_row_NTH = is_row_NTH & is_there_NT.bool()[..., None]
    row_NTH, column_NTW = (i.clamp(0, across - 1) for i in (row_NTH, column_NTW))
    line_NTH = (kind_NT[..., None] * across + row_NTH) * across
    percent_NTHW = table_KSS2[..., 1].flatten()[line_NTH[..., None] + column_NTW[..., None, :]]
    return percent_NTHW * (is_row_NTH[..., None] & is_column_NTW[..., None, :])


def _shaded(percent: Tensor, rgb: Tensor) -> Tensor:
    shaded: Tensor = (percent.to(rgb.dtype) * rgb + 50) // 100
    return shaded


@cache
def _constants(device: torch.device) -> tuple[Tensor, Tensor]:
    """The background colour and the table of the noise."""
    import torch

    background = torch.tensor(BACKGROUND, dtype=torch.int16, device=device)
    return background, torch.tensor(gaussian(NOISE), device=device)
