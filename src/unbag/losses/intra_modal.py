"""Intra-modal contrast of CE-CLIP: a caption is to be far from its own hard negatives.

Paper: CE-CLIP eq. 3. `paper` is the equation as printed: the pair itself is not in its denominator,
so the loss has no lower bound and falls without end as the pair grows more similar.
`with_positive` puts the pair in and is bounded by 0. `batch`, the form in an early revision of the
released code, holds each caption against the negatives of the whole batch. The head of that code
drops the pair and keeps its place as the target; that form is not offered. Needs: negatives.
Missing: a missing negative is left out; captions without any are not in the mean of `paper` and
`with_positive`; without any at all the loss is 0. `batch` leaves `negative_true` out.

Dimensions: B batch, K negatives of a caption, R captions that have a negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from unbag.errors import unknown_name
from unbag.losses.logits import (
    NOTHING,
    edit_logits,
    negative_logits,
    negatives,
    own_above_edits,
    own_logits,
)
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor

Denominator: TypeAlias = Literal["paper", "with_positive", "batch"]


def intra_modal(embedded: Embedded, *, denominator: Denominator = "with_positive") -> Tensor:
    """Similarity of a caption and its negatives against that of the caption and its picture."""
    own_B = own_logits(embedded)
    if denominator == "batch":
        return _against_batch(embedded, own_B)
    edits = negatives(embedded)
    logit_BK = edit_logits(embedded, embedded.caption_BD, edits)
    if denominator == "with_positive":
        return own_above_edits(own_B, logit_BK, edits.mask_BK)
    if denominator == "paper":
        return _as_printed(own_B, logit_BK, edits.mask_BK)
    raise unknown_name("denominator", denominator, get_args(Denominator))


def _against_batch(embedded: Embedded, own_B: Tensor) -> Tensor:
    import torch

    logit_BM = negative_logits(embedded, embedded.caption_BD)
    return (torch.cat([own_B[:, None], logit_BM], dim=1).logsumexp(dim=1) - own_B).mean()


def _as_printed(own_B: Tensor, logit_BK: Tensor, mask_BK: Tensor) -> Tensor:
    # Rows without a negative go first: the gradient of the logsumexp of nothing is NaN.
    has_B = mask_BK.any(dim=1)
    logit_RK = logit_BK[has_B].masked_fill(~mask_BK[has_B], NOTHING)
    loss_R = logit_RK.logsumexp(dim=1) - own_B[has_B]
    return loss_R.sum() / max(len(loss_R), 1)
