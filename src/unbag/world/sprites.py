"""From arrays of things to many images at once, with torch, wherever the table lies.

Dimensions: K kinds of sprite (shape x size x texture), S pixels across a sprite, N scenes, T things
a scene can hold, H rows, W columns, 3 colour channels, P pixels of a padded canvas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
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
    kind = _shape_numbers(world.name)[shape] * len(_SIZES) + _SIZES.index(size)
    return kind * len(_TEXTURES) + _TEXTURES.index(texture)


@cache
def _shape_numbers(world: str) -> dict[str, int]:
    return {shape: number for number, shape in enumerate(WORLDS[world].shapes)}


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
    fields_NT6 = np.zeros((*shape, 6), dtype=np.int64)
    present_NT = np.zeros(shape, dtype=np.bool_)
    for n, scene in enumerate(scenes):
        world = WORLDS[scene.world]
        for t, thing in enumerate(scene.things):
            kind = sprite_index(world, thing.shape, thing.size, thing.texture)
            fields_NT6[n, t] = (kind, thing.x, thing.y, *thing.rgb)
            present_NT[n, t] = True
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
    background = torch.tensor(BACKGROUND, dtype=torch.int16, device=device)
    canvas_NP3 = background.repeat(len(things.x_NT), side * side, 1)
    for t in range(things.present_NT.shape[1]):
        _draw_thing(canvas_NP3, table_KSS2, things, t, side=side)
    rim = across // 2
    square = canvas_NP3.reshape(-1, side, side, 3)[:, rim : rim + pixels, rim : rim + pixels]
    image_N3HW = square.permute(0, 3, 1, 2).contiguous()
    if generator is not None:
        values = torch.tensor(gaussian(NOISE), device=device)
        chance = torch.randint(65536, image_N3HW.shape, generator=generator, device=device)
        image_N3HW = image_N3HW + values[chance]
    return image_N3HW.clamp(0, 255).float() / 255


def _draw_thing(
    canvas_NP3: Tensor, table_KSS2: Tensor, things: Packed, t: int, *, side: int
) -> None:
    """Draw thing `t` of every scene that has one over what is there."""
    import torch

    device = table_KSS2.device
    scene_M = np.nonzero(things.present_NT[:, t])[0]
    if len(scene_M) == 0:
        return

    def of(values_NT: IntArray) -> Tensor:
        return torch.from_numpy(values_NT[scene_M, t]).to(device)

    across = table_KSS2.shape[1]
    offset_S = torch.arange(across, device=device)
    row_MS1 = (of(things.y_NT)[:, None] + offset_S)[:, :, None]
    column_M1S = (of(things.x_NT)[:, None] + offset_S)[:, None, :]
    place_MSS = row_MS1 * side + column_M1S
    sprite_MSS2 = table_KSS2[of(things.sprite_NT)]
    m, row, column = torch.nonzero(sprite_MSS2[..., 0], as_tuple=True)
    percent = sprite_MSS2[m, row, column, 1].to(torch.int16)
    drawn = (percent[:, None] * of(things.rgb_NT3).to(torch.int16)[m] + 50) // 100
    scene = torch.from_numpy(scene_M).to(device)
    canvas_NP3[scene[m], place_MSS[m, row, column]] = drawn
