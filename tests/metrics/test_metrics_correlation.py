"""Kendall's tau: values by hand, against SciPy, and the spread of its units."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from unbag.errors import UnbagError
from unbag.metrics import Correlation, estimate, kendall
from unbag.types import Case, EvalProtocol

Make = Callable[..., Case]
PROTOCOL = EvalProtocol(resamples=2000)
VARIANTS: tuple[Literal["b", "c"], ...] = ("b", "c")


def rated(case: Make, scores: list[float], ratings: list[float], group: str = "") -> list[Case]:
    made = []
    for i, (score, rating) in enumerate(zip(scores, ratings, strict=True)):
        one = case([[score]], np.array([[True]]), name=f"{group}{i}", group=group or f"p{i}")
        object.__setattr__(one.item, "truth", np.array([[rating]]))
        made.append(one)
    return made


def test_by_hand() -> None:
    # Of six pairs four are ordered alike, one otherwise, one has equal ratings.
    tau_b, tau_c = kendall(np.array([1.0, 2, 4, 3]), np.array([1.0, 2, 2, 3]))
    assert tau_b.mean() == pytest.approx((4 - 1) / np.sqrt(6 * 5))
    assert tau_c.mean() == pytest.approx(2 * (4 - 1) / (16 * 2 / 3))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=2, max_size=30))
def test_the_mean_is_what_scipy_says(pairs: list[tuple[int, int]]) -> None:
    score, rating = np.array(pairs, dtype=np.float64).T
    for found, variant in zip(kendall(score, rating), VARIANTS, strict=True):
        if len(np.unique(rating)) == 1:
            assert np.isnan(found).all()
        elif len(np.unique(score)) == 1:
            assert (found == 0).all()
        else:
            theirs = kendalltau(score, rating, variant=variant).statistic
            assert found.mean() == pytest.approx(theirs)


def test_units_spread_as_the_statistic_does() -> None:
    rng = np.random.default_rng(0)
    taus, errors = [], []
    for _ in range(1500):
        rating = rng.integers(4, size=200).astype(np.float64)
        found = kendall(rating / 2 + rng.standard_normal(200), rating)
        taus.append([values.mean() for values in found])
        errors.append([values.std() / np.sqrt(200) for values in found])
    assert np.mean(errors, axis=0) == pytest.approx(np.std(taus, axis=0), rel=0.06)


def test_scores_as_near_as_eps_are_level() -> None:
    tau_b, _ = kendall(np.array([1.0, 1.01, 3]), np.array([2.0, 1, 3]), tie_eps=0.1)
    assert tau_b.mean() == pytest.approx(2 / np.sqrt(2 * 3))


def test_an_invalid_score_is_left_out_and_counted(case: Make) -> None:
    cases = rated(case, [1.0, float("nan"), 2, 3], [1.0, 2, 3, 4])
    found = Correlation()(cases, ties="wrong", tie_eps=0.0)
    assert [one.metric for one in found] == ["tau_b", "tau_c"]
    shown = estimate(found[0], protocol=PROTOCOL, seed=0, allow_invalid=True)
    assert shown.value == pytest.approx(1)
    assert (shown.n, shown.invalid) == (3, 1)
    assert (shown.chance, shown.is_rate, shown.ties) == (0, False, 0)


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
    score_N = np.array([one.scores.values[0, 0] for one in cases if one.scores.values is not None])
    rating_N = np.array([float(np.asarray(one.item.truth)[0, 0]) for one in cases])
    alone = kendall(score_N, rating_N)[0].std() / np.sqrt(len(cases))
    assert clustered.high - clustered.low > 1.5 * 2 * 1.96 * alone


def test_true_and_false_are_no_ratings(case: Make) -> None:
    with pytest.raises(UnbagError, match="item 'x' has no rating"):
        Correlation()([case([[1.0]], np.array([[True]]), name="x")], ties="wrong", tie_eps=0.0)


def test_other_items_are_not_judged(case: Make) -> None:
    found = Correlation()([case(np.eye(2), np.eye(2), name="x")], ties="wrong", tie_eps=0.0)
    assert all(one.units == () for one in found)
