"""Vectors of tokens and their mask come in; one vector for each caption goes out.

Dimensions: N captions, L tokens, E width of a text model.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pool = Literal["mean", "last", "cls"]
POOLS: tuple[Pool, ...] = ("mean", "last", "cls")


def pool_words(hidden_NLE: Tensor, mask_NL: Tensor, pool: Pool) -> Tensor:
    """[N, E] in float32: the mean over real tokens, or the last or the first of them.

    Padding may stand on either side. Sums are taken in float32: in half precision a hundred
    tokens of an outlying channel already leave its range.
    """
    hidden_NLE = hidden_NLE.float()
    if pool == "mean":
        weight_NL1 = mask_NL[:, :, None].to(hidden_NLE.dtype)
        # Not by the product alone: what stands at padding may be no number.
        real_NLE = torch.where(weight_NL1 > 0, hidden_NLE, 0.0)
        return real_NLE.sum(dim=1) / weight_NL1.sum(dim=1)
    real_NL = mask_NL.int()
    if pool == "cls":
        place_N = real_NL.argmax(dim=1)
    else:
        place_N = real_NL.shape[1] - 1 - real_NL.flip(1).argmax(dim=1)
    return hidden_NLE[torch.arange(len(hidden_NLE), device=hidden_NLE.device), place_N]
