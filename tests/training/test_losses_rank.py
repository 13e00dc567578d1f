"""Margins of the rank loss: how they move, their bounds, and what missing negatives do to them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.training.losses import next_threshold, rank
from unbag.types import Embedded

from .batches import random_batch, rows

# Gaps S(I, T) - S(I, T_k) of the toy batch; the 8.0 of caption 1 is missing.
#   caption 0: 2.0, 5.2, 8.0, -1.6     caption 1: (8.0), 2.0, 5.2, -1.6


def test_margins_are_held_between_zero_and_the_bound(toy: Embedded) -> None:
    assert next_threshold(toy, upper=None).tolist() == pytest.approx([2, 3.6, 6.6, 0])
    assert next_threshold(toy, upper=5.0).tolist() == pytest.approx([2, 3.6, 5, 0])
    at_bound = replace(toy, threshold_K=torch.full((4,), 5.0))
    assert rank(at_bound, reduction="sum").item() == pytest.approx(3 + 6.6 + 3 + 6.6)


def test_the_largest_gap_divided_by_five(toy: Embedded) -> None:
    margins = next_threshold(toy, mode="largest", upper=1.5)
    assert margins.tolist() == pytest.approx([0.4, 1.04, 1.5, 0])


def test_fixed_margins_stay(toy: Embedded) -> None:
    margins = next_threshold(replace(toy, threshold_K=torch.ones(4)), mode="fixed", fixed=2.0)
    assert margins.tolist() == [2.0] * 4


def test_a_true_similarity_of_zero_is_not_taken_for_missing(toy: Embedded) -> None:
    """S(I0, T02) is 0; the released formula leaves it out and says 5.2 for that kind."""
    assert next_threshold(toy)[2].item() == pytest.approx(6.6)


@pytest.mark.parametrize("mode", ["adaptive", "largest"])
def test_a_kind_without_a_negative_keeps_its_margin(toy: Embedded, mode: str) -> None:
    mask = torch.tensor([[True, False, True, False], [True, False, True, False]])
    old = torch.tensor([1.0, 7.0, 3.0, 4.0])
    batch = replace(toy, negative_mask_BK=mask, threshold_K=old)
    margins = next_threshold(batch, mode=mode)  # type: ignore[arg-type]
    assert margins[[1, 3]].tolist() == [7.0, 4.0]
    assert margins.isfinite().all()
    no_fields = replace(batch, negative_BKD=None, negative_mask_BK=None)
    assert next_threshold(no_fields).tolist() == old.tolist()
    assert rank(no_fields).item() == 0.0


def test_margins_are_read_without_gradient(toy: Embedded) -> None:
    image = toy.image_BD.clone().requires_grad_()
    margins = next_threshold(replace(toy, image_BD=image))
    assert not margins.requires_grad
    asked = margins.clone().requires_grad_()
    loss = rank(replace(toy, image_BD=image, threshold_K=asked))
    loss.backward()  # type: ignore[no-untyped-call]
    assert asked.grad is None
    assert image.grad is not None


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.3, 0.6, 0.9]))
def test_two_ranks_with_uneven_counts_give_the_margins_of_the_whole_batch(
    seed: int, share: float
) -> None:
    """Sums and counts of the halves, never the mean of their means."""
    batch = random_batch(seed, batch_size=6, share=share)
    assert batch.threshold_K is not None
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


def test_unknown_options_are_named(toy: Embedded) -> None:
    with pytest.raises(UnbagError, match="unknown reduction 'mean'") as caught:
        rank(toy, reduction="mean")  # type: ignore[arg-type]
    assert caught.value.expected == "did you mean 'cell_mean' or 'valid_mean'?"
    with pytest.raises(UnbagError, match="unknown mode of thresholds 'max'"):
        next_threshold(toy, mode="max")  # type: ignore[arg-type]
