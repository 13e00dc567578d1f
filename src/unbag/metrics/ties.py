"""Scores and what is true come in, credits go out: the one place that decides what a tie is worth.

Dimensions: N rows (one question each), C candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unbag.types import BoolArray, FloatArray, IntArray, TieRule


class Credit(NamedTuple):
    """What each row earned, and where its best true and best false candidate were level."""

    credit_N: FloatArray
    tie_N: BoolArray


class Duel(NamedTuple):
    """Two candidates of each row compared. Under `wrong` a tie is neither won nor lost."""

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


def credit(
    score_NC: FloatArray, true_NC: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Credit:
    """Credit of picking the best-scored candidate of each row.

    NaN where a score is not finite, and where there is nothing to choose between (no candidate is
    true, or all are).
    """
    is_judged_N = finite_rows(score_NC) & has_choice(true_NC)
    score_NC = np.where(is_judged_N[:, None], score_NC, 0.0)
    best_true_N = np.where(true_NC, score_NC, -np.inf).max(axis=1)
    best_false_N = np.where(true_NC, -np.inf, score_NC).max(axis=1)
    ahead_N = best_true_N - best_false_N
    tie_N = is_judged_N & (np.abs(ahead_N) <= tie_eps)
    credit_N = (ahead_N > tie_eps).astype(np.float64)
    if tie_N.any():
        credit_N[tie_N] = _worth(score_NC[tie_N], true_NC[tie_N], ties=ties, tie_eps=tie_eps)
    credit_N[~is_judged_N] = np.nan
    return Credit(credit_N, tie_N)


def _worth(
    score_NC: FloatArray, true_NC: BoolArray, *, ties: TieRule, tie_eps: float
) -> FloatArray | float:
    """What tied rows earn under each rule."""
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
    """Column `own` against column `other` of each row, by the same tie rules.

    Under `half` a tie is half won and half lost; under the argmax rules the order of the columns
    decides. The rows must be finite.
    """
    column_N2 = np.sort(np.stack([own_N, other_N], axis=1), axis=1)
    score_N2 = np.take_along_axis(score_NC, column_N2, axis=1)
    won_N, tie_N = credit(score_N2, column_N2 == own_N[:, None], ties=ties, tie_eps=tie_eps)
    lost_N = 1.0 - won_N
    if ties == "wrong":
        lost_N[tie_N] = 0.0
    return Duel(won_N, lost_N, tie_N)
