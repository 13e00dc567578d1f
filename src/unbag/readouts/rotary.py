"""Patches come in; the same, turned by angles that tell their places, go out (methods.md 7.3).

Channels 2k and 2k + 1 are a plane; the patch at place p is turned in it by p x 10000^(-2k/W). A sum
over patches forgets where they were; a sum over turned patches does not.

Dimensions: N pictures, L patches, W width, K planes.
"""

from __future__ import annotations

from math import isqrt
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from unbag.errors import UserError

Rope: TypeAlias = Literal["none", "1d", "2d"]
"""Not at all; by the number of the patch, row after row; half by its row and half by its column."""
Form: TypeAlias = Literal["concatenated", "interleaved"]
"""Where the turned pairs lie: all first channels before all second ones (as released), or in the
places they came from. One is a permutation of the other, which a linear layer undoes."""
BASE = 10_000.0


def turned(part_NLW: Tensor, rope: Rope, form: Form = "concatenated") -> Tensor:
    """Patches in rows from the top left; norms stay as they are."""
    count, width = part_NLW.shape[-2:]
    if rope == "none":
        return part_NLW
    check_rotary(rope, count=count, width=width)
    place_L = torch.arange(count, device=part_NLW.device)
    if rope == "1d":
        return _turn(part_NLW, place_L, form)
    side = isqrt(count)
    by_row, by_column = part_NLW.chunk(2, dim=-1)
    row_L = place_L.div(side, rounding_mode="floor")
    return torch.cat([_turn(by_row, row_L, form), _turn(by_column, place_L % side, form)], dim=-1)


def check_rotary(rope: Rope, *, count: int, width: int) -> None:
    """Refuses widths that are no whole number of planes, and 2-D places without a square."""
    planes = {"none": 1, "1d": 2, "2d": 4}[rope]
    if width % planes:
        raise UserError(
            f"vectors of width {width} cannot be turned with rope={rope}",
            expected=f"a width that {planes} divides",
            way_out="rope=none, or another model",
        )
    if rope == "2d" and isqrt(count) ** 2 != count:
        raise UserError(
            f"{count} patches make no square",
            expected="as many rows as columns for rope=2d",
            way_out="rope=1d, which counts patches row by row",
        )


def _turn(part_NLW: Tensor, place_L: Tensor, form: Form) -> Tensor:
    width = part_NLW.shape[-1]
    # In float64: a float32 angle of hundreds of radians is off in its sixth decimal.
    exponent_K = torch.arange(0, width, 2, device=part_NLW.device, dtype=torch.float64) / width
    angle_LK = place_L[:, None] * BASE**-exponent_K
    cos_LK, sin_LK = (f(angle_LK).to(part_NLW.dtype) for f in (torch.cos, torch.sin))
    first, second = part_NLW[..., 0::2], part_NLW[..., 1::2]
    pair = (first * cos_LK - second * sin_LK, first * sin_LK + second * cos_LK)
    if form == "concatenated":
        return torch.cat(pair, dim=-1)
    return torch.stack(pair, dim=-1).flatten(-2)
