"""Losses of contrastive training, as pure functions of an embedded batch or of logits.

Losses of recipes take unit vectors of pairs, hard negatives and hard positives (`Embedded`). Each
names its paper, what it needs, and what happens where an edit is missing; `Objective` computes
their weighted sum. A missing edit must not affect value or gradient, whatever its vector holds: it
is dropped or becomes a zero vector before anything is multiplied (0 times NaN is NaN).

Read-outs compute their own scores and use `info_nce`, `block_info_nce` and `word_patch_loss`.

Dimensions: B batch, D joint space, K edits of a caption (P positives), M edits of the whole batch,
C columns of a matrix of logits, T true captions of an image, R captions that have a negative. Of
read-outs: N blocks of G pairs each; N captions of T words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from unbag.errors import UnbagError, unknown_name
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor

NOTHING = float("-inf")
"""A logit that adds nothing to a denominator and has a gradient of exactly 0."""
Denominator: TypeAlias = Literal["paper", "with_positive", "batch"]
RankReduction: TypeAlias = Literal["valid_mean", "cell_mean", "sum"]
ThresholdMode: TypeAlias = Literal["adaptive", "largest", "fixed"]
SigmoidReduction: TypeAlias = Literal["cells", "rows"]
Form: TypeAlias = Literal["softplus", "hinge"]
UPPER = 10.0
"""Largest margin of CE-CLIP's paper, in scaled similarity."""
LARGEST_DIVISOR = 5.0
"""Divisor of the largest gap, in the paper's ablation that uses it instead of the mean gap."""
KL_WEIGHT = 0.1
"""Weight of SVLC's released code, where the option is off by default."""
COMMON_BATCH_WEIGHT = 0.01
"""Weight of SVLC's released code, where the option is off by default."""


def info_nce(
    logit_BC: Tensor,
    target_B: Tensor | None = None,
    *,
    negative_BK: Tensor | None = None,
    also_true_BC: Tensor | None = None,
    reduction: Literal["mean", "none"] = "mean",
) -> Tensor:
    """Cross-entropy of each row: its own column against all others and its hard negatives.

    Args:
        logit_BC: Scaled similarities; minus infinity where one is missing. Leading dimensions are
            further rows.
        target_B: The own column of each row; by default its index.
        negative_BK: Logits of hard negatives, additional columns of their row only.
        also_true_BC: True for columns that also fit a row; they are left out of its denominator.
        reduction: The mean over all rows, or none.
    """
    import torch
    from torch.nn.functional import cross_entropy

    *_, rows, columns = logit_BC.shape
    if target_B is None:
        target_B = torch.arange(rows, device=logit_BC.device).expand(logit_BC.shape[:-1])
    if also_true_BC is not None:
        other_BC = torch.arange(columns, device=logit_BC.device) != target_B[..., None]
        logit_BC = logit_BC.masked_fill(also_true_BC & other_BC, NOTHING)
    if negative_BK is not None:
        logit_BC = torch.cat([logit_BC, negative_BK], dim=-1)
    # PyTorch expects the columns in the second dimension.
    return cross_entropy(logit_BC.movedim(-1, 1), target_B, reduction=reduction)


def block_info_nce(
    blocks: Iterable[tuple[slice, Tensor]],
    also_true_BB: Tensor,
    *,
    negative_BK: Tensor | None = None,
) -> Tensor:
    """InfoNCE within blocks of the batch: mean over images to captions and captions to images.

    Papers: PACL and SPARC (its global term) with the batch as one block; DCSM uses the sum of both
    directions, twice this. Hard negatives are columns of their image.

    Args:
        blocks: Some rows of the batch, and the logits [N, G, G] of the N blocks they form.
        also_true_BB: True where a caption also fits an image that is not its own; left out.
        negative_BK: Logits of each image with its negatives; minus infinity for missing ones.
    """
    import torch

    losses = []
    for rows, logit_NGG in blocks:
        count, size = logit_NGG.shape[:2]
        block_N = torch.arange(count, device=logit_NGG.device)
        also_NGG = also_true_BB[rows, rows].view(count, size, count, size)[block_N, :, block_N]
        logit_NGG = logit_NGG.float().masked_fill(also_NGG, NOTHING)
        own_B = torch.arange(size, device=logit_NGG.device).repeat(count)
        logits_of_negatives = None if negative_BK is None else negative_BK[rows].float()
        by_row = logit_NGG.flatten(0, 1)
        by_column = logit_NGG.transpose(1, 2).flatten(0, 1)
        directions = (
            info_nce(by_row, own_B, negative_BK=logits_of_negatives, reduction="none"),
            info_nce(by_column, own_B, reduction="none"),
        )
        losses.append(torch.stack(directions))
    return torch.cat(losses, dim=1).mean()


def word_patch_loss(
    gathered_NTD: Tensor, word_NTD: Tensor, mask_NT: Tensor, *, scale: float
) -> Tensor:
    """Contrast words and the patches grouped for them, within each caption; the mean over words.

    Paper: SPARC, its fine-grained term.
    """
    from torch.nn.functional import normalize

    gathered_NTD = normalize(gathered_NTD.float(), dim=-1)
    word_NTD = normalize(word_NTD.float(), dim=-1)
    logit_NTT = scale * gathered_NTD @ word_NTD.transpose(1, 2)
    by_patch_NT, by_word_NT = (
        # Not minus infinity: rows of padding must stay finite until they are dropped.
        info_nce(logits.masked_fill(~mask_NT[:, None], -1e8), reduction="none")
        for logits in (logit_NTT, logit_NTT.transpose(1, 2))
    )
    return ((by_patch_NT + by_word_NT) / 2 * mask_NT).sum() / mask_NT.sum()


def contrastive(embedded: Embedded) -> Tensor:
    """Half the sum of image-to-caption and caption-to-image cross-entropy.

    Paper: CLIP (InfoNCE); the mean over rows and the factor 1/2 follow open_clip, so that loss
    weights transfer. A batch of one gives 0. Pairs marked `also_true` are left out of both
    denominators.
    """
    logit_BB = pair_logits(embedded)
    return (info_nce(logit_BB) + info_nce(logit_BB.T)) / 2


def contrastive_negatives(embedded: Embedded) -> Tensor:
    """Half the sum of image-to-caption-or-negative and caption-to-image cross-entropy.

    Paper: NegCLIP (ARO); CE-CLIP eq. 2 in its released form: every image is compared with the
    negatives of the whole batch, not only those of its own caption. A negative has no image, so the
    other direction is that of the plain contrastive loss. NegCLIP's hard images need no special
    treatment: they and their captions double the batch (2B images against 4B captions).

    Needs negatives; a missing one is not a column, and without any the loss is the plain
    contrastive one. Captions marked `also_true` and negatives marked `negative_true` are left out.
    """
    logit_BB = pair_logits(embedded)
    negative_BM = negative_logits(embedded, embedded.image_BD)
    return (info_nce(logit_BB, negative_BK=negative_BM) + info_nce(logit_BB.T)) / 2


def svlc_negative(embedded: Embedded) -> Tensor:
    """Cross-entropy of each image over its caption and the negatives of that caption.

    Paper: Teaching Structured Vision & Language Concepts (SVLC), with its released code (TSVLC).
    Needs negatives; captions without one are not in the mean, and without any the loss is 0.
    """
    edits = negatives(embedded)
    logit_BK = edit_logits(embedded, embedded.image_BD, edits)
    return own_above_edits(own_logits(embedded), logit_BK, edits.mask_BK)


def svlc_positive(
    embedded: Embedded, *, symmetric: bool = False, kl: float = 0.0, common_batch: float = 0.0
) -> Tensor:
    """Cross-entropy from image and from caption to their positive among all positives.

    Paper: SVLC, as `svlc_negative`; also the hard-positive loss of "The Hard Positive Truth".
    Needs positives; captions without one are in no mean, no row and no column, and without any the
    loss is 0. A caption with several positives counts once: their losses are averaged, and they are
    not compared with each other. Others marked `also_true` are left out of the denominators.

    `symmetric` adds the direction from the positive to image and caption. `kl` and `common_batch`
    are weights (`KL_WEIGHT`, `COMMON_BATCH_WEIGHT` in the released code) of terms that make caption
    and positive equally likely for an image, among the two or among all captions and positives.
    """
    flat = _flat_positives(embedded)
    anchors = (embedded.image_BD, embedded.caption_BD)
    loss_M = sum(_anchor_to_positive(embedded, flat, anchor_BD) for anchor_BD in anchors) / 2
    if symmetric:
        reverse_M = sum(_positive_to_anchor(embedded, flat, anchor_BD) for anchor_BD in anchors) / 2
        loss_M = (loss_M + reverse_M) / 2
    if kl:
        loss_M = loss_M + kl * _kl_of_pair(embedded, flat)
    if common_batch:
        loss_M = loss_M + common_batch * _kl_in_batch(embedded, flat)
    return (flat.weight_M * loss_M).sum()


@dataclass(frozen=True, eq=False)
class _Positives:
    """The positives of the batch as one list, each with its caption's row.

    Missing ones stay with weight 0: dropping them would need their number from the device.
    """

    vector_MD: Tensor
    owner_M: Tensor
    weight_M: Tensor
    """Weight in the mean: captions count equally, however many positives they have."""
    mask_M: Tensor
    """False for missing positives."""
    has_B: Tensor


def _flat_positives(embedded: Embedded) -> _Positives:
    import torch

    edits = positives(embedded)
    mask_BK = edits.mask_BK
    vector_MD = edits.vector_BKD.flatten(0, 1)
    batch, places = mask_BK.shape
    owner_M = torch.arange(batch, device=mask_BK.device).repeat_interleave(places)
    has_B = mask_BK.any(dim=1)
    count_BK = (mask_BK.sum(dim=1, keepdim=True) * has_B.sum()).clamp(min=1)
    weight_BK = mask_BK.to(vector_MD) / count_BK
    return _Positives(vector_MD, owner_M, weight_BK.flatten(), mask_BK.flatten(), has_B)


def _anchor_to_positive(embedded: Embedded, flat: _Positives, anchor_BD: Tensor) -> Tensor:
    logit_MM = _positive_logits(embedded, flat, anchor_BD)
    return logit_MM.logsumexp(dim=1) - logit_MM.diagonal()


def _positive_to_anchor(embedded: Embedded, flat: _Positives, anchor_BD: Tensor) -> Tensor:
    logit_BM = embedded.scale * anchor_BD @ flat.vector_MD.T
    logit_BM = logit_BM.masked_fill(_left_out(embedded, flat), NOTHING)
    return logit_BM.logsumexp(dim=0) - _owner_value(logit_BM, flat)


def _kl_of_pair(embedded: Embedded, flat: _Positives) -> Tensor:
    import torch

    caption_M = own_logits(embedded)[flat.owner_M]
    logit_BM = embedded.scale * embedded.image_BD @ flat.vector_MD.T
    positive_M = _owner_value(logit_BM, flat)
    return _kl_from_uniform(torch.stack([caption_M, positive_M], dim=1), caption_M, positive_M)


def _kl_in_batch(embedded: Embedded, flat: _Positives) -> Tensor:
    import torch

    caption_BB = embedded.scale * embedded.image_BD @ embedded.caption_BD.T
    caption_MB = caption_BB[flat.owner_M]
    # Here: does caption j fit the image of m? In _left_out: does image j fit the caption of m?
    caption_MB = caption_MB.masked_fill(_left_out(embedded, flat, is_transposed=True).T, NOTHING)
    positive_MM = _positive_logits(embedded, flat, embedded.image_BD)
    both = torch.cat([caption_MB, positive_MM], dim=1)
    return _kl_from_uniform(both, _owner_value(caption_MB.T, flat), positive_MM.diagonal())


def _positive_logits(embedded: Embedded, flat: _Positives, anchor_BD: Tensor) -> Tensor:
    import torch

    logit_MM = embedded.scale * anchor_BD[flat.owner_M] @ flat.vector_MD.T
    drop_MM = (flat.owner_M[:, None] == flat.owner_M[None, :]) | ~flat.mask_M[None, :]
    if embedded.also_true_BB is not None:
        drop_MM = drop_MM | embedded.also_true_BB[flat.owner_M][:, flat.owner_M]
    is_own = torch.eye(len(logit_MM), dtype=torch.bool, device=logit_MM.device)
    return logit_MM.masked_fill(drop_MM & ~is_own, NOTHING)


def _left_out(embedded: Embedded, flat: _Positives, *, is_transposed: bool = False) -> Tensor:
    """[B, M], True where sample b is left out for positive m: it has no positive, or fits too."""
    import torch

    drop_BM = ~flat.has_B[:, None].expand(-1, len(flat.owner_M))
    if embedded.also_true_BB is not None:
        fits_BB = embedded.also_true_BB.T if is_transposed else embedded.also_true_BB
        drop_BM = drop_BM | fits_BB[:, flat.owner_M]
    sample_B = torch.arange(len(flat.has_B), device=flat.has_B.device)
    return drop_BM & (sample_B[:, None] != flat.owner_M[None, :])


def _owner_value(value_BM: Tensor, flat: _Positives) -> Tensor:
    return value_BM.gather(0, flat.owner_M[None, :])[0]


def _kl_from_uniform(logit_MC: Tensor, first_M: Tensor, second_M: Tensor) -> Tensor:
    """KL divergence of (1/2, 1/2) on two of the columns from the softmax over all columns."""
    return logit_MC.logsumexp(dim=1) - (first_M + second_M) / 2 - math.log(2)


def intra_modal(embedded: Embedded, *, denominator: Denominator = "with_positive") -> Tensor:
    """Push a caption away from its negatives, relative to its similarity with its image.

    Paper: CE-CLIP eq. 3. `paper` is the equation as printed: its denominator lacks the pair itself,
    so the loss has no lower bound and falls without limit as the pair becomes more similar.
    `with_positive` includes the pair and is bounded below by 0. `batch`, the form in an early
    revision of the released code, compares each caption with the negatives of the whole batch. The
    latest revision drops the pair but keeps its index as the target; that form is not offered.

    Needs negatives; a missing one is left out. Captions without any are not in the mean of `paper`
    and `with_positive`; without any at all the loss is 0. `batch` leaves `negative_true` out.
    """
    import torch

    own_B = own_logits(embedded)
    if denominator == "batch":
        logit_BM = negative_logits(embedded, embedded.caption_BD)
        return (torch.cat([own_B[:, None], logit_BM], dim=1).logsumexp(dim=1) - own_B).mean()
    edits = negatives(embedded)
    logit_BK = edit_logits(embedded, embedded.caption_BD, edits)
    if denominator == "with_positive":
        return own_above_edits(own_B, logit_BK, edits.mask_BK)
    if denominator == "paper":
        # Rows without a negative are dropped: the gradient of an empty logsumexp is NaN.
        has_B = edits.mask_BK.any(dim=1)
        logit_RK = logit_BK[has_B].masked_fill(~edits.mask_BK[has_B], NOTHING)
        loss_R = logit_RK.logsumexp(dim=1) - own_B[has_B]
        return loss_R.sum() / max(len(loss_R), 1)
    raise unknown_name("denominator", denominator, get_args(Denominator))


def rank(embedded: Embedded, *, reduction: RankReduction = "valid_mean") -> Tensor:
    """Hinge loss that puts each negative at least a margin below the caption.

    Paper: CE-CLIP eq. 4 to 7. Similarities are scaled, so a margin of 10 at scale 100 is a cosine
    difference of 0.1. The margins, one per kind, are `threshold_K` (None: zeros); `next_threshold`
    computes those of the next step from the similarities of this one.

    Needs negatives; a missing one is left out, and without any the loss is 0.
    `valid_mean` divides by the number of existing negatives, `cell_mean` (the released code) by all
    B*K cells, `sum` (the equation) by nothing.
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
    raise unknown_name("reduction", reduction, get_args(RankReduction))


def next_threshold(
    embedded: Embedded,
    *,
    mode: ThresholdMode = "adaptive",
    upper: float | None = UPPER,
    fixed: float = 0.0,
) -> Tensor:
    """Return the margins [K] of `rank` for the next step, without gradient.

    `adaptive` is the mean gap between caption and negative over the batch, `largest` a fifth of the
    largest gap; `fixed` is `fixed`. A kind without a negative in the batch keeps its margin. The
    batch is gathered from all processes, so every rank computes the same margins.

    Eq. 7 bounds margins from above only; negative ones would turn the loss off, so they are clamped
    to [0, upper], as in the released loop. That loop also starts at 0 in every epoch, uses a
    similarity of exactly 0 for a missing negative, and averages pairs over more samples than
    negatives; none of that is done here.
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
    logit_BK = edit_logits(embedded, embedded.image_BD, edits)
    return own_logits(embedded)[:, None] - logit_BK


def _thresholds(embedded: Embedded, edits: Edits) -> Tensor:
    if embedded.threshold_K is None:
        return edits.vector_BKD.new_zeros(edits.mask_BK.shape[1])
    return embedded.threshold_K.detach().to(edits.vector_BKD)


def sigmoid(embedded: Embedded, *, reduction: SigmoidReduction = "cells") -> Tensor:
    """Binary cross-entropy of "this caption fits this image" over captions and hard negatives.

    Paper: SigLIP, eq. 1; hard negatives as columns that fit no image are our addition. SigLIP
    divides the sum by the batch size (`rows`); `cells`, the mean over cells, does not grow with the
    batch.

    Needs the scale and bias of a sigmoid model. A missing negative is not a column; without any the
    loss is SigLIP's. Cells marked `also_true` (off the diagonal) or `negative_true` are left out.
    """
    import torch
    from torch.nn.functional import softplus

    logit_BB = pair_logits(embedded)
    logit_BC = torch.cat([logit_BB, negative_logits(embedded, embedded.image_BD)], dim=1)
    sign_BC = torch.ones_like(logit_BC)
    sign_BC.diagonal().fill_(-1.0)
    # A cell that is left out holds -inf and sign +1, so it adds exactly nothing.
    total = softplus(sign_BC * (logit_BC + embedded.bias)).sum()
    if reduction == "cells":
        return total / (~logit_BC.isneginf()).sum()
    if reduction == "rows":
        return total / len(logit_BC)
    raise unknown_name("reduction", reduction, get_args(SigmoidReduction))


def triple_margin(embedded: Embedded, *, form: Form = "softplus", margin: float = 0.0) -> Tensor:
    """Put a caption and its positives above its negatives by a margin, in scaled similarity.

    The mean over all comparisons of a true caption with a negative. This loss is ours: no loss of
    the papers compares a positive with the negative of the same caption, which augmented accuracy
    measures.

    Needs negatives; without positives it compares the caption only. A missing edit makes no
    comparison; without negatives the loss is 0.
    """
    import torch
    from torch.nn.functional import relu, softplus

    hard_negatives, hard_positives = negatives(embedded), positives(embedded)
    negative_BK = edit_logits(embedded, embedded.image_BD, hard_negatives)
    positive_BP = edit_logits(embedded, embedded.image_BD, hard_positives)
    true_BT = torch.cat([own_logits(embedded)[:, None], positive_BP], dim=1)
    exists_B1 = hard_positives.mask_BK.new_ones(len(true_BT), 1)
    is_true_BT = torch.cat([exists_B1, hard_positives.mask_BK], dim=1)
    gap_BTK = negative_BK[:, None, :] - true_BT[:, :, None] + margin
    is_compared_BTK = is_true_BT[:, :, None] & hard_negatives.mask_BK[:, None, :]
    if form not in get_args(Form):
        raise unknown_name("form", form, get_args(Form))
    return mean_where(softplus(gap_BTK) if form == "softplus" else relu(gap_BTK), is_compared_BTK)


def distil(embedded: Embedded) -> Tensor:
    """Half the sum of KL(start || now) of images over captions and of captions over images.

    Distillation from the initial weights: which caption fits which image should not change. Paper:
    learning without forgetting, here applied to the rows and columns of the similarity matrix of
    the batch, each model at its own scale; this form is ours.

    Needs `start`, the batch embedded by the initial weights; UnbagError without it. A batch of one
    gives 0. Hard negatives, hard positives and `also_true` are not used: the initial model itself
    shows which other captions fit.
    """
    if embedded.start is None:
        raise UnbagError(
            "the loss 'distil' got no vectors of the initial weights",
            expected="Embedded.start, the same batch embedded by the weights before training",
            hint="Term(..., needs_start=True) makes the trainer compute them",
        )
    start = embedded.start
    old_BB = (start.scale * start.image_BD @ start.caption_BD.T).detach()
    now_BB = embedded.scale * embedded.image_BD @ embedded.caption_BD.T
    return (_divergence(old_BB, now_BB) + _divergence(old_BB.T, now_BB.T)) / 2


def _divergence(old_BB: Tensor, now_BB: Tensor) -> Tensor:
    from torch.nn.functional import kl_div, log_softmax

    old_BB, now_BB = log_softmax(old_BB, dim=1), log_softmax(now_BB, dim=1)
    return kl_div(now_BB, old_BB, reduction="batchmean", log_target=True)


@dataclass(frozen=True, eq=False)
class Edits:
    """Negatives or positives of a batch; K is 0 if there are none."""

    vector_BKD: Tensor
    """Zero for a missing edit."""
    mask_BK: Tensor
    """False for a missing edit."""


def negatives(embedded: Embedded) -> Edits:
    """Return the hard negatives; without a mask none is missing."""
    return _edits(embedded, embedded.negative_BKD, embedded.negative_mask_BK)


def positives(embedded: Embedded) -> Edits:
    """Return the hard positives; without a mask none is missing."""
    return _edits(embedded, embedded.positive_BKD, embedded.positive_mask_BK)


def _edits(embedded: Embedded, vector_BKD: Tensor | None, mask_BK: Tensor | None) -> Edits:
    if vector_BKD is None:
        batch, width = embedded.caption_BD.shape
        vector_BKD, mask_BK = embedded.caption_BD.new_zeros(batch, 0, width), None
    if mask_BK is None:
        mask_BK = vector_BKD.new_ones(vector_BKD.shape[:2]).bool()
    return Edits(vector_BKD.masked_fill(~mask_BK[:, :, None], 0.0), mask_BK)


def own_logits(embedded: Embedded) -> Tensor:
    """Return the logits [B] of each image with its caption."""
    return embedded.scale * (embedded.image_BD * embedded.caption_BD).sum(dim=1)


def pair_logits(embedded: Embedded) -> Tensor:
    """Return the logits [B, B] of images and captions; others that also fit are left out."""
    import torch

    logit_BB = embedded.scale * embedded.image_BD @ embedded.caption_BD.T
    if embedded.also_true_BB is not None:
        is_pair = torch.eye(len(logit_BB), dtype=torch.bool, device=logit_BB.device)
        logit_BB = logit_BB.masked_fill(embedded.also_true_BB & ~is_pair, NOTHING)
    return logit_BB


def negative_logits(embedded: Embedded, anchor_BD: Tensor) -> Tensor:
    """Return the logits [B, M] of images or captions with all negatives; true ones are left out."""
    edits = negatives(embedded)
    # Missing ones stay as columns that add nothing: dropping them would need their number from the
    # device.
    drop_BM = ~edits.mask_BK.flatten()[None, :]
    if embedded.negative_true_BBK is not None:
        drop_BM = drop_BM | embedded.negative_true_BBK.flatten(1)
    logit_BM = embedded.scale * anchor_BD @ edits.vector_BKD.flatten(0, 1).T
    return logit_BM.masked_fill(drop_BM, NOTHING)


def edit_logits(embedded: Embedded, anchor_BD: Tensor, edits: Edits) -> Tensor:
    """Return the logits [B, K] of images or captions with their own edits; 0 for missing ones."""
    import torch

    return embedded.scale * torch.einsum("bd,bkd->bk", anchor_BD, edits.vector_BKD)


def own_above_edits(own_B: Tensor, edit_BK: Tensor, mask_BK: Tensor) -> Tensor:
    """Cross-entropy of the own logit against those of edits; the mean over captions with edits."""
    import torch

    column_BC = torch.cat([own_B[:, None], edit_BK.masked_fill(~mask_BK, NOTHING)], dim=1)
    return mean_where(column_BC.logsumexp(dim=1) - own_B, mask_BK.any(dim=1))


def mean_where(value: Tensor, mask: Tensor) -> Tensor:
    """Mean of the values under the mask; 0, with gradient 0, if there are none."""
    return value.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
