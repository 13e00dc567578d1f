from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unbag.metrics import Triples, triple_outcomes
from unbag.types import Case, FloatArray, Outcomes, TieRule

Make = Callable[..., Case]
TRUE = [1, 0, 1]
ROWS = [
    [0.30, 0.25, 0.28],
    [0.30, 0.25, 0.20],
    [0.20, 0.25, 0.30],
    [0.20, 0.25, 0.22],
    [0.25, 0.25, 0.30],
]


def judge(cases: list[Case], ties: TieRule = "wrong") -> dict[str, Outcomes]:
    return {one.metric: one for one in Triples()(cases, ties=ties, tie_eps=0.0)}


def means(cases: list[Case], ties: TieRule = "wrong") -> dict[str, float]:
    return {name: float(one.value_U.mean()) for name, one in judge(cases, ties).items()}


def test_worked_example(case: Make) -> None:
    cases = [case(row, TRUE, name=f"i{i}") for i, row in enumerate(ROWS)]
    expected = {
        "original": 0.4,
        "augmented": 0.2,
        "brittleness": 0.4,
        "share_augmented": 0.2,
        "share_neg_like_hp": 0.2,
        "share_hp_over_orig": 0.2,
        "share_both_below": 0.2,
        "share_tie": 0.2,
        "mean_original": 0.25,
        "mean_negative": 0.25,
        "mean_positive": 0.26,
    }
    assert means(cases) == pytest.approx(expected, abs=1e-9)


def test_captions_are_found_through_truth(case: Make) -> None:
    moved = [case([n, c, p], [0, 1, 1], name=f"i{i}") for i, (c, n, p) in enumerate(ROWS)]
    plain = [case(row, TRUE, name=f"i{i}") for i, row in enumerate(ROWS)]
    assert means(moved) == means(plain)


def test_half_credits_each_comparison(case: Make) -> None:
    found = means([case([0.3, 0.3, 0.3], TRUE)], "half")
    assert found["original"] == 0.5
    assert found["augmented"] == 0.25
    assert found["brittleness"] == 0.5
    assert found["share_tie"] == 1.0


def test_right_and_argmax(case: Make) -> None:
    tied = [case([0.3, 0.3, 0.3], TRUE)]
    assert means(tied, "right")["augmented"] == 1.0
    assert means(tied, "right")["brittleness"] == 0.0
    # c stands before c_n and wins under argmax_first; c_p stands behind it and loses.
    assert means(tied, "argmax_first")["original"] == 1.0
    assert means(tied, "argmax_first")["brittleness"] == 1.0
    assert means(tied, "argmax_last")["original"] == 0.0


def test_a_tie_between_the_two_true_ones_is_no_tie(case: Make) -> None:
    found = judge([case([0.3, 0.2, 0.3], TRUE)])
    assert found["augmented"].value_U[0] == 1.0
    assert not found["augmented"].tie_U[0]


def test_chance_levels_and_kinds(case: Make) -> None:
    found = judge([case(ROWS[0], TRUE)])
    assert found["original"].chance_U[0] == 1 / 2
    assert found["augmented"].chance_U[0] == found["brittleness"].chance_U[0] == 1 / 3
    assert found["augmented"].chance_independent == 1 / 4
    assert found["brittleness"].chance_independent == 1 / 2
    assert found["original"].chance_independent is None
    assert np.isnan(found["mean_original"].chance_U[0])
    assert [n for n, one in found.items() if not one.is_rate] == [
        "mean_original",
        "mean_negative",
        "mean_positive",
    ]


def test_repeated_captions_and_other_shapes_are_left_out(case: Make) -> None:
    kept = judge(
        [
            case(ROWS[0], TRUE, name="p = c", captions=["a", "b", "a"]),
            case(ROWS[0], TRUE, name="n = p", captions=["a", "b", "b"]),
            case(ROWS[0], [1, 0, 0], name="one true"),
            case([0.1, 0.2], [1, 0], name="two captions"),
            case(ROWS[0], TRUE, name="kept"),
        ]
    )
    assert all(one.units == ("kept",) for one in kept.values())


def test_nan_and_empty(case: Make) -> None:
    for one in judge([case([0.3, np.nan, 0.2], TRUE)]).values():
        assert np.isnan(one.value_U[0])
        assert not one.tie_U[0]
    assert all(len(one.units) == 0 for one in judge([]).values())


scores = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 20), st.just(3)),
    elements=st.floats(-1, 1) | st.sampled_from([0.0, 0.5]),
)


@given(scores, st.sampled_from(["wrong", "half", "right", "argmax_first", "argmax_last"]))
def test_the_five_shares_sum_to_one(score_NC: FloatArray, ties: TieRule) -> None:
    true_NC = np.tile(np.array([True, False, True]), (len(score_NC), 1))
    found = triple_outcomes(score_NC, true_NC, ties=ties)
    shares = [one.value_N for name, one in found.items() if name.startswith("share_")]
    assert len(shares) == 5
    np.testing.assert_array_equal(np.sum(shares, axis=0), 1.0)


@given(scores)
def test_the_published_drop_is_half_of_brittleness(score_NC: FloatArray) -> None:
    true_NC = np.tile(np.array([True, False, True]), (len(score_NC), 1))
    found = {name: one.value_N for name, one in triple_outcomes(score_NC, true_NC).items()}
    clear_N = found["share_tie"] == 0
    drop_N = found["original"] - found["augmented"]
    np.testing.assert_array_equal(drop_N[clear_N], found["share_neg_like_hp"][clear_N])
    halves_N = found["share_neg_like_hp"] + found["share_hp_over_orig"]
    np.testing.assert_array_equal(found["brittleness"], halves_N)
    assert (drop_N[clear_N] <= found["brittleness"][clear_N]).all()
