"""Kendall's tau: values by hand, against SciPy, and the spread of its units."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from unbag.errors import UnbagError
from unbag.metrics import (
    Correlation,
    Statements,
    area_values,
    best_threshold,
    estimate,
    kendall,
)
from unbag.types import Case, EvalProtocol

Make = Callable[..., Case]
PROTOCOL = EvalProtocol(resamples=2000)
VARIANTS: tuple[Literal["b", "c"], ...] = ("b", "c")


def rated(case: Make, scores: list[float], ratings: list[float], group: str = "") -> list[Case]:
    items = []
    for i, (score, rating) in enumerate(zip(scores, ratings, strict=True)):
        outcome = case([[score]], np.array([[True]]), name=f"{group}{i}", group=group or f"p{i}")
        object.__setattr__(outcome.item, "truth", np.array([[rating]]))
        items.append(outcome)
    return items


def test_by_hand() -> None:
    # Of six pairs four are ordered alike, one otherwise, one has equal ratings.
    tau_b, tau_c = kendall(np.array([1.0, 2, 4, 3]), np.array([1.0, 2, 2, 3]))
    assert tau_b.mean() == pytest.approx((4 - 1) / np.sqrt(6 * 5))
    assert tau_c.mean() == pytest.approx(2 * (4 - 1) / (16 * 2 / 3))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=2, max_size=30))
def test_the_mean_is_what_scipy_says(pairs: list[tuple[int, int]]) -> None:
    score, rating = np.array(pairs, dtype=np.float64).T
    for result, variant in zip(kendall(score, rating), VARIANTS, strict=True):
        if len(np.unique(rating)) == 1:
            assert np.isnan(result).all()
        elif len(np.unique(score)) == 1:
            assert (result == 0).all()
        else:
            theirs = kendalltau(score, rating, variant=variant).statistic
            assert result.mean() == pytest.approx(theirs)


def test_units_spread_as_the_statistic_does() -> None:
    rng = np.random.default_rng(0)
    taus, errors = [], []
    for _ in range(1500):
        rating = rng.integers(4, size=200).astype(np.float64)
        result = kendall(rating / 2 + rng.standard_normal(200), rating)
        taus.append([values.mean() for values in result])
        errors.append([values.std() / np.sqrt(200) for values in result])
    assert np.mean(errors, axis=0) == pytest.approx(np.std(taus, axis=0), rel=0.06)


def test_scores_as_near_as_eps_are_level() -> None:
    tau_b, _ = kendall(np.array([1.0, 1.01, 3]), np.array([2.0, 1, 3]), tie_eps=0.1)
    assert tau_b.mean() == pytest.approx(2 / np.sqrt(2 * 3))


def test_an_invalid_score_is_left_out_and_counted(case: Make) -> None:
    cases = rated(case, [1.0, float("nan"), 2, 3], [1.0, 2, 3, 4])
    result = Correlation()(cases, ties="wrong", tie_eps=0.0)
    assert [outcome.metric for outcome in result] == ["tau_b", "tau_c"]
    result_estimate = estimate(result[0], protocol=PROTOCOL, seed=0, allow_invalid=True)
    assert result_estimate.value == pytest.approx(1)
    assert (result_estimate.n, result_estimate.invalid) == (3, 1)
    assert (result_estimate.chance, result_estimate.is_rate, result_estimate.ties) == (0, False, 0)


def test_ratings_of_one_image_are_resampled_together(case: Make) -> None:
    rng = np.random.default_rng(1)
    cases: list[Case] = []
    for image in range(60):
        # Three ratings of one caption have one score: they are no three trials.
        rating, score = float(rng.integers(1, 5)), float(rng.standard_normal())
        cases += rated(case, [score] * 3, [rating] * 3, group=f"image {image}/")
    (tau_b, _) = Correlation()(cases, ties="wrong", tie_eps=0.0)
    clustered = estimate(tau_b, protocol=PROTOCOL, seed=0)
    assert "clustered" in clustered.interval
    score_N = np.array(
        [outcome.scores.values[0, 0] for outcome in cases if outcome.scores.values is not None]
    )
    rating_N = np.array([float(np.asarray(outcome.item.truth)[0, 0]) for outcome in cases])
    alone = kendall(score_N, rating_N)[0].std() / np.sqrt(len(cases))
    assert clustered.high - clustered.low > 1.5 * 2 * 1.96 * alone


def test_true_and_false_are_no_ratings(case: Make) -> None:
    with pytest.raises(UnbagError, match="item 'x' has no rating"):
        Correlation()([case([[1.0]], np.array([[True]]), name="x")], ties="wrong", tie_eps=0.0)


def test_other_items_are_not_judged(case: Make) -> None:
    result = Correlation()([case(np.eye(2), np.eye(2), name="x")], ties="wrong", tie_eps=0.0)
    assert all(outcome.units == () for outcome in result)


def statements(case: Make, scores: Sequence[float], true: Sequence[int], split: str) -> list[Case]:
    return [
        case([s], [t], name=f"{split}/{i}", tags={"split": split, "relation": "on"})
        for i, (s, t) in enumerate(zip(scores, true, strict=True))
    ]


def test_statements_by_hand(case: Make, protocol: EvalProtocol) -> None:
    test = statements(case, [0.4, 0.3, 0.35, 0.2], [1, 1, 0, 0], "test")
    dev = statements(case, [0.4, 0.3, 0.2], [1, 1, 0], "dev")
    area, decided = Statements()([*test, *dev], ties="wrong", tie_eps=0)
    assert estimate(area, protocol=protocol, seed=0).value == pytest.approx(0.75)
    assert decided.value_U.tolist() == [1, 1, 0, 1]
    assert area.tags == ({},) * 4
    assert decided.tags[0]["relation"] == "on"


def test_a_threshold_needs_the_development_split(case: Make) -> None:
    with pytest.raises(UnbagError, match="no statement with split=dev"):
        Statements()(statements(case, [0.1], [1], "test"), ties="wrong", tie_eps=0)


def test_thresholds() -> None:
    true = np.array([True, True, False, False])
    assert best_threshold(np.array([0.4, 0.3, 0.2, 0.1]), true) == pytest.approx(0.25)
    assert best_threshold(np.array([0.1, 0.2, 0.3, 0.4]), true) == -np.inf
    assert best_threshold(np.array([0.5, 0.5, 0.5]), true[1:]) == np.inf
    assert best_threshold(np.array([0.4, np.nan, 0.2]), true[:3]) == pytest.approx(0.3)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30),
    st.sampled_from(["wrong", "half", "right"]),
)
def test_the_area_is_the_share_of_pairs(rows: list[tuple[int, bool]], ties: str) -> None:
    score = np.array([s for s, _ in rows], dtype=np.float64)
    true = np.array([t for _, t in rows])
    result = area_values(score, true, ties=ties)  # type: ignore[arg-type]
    worth = {"wrong": 0.0, "half": 0.5, "right": 1.0}[ties]
    pairs = [(t > f) + worth * (t == f) for t in score[true] for f in score[~true]]
    if not pairs:
        assert np.isnan(result.credit_N).all()
        return
    assert result.credit_N.mean() == pytest.approx(np.mean(pairs))


def test_the_interval_of_the_area_spreads_as_resampling_both_kinds_does() -> None:
    rng = np.random.default_rng(1)
    score, true = rng.standard_normal(300), rng.random(300) < 0.3
    score[true] += 1.0
    unit = area_values(score, true).credit_N
    linear = unit.std() / np.sqrt(len(unit))
    t, f = score[true], score[~true]
    drawn = [
        np.mean(rng.choice(t, len(t))[:, None] > rng.choice(f, len(f))[None, :])
        for _ in range(2000)
    ]
    assert linear == pytest.approx(np.std(drawn), rel=0.1)


def test_a_score_that_is_no_number_is_left_out_of_the_area() -> None:
    result = area_values(np.array([0.4, np.nan, 0.2]), np.array([True, True, False]))
    np.testing.assert_equal(result.credit_N, [1.0, np.nan, 1.0])


def test_values_of_tied_statements_by_hand() -> None:
    # True statements score 1 and 2, the false one 2: own shares 0 and 1/2, and 1/4; area 1/4.
    score_N, true_N = np.array([1.0, 2.0, 2.0]), np.array([True, True, False])
    value_N, tie_N = area_values(score_N, true_N, ties="half")
    np.testing.assert_allclose(value_N, [1 / 4 - 3 / 8, 1 / 4 + 3 / 8, 1 / 4])
    assert tie_N.tolist() == [False, True, True]
