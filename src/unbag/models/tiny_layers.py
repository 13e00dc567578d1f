"""Pixels or token ids come in; what stands after each layer of a tiny tower goes out.

Dimensions: N inputs, L patches or tokens, W width of a tower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from unbag.models.layers import laid_out
from unbag.models.tiny_towers import CaptionTower, PictureTower
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor


def picture_layers(tower: PictureTower, pixels: Tensor) -> Layers:
    """Patches, and CLS as the vector that is read out."""
    hidden = _through(tower, tower.enter(pixels))
    return laid_out([one[:, 1:] for one in hidden], [one[:, 0] for one in hidden])


def caption_layers(tower: CaptionTower, token_NL: Tensor, end_N: Tensor) -> Layers:
    """Words with the end token, which is the vector that is read out."""
    hidden = _through(tower, tower.enter(token_NL))
    rows = torch.arange(len(token_NL), device=token_NL.device)
    mask_NL = torch.arange(token_NL.shape[1], device=end_N.device) <= end_N[:, None]
    return laid_out(hidden, [one[rows, end_N] for one in hidden], mask_NL)


def _through(tower: PictureTower | CaptionTower, hidden_NLW: Tensor) -> list[Tensor]:
    found = [hidden_NLW]
    for block in tower.blocks:
        found.append(block(found[-1]))
    return [*found, tower.norm(found[-1])]
