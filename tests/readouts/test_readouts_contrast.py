"""The loss of readers and the share told apart, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unbag.models.features import JOINT
from unbag.readouts.reader import Reader, ReaderBatch, accuracies, contrast
from unbag.types import TokenFeatures


class Product(Reader):
    """Numbers times numbers."""

    name, view = "product", JOINT

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.settings, self.scale = None, scale

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        return (image.pooled * caption.pooled).sum(dim=-1)


def parts(*numbers: float) -> TokenFeatures:
    vector_N1 = torch.tensor(numbers, dtype=torch.float32)[:, None]
    return TokenFeatures(vector_N1[:, None], torch.ones((len(numbers), 1)).bool(), vector_N1)


def batch(
    also: list[list[bool]] | None = None, *, mask: list[list[bool]] | None = None
) -> ReaderBatch:
    """Scores are [[1, 2], [2, 4]]; negatives score 3 for the first image, -2 for the second."""
    return ReaderBatch(
        image=parts(1, 2),
        caption=parts(1, 2),
        negative=parts(3, -1),
        negative_mask_BK=torch.tensor(mask or [[True], [True]]),
        also_true_BB=torch.tensor(also or [[False, False], [False, False]]),
    )


def lost(own: float, *others: float) -> float:
    """Cross-entropy of the first among all."""
    return math.log(math.exp(own) + sum(map(math.exp, others))) - own


def test_two_by_two_with_a_negative_each() -> None:
    rows = (lost(1, 2, 3) + lost(4, 2, -2)) / 2
    columns = (lost(1, 2) + lost(4, 2)) / 2
    assert float(contrast(Product(), batch(), contrast_size=2)) == pytest.approx(
        (rows + columns) / 2
    )


def test_a_scale_multiplies_every_score() -> None:
    rows = (lost(0.5, 1, 1.5) + lost(2, 1, -1)) / 2
    columns = (lost(0.5, 1) + lost(2, 1)) / 2
    found = contrast(Product(0.5), batch(), contrast_size=2)
    assert float(found) == pytest.approx((rows + columns) / 2)


def test_captions_that_fit_too_and_missing_negatives_are_left_out() -> None:
    # Caption 1 also fits image 0, and image 1 has no negative.
    given = batch([[False, True], [False, False]], mask=[[True], [False]])
    rows = (lost(1, 3) + lost(4, 2)) / 2
    columns = (lost(1, 2) + lost(4)) / 2
    assert float(contrast(Product(), given, contrast_size=2)) == pytest.approx((rows + columns) / 2)


def test_crowds_of_one_are_told_from_their_negatives_alone() -> None:
    rows = (lost(1, 3) + lost(4, -2)) / 2
    assert float(contrast(Product(), batch(), contrast_size=1)) == pytest.approx(rows / 2)


def test_blocks_of_a_matrix_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.readouts.reader.PAIRS_AT_ONCE", 4)
    found = Product().compare_all(parts(1, 2, 3), parts(1, 10, 100))
    assert found.tolist() == [[1, 10, 100], [2, 20, 200], [3, 30, 300]]


def test_told_apart_means_above_all_negatives_and_a_tie_is_a_miss() -> None:
    assert accuracies(Product(), batch()).tolist() == [False, True]
    tie = ReaderBatch(
        image=parts(1),
        caption=parts(1),
        negative=parts(0, 1),
        negative_mask_BK=torch.tensor([[True, True]]),
        also_true_BB=torch.zeros((1, 1)).bool(),
    )
    assert accuracies(Product(), tie).tolist() == [False]
