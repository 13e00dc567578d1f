"""Options and masks of single losses, against the same thing written out by hand."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unbag.errors import UnbagError
from unbag.training.losses import (
    contrastive,
    contrastive_negatives,
    distil,
    intra_modal,
    sigmoid,
    svlc_negative,
    svlc_positive,
    triple_margin,
)
from unbag.types import Embedded

from .batches import random_batch, rows

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


def first_negative(toy: Embedded) -> Embedded:
    assert toy.negative_BKD is not None
    return replace(toy, negative_BKD=toy.negative_BKD[:, :1], negative_mask_BK=None)


def test_a_negative_that_fits_another_image_is_no_negative_there(toy: Embedded) -> None:
    fits = torch.zeros(2, 2, 1, dtype=torch.bool)
    fits[1, 0, 0] = True  # the 8: negative of caption 0 with image 1
    loss = contrastive_negatives(replace(first_negative(toy), negative_true_BBK=fits))
    to_caption = (entropy([[8, 0, 6, 6]], [0]) + entropy([[6, 8, 0]], [1])) / 2
    assert loss.item() == pytest.approx((to_caption + 0.0636317) / 2, abs=1e-6)


def test_svlc_negative_is_a_mean_over_captions_that_have_negatives(toy: Embedded) -> None:
    mask = torch.tensor([[True], [False]])
    loss = svlc_negative(replace(first_negative(toy), negative_mask_BK=mask))
    assert loss.item() == pytest.approx(soft(-2.0), abs=1e-12)


def test_svlc_positive_both_ways(toy: Embedded) -> None:
    turned = [list(column) for column in zip(*IMAGE_POSITIVE, strict=True)]
    turned_too = [list(column) for column in zip(*CAPTION_POSITIVE, strict=True)]
    by_hand = sum(
        entropy(logits, [0, 1]) for logits in (IMAGE_POSITIVE, CAPTION_POSITIVE, turned, turned_too)
    )
    assert svlc_positive(toy, symmetric=True).item() == pytest.approx(by_hand / 4, abs=1e-9)


def test_svlc_positive_equal_in_the_batch_of_captions_and_positives(toy: Embedded) -> None:
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
    assert batch.positive_BKD is not None
    batch = replace(batch, positive_BKD=batch.positive_BKD[:, :1], positive_mask_BK=mask)
    there = replace(rows(batch, torch.tensor([0, 2, 4])), positive_mask_BK=None)
    assert there.positive_BKD is not None
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


def test_several_positives_of_a_caption_are_averaged_and_no_rivals(toy: Embedded) -> None:
    """Caption 0 has two: P and T itself; each is held against the one positive of caption 1."""
    assert toy.positive_BKD is not None
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


def test_a_positive_of_a_caption_that_also_fits_is_no_rival(toy: Embedded) -> None:
    both = torch.tensor([[False, False], [True, False]])  # caption 0 also fits image 1
    batch = replace(toy, also_true_BB=both)
    finds = (soft(0 - 9.6) + soft(3.6 - 9.36)) / 4
    assert svlc_positive(batch).item() == pytest.approx(finds, abs=1e-9)
    # Positive 0 has no rival images or captions left; positive 1 has those of sample 0.
    found = (soft(0 - 6.0) + soft(3.6 - 9.6)) / 4
    symmetric = svlc_positive(batch, symmetric=True).item()
    assert symmetric == pytest.approx((finds + found) / 2, abs=1e-9)
    # Image 0 chooses from all captions and positives, image 1 from its own two.
    whole = math.log(math.exp(8) + 2 + math.exp(9.6)) - (8 + 9.6) / 2
    own = math.log(math.exp(8) + math.exp(6)) - (8 + 6) / 2
    added = svlc_positive(batch, common_batch=1.0).item() - finds
    assert added == pytest.approx((whole + own) / 2 - math.log(2), abs=1e-9)


def test_only_the_printed_intra_modal_contrast_falls_without_end(toy: Embedded) -> None:
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


def test_intra_modal_against_the_batch_leaves_out_what_is_missing_or_true(toy: Embedded) -> None:
    fits = torch.zeros(2, 2, 4, dtype=torch.bool)
    fits[0, 1, 3] = True
    loss = intra_modal(replace(toy, negative_true_BBK=fits), denominator="batch")
    # S(T, negatives of caption 0), then of caption 1 without its first; the 5.76 is left out.
    first = entropy([[8, 9.6, 8, 3.6, 7.68, 10, 1.68]], [0])
    second = entropy([[8, 6.4, 7.68, 9.6, 1.68, 4.8, 8, 9.36]], [0])
    assert loss.item() == pytest.approx((first + second) / 2, abs=1e-9)


def test_sigmoid_by_hand(toy: Embedded) -> None:
    plain = replace(toy, negative_BKD=None, negative_mask_BK=None)
    # Bias -10: the pairs are at -2, the others at -10 and -4.
    total = 2 * soft(2.0) + soft(-10.0) + soft(-4.0)
    assert sigmoid(plain).item() == pytest.approx(total / 4, abs=1e-12)
    assert sigmoid(plain, reduction="rows").item() == pytest.approx(total / 2, abs=1e-12)
    more = total + sum(soft(value - 10) for row in NEGATIVES for value in row)
    one = first_negative(toy)
    assert sigmoid(one).item() == pytest.approx(more / 8, abs=1e-12)
    assert sigmoid(one, reduction="rows").item() == pytest.approx(more / 2, abs=1e-12)
    both = torch.tensor([[True, False], [True, True]])
    fewer = (more - soft(-4.0)) / 7
    assert sigmoid(replace(one, also_true_BB=both)).item() == pytest.approx(fewer, abs=1e-12)


def test_triple_margin_by_hand(toy: Embedded) -> None:
    one = first_negative(toy)
    gaps = [6 - 8.0, 6 - 9.6, 0 - 8.0, 0 - 6.0]  # negative over caption and over positive
    by_hand = sum(soft(gap) for gap in gaps) / 4
    assert triple_margin(one).item() == pytest.approx(by_hand, abs=1e-12)
    hinge = sum(max(0.0, gap + 3.0) for gap in gaps) / 4
    assert triple_margin(one, form="hinge", margin=3.0).item() == pytest.approx(hinge, abs=1e-12)
    no_positive = replace(one, positive_mask_BK=torch.tensor([[True], [False]]))
    by_hand = sum(soft(gap) for gap in gaps[:3]) / 3
    assert triple_margin(no_positive).item() == pytest.approx(by_hand, abs=1e-12)


def test_distil_by_hand(toy: Embedded) -> None:
    def divergence(old: list[float], now: list[float]) -> float:
        p, q = (torch.softmax(double([row]), dim=1)[0].tolist() for row in (old, now))
        return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))

    # At scale 2 with one-hot vectors the old matrix is [[2, 0], [0, 2]].
    start = replace(toy, caption_BD=toy.image_BD, scale=torch.tensor(2.0, dtype=torch.float64))
    by_hand = divergence([2, 0], [8, 0]) + divergence([0, 2], [6, 8])
    by_hand += divergence([2, 0], [8, 6]) + divergence([0, 2], [0, 8])
    assert distil(replace(toy, start=start)).item() == pytest.approx(by_hand / 4, abs=1e-9)
    assert distil(replace(toy, start=toy)).item() == pytest.approx(0.0, abs=1e-12)


def test_distil_does_not_teach_the_starting_weights(toy: Embedded) -> None:
    vectors = toy.caption_BD.clone().requires_grad_()
    old = replace(toy, caption_BD=vectors, scale=torch.tensor(3.0, requires_grad=True))
    now = toy.caption_BD.clone().requires_grad_()
    distil(replace(toy, caption_BD=now, start=old)).backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is None
    assert old.scale.grad is None
    assert now.grad is not None
    assert now.grad.any()


def test_distil_without_a_start_is_an_error(toy: Embedded) -> None:
    with pytest.raises(UnbagError) as caught:
        distil(toy)
    assert str(caught.value).splitlines() == [
        "the loss 'distil' got no vectors of the initial weights",
        "  expected: Embedded.start, the same batch embedded by the weights before training",
        "  hint:     Term(..., needs_start=True) makes the trainer compute them",
    ]


def test_an_unknown_option_is_named(toy: Embedded) -> None:
    with pytest.raises(UnbagError, match="unknown denominator 'with_positives'") as caught:
        intra_modal(toy, denominator="with_positives")  # type: ignore[arg-type]
    assert caught.value.expected == "did you mean 'with_positive'?"
    with pytest.raises(UnbagError, match="unknown reduction 'row'"):
        sigmoid(toy, reduction="row")  # type: ignore[arg-type]
    with pytest.raises(UnbagError, match="unknown form 'relu'"):
        triple_margin(toy, form="relu")  # type: ignore[arg-type]


def test_without_negatives_the_losses_with_negatives_are_the_plain_ones(toy: Embedded) -> None:
    bare = replace(toy, negative_BKD=None, negative_mask_BK=None)
    assert contrastive_negatives(bare).item() == contrastive(bare).item()
