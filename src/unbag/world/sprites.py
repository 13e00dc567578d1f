"""From arrays of things to many images at once, with torch, wherever the table lies.

Dimensions: K kinds of sprite (shape x size x texture), S pixels across a sprite, N scenes, T things
a scene can hold, M things of all scenes, H rows, W columns, 3 colour channels, P pixels of a padded
canvas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.types import BoolArray, IntArray
from unbag.world.draw import BACKGROUND, NOISE, gaussian, sprite
from unbag.world.scene import Scene
from unbag.world.words import WORLDS, Size, Texture, World

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_THINGS = 5
_SIZES: tuple[Size, ...] = get_args(Size)
_TEXTURES: tuple[Texture, ...] = get_args(Texture)


@dataclass(frozen=True, eq=False)
class Packed:
    """The things of many scenes as arrays; places that `present_NT` leaves out hold zeros."""

    sprite_NT: IntArray
    """Row of `sprite_table`."""
    x_NT: IntArray
    y_NT: IntArray
    rgb_NT3: IntArray
    present_NT: BoolArray


def sprite_index(world: World, shape: str, size: Size, texture: Texture) -> int:
    """The row of `sprite_table` that shows this look."""
    return _indices(world.name)[shape, size, texture]


@cache
def _indices(world: str) -> dict[tuple[str, Size, Texture], int]:
    looks = product(WORLDS[world].shapes, _SIZES, _TEXTURES)
    return {look: number for number, look in enumerate(looks)}


def sprite_table(world: World) -> NDArray[np.uint8]:
    """Every sprite of the world: [K, S, S, 2], whether a pixel is drawn and its brightness in %."""
    across = 2 * max(world.radii.values()) + 1
    kinds = len(world.shapes) * len(_SIZES) * len(_TEXTURES)
    table_KSS2 = np.zeros((kinds, across, across, 2), dtype=np.uint8)
    for shape in world.shapes:
        for size in _SIZES:
            for texture in _TEXTURES:
                shown = sprite(shape, world.radii[size], texture)
                row, column = shown.row_K + across // 2, shown.column_K + across // 2
                sprite_SS2 = table_KSS2[sprite_index(world, shape, size, texture)]
                sprite_SS2[row, column, 0] = 1
                sprite_SS2[row, column, 1] = shown.percent_K
    return table_KSS2


def pack(scenes: Sequence[Scene], *, most: int = MOST_THINGS) -> Packed:
    """Scenes of one world as arrays, with room for `most` things each."""
    shape = (len(scenes), most)
    place_M2: list[tuple[int, int]] = []
    fields_M6: list[tuple[int, ...]] = []
    for n, scene in enumerate(scenes):
        row = _indices(scene.world)
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


def draw_batch(
    table_KSS2: Tensor, things: Packed, *, pixels: int, generator: torch.Generator | None
) -> Tensor:
    """Images [N, 3, H, W] in [0, 1] on the table's device, equal to `draw` but for the noise.

    The noise has the distribution of `draw`'s but comes from `generator` (on the same device), not
    from a scene's seed; without a generator there is none.
    """
    import torch

    device = table_KSS2.device
    across = table_KSS2.shape[1]
    # A margin all round, cut off at the end: the empty rim of a small sprite may leave the canvas.
    side = pixels + 2 * (across // 2)
    background, noise = _constants(device)
    canvas_NP3 = background.repeat(len(things.x_NT), side * side, 1)
    # All things in one copy: to a GPU each copy takes longer than what it says.
    told_7M = _put(_told(things), device)
    for part_7M in torch.split(told_7M, things.present_NT.sum(axis=0).tolist(), dim=1):
        if part_7M.shape[1]:
            _draw_things(canvas_NP3, table_KSS2, part_7M, side=side)
    rim = across // 2
    square = canvas_NP3.reshape(-1, side, side, 3)[:, rim : rim + pixels, rim : rim + pixels]
    image_N3HW = square.permute(0, 3, 1, 2).contiguous()
    if generator is not None:
        chance = torch.randint(65536, image_N3HW.shape, generator=generator, device=device)
        image_N3HW = image_N3HW + noise[chance]
    return image_N3HW.clamp(0, 255).float() / 255


@cache
def _constants(device: torch.device) -> tuple[Tensor, Tensor]:
    """The background's colour, and the table of the noise."""
    import torch

    background = torch.tensor(BACKGROUND, dtype=torch.int16, device=device)
    return background, torch.tensor(gaussian(NOISE), device=device)


def _told(things: Packed) -> IntArray:
    """Scene, sprite, x, y and colour of every thing: the first of each scene, then the second."""
    t_M, n_M = np.nonzero(things.present_NT.T)
    values = (things.sprite_NT, things.x_NT, things.y_NT)
    return np.stack([n_M, *(of[n_M, t_M] for of in values), *things.rgb_NT3[n_M, t_M].T])


def _draw_things(canvas_NP3: Tensor, table_KSS2: Tensor, told_7M: Tensor, *, side: int) -> None:
    """Draw things, at most one of a scene, over what is there."""
    import torch

    device = table_KSS2.device
    scene_M, kind_M, x_M, y_M = told_7M[:4]
    offset_S = torch.arange(table_KSS2.shape[1], device=device)
    row_MS1 = (y_M[:, None] + offset_S)[:, :, None]
    column_M1S = (x_M[:, None] + offset_S)[:, None, :]
    place_MSS = row_MS1 * side + column_M1S + scene_M[:, None, None] * side**2
    sprite_MSS2 = table_KSS2[kind_M]
    rgb_M3 = told_7M[4:].T.contiguous().to(torch.int16)
    write = _write_drawn if device.type == "cpu" else _write_all
    write(canvas_NP3.view(-1, 3), place_MSS, sprite_MSS2, rgb_M3)


def _write_drawn(canvas_Q3: Tensor, place_MSS: Tensor, sprite_MSS2: Tensor, rgb_M3: Tensor) -> None:
    """Only the pixels that a sprite draws."""
    import torch

    m, row, column = torch.nonzero(sprite_MSS2[..., 0], as_tuple=True)
    canvas_Q3[place_MSS[m, row, column]] = _shaded(sprite_MSS2[m, row, column, 1:], rgb_M3[m])


def _write_all(canvas_Q3: Tensor, place_MSS: Tensor, sprite_MSS2: Tensor, rgb_M3: Tensor) -> None:
    """Empty pixels too, as they were.

    To leave them out, a GPU would have to be asked how many there are, and whoever asks waits until
    it has done all before.
    """
    import torch

    drawn_MSS3 = _shaded(sprite_MSS2[..., 1:], rgb_M3[:, None, None])
    before_MSS3 = canvas_Q3[place_MSS]
    canvas_Q3[place_MSS] = torch.where(sprite_MSS2[..., :1] > 0, drawn_MSS3, before_MSS3)


def _shaded(percent: Tensor, rgb: Tensor) -> Tensor:
    shaded: Tensor = (percent.to(rgb.dtype) * rgb + 50) // 100
    return shaded


def _put(values: IntArray, device: torch.device) -> Tensor:
    """On the device, without waiting for what it is doing."""
    import torch

    found = torch.from_numpy(values)
    return found if device.type == "cpu" else found.pin_memory().to(device, non_blocking=True)
