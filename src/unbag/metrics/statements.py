"""Single statements: AUC and threshold accuracy for true and false, Kendall's tau for ratings.

Dimensions: N statements or ratings, T true ones, F false ones, K thresholds, L ratings of a level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.cases import outcomes, per_item, score_cells, true_cells
from unbag.metrics.ties import CHANCE, Credit
from unbag.types import BoolArray, Case, FloatArray, IntArray, Outcomes, Sparse, TieRule

NAMES = ("tau_b", "tau_c")


# Statements about different images have no order, so the argmax rules split a tie evenly.
_TIE_WORTH: Mapping[TieRule, float] = MappingProxyType(
    {"wrong": 0.0, "half": 0.5, "right": 1.0, "argmax_first": 0.5, "argmax_last": 0.5}
)


@dataclass(frozen=True)
class Statements:
    """Is the statement true of the image (VSR)? Items have one image and one caption.

    The threshold is the most accurate one on the items with `tag` = `dev`; both metrics cover those
    with `tag` = `test`. Units of `auc` have no tags: the area of a subset is not the mean over its
    units.
    """

    tag: str = "split"
    dev: str = "dev"
    test: str = "test"

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every statement of the test split."""
        test = self._of(cases, self.test)
        if not test:
            return [outcomes("auc", []), outcomes("threshold_accuracy", [])]
        score_N, true_N = _columns(test)
        value_N, tie_N = area_values(score_N, true_N, ties=ties, tie_eps=tie_eps)
        area_outcomes = per_item(test, value_N, tie_N, chance=CHANCE["auc"])
        dev = self._of(cases, self.dev)
        if not dev:
            raise UnbagError(
                f"no statement with {self.tag}={self.dev}",
                expected="the development split, on which the threshold is chosen",
                hint="score the development items too",
            )
        right_N = (score_N > best_threshold(*_columns(dev))) == true_N
        threshold_outcomes = per_item(
            test,
            np.where(np.isfinite(score_N), right_N, np.nan),
            np.zeros(len(test), dtype=np.bool_),
            chance=CHANCE["threshold_accuracy"],
        )
        untagged = replace(area_outcomes, tags=[{} for _ in test])
        return [outcomes("auc", [untagged]), outcomes("threshold_accuracy", [threshold_outcomes])]

    def _of(self, cases: Sequence[Case], split: str) -> list[Case]:
        return [
            case
            for case in cases
            if tuple(case.item.truth.shape) == (1, 1) and case.item.tags.get(self.tag) == split
        ]


def area_values(
    score_N: FloatArray, true_N: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Credit:
    """Values with the area under the curve as their mean, and with the spread of the area.

    The value of a true statement is the share of false ones below it, that of a false statement the
    share of true ones above it (DeLong et al. 1988). Each deviation from the area is scaled by N/T
    or N/F, so that resampling units has the same spread as resampling both kinds separately. Values
    of single units can therefore lie outside 0 to 1.
    """
    valid_N = np.isfinite(score_N)
    true_T, false_F = score_N[valid_N & true_N], score_N[valid_N & ~true_N]
    value_N, tie_N = np.full(len(score_N), np.nan), np.zeros(len(score_N), dtype=np.bool_)
    if not len(true_T) or not len(false_F):
        return Credit(value_N, tie_N)
    below_T, level_T, _ = _counts(true_T, np.sort(false_F), tie_eps)
    above_F, level_F, _ = _counts(-false_F, np.sort(-true_T), tie_eps)
    own_T = (below_T + _TIE_WORTH[ties] * level_T) / len(false_F)
    own_F = (above_F + _TIE_WORTH[ties] * level_F) / len(true_T)
    area, n = float(own_T.mean()), len(true_T) + len(false_F)
    value_N[valid_N & true_N] = area + n / len(true_T) * (own_T - area)
    value_N[valid_N & ~true_N] = area + n / len(false_F) * (own_F - area)
    tie_N[valid_N & true_N], tie_N[valid_N & ~true_N] = level_T > 0, level_F > 0
    return Credit(value_N, tie_N)


def best_threshold(score_N: FloatArray, true_N: BoolArray) -> float:
    """The most accurate threshold above which statements count as true; the lowest of equal ones.

    It is half way between two scores, or beyond all of them.
    """
    valid_N = np.isfinite(score_N)
    score_N, true_N = score_N[valid_N], true_N[valid_N]
    level_K = np.unique(score_N)
    between_K = (level_K[:-1] + level_K[1:]) / 2
    threshold_K = np.concatenate([[-np.inf], between_K, [np.inf]])
    true_T, false_F = np.sort(score_N[true_N]), np.sort(score_N[~true_N])
    right_K = len(true_T) - np.searchsorted(true_T, threshold_K, side="right")
    right_K += np.searchsorted(false_F, threshold_K, side="right")
    return float(threshold_K[right_K.argmax()])


def _columns(cases: Sequence[Case]) -> tuple[FloatArray, BoolArray]:
    score_N = np.array([score_cells(case)[0, 0] for case in cases], dtype=np.float64)
    true_N = np.array([true_cells(case.item.truth, case.item.id)[0, 0] for case in cases])
    return score_N, true_N


@dataclass(frozen=True)
class Correlation:
    """Do scores order captions as people do (Flickr8k)? Items have one image, one rated caption.

    Both statistics handle ties themselves, so the tie rule has no effect and no tie is counted.
    Units have no tags: the correlation of a subset is not the mean over its units.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure all ratings together."""
        rated = [case for case in cases if tuple(case.item.truth.shape) == (1, 1)]
        if not rated:
            return [outcomes(name, [], is_rate=False) for name in NAMES]
        score_N = np.array([score_cells(case)[0, 0] for case in rated], dtype=np.float64)
        for case in rated:
            if isinstance(case.item.truth, Sparse) or case.item.truth.dtype == np.bool_:
                raise UnbagError(
                    f"item {case.item.id!r} has no rating",
                    expected="a truth matrix of numbers",
                    hint="measure true and false statements with `Statements`",
                )
        rating_N = np.array([case.item.truth for case in rated], dtype=np.float64).ravel()
        results = []
        for name, value_N in zip(NAMES, kendall(score_N, rating_N, tie_eps=tie_eps), strict=True):
            units = per_item(rated, value_N, np.zeros(len(rated), dtype=np.bool_), chance=0.0)
            untagged = replace(units, tags=[{} for _ in rated])
            results.append(outcomes(name, [untagged], is_rate=False))
        return results


def kendall(
    score_N: FloatArray, rating_N: FloatArray, *, tie_eps: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Values with tau-b (and tau-c) as their mean, and with the spread of the statistic.

    With a(i) the share of others that i is ordered with as people order them, less the share of
    those ordered the other way, b(i) the share with another score and c(i) the share with another
    rating, tau-b is mean(a) / sqrt(mean(b) mean(c)). Each is a mean over pairs, so a unit enters
    twice; the values are the statistic plus its first derivatives times twice the deviations (the
    delta method), so that resampling units, or clusters of them, spreads as the statistic does.
    If all scores are equal the result is 0; if all ratings are equal it is NaN.
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
    """For each unit, shares of the others: concordant minus discordant, other score, other rating.

    Ratings have few levels, so it goes level by level: n log n each instead of n squared.
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
    # Each score ties with itself, which is not a pair.
    others = total - 1
    other_score_N = (total - equal_score_N) / others
    return agree_N / others, other_score_N, other_rating_N / others


def _counts(
    score_N: FloatArray, sorted_L: FloatArray, tie_eps: float
) -> tuple[IntArray, IntArray, IntArray]:
    """How many of the sorted scores are below, tied with and above each score."""
    below_N = np.searchsorted(sorted_L, score_N - tie_eps, side="left").astype(np.int64)
    up_to_N = np.searchsorted(sorted_L, score_N + tie_eps, side="right").astype(np.int64)
    return below_N, up_to_N - below_N, len(sorted_L) - up_to_N
