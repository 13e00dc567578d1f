"""Distillation from the starting weights: which caption fits which picture is to stay as it was.

Paper: learning without forgetting, here between the rows and columns of the similarity matrix of
the batch, each model at its own scale; a choice of ours. Needs: `start`, the same batch by the
weights before training. Missing: without `start` an error, because a run that was to keep what the
model knew must not go on without it; a batch of one gives 0. Hard negatives, hard positives and
`also_true` play no part: the old model says by itself which other captions fit.

Dimensions: B batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbag.errors import UserError
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor


def distil(embedded: Embedded) -> Tensor:
    """Half the sum of KL(start || now) of pictures over captions and of captions over pictures."""
    if embedded.start is None:
        raise UserError(
            "the loss 'distil' got no vectors of the starting weights",
            expected="Embedded.start, the same batch by the weights before training",
            way_out="Term(..., needs_start=True) asks the trainer for them",
        )
    start = embedded.start
    old_BB = (start.scale * start.picture_BD @ start.caption_BD.T).detach()
    now_BB = embedded.scale * embedded.picture_BD @ embedded.caption_BD.T
    return (_divergence(old_BB, now_BB) + _divergence(old_BB.T, now_BB.T)) / 2


def _divergence(old_BB: Tensor, now_BB: Tensor) -> Tensor:
    from torch.nn.functional import kl_div, log_softmax

    old_BB, now_BB = log_softmax(old_BB, dim=1), log_softmax(now_BB, dim=1)
    return kl_div(now_BB, old_BB, reduction="batchmean", log_target=True)
