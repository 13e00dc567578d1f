"""Contrastive loss with hard negatives among the captions a picture chooses from (NegCLIP).

Paper: NegCLIP (ARO); CE-CLIP eq. 2 in its released form: every picture is held against the
negatives of the whole batch, not of its own caption alone. A negative has no picture, so the other
direction is that of the plain contrastive loss. NegCLIP's hard pictures need nothing more: they and
their captions make the batch twice as large (2B pictures against 4B captions). Needs: negatives.
Missing: a missing negative is no column; without any the loss is the plain contrastive one.
Captions marked `also_true` and negatives marked `negative_true` are left out.

Dimensions: B batch, M negatives of the batch that are there, C = B + M columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbag.losses.logits import negative_logits, pair_logits
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor


def contrastive_negatives(embedded: Embedded) -> Tensor:
    """Half the sum of picture-to-caption-or-negative and caption-to-picture cross-entropy."""
    import torch
    from torch.nn.functional import cross_entropy

    logit_BB = pair_logits(embedded)
    logit_BC = torch.cat([logit_BB, negative_logits(embedded, embedded.picture_BD)], dim=1)
    target_B = torch.arange(len(logit_BB), device=logit_BB.device)
    return (cross_entropy(logit_BC, target_B) + cross_entropy(logit_BB.T, target_B)) / 2
