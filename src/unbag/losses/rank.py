"""Cross-modal rank loss of CE-CLIP: a caption above each of its negatives by a margin of its kind.

Paper: CE-CLIP eq. 4 to 7. Similarities are scaled, so a margin of 10 at scale 100 is 0.1 of cosine.
`rank` reads the margins from `threshold_K` (none: zeros); `next_threshold` gives those of the next
step from the similarities of this one. Eq. 7 bounds them from above only; below 0 they would switch
the loss off, so they are held in [0, upper], as the released loop does. That loop also begins at 0
in every epoch, takes a similarity of exactly 0 for a missing negative, and averages pairs over more
samples than negatives; none of that is repeated. Needs: negatives. Missing: left out of loss, means
and counts; without any the loss is 0, and a kind without one in the batch keeps its margin.

Dimensions: B batch, K negatives of a caption, a column a kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from unbag.errors import unknown_name
from unbag.losses.logits import NOTHING, Edits, edit_logits, mean_where, negatives, own_logits
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor

Reduction: TypeAlias = Literal["valid_mean", "cell_mean", "sum"]
ThresholdMode: TypeAlias = Literal["adaptive", "largest", "fixed"]

UPPER = 10.0
"""Largest margin in the paper, in scaled similarity."""
LARGEST_DIVISOR = 5.0
"""Of the paper's ablation that takes the largest gap in place of the mean."""


def rank(embedded: Embedded, *, reduction: Reduction = "valid_mean") -> Tensor:
    """What each negative lacks to stand its margin below the caption.

    `valid_mean` divides by the negatives that are there, `cell_mean` (the released code) by all B*K
    places, `sum` (the equation) by nothing.
    """
    if embedded.negative_BKD is None:
        return own_logits(embedded)[:0].sum()
    edits = negatives(embedded)
    margin_K = _thresholds(embedded, edits)
    hinge_BK = (margin_K - _gaps(embedded, edits)).relu()
    if reduction == "valid_mean":
        return mean_where(hinge_BK, edits.mask_BK)
    total = hinge_BK.masked_fill(~edits.mask_BK, 0.0).sum()
    if reduction == "cell_mean":
        return total / max(hinge_BK.numel(), 1)
    if reduction == "sum":
        return total
    raise unknown_name("reduction", reduction, get_args(Reduction))


def next_threshold(
    embedded: Embedded,
    *,
    mode: ThresholdMode = "adaptive",
    upper: float | None = UPPER,
    fixed: float = 0.0,
) -> Tensor:
    """[K], the margins of the next step, without gradient.

    `adaptive` is the mean gap of caption and negative over the batch, `largest` a fifth of the
    largest gap; both are held in [0, upper]. `fixed` is `fixed`. Asked on the gathered batch, the
    answer is the same on every rank.
    """
    import torch

    if mode not in get_args(ThresholdMode):
        raise unknown_name("mode of thresholds", mode, get_args(ThresholdMode))
    edits = negatives(embedded)
    old_K = _thresholds(embedded, edits)
    if mode == "fixed":
        return torch.full_like(old_K, fixed)
    if embedded.negative_BKD is None:
        return old_K
    gap_BK, count_K = _gaps(embedded, edits).detach(), edits.mask_BK.sum(dim=0)
    if mode == "adaptive":
        new_K = gap_BK.masked_fill(~edits.mask_BK, 0.0).sum(dim=0) / count_K.clamp(min=1)
    else:
        new_K = gap_BK.masked_fill(~edits.mask_BK, NOTHING).amax(dim=0) / LARGEST_DIVISOR
    return torch.where(count_K > 0, new_K.clamp(min=0.0, max=upper), old_K)


def _gaps(embedded: Embedded, edits: Edits) -> Tensor:
    logit_BK = edit_logits(embedded, embedded.picture_BD, edits)
    return own_logits(embedded)[:, None] - logit_BK


def _thresholds(embedded: Embedded, edits: Edits) -> Tensor:
    if embedded.threshold_K is None:
        return edits.vector_BKD.new_zeros(edits.mask_BK.shape[1])
    return embedded.threshold_K.detach().to(edits.vector_BKD)
