"""Worked numbers of methods.md 7.3, and what turning must keep."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.readouts.pacl import Form, Rope, turned

FORMS: tuple[Form, ...] = ("concatenated", "interleaved")


def test_worked_numbers_of_place_1() -> None:
    vector_NLW = torch.tensor([1.0, 0, 0, 1]).expand(1, 2, 4)
    halves = torch.tensor([0.540302, -0.010000, 0.841471, 0.999950])
    pairs = torch.tensor([0.540302, 0.841471, -0.010000, 0.999950])
    assert torch.allclose(turned(vector_NLW, "1d")[0, 1], halves, atol=1e-6)
    assert torch.allclose(turned(vector_NLW, "1d", "interleaved")[0, 1], pairs, atol=1e-6)


def test_place_0_stays_and_one_form_is_a_permutation_of_the_other() -> None:
    vector_NLW = torch.randn((2, 9, 8), generator=torch.Generator().manual_seed(1))
    pairs, halves = (turned(vector_NLW, "1d", form) for form in ("interleaved", "concatenated"))
    assert torch.equal(pairs[:, 0], vector_NLW[:, 0])
    assert torch.equal(halves, torch.cat([pairs[..., 0::2], pairs[..., 1::2]], dim=-1))
    assert not torch.allclose(pairs[:, 1], vector_NLW[:, 1])


def test_2d_turns_half_by_row_and_half_by_column() -> None:
    vector_NLW = torch.randn((1, 9, 8), generator=torch.Generator().manual_seed(2))
    found_NLW = turned(vector_NLW, "2d", "interleaved")
    for place in range(9):
        row, column = divmod(place, 3)
        by_row = turned(vector_NLW[:, place, :4].expand(1, 3, 4), "1d", "interleaved")[0, row]
        by_column = turned(vector_NLW[:, place, 4:].expand(1, 3, 4), "1d", "interleaved")[0, column]
        assert torch.allclose(found_NLW[0, place], torch.cat([by_row, by_column]), atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(["1d", "2d"]),
    st.sampled_from(FORMS),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 2**20),
)
def test_norms_stay(rope: Rope, form: Form, side: int, quads: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    vector_NLW = torch.randn((2, side * side, 4 * quads), generator=rng)
    assert torch.allclose(turned(vector_NLW, rope, form).norm(dim=-1), vector_NLW.norm(dim=-1))


def test_products_depend_on_the_distance_of_places_only() -> None:
    one, other = torch.randn((2, 8), generator=torch.Generator().manual_seed(3))
    first, second = (turned(v.expand(1, 700, 8), "1d")[0] for v in (one, other))
    assert float(first[2] @ second[5]) == pytest.approx(float(first[650] @ second[653]), abs=1e-5)


def test_none_is_what_came_in() -> None:
    vector_NLW = torch.ones((1, 2, 3))
    assert turned(vector_NLW, "none") is vector_NLW


@pytest.mark.parametrize(
    ("rope", "shape", "said"),
    [
        ("1d", (1, 4, 5), "vectors of width 5 cannot be rotated with rope=1d"),
        ("2d", (1, 4, 6), "vectors of width 6 cannot be rotated with rope=2d"),
        ("2d", (1, 6, 8), "6 patches do not form a square"),
    ],
)
def test_what_cannot_be_turned_is_said(rope: Rope, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(UnbagError, match=said):
        turned(torch.zeros(shape), rope)
