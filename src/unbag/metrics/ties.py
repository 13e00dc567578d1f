"""Tie rules and chance levels: the credit for an equal top score, and for random scores.

Dimensions: N rows (one question each), C candidates, U units.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unbag.types import (
    BoolArray,
    Case,
    FloatArray,
    IntArray,
    Item,
    Metric,
    Scores,
    TieRule,
)


def credit(
    score_NC: FloatArray, true_NC: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Credit:
    """Credit for picking the best-scored candidate of each row.

    NaN if a score is not finite, or if there is no choice (no candidate is true, or all are).
    """
    is_valid_N = finite_rows(score_NC) & has_choice(true_NC)
    score_NC = np.where(is_valid_N[:, None], score_NC, 0.0)
    best_true_N = np.where(true_NC, score_NC, -np.inf).max(axis=1)
    best_false_N = np.where(true_NC, -np.inf, score_NC).max(axis=1)
    ahead_N = best_true_N - best_false_N
    tie_N = is_valid_N & (np.abs(ahead_N) <= tie_eps)
    credit_N = (ahead_N > tie_eps).astype(np.float64)
    if tie_N.any():
        credit_N[tie_N] = _worth(score_NC[tie_N], true_NC[tie_N], ties=ties, tie_eps=tie_eps)
    credit_N[~is_valid_N] = np.nan
    return Credit(credit_N, tie_N)


class Credit(NamedTuple):
    """The credit of each row, and whether its best true and best false candidates tie."""

    credit_N: FloatArray
    tie_N: BoolArray


def _worth(
    score_NC: FloatArray, true_NC: BoolArray, *, ties: TieRule, tie_eps: float
) -> FloatArray | float:
    """The credit of tied rows under a rule."""
    if ties == "wrong":
        return 0.0
    if ties == "right":
        return 1.0
    top_NC = score_NC.max(axis=1, keepdims=True) - score_NC <= tie_eps
    if ties == "half":
        shared_N: FloatArray = (top_NC & true_NC).sum(axis=1) / top_NC.sum(axis=1)
        return shared_N
    first_N = top_NC.argmax(axis=1)
    last_N = top_NC.shape[1] - 1 - top_NC[:, ::-1].argmax(axis=1)
    chosen_N = first_N if ties == "argmax_first" else last_N
    chosen_N1 = np.expand_dims(chosen_N, 1)
    return np.take_along_axis(true_NC, chosen_N1, axis=1)[:, 0].astype(np.float64)


def duel(
    score_NC: FloatArray, own_N: IntArray, other_N: IntArray, *, ties: TieRule, tie_eps: float
) -> Duel:
    """Compare column `own` with column `other` of each row, by the same tie rules.

    Under `half` a tie is half won and half lost; under the argmax rules the column order decides.
    The rows must be finite.
    """
    column_N2 = np.sort(np.stack([own_N, other_N], axis=1), axis=1)
    score_N2 = np.take_along_axis(score_NC, column_N2, axis=1)
    won_N, tie_N = credit(score_N2, column_N2 == own_N[:, None], ties=ties, tie_eps=tie_eps)
    lost_N = 1.0 - won_N
    if ties == "wrong":
        lost_N[tie_N] = 0.0
    return Duel(won_N, lost_N, tie_N)


class Duel(NamedTuple):
    """Result of comparing two candidates. Under `wrong` a tie is neither won nor lost."""

    won_N: FloatArray
    lost_N: FloatArray
    tie_N: BoolArray


def finite_rows(score_NC: FloatArray) -> BoolArray:
    """Rows in which every score is a finite number."""
    finite_N: BoolArray = np.all(np.isfinite(score_NC), axis=1)
    return finite_N


def has_choice(true_NC: BoolArray) -> BoolArray:
    """Rows with both a true and a false candidate."""
    both_N: BoolArray = np.any(true_NC, axis=1) & np.any(~true_NC, axis=1)
    return both_N


CHANCE: Mapping[str, float] = MappingProxyType(
    {
        "original": 1 / 2,
        "augmented": 1 / 3,
        "brittleness": 1 / 3,
        "share_augmented": 1 / 3,
        "share_neg_like_hp": 1 / 6,
        "share_hp_over_orig": 1 / 6,
        "share_both_below": 1 / 3,
        "share_tie": 0.0,
        "individual": 1 / 2,
        "pair": 1 / 4,
        "same_answer": 1 / 2,
        "relaxed": 1 / 2,
        "individual4": 1 / 4,
        "pair4": 1 / 16,
        "set": 1 / 256,
        "text": 1 / 4,
        "image": 1 / 4,
        "group": 1 / 6,
        "question_pair": 1 / 4,
        "image_pair": 1 / 4,
        "all_four": 1 / 16,
        "auc": 1 / 2,
        "threshold_accuracy": 1 / 2,
        "text_only": 1 / 3,
    }
)
"""Chance levels under independent continuous scores: every order of the options is equally likely,
and ties never happen."""


CHANCE_INDEPENDENT: Mapping[str, float] = MappingProxyType(
    {"augmented": 1 / 4, "brittleness": 1 / 2}
)
"""Another null model for triples: c against c_n and c_p against c_n are two fair coins. It suits a
bag of words, whose scores differ only by tiny order effects."""


def hit_chance(gallery: int, true_Q: IntArray, k: int) -> FloatArray:
    """Probability that at least one of the true candidates is among k drawn at random.

    1 - C(n - m, k) / C(n, k) for m true ones among n, which is k/n for m = 1.
    """
    missed_Q = np.ones(len(true_Q))
    for drawn in range(min(k, gallery)):
        missed_Q *= np.clip(gallery - true_Q - drawn, 0, None) / (gallery - drawn)
    return 1.0 - missed_Q


def simulate(
    metric: Metric,
    item: Item,
    *,
    cases: int,
    rng: np.random.Generator,
    ties: TieRule = "wrong",
) -> Mapping[str, float]:
    """Mean outcomes of a metric over copies of an item with random scores."""
    rows, columns = item.truth.shape
    score_NPC = rng.standard_normal((cases, rows, columns))
    random_cases = [Case(item, Scores(item.id, score_PC)) for score_PC in score_NPC]
    outcomes = metric(random_cases, ties=ties, tie_eps=0.0)
    return {outcome.metric: float(np.nanmean(outcome.value_U)) for outcome in outcomes}
