"""Losses of contrastive training, as pure functions: of the embedded batch, or of logits.

Recipes: pairs, hard negatives and hard positives come as unit vectors (`Embedded`); each loss says
which paper it is from, what it needs, and what happens where an edit is missing. `Objective`
weights and adds them. What is missing must not reach the value or the gradient, whatever its vector
holds: missing edits are dropped or become zero vectors before anything is multiplied (0 times NaN
is NaN).

Read-outs compute scores of their own and use `info_nce`, `block_info_nce` and `word_patch_loss`.

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
"""A logit that adds nothing to a denominator, and whose gradient is exactly 0."""
Denominator: TypeAlias = Literal["paper", "with_positive", "batch"]
RankReduction: TypeAlias = Literal["valid_mean", "cell_mean", "sum"]
ThresholdMode: TypeAlias = Literal["adaptive", "largest", "fixed"]
SigmoidReduction: TypeAlias = Literal["cells", "rows"]
Form: TypeAlias = Literal["softplus", "hinge"]
UPPER = 10.0
"""Largest margin in the paper, in scaled similarity."""
LARGEST_DIVISOR = 5.0
"""Of the paper's ablation that takes the largest gap in place of the mean."""
KL_WEIGHT = 0.1
"""Of the released code, where the option is off."""
COMMON_BATCH_WEIGHT = 0.01
"""Of the released code, where the option is off."""


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
        logit_BC: Scaled similarities; what is missing is minus infinity. Dimensions in front are
            further rows.
        target_B: The own column of each row; by default the one in its place.
        negative_BK: Logits of hard negatives, further columns of their row alone.
        also_true_BC: True for columns that fit a row although they are not its own: left out.
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
    # PyTorch wants the columns in the second place.
    return cross_entropy(logit_BC.movedim(-1, 1), target_B, reduction=reduction)


def block_info_nce(
    blocks: Iterable[tuple[slice, Tensor]],
    also_true_BB: Tensor,
    *,
    negative_BK: Tensor | None = None,
) -> Tensor:
    """InfoNCE within blocks of the batch: mean over images to captions and captions to images.

    Papers: PACL and SPARC (its term of whole images) with the batch as one block; DCSM, which
    takes the sum of both directions, twice this. Hard negatives are columns of their image.

    Args:
        blocks: Some rows of the batch, and the logits [N, G, G] of the N blocks they make.
        also_true_BB: True where a caption fits an image that is not its own: left out.
        negative_BK: Logits of each image with its negatives; missing ones are minus infinity.
    """
    import torch

    lost = []
    for rows, logit_NGG in blocks:
        count, size = logit_NGG.shape[:2]
        block_N = torch.arange(count, device=logit_NGG.device)
        also_NGG = also_true_BB[rows, rows].view(count, size, count, size)[block_N, :, block_N]
        logit_NGG = logit_NGG.float().masked_fill(also_NGG, NOTHING)
        own_B = torch.arange(size, device=logit_NGG.device).repeat(count)
        negative = None if negative_BK is None else negative_BK[rows].float()
        by_row = logit_NGG.flatten(0, 1)
        by_column = logit_NGG.transpose(1, 2).flatten(0, 1)
        both = (
            info_nce(by_row, own_B, negative_BK=negative, reduction="none"),
            info_nce(by_column, own_B, reduction="none"),
        )
        lost.append(torch.stack(both))
    return torch.cat(lost, dim=1).mean()


def word_patch_loss(
    gathered_NTD: Tensor, word_NTD: Tensor, mask_NT: Tensor, *, scale: float
) -> Tensor:
    """Within each caption, words and what they gathered find each other; the mean over words.

    Paper: SPARC, its fine-grained term.
    """
    from torch.nn.functional import normalize

    gathered_NTD = normalize(gathered_NTD.float(), dim=-1)
    word_NTD = normalize(word_NTD.float(), dim=-1)
    logit_NTT = scale * gathered_NTD @ word_NTD.transpose(1, 2)
    by_patch_NT, by_word_NT = (
        # A large number, since rows of padding must stay finite until they are dropped.
        info_nce(one.masked_fill(~mask_NT[:, None], -1e8), reduction="none")
        for one in (logit_NTT, logit_NTT.transpose(1, 2))
    )
    return ((by_patch_NT + by_word_NT) / 2 * mask_NT).sum() / mask_NT.sum()


def contrastive(embedded: Embedded) -> Tensor:
    """Half the sum of picture-to-caption and caption-to-picture cross-entropy.

    Paper: CLIP (InfoNCE); the mean over rows and the factor 1/2 follow open_clip, so that loss
    weights transfer. A batch of one gives 0. Pairs marked `also_true` are left out of both
    denominators.
    """
    logit_BB = pair_logits(embedded)
    return (info_nce(logit_BB) + info_nce(logit_BB.T)) / 2


def contrastive_negatives(embedded: Embedded) -> Tensor:
    """Half the sum of picture-to-caption-or-negative and caption-to-picture cross-entropy.

    Paper: NegCLIP (ARO); CE-CLIP eq. 2 in its released form: every image is held against the
    negatives of the whole batch, not of its own caption alone. A negative has no image, so the
    other direction is that of the plain contrastive loss. NegCLIP's hard images need nothing
    more: they and their captions make the batch twice as large (2B images against 4B captions).

    Needs negatives; a missing one is no column, and without any the loss is the plain contrastive
    one. Captions marked `also_true` and negatives marked `negative_true` are left out.
    """
    logit_BB = pair_logits(embedded)
    negative_BM = negative_logits(embedded, embedded.image_BD)
    return (info_nce(logit_BB, negative_BK=negative_BM) + info_nce(logit_BB.T)) / 2


def svlc_negative(embedded: Embedded) -> Tensor:
    """Each image chooses between its caption and the negatives of that caption.

    Paper: Teaching Structured Vision & Language Concepts (SVLC), with its released code (TSVLC).
    Needs negatives; captions without one are not in the mean, and without any the loss is 0.
    """
    edits = negatives(embedded)
    logit_BK = edit_logits(embedded, embedded.image_BD, edits)
    return own_above_edits(own_logits(embedded), logit_BK, edits.mask_BK)


def svlc_positive(
    embedded: Embedded, *, symmetric: bool = False, kl: float = 0.0, common_batch: float = 0.0
) -> Tensor:
    """Image and caption each find their positive among the positives of the other captions.

    Paper: SVLC, as `svlc_negative`; also the hard-positive loss of "The Hard Positive Truth".
    Needs positives; captions without one are in no mean, no row and no column, and without any the
    loss is 0. A caption with several positives counts once: its positives are averaged, and are
    never held against each other. Others marked `also_true` are left out of the denominators.

    `symmetric` lets the positive find its image and its caption too. `kl` and `common_batch` are
    weights (`KL_WEIGHT`, `COMMON_BATCH_WEIGHT` in the released code): an image should find caption
    and positive equally likely, between the two or in the batch of all captions and positives.
    """
    chosen = _chosen(embedded)
    anchors = (embedded.image_BD, embedded.caption_BD)
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


def _found_by_positive(embedded: Embedded, chosen: _Chosen, of_BD: Tensor) -> Tensor:
    logit_BM = embedded.scale * of_BD @ chosen.vector_MD.T
    logit_BM = logit_BM.masked_fill(_others_out(embedded, chosen), NOTHING)
    return logit_BM.logsumexp(dim=0) - _of_owner(logit_BM, chosen)


def _equal_between_two(embedded: Embedded, chosen: _Chosen) -> Tensor:
    import torch

    caption_M = own_logits(embedded)[chosen.owner_M]
    logit_BM = embedded.scale * embedded.image_BD @ chosen.vector_MD.T
    positive_M = _of_owner(logit_BM, chosen)
    return _from_uniform(torch.stack([caption_M, positive_M], dim=1), caption_M, positive_M)


def _equal_in_batch(embedded: Embedded, chosen: _Chosen) -> Tensor:
    import torch

    caption_BB = embedded.scale * embedded.image_BD @ embedded.caption_BD.T
    caption_MB = caption_BB[chosen.owner_M]
    # Whether caption j fits the image of m, where _others_out asks for image j and caption m.
    caption_MB = caption_MB.masked_fill(_others_out(embedded, chosen, is_turned=True).T, NOTHING)
    positive_MM = _positive_logits(embedded, chosen, embedded.image_BD)
    both = torch.cat([caption_MB, positive_MM], dim=1)
    return _from_uniform(both, _of_owner(caption_MB.T, chosen), positive_MM.diagonal())


def _positive_logits(embedded: Embedded, chosen: _Chosen, of_BD: Tensor) -> Tensor:
    import torch

    logit_MM = embedded.scale * of_BD[chosen.owner_M] @ chosen.vector_MD.T
    drop_MM = (chosen.owner_M[:, None] == chosen.owner_M[None, :]) | ~chosen.mask_M[None, :]
    if embedded.also_true_BB is not None:
        drop_MM = drop_MM | embedded.also_true_BB[chosen.owner_M][:, chosen.owner_M]
    is_own = torch.eye(len(logit_MM), dtype=torch.bool, device=logit_MM.device)
    return logit_MM.masked_fill(drop_MM & ~is_own, NOTHING)


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


def intra_modal(embedded: Embedded, *, denominator: Denominator = "with_positive") -> Tensor:
    """Similarity of a caption and its negatives against that of the caption and its image.

    Paper: CE-CLIP eq. 3. `paper` is the equation as printed: the pair itself is not in its
    denominator, so the loss has no lower bound and falls without end as the pair grows more
    similar. `with_positive` puts the pair in and is bounded by 0. `batch`, the form in an early
    revision of the released code, holds each caption against the negatives of the whole batch. The
    head of that code drops the pair and keeps its place as the target; that form is not offered.

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
        # Rows without a negative go first: the gradient of the logsumexp of nothing is NaN.
        has_B = edits.mask_BK.any(dim=1)
        logit_RK = logit_BK[has_B].masked_fill(~edits.mask_BK[has_B], NOTHING)
        loss_R = logit_RK.logsumexp(dim=1) - own_B[has_B]
        return loss_R.sum() / max(len(loss_R), 1)
    raise unknown_name("denominator", denominator, get_args(Denominator))


def rank(embedded: Embedded, *, reduction: RankReduction = "valid_mean") -> Tensor:
    """What each negative lacks to stand its margin below the caption.

    Paper: CE-CLIP eq. 4 to 7. Similarities are scaled, so a margin of 10 at scale 100 is 0.1 of
    cosine. Margins, one for each kind, come from `threshold_K` (none: zeros); `next_threshold`
    gives those of the next step from the similarities of this one.

    Needs negatives; a missing one is left out, and without any the loss is 0.
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
    raise unknown_name("reduction", reduction, get_args(RankReduction))


def next_threshold(
    embedded: Embedded,
    *,
    mode: ThresholdMode = "adaptive",
    upper: float | None = UPPER,
    fixed: float = 0.0,
) -> Tensor:
    """[K], the margins of `rank` at the next step, without gradient.

    Eq. 7 bounds margins from above only; below 0 they would switch the loss off, so they are held
    in [0, upper], as the released loop does. That loop also begins at 0 in every epoch, takes a
    similarity of exactly 0 for a missing negative, and averages pairs over more samples than
    negatives; none of that is repeated. A kind without a negative in the batch keeps its margin.

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
    logit_BK = edit_logits(embedded, embedded.image_BD, edits)
    return own_logits(embedded)[:, None] - logit_BK


def _thresholds(embedded: Embedded, edits: Edits) -> Tensor:
    if embedded.threshold_K is None:
        return edits.vector_BKD.new_zeros(edits.mask_BK.shape[1])
    return embedded.threshold_K.detach().to(edits.vector_BKD)


def sigmoid(embedded: Embedded, *, reduction: SigmoidReduction = "cells") -> Tensor:
    """Log-loss of `this caption fits this image` over captions and hard negatives.

    Paper: SigLIP, eq. 1; hard negatives as columns that fit no image are our addition. SigLIP
    divides the sum by the batch (`rows`); `cells`, the mean over cells, does not grow with the
    batch.

    Needs the scale and bias of a sigmoid model. A missing negative is no column; without any the
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
    """A caption and its positives above its negatives by a margin, in scaled similarity.

    The mean over all comparisons of a true caption and a negative. Our own option; no loss of the
    papers holds a positive against the negative of the same caption, and that comparison is what
    augmented accuracy asks for.

    Needs negatives, and positives to be more than a margin for the caption alone. A missing edit
    makes no comparison; without negatives the loss is 0.
    """
    import torch
    from torch.nn.functional import relu, softplus

    wrong, right = negatives(embedded), positives(embedded)
    wrong_BK = edit_logits(embedded, embedded.image_BD, wrong)
    right_BP = edit_logits(embedded, embedded.image_BD, right)
    true_BT = torch.cat([own_logits(embedded)[:, None], right_BP], dim=1)
    is_there_B1 = right.mask_BK.new_ones(len(true_BT), 1)
    is_true_BT = torch.cat([is_there_B1, right.mask_BK], dim=1)
    lack_BTK = wrong_BK[:, None, :] - true_BT[:, :, None] + margin
    is_asked_BTK = is_true_BT[:, :, None] & wrong.mask_BK[:, None, :]
    if form not in get_args(Form):
        raise unknown_name("form", form, get_args(Form))
    return mean_where(softplus(lack_BTK) if form == "softplus" else relu(lack_BTK), is_asked_BTK)


def distil(embedded: Embedded) -> Tensor:
    """Half the sum of KL(start || now) of images over captions and of captions over images.

    Distillation from the starting weights: which caption fits which image is to stay as it was.
    Paper: learning without forgetting, here between the rows and columns of the similarity matrix
    of the batch, each model at its own scale; a choice of ours.

    Needs `start`, the same batch by the weights before training; without it an error, because a run
    that was to keep what the model knew must not continue without it. A batch of one gives 0. Hard
    negatives, hard positives and `also_true` play no part: the old model says by itself which other
    captions fit.
    """
    if embedded.start is None:
        raise UnbagError(
            "the loss 'distil' got no vectors of the starting weights",
            expected="Embedded.start, the same batch by the weights before training",
            hint="Term(..., needs_start=True) asks the trainer for them",
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
    """[B], each image with its caption."""
    return embedded.scale * (embedded.image_BD * embedded.caption_BD).sum(dim=1)


def pair_logits(embedded: Embedded) -> Tensor:
    """[B, B], every image with every caption; others that also fit are left out."""
    import torch

    logit_BB = embedded.scale * embedded.image_BD @ embedded.caption_BD.T
    if embedded.also_true_BB is not None:
        is_pair = torch.eye(len(logit_BB), dtype=torch.bool, device=logit_BB.device)
        logit_BB = logit_BB.masked_fill(embedded.also_true_BB & ~is_pair, NOTHING)
    return logit_BB


def negative_logits(embedded: Embedded, of_BD: Tensor) -> Tensor:
    """[B, M], every image or caption with every negative of the batch; true ones left out."""
    edits = negatives(embedded)
    # Missing ones stay as columns that add nothing: to drop them the device would have to be asked
    # how many there are.
    drop_BM = ~edits.mask_BK.flatten()[None, :]
    if embedded.negative_true_BBK is not None:
        drop_BM = drop_BM | embedded.negative_true_BBK.flatten(1)
    logit_BM = embedded.scale * of_BD @ edits.vector_BKD.flatten(0, 1).T
    return logit_BM.masked_fill(drop_BM, NOTHING)


def edit_logits(embedded: Embedded, of_BD: Tensor, edits: Edits) -> Tensor:
    """[B, K], each image or caption with the edits of its own caption; 0 where there is none."""
    import torch

    return embedded.scale * torch.einsum("bd,bkd->bk", of_BD, edits.vector_BKD)


def own_above_edits(own_B: Tensor, edit_BK: Tensor, mask_BK: Tensor) -> Tensor:
    """Cross-entropy of the own logit against those of edits, over captions that have an edit."""
    import torch

    column_BC = torch.cat([own_B[:, None], edit_BK.masked_fill(~mask_BK, NOTHING)], dim=1)
    return mean_where(column_BC.logsumexp(dim=1) - own_B, mask_BK.any(dim=1))


def mean_where(value: Tensor, mask: Tensor) -> Tensor:
    """Mean of the values under the mask; 0, with gradient 0, if there are none."""
    return value.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
