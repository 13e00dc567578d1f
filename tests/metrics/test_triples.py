from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unbag.data import PixelImage
from unbag.metrics import Triples, triple_outcomes
from unbag.metrics.triples import TextOnly
from unbag.types import Case, FloatArray, Item, Outcomes, Scores, TieRule

Make = Callable[..., Case]
TRUE = [1, 0, 1]
ROWS = [
    [0.30, 0.25, 0.28],
    [0.30, 0.25, 0.20],
    [0.20, 0.25, 0.30],
    [0.20, 0.25, 0.22],
    [0.25, 0.25, 0.30],
]


def outcomes_of(cases: list[Case], ties: TieRule = "wrong") -> dict[str, Outcomes]:
    return {outcome.metric: outcome for outcome in Triples()(cases, ties=ties, tie_eps=0.0)}


def means(cases: list[Case], ties: TieRule = "wrong") -> dict[str, float]:
    return {
        name: float(outcome.value_U.mean()) for name, outcome in outcomes_of(cases, ties).items()
    }


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
    result = means([case([0.3, 0.3, 0.3], TRUE)], "half")
    assert result["original"] == 0.5
    assert result["augmented"] == 0.25
    assert result["brittleness"] == 0.5
    assert result["share_tie"] == 1.0


def test_right_and_argmax(case: Make) -> None:
    tied = [case([0.3, 0.3, 0.3], TRUE)]
    assert means(tied, "right")["augmented"] == 1.0
    assert means(tied, "right")["brittleness"] == 0.0
    # c stands before c_n and wins under argmax_first; c_p stands behind it and loses.
    assert means(tied, "argmax_first")["original"] == 1.0
    assert means(tied, "argmax_first")["brittleness"] == 1.0
    assert means(tied, "argmax_last")["original"] == 0.0


def test_a_tie_between_the_two_true_ones_is_no_tie(case: Make) -> None:
    result = outcomes_of([case([0.3, 0.2, 0.3], TRUE)])
    assert result["augmented"].value_U[0] == 1.0
    assert not result["augmented"].tie_U[0]


def test_chance_levels_and_kinds(case: Make) -> None:
    result = outcomes_of([case(ROWS[0], TRUE)])
    assert result["original"].chance_U[0] == 1 / 2
    assert result["augmented"].chance_U[0] == result["brittleness"].chance_U[0] == 1 / 3
    assert result["augmented"].chance_independent == 1 / 4
    assert result["brittleness"].chance_independent == 1 / 2
    assert result["original"].chance_independent is None
    assert np.isnan(result["mean_original"].chance_U[0])
    assert [n for n, outcome in result.items() if not outcome.is_rate] == [
        "mean_original",
        "mean_negative",
        "mean_positive",
    ]


def test_repeated_captions_and_other_shapes_are_left_out(case: Make) -> None:
    original = outcomes_of(
        [
            case(ROWS[0], TRUE, name="p = c", captions=["a", "b", "a"]),
            case(ROWS[0], TRUE, name="n = p", captions=["a", "b", "b"]),
            case(ROWS[0], [1, 0, 0], name="one true"),
            case([0.1, 0.2], [1, 0], name="two captions"),
            case(ROWS[0], TRUE, name="kept"),
        ]
    )
    assert all(outcome.units == ("kept",) for outcome in original.values())


def test_nan_and_empty(case: Make) -> None:
    for outcome in outcomes_of([case([0.3, np.nan, 0.2], TRUE)]).values():
        assert np.isnan(outcome.value_U[0])
        assert not outcome.tie_U[0]
    assert all(len(outcome.units) == 0 for outcome in outcomes_of([]).values())


scores = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 20), st.just(3)),
    elements=st.floats(-1, 1) | st.sampled_from([0.0, 0.5]),
)


@given(scores, st.sampled_from(["wrong", "half", "right", "argmax_first", "argmax_last"]))
def test_the_five_shares_sum_to_one(score_NC: FloatArray, ties: TieRule) -> None:
    true_NC = np.tile(np.array([True, False, True]), (len(score_NC), 1))
    result = triple_outcomes(score_NC, true_NC, ties=ties)
    shares = [outcome.value_N for name, outcome in result.items() if name.startswith("share_")]
    assert len(shares) == 5
    np.testing.assert_array_equal(np.sum(shares, axis=0), 1.0)


@given(scores)
def test_the_published_drop_is_half_of_brittleness(score_NC: FloatArray) -> None:
    true_NC = np.tile(np.array([True, False, True]), (len(score_NC), 1))
    result = {name: outcome.value_N for name, outcome in triple_outcomes(score_NC, true_NC).items()}
    clear_N = result["share_tie"] == 0
    drop_N = result["original"] - result["augmented"]
    np.testing.assert_array_equal(drop_N[clear_N], result["share_neg_like_hp"][clear_N])
    halves_N = result["share_neg_like_hp"] + result["share_hp_over_orig"]
    np.testing.assert_array_equal(result["brittleness"], halves_N)
    assert (drop_N[clear_N] <= result["brittleness"][clear_N]).all()


IMAGE = PixelImage(np.zeros((2, 2, 3), np.uint8))


def similar(cp: float, cn: float, pn: float, *, name: str = "a") -> Case:
    """Captions stand as c, c_n, c_p."""
    item = Item(name, (IMAGE,), ("c", "n", "p"), np.array([[True, False, True]]))
    caption_CC: FloatArray = np.array([[1, cn, cp], [cn, 1, pn], [cp, pn, 1]])
    return Case(item, Scores(name, np.zeros((1, 3)), caption_CC=caption_CC))


def test_the_example_of_the_documentation() -> None:
    cases = [similar(0.9, 0.8, 0.7, name="a"), similar(0.7, 0.9, 0.6, name="b")]
    cases += [similar(0.7, 0.6, 0.9, name="c")]
    (result,) = TextOnly()(cases, ties="wrong", tie_eps=0.0)
    assert result.metric == "text_only"
    assert result.value_U.tolist() == [1.0, 0.0, 0.0]
    assert result.chance_U.tolist() == [1 / 3] * 3


@pytest.mark.parametrize(("ties", "worth"), [("wrong", 0.0), ("right", 1.0), ("half", 0.5)])
def test_a_tie_follows_the_rule(ties: TieRule, worth: float) -> None:
    (result,) = TextOnly()([similar(0.8, 0.8, 0.1)], ties=ties, tie_eps=0.0)
    assert result.value_U.tolist() == [worth]
    assert result.tie_U.tolist() == [True]


def test_scorers_without_vectors_have_no_such_number() -> None:
    outcome = similar(0.9, 0.1, 0.1)
    bare = Case(outcome.item, Scores(outcome.item.id, np.zeros((1, 3))))
    assert list(TextOnly()([bare], ties="wrong", tie_eps=0.0)) == []


def test_a_repeated_caption_asks_nothing() -> None:
    item = Item("x", (IMAGE,), ("c", "n", "c"), np.array([[True, False, True]]))
    twice = Case(item, Scores("x", np.zeros((1, 3)), caption_CC=np.ones((3, 3))))
    assert list(TextOnly()([twice], ties="wrong", tie_eps=0.0)) == []


@given(st.permutations([0.1, 0.2, 0.3]))
def test_right_exactly_when_the_pair_is_closest(values: list[float]) -> None:
    (result,) = TextOnly()([similar(*values)], ties="wrong", tie_eps=0.0)
    assert result.value_U[0] == float(values[0] == 0.3)
