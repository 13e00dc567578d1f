"""Scaled similarities that the losses share: a batch in, logits out, -inf where nothing counts.

What is missing must not reach the value or the gradient, whatever its vector holds: missing edits
are dropped or become zero vectors before anything is multiplied (0 times NaN is NaN).

Dimensions: B batch, D joint space, K edits of a caption, M edits of the whole batch that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor

NOTHING = float("-inf")
"""A logit that adds nothing to a denominator, and whose gradient is exactly 0."""


@dataclass(frozen=True, eq=False)
class Edits:
    """Negatives or positives of a batch; K is 0 if there are none at all."""

    vector_BKD: Tensor
    """Zero where there is none."""
    mask_BK: Tensor
    """True where there is one."""


def negatives(embedded: Embedded) -> Edits:
    """The hard negatives; without a mask all of them are there."""
    return _edits(embedded, embedded.negative_BKD, embedded.negative_mask_BK)


def positives(embedded: Embedded) -> Edits:
    """The hard positives; without a mask all of them are there."""
    return _edits(embedded, embedded.positive_BKD, embedded.positive_mask_BK)


def _edits(embedded: Embedded, vector_BKD: Tensor | None, mask_BK: Tensor | None) -> Edits:
    if vector_BKD is None:
        batch, width = embedded.caption_BD.shape
        vector_BKD, mask_BK = embedded.caption_BD.new_zeros(batch, 0, width), None
    if mask_BK is None:
        mask_BK = vector_BKD.new_ones(vector_BKD.shape[:2]).bool()
    return Edits(vector_BKD.masked_fill(~mask_BK[:, :, None], 0.0), mask_BK)


def own_logits(embedded: Embedded) -> Tensor:
    """[B], each picture with its caption."""
    return embedded.scale * (embedded.picture_BD * embedded.caption_BD).sum(dim=1)


def edit_logits(embedded: Embedded, of_BD: Tensor, edits: Edits) -> Tensor:
    """[B, K], each picture or caption with the edits of its own caption; 0 where there is none."""
    import torch

    return embedded.scale * torch.einsum("bd,bkd->bk", of_BD, edits.vector_BKD)


def pair_logits(embedded: Embedded) -> Tensor:
    """[B, B], every picture with every caption; others that also fit are left out."""
    import torch

    logit_BB = embedded.scale * embedded.picture_BD @ embedded.caption_BD.T
    if embedded.also_true_BB is not None:
        is_pair = torch.eye(len(logit_BB), dtype=torch.bool, device=logit_BB.device)
        logit_BB = logit_BB.masked_fill(embedded.also_true_BB & ~is_pair, NOTHING)
    return logit_BB


def negative_logits(embedded: Embedded, of_BD: Tensor) -> Tensor:
    """[B, M], every picture or caption with every negative of the batch; true ones left out."""
    edits = negatives(embedded)
    # Missing ones stay as columns that add nothing: to drop them the device would have to be asked
    # how many there are.
    drop_BM = ~edits.mask_BK.flatten()[None, :]
    if embedded.negative_true_BBK is not None:
        drop_BM = drop_BM | embedded.negative_true_BBK.flatten(1)
    logit_BM = embedded.scale * of_BD @ edits.vector_BKD.flatten(0, 1).T
    return logit_BM.masked_fill(drop_BM, NOTHING)


def own_above_edits(own_B: Tensor, edit_BK: Tensor, mask_BK: Tensor) -> Tensor:
    """Cross-entropy of the own logit against those of edits, over captions that have an edit."""
    import torch

    column_BC = torch.cat([own_B[:, None], edit_BK.masked_fill(~mask_BK, NOTHING)], dim=1)
    return mean_where(column_BC.logsumexp(dim=1) - own_B, mask_BK.any(dim=1))


def mean_where(value: Tensor, mask: Tensor) -> Tensor:
    """Mean of the values under the mask; 0, with gradient 0, if there are none."""
    return value.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
