"""Plain contrastive loss: matching pairs above all others of the batch, both ways.

Paper: CLIP (InfoNCE); the mean over rows and the factor 1/2 follow open_clip, so that loss weights
transfer. Needs: picture and caption vectors of unit norm. Missing: nothing can be; a batch of one
gives 0. Pairs marked `also_true` are left out of both denominators.

Dimensions: B batch, D joint space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbag.losses.logits import pair_logits
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor


def contrastive(embedded: Embedded) -> Tensor:
    """Half the sum of picture-to-caption and caption-to-picture cross-entropy."""
    import torch
    from torch.nn.functional import cross_entropy

    logit_BB = pair_logits(embedded)
    target_B = torch.arange(len(logit_BB), device=logit_BB.device)
    return (cross_entropy(logit_BB, target_B) + cross_entropy(logit_BB.T, target_B)) / 2
