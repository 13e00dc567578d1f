"""The two caption losses of SVLC: a caption above its own negatives; its positives near it.

Paper: Teaching Structured Vision & Language Concepts, with its released code (TSVLC); the second is
also the hard-positive loss of "The Hard Positive Truth". Needs: negatives; positives. Missing:
captions without a negative (a positive) are in no mean, no row and no column; without any the loss
is 0. A caption with several positives counts once: its positives are averaged, and are never held
against each other. Others marked `also_true` are left out of the positives' denominators.

Dimensions: B batch, D joint space, K edits of a caption, M positives of the batch that are there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.losses.logits import (
    NOTHING,
    edit_logits,
    negatives,
    own_above_edits,
    own_logits,
    positives,
)
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor

KL_WEIGHT = 0.1
"""Of the released code, where the option is off."""
COMMON_BATCH_WEIGHT = 0.01
"""Of the released code, where the option is off."""


def svlc_negative(embedded: Embedded) -> Tensor:
    """Each picture chooses between its caption and the negatives of that caption."""
    edits = negatives(embedded)
    logit_BK = edit_logits(embedded, embedded.picture_BD, edits)
    return own_above_edits(own_logits(embedded), logit_BK, edits.mask_BK)


def svlc_positive(
    embedded: Embedded, *, symmetric: bool = False, kl: float = 0.0, common_batch: float = 0.0
) -> Tensor:
    """Picture and caption each find their positive among the positives of the other captions.

    `symmetric` lets the positive find its picture and its caption too. `kl` and `common_batch` are
    weights (`KL_WEIGHT`, `COMMON_BATCH_WEIGHT` in the released code): a picture should find caption
    and positive equally likely, between the two or in the batch of all captions and positives.
    """
    chosen = _chosen(embedded)
    anchors = (embedded.picture_BD, embedded.caption_BD)
    found_M = sum(_finds_positive(embedded, chosen, of_BD) for of_BD in anchors) / 2
    if symmetric:
        back_M = sum(_found_by_positive(embedded, chosen, of_BD) for of_BD in anchors) / 2
        found_M = (found_M + back_M) / 2
    if kl:
        found_M = found_M + kl * _equal_between_two(embedded, chosen)
    if common_batch:
        found_M = found_M + common_batch * _equal_in_batch(embedded, chosen)
    return (chosen.weight_M * found_M).sum()


@dataclass(frozen=True, eq=False)
class _Chosen:
    """All places for positives, each with the caption it belongs to.

    Empty ones stay, with no weight: to drop them the device would have to be asked how many.
    """

    vector_MD: Tensor
    owner_M: Tensor
    weight_M: Tensor
    """Its share of the mean: captions count the same, however many positives they have."""
    mask_M: Tensor
    """True where there is one."""
    has_B: Tensor


def _chosen(embedded: Embedded) -> _Chosen:
    import torch

    edits = positives(embedded)
    mask_BK = edits.mask_BK
    vector_MD = edits.vector_BKD.flatten(0, 1)
    batch, places = mask_BK.shape
    owner_M = torch.arange(batch, device=mask_BK.device).repeat_interleave(places)
    has_B = mask_BK.any(dim=1)
    count_BK = (mask_BK.sum(dim=1, keepdim=True) * has_B.sum()).clamp(min=1)
    weight_BK = mask_BK.to(vector_MD) / count_BK
    return _Chosen(vector_MD, owner_M, weight_BK.flatten(), mask_BK.flatten(), has_B)


def _finds_positive(embedded: Embedded, chosen: _Chosen, of_BD: Tensor) -> Tensor:
    logit_MM = _positive_logits(embedded, chosen, of_BD)
    return logit_MM.logsumexp(dim=1) - logit_MM.diagonal()


def _positive_logits(embedded: Embedded, chosen: _Chosen, of_BD: Tensor) -> Tensor:
    import torch

    logit_MM = embedded.scale * of_BD[chosen.owner_M] @ chosen.vector_MD.T
    drop_MM = (chosen.owner_M[:, None] == chosen.owner_M[None, :]) | ~chosen.mask_M[None, :]
    if embedded.also_true_BB is not None:
        drop_MM = drop_MM | embedded.also_true_BB[chosen.owner_M][:, chosen.owner_M]
    is_own = torch.eye(len(logit_MM), dtype=torch.bool, device=logit_MM.device)
    return logit_MM.masked_fill(drop_MM & ~is_own, NOTHING)


def _found_by_positive(embedded: Embedded, chosen: _Chosen, of_BD: Tensor) -> Tensor:
    logit_BM = embedded.scale * of_BD @ chosen.vector_MD.T
    logit_BM = logit_BM.masked_fill(_others_out(embedded, chosen), NOTHING)
    return logit_BM.logsumexp(dim=0) - _of_owner(logit_BM, chosen)


def _equal_between_two(embedded: Embedded, chosen: _Chosen) -> Tensor:
    import torch

    caption_M = own_logits(embedded)[chosen.owner_M]
    logit_BM = embedded.scale * embedded.picture_BD @ chosen.vector_MD.T
    positive_M = _of_owner(logit_BM, chosen)
    return _from_uniform(torch.stack([caption_M, positive_M], dim=1), caption_M, positive_M)


def _equal_in_batch(embedded: Embedded, chosen: _Chosen) -> Tensor:
    import torch

    caption_BB = embedded.scale * embedded.picture_BD @ embedded.caption_BD.T
    caption_MB = caption_BB[chosen.owner_M]
    # Whether caption j fits the picture of m, where _others_out asks for picture j and caption m.
    caption_MB = caption_MB.masked_fill(_others_out(embedded, chosen, is_turned=True).T, NOTHING)
    positive_MM = _positive_logits(embedded, chosen, embedded.picture_BD)
    both = torch.cat([caption_MB, positive_MM], dim=1)
    return _from_uniform(both, _of_owner(caption_MB.T, chosen), positive_MM.diagonal())


def _others_out(embedded: Embedded, chosen: _Chosen, *, is_turned: bool = False) -> Tensor:
    """[B, M], True where sample b is not held against positive m: it has none, or fits too."""
    import torch

    drop_BM = ~chosen.has_B[:, None].expand(-1, len(chosen.owner_M))
    if embedded.also_true_BB is not None:
        fits_BB = embedded.also_true_BB.T if is_turned else embedded.also_true_BB
        drop_BM = drop_BM | fits_BB[:, chosen.owner_M]
    sample_B = torch.arange(len(chosen.has_B), device=chosen.has_B.device)
    return drop_BM & (sample_B[:, None] != chosen.owner_M[None, :])


def _of_owner(value_BM: Tensor, chosen: _Chosen) -> Tensor:
    return value_BM.gather(0, chosen.owner_M[None, :])[0]


def _from_uniform(logit_MC: Tensor, one_M: Tensor, other_M: Tensor) -> Tensor:
    """KL of (1/2, 1/2) on two of the columns from the softmax over all."""
    return logit_MC.logsumexp(dim=1) - (one_M + other_M) / 2 - math.log(2)
