"""InfoNCE on logits, worked by hand: own columns, hard negatives, what is left out, blocks."""

from __future__ import annotations

import math

import pytest
import torch

from unbag.training.losses import block_info_nce, info_nce


def lost(own: float, *others: float) -> float:
    """Cross-entropy of the first among all."""
    return math.log(math.exp(own) + sum(map(math.exp, others))) - own


LOGIT_BC = torch.tensor([[1.0, 2.0, 0.5], [2.0, 4.0, -1.0]])


def test_each_row_finds_the_column_in_its_place() -> None:
    rows = [lost(1, 2, 0.5), lost(4, 2, -1)]
    assert info_nce(LOGIT_BC, reduction="none").tolist() == pytest.approx(rows)
    assert float(info_nce(LOGIT_BC)) == pytest.approx(sum(rows) / 2)


def test_the_own_column_may_be_another() -> None:
    found = info_nce(LOGIT_BC, torch.tensor([2, 0]), reduction="none")
    assert found.tolist() == pytest.approx([lost(0.5, 1, 2), lost(2, 4, -1)])


def test_negatives_are_columns_of_their_row_alone() -> None:
    negative_BK = torch.tensor([[3.0], [-math.inf]])
    found = info_nce(LOGIT_BC, negative_BK=negative_BK, reduction="none")
    assert found.tolist() == pytest.approx([lost(1, 2, 0.5, 3), lost(4, 2, -1)])


def test_what_fits_too_is_left_out_and_the_own_column_never() -> None:
    also_true_BC = torch.tensor([[True, True, False], [False, True, False]])
    found = info_nce(LOGIT_BC, also_true_BC=also_true_BC, reduction="none")
    assert found.tolist() == pytest.approx([lost(1, 0.5), lost(4, 2, -1)])


def test_dimensions_in_front_are_further_rows() -> None:
    found = info_nce(torch.stack([LOGIT_BC, 2 * LOGIT_BC]), reduction="none")
    for own, scale in zip(found, (1, 2), strict=True):
        assert torch.equal(own, info_nce(scale * LOGIT_BC, reduction="none"))


def test_blocks_of_like_size_together_and_one_by_one_give_the_same() -> None:
    rng = torch.Generator().manual_seed(0)
    logit_BB = torch.randn(6, 6, generator=rng)
    negative_BK = torch.randn(6, 2, generator=rng)
    also_true_BB = torch.zeros(6, 6).bool()
    also_true_BB[0, 1] = also_true_BB[5, 4] = also_true_BB[0, 5] = True
    parts = [slice(at, at + 2) for at in (0, 2, 4)]
    together = torch.stack([logit_BB[part, part] for part in parts])
    rows = [
        lost(
            *(logit_BB[i, i].item(), *negative_BK[i].tolist()),
            *(
                logit_BB[i, j].item()
                for j in (i // 2 * 2, i // 2 * 2 + 1)
                if j != i and not also_true_BB[i, j]
            ),
        )
        for i in range(6)
    ]
    columns = [
        lost(
            logit_BB[j, j].item(),
            *(
                logit_BB[i, j].item()
                for i in (j // 2 * 2, j // 2 * 2 + 1)
                if i != j and not also_true_BB[i, j]
            ),
        )
        for j in range(6)
    ]
    expected = pytest.approx((sum(rows) + sum(columns)) / 12)
    for blocks in (
        [(slice(0, 6), together)],
        [(part, logit_BB[part, part][None]) for part in parts],
    ):
        found = block_info_nce(blocks, also_true_BB, negative_BK=negative_BK)
        assert float(found) == expected
