"""What every registered loss keeps: finite, blind to what is masked, to order and to ranks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unbag.registry import find, names
from unbag.training.losses import (
    contrastive,
    intra_modal,
    negatives,
    positives,
    rank,
    sigmoid,
    svlc_positive,
    triple_margin,
)
from unbag.training.objective import Loss
from unbag.types import Embedded

from .batches import leaves, planted, random_batch, refill, rows, without_edits

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
    found = torch.autograd.grad(loss(planted(embedded, values)), values, allow_unused=True)
    return tuple(
        torch.zeros_like(value) if gradient is None else gradient
        for value, gradient in zip(values, found, strict=True)
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
    assert batch.negative_mask_BK is not None
    assert batch.positive_mask_BK is not None
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
    assert image.grad is not None
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
    assert batch.also_true_BB is not None
    assert batch.negative_true_BBK is not None
    assert batch.also_true_BB.any()
    assert batch.negative_true_BBK.any()
    loss: Callable[..., Tensor] = LOSSES[name]
    assert torch.autograd.gradcheck(lambda *v: loss(planted(batch, v)), leaves(batch))


@each
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_an_additional_kind_that_no_caption_has_changes_nothing(name: str, seed: int) -> None:
    batch = random_batch(seed)
    assert batch.negative_BKD is not None
    assert batch.negative_mask_BK is not None
    assert batch.negative_true_BBK is not None
    assert batch.threshold_K is not None
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


def captions_with_negatives(embedded: Embedded) -> int:
    return int(negatives(embedded).mask_BK.any(dim=1).sum())


def negatives_there(embedded: Embedded) -> int:
    return int(negatives(embedded).mask_BK.sum())


def comparisons(embedded: Embedded) -> int:
    wrong = negatives(embedded).mask_BK.sum(dim=1)
    return int((wrong * (1 + positives(embedded).mask_BK.sum(dim=1))).sum())


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
