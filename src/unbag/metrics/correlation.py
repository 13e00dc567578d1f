"""Pictures with one rated caption come in; Kendall's `tau_b` and `tau_c` with the ratings go out.

Dimensions: N ratings, L of one level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbag.errors import UserError
from unbag.metrics.cases import cluster_of, outcomes, per_item, score_cells
from unbag.types import Case, FloatArray, IntArray, Outcomes, Sparse, TieRule

NAMES = ("tau_b", "tau_c")


@dataclass(frozen=True)
class Correlation:
    """Do scores order captions as people do (Flickr8k)? Items have one picture, one rated caption.

    Ties are part of both statistics, so the tie rule changes nothing and none is counted. Units
    carry no tags: the correlation over some of the ratings is not the mean over their units.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge all ratings together."""
        rated = [case for case in cases if tuple(case.item.truth.shape) == (1, 1)]
        if not rated:
            return [outcomes(name, [], is_rate=False) for name in NAMES]
        score_N = np.array([score_cells(case)[0, 0] for case in rated], dtype=np.float64)
        rating_N = np.array([_rating(case) for case in rated], dtype=np.float64)
        found = []
        for name, value_N in zip(NAMES, kendall(score_N, rating_N, tie_eps=tie_eps), strict=True):
            judged = per_item(
                rated,
                value_N,
                np.zeros(len(rated), dtype=np.bool_),
                chance=0.0,
                clusters=[cluster_of(case.item) for case in rated],
            )
            untagged = replace(judged, tags=[{} for _ in rated])
            found.append(outcomes(name, [untagged], is_rate=False))
        return found


def kendall(
    score_N: FloatArray, rating_N: FloatArray, *, tie_eps: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Values whose mean is tau-b (and tau-c), and whose spread is that of the statistic.

    With a(i) the share of others that i is ordered with as people order them, less the share of
    those ordered the other way, b(i) the share with another score and c(i) the share with another
    rating, tau-b is mean(a) / sqrt(mean(b) mean(c)). Each is a mean over pairs, so a unit enters
    twice; the values are the statistic plus its first derivatives times twice the deviations (the
    delta method), so that resampling units, or clusters of them, spreads as the statistic does.
    Scores that are all equal order nothing: 0. Ratings that are all equal ask nothing: NaN.
    """
    valid_N = np.isfinite(score_N) & np.isfinite(rating_N)
    tau_b_N, tau_c_N = np.full(len(score_N), np.nan), np.full(len(score_N), np.nan)
    score_N, rating_N = score_N[valid_N], rating_N[valid_N]
    levels = len(np.unique(rating_N))
    if levels < 2:
        return tau_b_N, tau_c_N
    agree_N, other_score_N, other_rating_N = _shares(score_N, rating_N, tie_eps)
    a, b, c = agree_N.mean(), other_score_N.mean(), other_rating_N.mean()
    if not b:
        tau_b_N[valid_N] = tau_c_N[valid_N] = 0.0
        return tau_b_N, tau_c_N
    tau_b = a / np.sqrt(b * c)
    slope_N = (agree_N - a) / np.sqrt(b * c)
    slope_N -= tau_b / 2 * ((other_score_N - b) / b + (other_rating_N - c) / c)
    tau_b_N[valid_N] = tau_b + 2 * slope_N
    classes = min(levels, len(np.unique(score_N)))
    scale = (len(score_N) - 1) / len(score_N) * classes / (classes - 1)
    tau_c_N[valid_N] = scale * (a + 2 * (agree_N - a))
    return tau_b_N, tau_c_N


def _shares(
    score_N: FloatArray, rating_N: FloatArray, tie_eps: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of all others: ordered alike less the other way, of another score, of another rating.

    Level by level of the ratings, of which there are few: n log n each instead of n squared.
    """
    total = len(score_N)
    agree_N, equal_score_N = np.zeros(total), np.zeros(total)
    other_rating_N = np.zeros(total)
    for level in np.unique(rating_N):
        score_L = np.sort(score_N[rating_N == level])
        below_N, equal_N, above_N = _counts(score_N, score_L, tie_eps)
        agree_N += np.sign(rating_N - level) * (below_N - above_N)
        equal_score_N += equal_N
        other_rating_N[rating_N == level] = total - len(score_L)
    # Each score is level with itself, which is no pair.
    others = total - 1
    other_score_N = (total - equal_score_N) / others
    return agree_N / others, other_score_N, other_rating_N / others


def _counts(
    score_N: FloatArray, sorted_L: FloatArray, tie_eps: float
) -> tuple[IntArray, IntArray, IntArray]:
    """How many of the sorted scores are below, level with and above each score."""
    below_N = np.searchsorted(sorted_L, score_N - tie_eps, side="left").astype(np.int64)
    up_to_N = np.searchsorted(sorted_L, score_N + tie_eps, side="right").astype(np.int64)
    return below_N, up_to_N - below_N, len(sorted_L) - up_to_N


def _rating(case: Case) -> float:
    truth = case.item.truth
    if isinstance(truth, Sparse) or truth.dtype == np.bool_:
        raise UserError(
            f"item {case.item.id!r} has no rating",
            expected="a truth matrix of numbers",
            way_out="judge what is true or false with `Statements`",
        )
    return float(truth[0, 0])
