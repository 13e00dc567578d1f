"""What training changed, as thin matrices: exact where the rank is enough, else the nearest."""

import pytest
import torch
from torch import Tensor

from unbag.readouts.decoder.saving import apply_change, factored


def weights(seed: int) -> dict[str, Tensor]:
    """A matrix under two names, a vector, and a tall matrix."""
    torch.manual_seed(seed)
    square = torch.randn(12, 12)
    return {"in": square, "norm": torch.randn(12), "tall": torch.randn(40, 12), "out": square}


def test_a_change_of_small_rank_comes_back_as_it_was() -> None:
    first, second = weights(0), weights(1)
    second["tall"] = first["tall"] + torch.randn(40, 2) @ torch.randn(2, 12)
    change = factored(first, second, rank=2)
    assert change["tall.tall_OR"].shape == (40, 2)
    assert change["tall.wide_RI"].shape == (2, 12)
    apply_change(first, change)
    torch.testing.assert_close(first["tall"], second["tall"], atol=1e-5, rtol=1e-5)
    # A vector is as it is, whatever the rank.
    torch.testing.assert_close(first["norm"], second["norm"])


def test_no_other_change_of_that_rank_is_nearer() -> None:
    first, second = weights(0), weights(1)
    before, wanted = first["tall"].clone(), second["tall"] - first["tall"]
    apply_change(first, factored(first, second, rank=3))
    found = first["tall"] - before
    left = torch.linalg.matrix_norm(wanted - found)
    strength = torch.linalg.svdvals(wanted)
    torch.testing.assert_close(left, strength[3:].square().sum().sqrt(), atol=1e-4, rtol=1e-4)
    assert int(torch.linalg.matrix_rank(found, tol=1e-4)) == 3


def test_a_weight_under_two_names_is_changed_once() -> None:
    first, second = weights(0), weights(1)
    change = factored(first, second, rank=100)
    assert not [name for name in change if name.startswith("out")]
    apply_change(first, change)
    torch.testing.assert_close(first["in"], second["in"])
    torch.testing.assert_close(first["out"], second["out"])


def test_a_change_of_other_weights_changes_none() -> None:
    first, second = weights(0), weights(1)
    change = factored(first, second, rank=2)
    for wrong in (
        {name: value for name, value in change.items() if not name.startswith("norm")},
        {**change, "norm.whole": torch.ones(3)},
        {**change, "tall.wide_RI": torch.ones(2, 1)},
        {**change, "tall.wide_RI": torch.ones(3, 12)},
    ):
        with pytest.raises((KeyError, RuntimeError)):
            apply_change(first, wrong)
    assert all(torch.equal(first[name], value) for name, value in weights(0).items())


def test_thin_matrices_that_would_take_more_room_are_not_made() -> None:
    change = factored(weights(0), weights(1), rank=6)
    # 6 * (12 + 12) numbers are no fewer than 12 * 12; 6 * (40 + 12) are fewer than 40 * 12.
    assert "in.whole" in change
    assert "tall.tall_OR" in change
