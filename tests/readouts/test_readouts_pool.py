"""Pools: batches by row number, what is also true, groups, and an order of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.readouts.data import Pool, RowOrder, cast_finite
from unbag.training.data.batch import Truth
from unbag.types import TokenFeatures


def parts(count: int, width: int = 2) -> TokenFeatures:
    """Vector n is full of n."""
    vector_NW = torch.arange(float(count))[:, None].expand(count, width).clone()
    return TokenFeatures(vector_NW[:, None], torch.ones((count, 1)).bool(), vector_NW)


def same_colour(code: Mapping[str, Tensor]) -> Truth:
    colour_B = code["colour"]
    return Truth(colour_B[:, None] == colour_B)


def pool(*, group: int = 1) -> Pool:
    return Pool(
        image=parts(3),
        caption=parts(9),
        image_N=torch.tensor([0, 1, 2, 0]),
        caption_N=torch.tensor([5, 6, 7, 8]),
        negative_NK=torch.tensor([[0, 1], [2, -1], [-1, -1], [3, 4]]),
        code={"colour": torch.tensor([1, 2, 1, 1])},
        find_truth=same_colour,
        group=group,
    )


def firsts(given: TokenFeatures | None) -> list[float]:
    assert given is not None
    return given.pooled[:, 0].tolist()


def test_a_batch_holds_the_rows_asked_for() -> None:
    batch = pool().batch(torch.tensor([3, 1]), device="cpu")
    assert firsts(batch.image) == [0, 1]
    assert firsts(batch.caption) == [8, 6]
    assert firsts(batch.negative) == [3, 4, 2, 0]
    # The last of them stands where there is none.
    assert batch.negative_mask_BK.tolist() == [[True, True], [True, False]]


def test_rows_with_one_negative_alone() -> None:
    found = pool().only(1)
    assert len(found) == 2
    batch = found.batch(torch.tensor([0, 1]), device="cpu")
    assert firsts(batch.image) == [0, 0]
    assert firsts(batch.caption) == [5, 8]
    assert firsts(batch.negative) == [1, 4]
    assert batch.negative_mask_BK.tolist() == [[True], [True]]
    assert batch.also_true_BB.tolist() == [[False, True], [True, False]]
    assert len(pool().rows(1, 3).only(1)) == 0


def test_also_true_is_of_other_rows_only() -> None:
    batch = pool().batch(torch.tensor([0, 1, 2, 3]), device="cpu")
    assert batch.also_true_BB.long().tolist() == [
        [0, 0, 1, 1],
        [0, 0, 0, 0],
        [1, 0, 0, 1],
        [1, 0, 1, 0],
    ]


def test_without_negatives_there_are_none() -> None:
    batch = pool().batch(torch.tensor([0]), device="cpu", with_negatives=False)
    assert batch.negative is None
    assert batch.negative_mask_BK.shape == (1, 0)


def test_half_precision_is_kept_and_batches_are_whole() -> None:
    half = pool().to("cpu", torch.float16)
    assert half.image.vector_NLW.dtype == torch.float16
    assert half.nbytes == 12 * (2 * 2 * 2 + 1)
    assert half.batch(torch.tensor([0]), device="cpu").image.vector_NLW.dtype == torch.float32
    assert half.near("cpu").image.vector_NLW.dtype == torch.float16


def test_some_rows_share_images_and_strings() -> None:
    some = pool().rows(1, 3)
    assert len(some) == 2
    assert some.image.vector_NLW.shape == (3, 1, 2)
    batch = some.batch(torch.tensor([1, 0]), device="cpu")
    assert firsts(batch.caption) == [7, 6]
    assert not batch.also_true_BB.any()


def test_an_epoch_has_every_row_once_whatever_came_before() -> None:
    order = RowOrder(pool(), batch_size=2, seed=3)
    assert order.per_epoch == 2
    steps = [order(step).tolist() for step in range(6)]
    for epoch in range(3):
        assert sorted(steps[2 * epoch] + steps[2 * epoch + 1]) == [0, 1, 2, 3]
    assert RowOrder(pool(), batch_size=2, seed=3)(5).tolist() == steps[5]
    other = [RowOrder(pool(), batch_size=2, seed=4)(step).tolist() for step in range(6)]
    assert other != steps


def test_groups_stay_together_and_side_by_side() -> None:
    order = RowOrder(pool(group=2), batch_size=3, seed=0)
    # A batch of three has room for one group of two.
    assert order.per_epoch == 2
    assert sorted(order(step).tolist() for step in range(2)) == [[0, 1], [2, 3]]


def test_a_batch_larger_than_the_pool_is_the_pool() -> None:
    order = RowOrder(pool(), batch_size=100, seed=0)
    assert sorted(order(0).tolist()) == [0, 1, 2, 3]


def test_features_beyond_half_precision_are_told() -> None:
    large = parts(3)
    large.vector_NLW[1, 0, 0] = 1e6
    assert cast_finite(large, "cpu", torch.float32).vector_NLW.max() == 1e6
    with pytest.raises(UnbagError) as caught:
        cast_finite(large, "cpu", torch.float16)
    assert caught.value.message == "features of up to 1e+06"
    assert caught.value.expected == "finite values of at most 65504, the precision of pools"
