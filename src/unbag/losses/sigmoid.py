"""Sigmoid loss of SigLIP, with hard negatives as further captions: each cell yes or no by itself.

Paper: SigLIP, eq. 1; hard negatives as columns that fit no picture are our addition. SigLIP divides
the sum by the batch (`rows`); `cells`, the mean over cells, does not grow with the batch. Needs:
the scale and bias of a sigmoid model. Missing: a missing negative is no column; without any the
loss is SigLIP's. Cells marked `also_true` (off the diagonal) or `negative_true` are left out.

Dimensions: B batch, M negatives of the batch that are there, C = B + M columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from unbag.errors import unknown_name
from unbag.losses.logits import negative_logits, pair_logits
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor

Reduction: TypeAlias = Literal["cells", "rows"]


def sigmoid(embedded: Embedded, *, reduction: Reduction = "cells") -> Tensor:
    """Log-loss of `this caption fits this picture` over captions and hard negatives."""
    import torch
    from torch.nn.functional import softplus

    logit_BB = pair_logits(embedded)
    logit_BC = torch.cat([logit_BB, negative_logits(embedded, embedded.picture_BD)], dim=1)
    sign_BC = torch.ones_like(logit_BC)
    sign_BC.diagonal().fill_(-1.0)
    # A cell that is left out holds -inf and sign +1, so it adds exactly nothing.
    total = softplus(sign_BC * (logit_BC + embedded.bias)).sum()
    if reduction == "cells":
        return total / (~logit_BC.isneginf()).sum()
    if reduction == "rows":
        return total / len(logit_BC)
    raise unknown_name("reduction", reduction, get_args(Reduction))
