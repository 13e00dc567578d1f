"""Losses: contracts over all registered ones, and numbers worked by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from unbag.errors import UnbagError
from unbag.registry import find, names
from unbag.training.losses import (
    COMMON_BATCH_WEIGHT,
    KL_WEIGHT,
    Denominator,
    block_info_nce,
    contrastive,
    contrastive_negatives,
    distil,
    info_nce,
    intra_modal,
    negatives,
    next_threshold,
    positives,
    rank,
    sigmoid,
    svlc_negative,
    svlc_positive,
    triple_margin,
)
from unbag.training.losses import RankReduction as Reduction
from unbag.training.objective import Loss, Objective, Term
from unbag.types import Embedded

KINDS = ("relation", "attribute", "object")


def random_batch(seed: int, *, batch_size: int = 4, share: float = 0.6) -> Any:
    """Fill every field; `share` of the edits exist, a fifth of what can be true is."""
    generator = torch.Generator().manual_seed(seed)

    def unit(*shape: int) -> Tensor:
        vector = torch.randn(*shape, 3, generator=generator, dtype=torch.float64)
        return normalize(vector, dim=-1)

    def chance(probability: float, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator) < probability

    own = torch.eye(batch_size, dtype=torch.bool)
    start = Embedded(unit(batch_size), unit(batch_size), torch.tensor(4.0), torch.tensor(0.0))
    return Embedded(
        image_BD=unit(batch_size),
        caption_BD=unit(batch_size),
        scale=torch.tensor(5.0, dtype=torch.float64),
        bias=torch.tensor(-2.0, dtype=torch.float64),
        negative_BKD=unit(batch_size, 3),
        negative_mask_BK=chance(share, batch_size, 3),
        negative_kinds=KINDS,
        positive_BKD=unit(batch_size, 2),
        positive_mask_BK=chance(share, batch_size, 2),
        positive_kinds=("synonym", "passive"),
        also_true_BB=chance(0.2, batch_size, batch_size) & ~own,
        negative_true_BBK=chance(0.2, batch_size, batch_size, 3) & ~own[:, :, None],
        threshold_K=torch.rand(3, generator=generator, dtype=torch.float64),
        start=start,
    )


EDIT_FIELDS = ("negative_BKD", "negative_mask_BK", "positive_BKD", "positive_mask_BK")
LEAVES = ("image_BD", "caption_BD", "negative_BKD", "positive_BKD", "scale", "bias")


def rows(embedded: Any, chosen: Tensor) -> Any:
    """The batch of these rows, in this order."""
    fields = {name: getattr(embedded, name) for name in (*EDIT_FIELDS, "image_BD", "caption_BD")}
    picked = {name: None if value is None else value[chosen] for name, value in fields.items()}
    for name in ("also_true_BB", "negative_true_BBK"):
        value = getattr(embedded, name)
        picked[name] = None if value is None else value[chosen][:, chosen]
    start = None if embedded.start is None else rows(embedded.start, chosen)
    return replace(embedded, **picked, start=start)


def refill(embedded: Any, value: float) -> Any:
    """Put another value into every masked vector."""
    negative, no_negative = embedded.negative_BKD, ~embedded.negative_mask_BK[:, :, None]
    positive, no_positive = embedded.positive_BKD, ~embedded.positive_mask_BK[:, :, None]
    return replace(
        embedded,
        negative_BKD=negative.masked_fill(no_negative, value),
        positive_BKD=positive.masked_fill(no_positive, value),
    )


def without_edits(embedded: Any, *, masked: bool) -> Any:
    """All edits masked, or no such fields at all."""
    if masked:
        masks = ("negative_mask_BK", "positive_mask_BK")
        return replace(embedded, **{n: torch.zeros_like(getattr(embedded, n)) for n in masks})
    nothing = dict.fromkeys((*EDIT_FIELDS, "negative_true_BBK"))
    return replace(embedded, **nothing, negative_kinds=(), positive_kinds=())


def leaves(embedded: Any) -> tuple[Tensor, ...]:
    """Copies of image, caption, negative, positive, scale, bias that need a gradient."""
    return tuple(getattr(embedded, name).clone().requires_grad_() for name in LEAVES)


def planted(embedded: Any, values: tuple[Tensor, ...]) -> Any:
    """The batch with these leaves in it."""
    return replace(embedded, **dict(zip(LEAVES, values, strict=True)))


LOSSES: dict[str, Loss] = {name: cast(Loss, find("loss", name)) for name in names("loss")}
LOSSES |= {
    "intra_modal, paper": partial(intra_modal, denominator="paper"),
    "intra_modal, batch": partial(intra_modal, denominator="batch"),
    "rank, cell_mean": partial(rank, reduction="cell_mean"),
    "rank, sum": partial(rank, reduction="sum"),
    "sigmoid, rows": partial(sigmoid, reduction="rows"),
    "svlc_positive, all": partial(svlc_positive, symmetric=True, kl=0.3, common_batch=0.2),
    "triple_margin, hinge": partial(triple_margin, form="hinge", margin=1.0),
}
ONLY_EDITS = ("svlc", "intra_modal", "rank", "triple_margin")
each = pytest.mark.parametrize("name", LOSSES)
seeds = st.integers(0, 10_000)
shares = st.sampled_from([0.1, 0.5, 0.9])


def gradients(loss: Loss, embedded: Embedded) -> tuple[Tensor, ...]:
    """Of image, caption, negative, positive, scale and bias; 0 where one plays no part."""
    values = leaves(embedded)
    grads = torch.autograd.grad(loss(planted(embedded, values)), values, allow_unused=True)
    return tuple(
        torch.zeros_like(value) if gradient is None else gradient
        for value, gradient in zip(values, grads, strict=True)
    )


def test_every_loss_has_a_line_for_the_list() -> None:
    assert all(entry.about for entry in names("loss").values())
    assert len(names("loss")) >= 9


@each
@settings(max_examples=10, deadline=None)
@given(seed=seeds, share=shares)
def test_a_loss_is_one_finite_number_with_a_finite_gradient(
    name: str, seed: int, share: float
) -> None:
    batch = random_batch(seed, share=share)
    value = LOSSES[name](batch)
    assert value.shape == ()
    assert value.dtype == torch.float64
    assert value.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients(LOSSES[name], batch))


@each
@settings(max_examples=10, deadline=None)
@given(seed=seeds, share=shares, value=st.sampled_from([7.0, -3.0, float("nan"), float("inf")]))
def test_what_is_masked_has_no_say(name: str, seed: int, share: float, value: float) -> None:
    loss, batch = LOSSES[name], random_batch(seed, share=share)
    other = refill(batch, value)
    assert loss(other).item() == pytest.approx(loss(batch).item(), abs=1e-12)
    for old, new in zip(gradients(loss, batch), gradients(loss, other), strict=True):
        assert torch.allclose(new, old, atol=1e-12, rtol=0)
    _, _, negative, positive, _, _ = gradients(loss, other)
    assert not negative[~batch.negative_mask_BK].any()
    assert not positive[~batch.positive_mask_BK].any()


@each
@settings(max_examples=10, deadline=None)
@given(seed=seeds, order=st.permutations(range(4)))
def test_the_order_of_a_batch_is_no_matter(name: str, seed: int, order: list[int]) -> None:
    batch = random_batch(seed)
    turned = rows(batch, torch.tensor(order))
    assert LOSSES[name](turned).item() == pytest.approx(LOSSES[name](batch).item(), abs=1e-12)


@each
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "none"])
@pytest.mark.parametrize("size", [1, 4])
def test_a_batch_without_any_edit(name: str, masked: bool, size: int) -> None:
    batch = refill(without_edits(random_batch(3, batch_size=size), masked=True), float("nan"))
    loss = LOSSES[name]
    if name.startswith(ONLY_EDITS):
        assert loss(batch).item() == 0.0
        assert not any(gradient.any() for gradient in gradients(loss, batch))
    bare = batch if masked else without_edits(batch, masked=False)
    assert loss(bare).isfinite()
    assert loss(bare).item() == pytest.approx(loss(batch).item(), abs=1e-12)
    image = bare.image_BD.clone().requires_grad_()
    loss(replace(bare, image_BD=image)).backward()  # type: ignore[no-untyped-call]
    assert image.grad.isfinite().all()


@each
def test_a_batch_of_one(name: str) -> None:
    batch = random_batch(5, batch_size=1, share=1.0)
    assert LOSSES[name](batch).isfinite()
    if name in ("contrastive", "distil", "svlc_positive"):
        assert LOSSES[name](batch).item() == pytest.approx(0.0, abs=1e-12)


@each
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_gradients_by_finite_differences(name: str, share: float) -> None:
    batch = random_batch(11, batch_size=3, share=share)
    assert batch.also_true_BB.any()
    assert batch.negative_true_BBK.any()
    loss: Callable[..., Tensor] = LOSSES[name]
    assert torch.autograd.gradcheck(lambda *v: loss(planted(batch, v)), leaves(batch))


@each
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_an_additional_kind_that_no_caption_has_changes_nothing(name: str, seed: int) -> None:
    batch = random_batch(seed)
    wider = replace(
        batch,
        negative_BKD=torch.cat([batch.negative_BKD, batch.negative_BKD[:, :1]], dim=1),
        negative_mask_BK=torch.cat(
            [batch.negative_mask_BK, torch.zeros(4, 1, dtype=torch.bool)], dim=1
        ),
        negative_kinds=(*batch.negative_kinds, "action"),
        negative_true_BBK=torch.cat(
            [batch.negative_true_BBK, torch.zeros(4, 4, 1, dtype=torch.bool)], dim=2
        ),
        threshold_K=torch.cat([batch.threshold_K, torch.ones(1)]),
    )
    # The mean over all places is the one form that counts empty places: four in place of three.
    factor = 4 / 3 if name == "rank, cell_mean" else 1.0
    assert factor * LOSSES[name](wider).item() == pytest.approx(
        LOSSES[name](batch).item(), abs=1e-12
    )


def captions_with_negatives(embedded: Any) -> int:
    return int(negatives(embedded).mask_BK.any(dim=1).sum())


def negatives_there(embedded: Any) -> int:
    return int(negatives(embedded).mask_BK.sum())


def comparisons(embedded: Any) -> int:
    negative_counts = negatives(embedded).mask_BK.sum(dim=1)
    return int((negative_counts * (1 + positives(embedded).mask_BK.sum(dim=1))).sum())


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("svlc_negative", captions_with_negatives),
        ("intra_modal", captions_with_negatives),
        ("intra_modal, paper", captions_with_negatives),
        ("rank", negatives_there),
        ("triple_margin", comparisons),
    ],
)
@settings(max_examples=10, deadline=None)
@given(seed=seeds, share=shares)
def test_two_ranks_weigh_by_what_is_there(
    name: str, count: Callable[[Embedded], int], seed: int, share: float
) -> None:
    """The whole batch is not the mean of its halves, but their sums over their counts."""
    batch = random_batch(seed, batch_size=6, share=share)
    halves = [rows(batch, torch.arange(2)), rows(batch, torch.arange(2, 6))]
    total = sum(count(half) * LOSSES[name](half).item() for half in halves)
    expected = total / max(sum(count(half) for half in halves), 1)
    assert LOSSES[name](batch).item() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_negatives_never_lower_the_contrastive_loss(seed: int) -> None:
    batch = random_batch(seed)
    assert LOSSES["contrastive_negatives"](batch) >= contrastive(batch)


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


def column(embedded: Any, *columns: int) -> Any:
    """With these of the negatives only, none of them missing."""
    return replace(
        embedded,
        negative_BKD=embedded.negative_BKD[:, list(columns)],
        negative_mask_BK=None,
        negative_kinds=tuple(embedded.negative_kinds[k] for k in columns),
    )


def unmasked(embedded: Any) -> Any:
    return replace(embedded, negative_mask_BK=None)


def sample(embedded: Any, number: int) -> Any:
    """A batch of one."""
    rows = slice(number, number + 1)
    return replace(
        embedded,
        image_BD=embedded.image_BD[rows],
        caption_BD=embedded.caption_BD[rows],
        negative_BKD=embedded.negative_BKD[rows],
        negative_mask_BK=embedded.negative_mask_BK[rows],
    )


def test_contrastive_with_and_without_hard_negatives(toy: Any) -> None:
    assert contrastive(toy).item() == near(0.0636317)
    assert contrastive_negatives(column(toy, 0)).item() == near(0.2814632)
    # 1.1541657 is half of 2.2446996 and 0.0636317; without the missing one it is 2.2352388.
    assert contrastive_negatives(unmasked(toy)).item() == near((2.2446996 + 0.0636317) / 2)
    assert contrastive_negatives(unmasked(toy)).item() == near(1.1541657)
    assert contrastive_negatives(toy).item() == near((2.2352388 + 0.0636317) / 2)


def test_negclip_with_hard_images_is_the_same_on_a_doubled_batch(toy: Any) -> None:
    """2B images against 4B captions; columns only over the 2B captions."""
    generator = torch.Generator().manual_seed(6)
    vectors = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    x, x_hard, t, t_hard, hn, hn_hard = (vectors / vectors.norm(dim=1, keepdim=True)).split(2)
    captions = torch.cat([t, t_hard, hn, hn_hard])
    logits = 10 * torch.cat([x, x_hard]) @ captions.T
    assert logits.shape == (4, 8)
    target = torch.arange(4)
    by_hand = (cross_entropy(logits, target) + cross_entropy(logits[:, :4].T, target)) / 2
    doubled = replace(
        toy,
        image_BD=torch.cat([x, x_hard]),
        caption_BD=torch.cat([t, t_hard]),
        negative_BKD=torch.cat([hn, hn_hard])[:, None],
        negative_mask_BK=None,
    )
    assert contrastive_negatives(doubled).item() == pytest.approx(by_hand.item(), abs=1e-12)


def test_svlc_by_hand(toy: Any) -> None:
    assert svlc_negative(column(toy, 0)).item() == near(0.0636317)
    assert svlc_positive(toy).item() == near(0.0109508)
    assert svlc_positive(toy).item() == near((0.0200105 + 0.0018911) / 2)
    assert (KL_WEIGHT, COMMON_BATCH_WEIGHT) == (0.1, 0.01)
    assert svlc_positive(toy, kl=KL_WEIGHT).item() == near(0.0109508 + 0.0362267)
    assert svlc_positive(toy, kl=1.0).item() == near(0.0109508 + 0.3622672)


def test_hard_positives_and_negatives_together(toy: Any) -> None:
    first = column(toy, 0)
    with_negatives = Objective(
        (
            Term("contrastive", 1.0, contrastive_negatives),
            Term("negative", 1.0, svlc_negative),
            Term("positive", 1.0, svlc_positive),
        )
    )
    assert with_negatives(first).total.item() == near(0.3560457)
    plain = replace(
        with_negatives,
        terms=(Term("contrastive", 1.0, contrastive), *with_negatives.terms[1:]),
    )
    assert plain(first).total.item() == near(0.1382142)


@pytest.mark.parametrize(
    ("denominator", "is_masked", "rows", "mean"),
    [
        ("paper", False, (1.9008319, 1.6049715), 1.7529017),
        ("paper", True, (1.9008319, 1.5967488), (1.9008319 + 1.5967488) / 2),
        ("with_positive", True, (2.0401105, 1.7811965), 1.9106535),
    ],
)
def test_intra_modal(
    toy: Any,
    denominator: Denominator,
    is_masked: bool,
    rows: tuple[float, float],
    mean: float,
) -> None:
    for number, expected in enumerate(rows):
        first = sample(toy, number)
        first = first if is_masked else unmasked(first)
        assert intra_modal(first, denominator=denominator).item() == near(expected)
    both = toy if is_masked else unmasked(toy)
    assert intra_modal(both, denominator=denominator).item() == near(mean)


def test_intra_modal_against_the_batch(toy: Any) -> None:
    whole = unmasked(toy)
    assert intra_modal(whole, denominator="batch").item() == near(2.5982291)
    assert intra_modal(whole, denominator="batch").item() == near((2.7232367 + 2.4732216) / 2)


def test_the_head_of_the_released_code_is_not_what_any_mode_gives(toy: Any) -> None:
    """Without the pair, negative 0 of sample 0 stands where the target points."""
    logits = 10 * toy.caption_BD @ toy.negative_BKD.flatten(0, 1).T
    negative_counts = cross_entropy(logits, torch.zeros(2, dtype=torch.long)).item()
    assert negative_counts == near(2.5202305)
    modes: tuple[Denominator, ...] = ("paper", "with_positive", "batch")
    for batch in (toy, unmasked(toy)):
        for mode in modes:
            assert abs(intra_modal(batch, denominator=mode).item() - negative_counts) > 0.01


@pytest.mark.parametrize(
    ("reduction", "first", "second"),
    [("sum", 3.2, 6.2), ("cell_mean", 0.4, 0.775), ("valid_mean", 0.4571429, 0.8857143)],
)
def test_rank_over_two_steps(toy: Any, reduction: Reduction, first: float, second: float) -> None:
    assert rank(toy, reduction=reduction).item() == near(first)
    margins = next_threshold(toy)
    assert margins.tolist() == pytest.approx([2, 3.6, 6.6, 0], abs=1e-6)
    assert rank(replace(toy, threshold_K=margins), reduction=reduction).item() == near(second)


def test_ce_clip_in_all(toy: Any) -> None:
    def cell_mean(embedded: Any) -> torch.Tensor:
        return rank(embedded, reduction="cell_mean")

    intra, cross = intra_modal(toy).item(), cell_mean(toy).item()
    whole = contrastive_negatives(unmasked(toy)).item()
    assert whole + 0.2 * intra + 0.4 * cross == near(1.6962964)
    objective = Objective(
        (
            Term("contrastive", 1.0, contrastive_negatives),
            Term("intra", 0.2, intra_modal),
            Term("rank", 0.4, cell_mean),
        )
    )
    # The missing negative is missing for every term: 1.1494353 in place of 1.1541657.
    assert objective(toy).total.item() == near(1.1494353 + 0.2 * 1.9106535 + 0.4 * 0.4)


# Of the toy batch: S(I, T), S(I, P), S(T, P), S(I, first negative of each caption).
PAIRS = [[8.0, 0.0], [6.0, 8.0]]
IMAGE_POSITIVE = [[9.6, 0.0], [2.8, 6.0]]
CAPTION_POSITIVE = [[9.36, 3.6], [2.24, 9.6]]
NEGATIVES = [[6.0, 6.0], [8.0, 0.0]]


def double(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def entropy(logits: list[list[float]], targets: list[int]) -> float:
    return cross_entropy(double(logits), torch.tensor(targets)).item()


def soft(value: float) -> float:
    return math.log1p(math.exp(value))


def first_negative(toy: Any) -> Any:
    return replace(toy, negative_BKD=toy.negative_BKD[:, :1], negative_mask_BK=None)


def test_a_negative_that_fits_another_image_is_no_negative_there(toy: Any) -> None:
    fits = torch.zeros(2, 2, 1, dtype=torch.bool)
    fits[1, 0, 0] = True  # the 8: negative of caption 0 with image 1
    loss = contrastive_negatives(replace(first_negative(toy), negative_true_BBK=fits))
    to_caption = (entropy([[8, 0, 6, 6]], [0]) + entropy([[6, 8, 0]], [1])) / 2
    assert loss.item() == pytest.approx((to_caption + 0.0636317) / 2, abs=1e-6)


def test_svlc_negative_is_a_mean_over_captions_that_have_negatives(toy: Any) -> None:
    mask = torch.tensor([[True], [False]])
    loss = svlc_negative(replace(first_negative(toy), negative_mask_BK=mask))
    assert loss.item() == pytest.approx(soft(-2.0), abs=1e-12)


def test_svlc_positive_both_ways(toy: Any) -> None:
    turned = [list(column) for column in zip(*IMAGE_POSITIVE, strict=True)]
    turned_too = [list(column) for column in zip(*CAPTION_POSITIVE, strict=True)]
    by_hand = sum(
        entropy(logits, [0, 1]) for logits in (IMAGE_POSITIVE, CAPTION_POSITIVE, turned, turned_too)
    )
    assert svlc_positive(toy, symmetric=True).item() == pytest.approx(by_hand / 4, abs=1e-9)


def test_svlc_positive_equal_in_the_batch_of_captions_and_positives(toy: Any) -> None:
    """KL of half and half on the two diagonals from the softmax over all four columns."""
    by_hand = 0.0
    for i in range(2):
        row = PAIRS[i] + IMAGE_POSITIVE[i]
        whole = math.log(sum(math.exp(value) for value in row))
        probabilities = [math.exp(row[i] - whole), math.exp(row[2 + i] - whole)]
        by_hand += sum(0.5 * math.log(0.5 / p) for p in probabilities) / 2
    added = svlc_positive(toy, common_batch=1.0) - svlc_positive(toy)
    assert added.item() == pytest.approx(by_hand, abs=1e-9)


@pytest.mark.parametrize("symmetric", [True, False])
def test_captions_without_a_positive_are_in_no_row_and_no_column(symmetric: bool) -> None:
    batch = random_batch(4, batch_size=5)
    mask = torch.tensor([[True], [False], [True], [False], [True]])
    batch = replace(batch, positive_BKD=batch.positive_BKD[:, :1], positive_mask_BK=mask)
    there = replace(rows(batch, torch.tensor([0, 2, 4])), positive_mask_BK=None)
    positive_BD = there.positive_BKD[:, 0]
    batch, there = replace(batch, also_true_BB=None), replace(there, also_true_BB=None)
    target = torch.arange(3)
    matrices = [5 * v @ positive_BD.T for v in (there.image_BD, there.caption_BD)]
    matrices += [matrix.T for matrix in matrices] if symmetric else []
    by_hand = sum(cross_entropy(matrix, target).item() for matrix in matrices) / len(matrices)
    assert svlc_positive(batch, symmetric=symmetric).item() == pytest.approx(by_hand, rel=1e-12)
    for kl, common_batch in ((0.0, 0.0), (0.5, 0.7)):
        whole = svlc_positive(batch, symmetric=symmetric, kl=kl, common_batch=common_batch)
        part = svlc_positive(there, symmetric=symmetric, kl=kl, common_batch=common_batch)
        assert whole.item() == pytest.approx(part.item(), abs=1e-12)


def test_several_positives_of_a_caption_are_averaged_and_no_rivals(toy: Any) -> None:
    """Caption 0 has two: P and T itself; each is held against the one positive of caption 1."""
    second = torch.stack([toy.caption_BD[0], torch.full((3,), float("nan"))])[:, None]
    two = replace(
        toy,
        positive_BKD=torch.cat([toy.positive_BKD, second], dim=1),
        positive_mask_BK=torch.tensor([[True, True], [True, False]]),
    )
    image_0 = (soft(0 - 9.6) + soft(0 - 8.0)) / 2
    image_1 = entropy([[6.0, 2.8, 6.0]], [0])  # S(I1, P1) against P0 and T0
    caption_0 = (soft(3.6 - 9.36) + soft(3.6 - 10.0)) / 2
    caption_1 = entropy([[9.6, 2.24, 4.8]], [0])
    by_hand = ((image_0 + image_1) / 2 + (caption_0 + caption_1) / 2) / 2
    assert svlc_positive(two).item() == pytest.approx(by_hand, abs=1e-9)


def test_a_positive_of_a_caption_that_also_fits_is_no_rival(toy: Any) -> None:
    both = torch.tensor([[False, False], [True, False]])  # caption 0 also fits image 1
    batch = replace(toy, also_true_BB=both)
    finds = (soft(0 - 9.6) + soft(3.6 - 9.36)) / 4
    assert svlc_positive(batch).item() == pytest.approx(finds, abs=1e-9)
    # Positive 0 has no rival images or captions left; positive 1 has those of sample 0.
    grads = (soft(0 - 6.0) + soft(3.6 - 9.6)) / 4
    symmetric = svlc_positive(batch, symmetric=True).item()
    assert symmetric == pytest.approx((finds + grads) / 2, abs=1e-9)
    # Image 0 chooses from all captions and positives, image 1 from its own two.
    whole = math.log(math.exp(8) + 2 + math.exp(9.6)) - (8 + 9.6) / 2
    own = math.log(math.exp(8) + math.exp(6)) - (8 + 6) / 2
    added = svlc_positive(batch, common_batch=1.0).item() - finds
    assert added == pytest.approx((whole + own) / 2 - math.log(2), abs=1e-9)


def test_only_the_printed_intra_modal_contrast_falls_without_end(toy: Any) -> None:
    def at(factor: float) -> list[float]:
        nearer = replace(toy, image_BD=factor * toy.image_BD)
        return [
            intra_modal(nearer, denominator="paper").item(),
            intra_modal(nearer, denominator="with_positive").item(),
            intra_modal(nearer, denominator="batch").item(),
        ]

    printed = [at(factor)[0] for factor in (1.0, 10.0, 100.0, 1000.0)]
    assert printed == sorted(printed, reverse=True)
    assert printed[-1] < -7000
    assert all(value >= 0 for value in at(1000.0)[1:])


def test_intra_modal_against_the_batch_leaves_out_what_is_missing_or_true(toy: Any) -> None:
    fits = torch.zeros(2, 2, 4, dtype=torch.bool)
    fits[0, 1, 3] = True
    loss = intra_modal(replace(toy, negative_true_BBK=fits), denominator="batch")
    # S(T, negatives of caption 0), then of caption 1 without its first; the 5.76 is left out.
    first = entropy([[8, 9.6, 8, 3.6, 7.68, 10, 1.68]], [0])
    second = entropy([[8, 6.4, 7.68, 9.6, 1.68, 4.8, 8, 9.36]], [0])
    assert loss.item() == pytest.approx((first + second) / 2, abs=1e-9)


def test_sigmoid_by_hand(toy: Any) -> None:
    plain = replace(toy, negative_BKD=None, negative_mask_BK=None)
    # Bias -10: the pairs are at -2, the others at -10 and -4.
    total = 2 * soft(2.0) + soft(-10.0) + soft(-4.0)
    assert sigmoid(plain).item() == pytest.approx(total / 4, abs=1e-12)
    assert sigmoid(plain, reduction="rows").item() == pytest.approx(total / 2, abs=1e-12)
    more = total + sum(soft(value - 10) for row in NEGATIVES for value in row)
    first = first_negative(toy)
    assert sigmoid(first).item() == pytest.approx(more / 8, abs=1e-12)
    assert sigmoid(first, reduction="rows").item() == pytest.approx(more / 2, abs=1e-12)
    both = torch.tensor([[True, False], [True, True]])
    fewer = (more - soft(-4.0)) / 7
    assert sigmoid(replace(first, also_true_BB=both)).item() == pytest.approx(fewer, abs=1e-12)


def test_triple_margin_by_hand(toy: Any) -> None:
    first = first_negative(toy)
    gaps = [6 - 8.0, 6 - 9.6, 0 - 8.0, 0 - 6.0]  # negative over caption and over positive
    by_hand = sum(soft(gap) for gap in gaps) / 4
    assert triple_margin(first).item() == pytest.approx(by_hand, abs=1e-12)
    hinge = sum(max(0.0, gap + 3.0) for gap in gaps) / 4
    assert triple_margin(first, form="hinge", margin=3.0).item() == pytest.approx(hinge, abs=1e-12)
    no_positive = replace(first, positive_mask_BK=torch.tensor([[True], [False]]))
    by_hand = sum(soft(gap) for gap in gaps[:3]) / 3
    assert triple_margin(no_positive).item() == pytest.approx(by_hand, abs=1e-12)


def test_distil_by_hand(toy: Any) -> None:
    def divergence(old: list[float], now: list[float]) -> float:
        p, q = (torch.softmax(double([row]), dim=1)[0].tolist() for row in (old, now))
        return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))

    # At scale 2 with one-hot vectors the old matrix is [[2, 0], [0, 2]].
    start = replace(toy, caption_BD=toy.image_BD, scale=torch.tensor(2.0, dtype=torch.float64))
    by_hand = divergence([2, 0], [8, 0]) + divergence([0, 2], [6, 8])
    by_hand += divergence([2, 0], [8, 6]) + divergence([0, 2], [0, 8])
    assert distil(replace(toy, start=start)).item() == pytest.approx(by_hand / 4, abs=1e-9)
    assert distil(replace(toy, start=toy)).item() == pytest.approx(0.0, abs=1e-12)


def test_distil_does_not_teach_the_starting_weights(toy: Any) -> None:
    vectors = toy.caption_BD.clone().requires_grad_()
    old = replace(toy, caption_BD=vectors, scale=torch.tensor(3.0, requires_grad=True))
    now = toy.caption_BD.clone().requires_grad_()
    distil(replace(toy, caption_BD=now, start=old)).backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is None
    assert old.scale.grad is None
    assert now.grad.any()


def test_distil_needs_the_start(toy: Any) -> None:
    with pytest.raises(UnbagError, match="'distil' got no vectors") as caught:
        distil(toy)
    assert "Embedded.start" in caught.value.expected
    assert "needs_start=True" in caught.value.hint


@pytest.mark.parametrize(
    ("loss", "option", "value", "suggested"),
    [
        (intra_modal, "denominator", "with_positives", "with_positive"),
        (sigmoid, "reduction", "row", "rows"),
        (triple_margin, "form", "relu", ""),
        (rank, "reduction", "mean", "cell_mean"),
        (next_threshold, "mode", "max", ""),
    ],
)
def test_an_unknown_option_is_named(
    loss: Any, option: str, value: str, suggested: str, toy: Any
) -> None:
    with pytest.raises(UnbagError, match=f"unknown {option}.* '{value}'") as caught:
        loss(toy, **{option: value})
    assert suggested in caught.value.expected


def test_without_negatives_the_losses_with_negatives_are_the_plain_ones(toy: Any) -> None:
    bare = replace(toy, negative_BKD=None, negative_mask_BK=None)
    assert contrastive_negatives(bare).item() == contrastive(bare).item()


# Gaps S(I, T) - S(I, T_k) of the toy batch; the 8.0 of caption 1 is missing.
#   caption 0: 2.0, 5.2, 8.0, -1.6     caption 1: (8.0), 2.0, 5.2, -1.6


def test_margins_are_held_between_zero_and_the_bound(toy: Any) -> None:
    assert next_threshold(toy, upper=None).tolist() == pytest.approx([2, 3.6, 6.6, 0])
    assert next_threshold(toy, upper=5.0).tolist() == pytest.approx([2, 3.6, 5, 0])
    at_bound = replace(toy, threshold_K=torch.full((4,), 5.0))
    assert rank(at_bound, reduction="sum").item() == pytest.approx(3 + 6.6 + 3 + 6.6)


def test_other_modes_and_a_true_similarity_of_zero(toy: Any) -> None:
    margins = next_threshold(toy, mode="largest", upper=1.5)
    assert margins.tolist() == pytest.approx([0.4, 1.04, 1.5, 0])
    margins = next_threshold(replace(toy, threshold_K=torch.ones(4)), mode="fixed", fixed=2.0)
    assert margins.tolist() == [2.0] * 4
    # S(I0, T02) is 0; the released formula takes it for missing and returns 5.2 for that kind.
    assert next_threshold(toy)[2].item() == pytest.approx(6.6)


@pytest.mark.parametrize("mode", ["adaptive", "largest"])
def test_a_kind_without_a_negative_keeps_its_margin(toy: Any, mode: str) -> None:
    mask = torch.tensor([[True, False, True, False], [True, False, True, False]])
    old = torch.tensor([1.0, 7.0, 3.0, 4.0])
    batch = replace(toy, negative_mask_BK=mask, threshold_K=old)
    margins = next_threshold(batch, mode=mode)  # type: ignore[arg-type]
    assert margins[[1, 3]].tolist() == [7.0, 4.0]
    assert margins.isfinite().all()
    no_fields = replace(batch, negative_BKD=None, negative_mask_BK=None)
    assert next_threshold(no_fields).tolist() == old.tolist()
    assert rank(no_fields).item() == 0.0


def test_margins_are_read_without_gradient(toy: Any) -> None:
    image = toy.image_BD.clone().requires_grad_()
    margins = next_threshold(replace(toy, image_BD=image))
    assert not margins.requires_grad
    given_margins = margins.clone().requires_grad_()
    loss = rank(replace(toy, image_BD=image, threshold_K=given_margins))
    loss.backward()  # type: ignore[no-untyped-call]
    assert given_margins.grad is None


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.3, 0.6, 0.9]))
def test_two_ranks_with_uneven_counts_give_the_margins_of_the_whole_batch(
    seed: int, share: float
) -> None:
    """Sums and counts of the halves, never the mean of their means."""
    batch = random_batch(seed, batch_size=6, share=share)
    total, count = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.long)
    for part in (torch.arange(2), torch.arange(2, 6)):
        half = rows(batch, part)
        assert half.negative_BKD is not None
        assert half.negative_mask_BK is not None
        for b, k in half.negative_mask_BK.nonzero().tolist():
            other = half.caption_BD[b] - half.negative_BKD[b, k]
            total[k] += half.scale * half.image_BD[b] @ other
            count[k] += 1
    by_hand = (total / count.clamp(min=1)).clamp(0, 2)
    by_hand = torch.where(count > 0, by_hand, batch.threshold_K)
    assert next_threshold(batch, upper=2.0).tolist() == pytest.approx(by_hand.tolist(), abs=1e-12)


def lost(own: float, *others: float) -> float:
    """Cross-entropy of the first among all."""
    return math.log(math.exp(own) + sum(map(math.exp, others))) - own


LOGIT_BC = torch.tensor([[1.0, 2.0, 0.5], [2.0, 4.0, -1.0]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [lost(1, 2, 0.5), lost(4, 2, -1)]),
        ({"target_B": torch.tensor([2, 0])}, [lost(0.5, 1, 2), lost(2, 4, -1)]),
        ({"negative_BK": torch.tensor([[3.0], [-math.inf]])}, [lost(1, 2, 0.5, 3), lost(4, 2, -1)]),
        # What also fits is left out, the own column never.
        ({"also_true_BC": torch.tensor([[True, True, False], [False, True, False]])},
         [lost(1, 0.5), lost(4, 2, -1)]),
    ],
    ids=["own in its place", "another own", "negatives of a row", "also true"],
)  # fmt: skip
def test_info_nce_by_hand(options: dict[str, Any], expected: list[float]) -> None:
    rows = info_nce(LOGIT_BC, **options, reduction="none")
    assert rows.tolist() == pytest.approx(expected)
    mean = info_nce(LOGIT_BC, **options)
    assert float(mean) == pytest.approx(sum(expected) / 2)


def test_dimensions_in_front_are_further_rows() -> None:
    grads = info_nce(torch.stack([LOGIT_BC, 2 * LOGIT_BC]), reduction="none")
    for own, scale in zip(grads, (1, 2), strict=True):
        assert torch.equal(own, info_nce(scale * LOGIT_BC, reduction="none"))


def test_blocks_together_and_one_by_one_give_the_same() -> None:
    rng = torch.Generator().manual_seed(0)
    logit_BB = torch.randn(6, 6, generator=rng)
    negative_BK = torch.randn(6, 2, generator=rng)
    also_true_BB = torch.zeros(6, 6).bool()
    also_true_BB[0, 1] = also_true_BB[5, 4] = also_true_BB[0, 5] = True
    parts = [slice(at, at + 2) for at in (0, 2, 4)]
    together = torch.stack([logit_BB[part, part] for part in parts])
    losses = []
    for i in range(6):
        others = [j for j in (i // 2 * 2, i // 2 * 2 + 1) if j != i]
        row = [logit_BB[i, j].item() for j in others if not also_true_BB[i, j]]
        column = [logit_BB[j, i].item() for j in others if not also_true_BB[j, i]]
        own = logit_BB[i, i].item()
        losses += [lost(own, *negative_BK[i].tolist(), *row), lost(own, *column)]
    expected = pytest.approx(sum(losses) / 12)
    for blocks in (
        [(slice(0, 6), together)],
        [(part, logit_BB[part, part][None]) for part in parts],
    ):
        grads = block_info_nce(blocks, also_true_BB, negative_BK=negative_BK)
        assert float(grads) == expected


def test_a_caption_that_also_fits_is_no_negative(toy: Any) -> None:
    fits = torch.tensor([[True, False], [True, True]])
    # S = [[8, 0], [6, 8]]; the 6 is left out, so only exp(-8) remains in one row and one column.
    loss = contrastive(replace(toy, also_true_BB=fits))
    assert loss.item() == pytest.approx(soft(-8.0) / 2, rel=1e-9)


PAGE = (Path(__file__).parents[2] / "docs" / "background" / "losses.md").read_text(encoding="utf-8")


def test_the_page_has_exactly_the_losses_of_the_code() -> None:
    headings = re.findall(r"^### `(\w+)`$", PAGE, flags=re.MULTILINE)
    assert sorted(headings) == sorted(names("loss"))


def test_each_says_where_it_is_from_and_what_happens_without_edits() -> None:
    for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        text = re.split(r"^## ", part, flags=re.MULTILINE)[0]
        assert "Source: " in text
        assert re.search(r"^Without (negatives|positives): ", text, flags=re.MULTILINE)
