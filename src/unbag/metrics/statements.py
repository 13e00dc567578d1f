"""Pictures with one statement, true or false, come in; `auc` and `threshold_accuracy` go out.

Dimensions: N statements, T true ones, F false ones, K thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from unbag.errors import UserError
from unbag.metrics.cases import cluster_of, outcomes, per_item, score_cells, true_cells
from unbag.metrics.chance import CHANCE
from unbag.metrics.ties import Credit
from unbag.types import BoolArray, Case, FloatArray, Outcomes, TieRule

# Statements about different pictures have no order, so the argmax rules share a tie evenly.
_TIE_WORTH: Mapping[TieRule, float] = MappingProxyType(
    {"wrong": 0.0, "half": 0.5, "right": 1.0, "argmax_first": 0.5, "argmax_last": 0.5}
)


@dataclass(frozen=True)
class Statements:
    """Is the statement true of the picture (VSR)? Items have one picture and one caption.

    The threshold is the one that is right most often on the items with `tag` = `dev`; both
    metrics are about those with `tag` = `test`. Units of `auc` carry no tags: the area over some
    of the statements is not the mean over their units.
    """

    tag: str = "split"
    dev: str = "dev"
    test: str = "test"

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every statement of the test split."""
        test = self._of(cases, self.test)
        if not test:
            return [outcomes("auc", []), outcomes("threshold_accuracy", [])]
        score_N, true_N = _columns(test)
        clusters = [cluster_of(case.item) for case in test]
        value_N, tie_N = area_values(score_N, true_N, ties=ties, tie_eps=tie_eps)
        area = per_item(test, value_N, tie_N, chance=CHANCE["auc"], clusters=clusters)
        right_N = (score_N > self._threshold(cases)) == true_N
        decided = per_item(
            test,
            np.where(np.isfinite(score_N), right_N, np.nan),
            np.zeros(len(test), dtype=np.bool_),
            chance=CHANCE["threshold_accuracy"],
            clusters=clusters,
        )
        untagged = replace(area, tags=[{} for _ in test])
        return [outcomes("auc", [untagged]), outcomes("threshold_accuracy", [decided])]

    def _of(self, cases: Sequence[Case], split: str) -> list[Case]:
        return [
            case
            for case in cases
            if tuple(case.item.truth.shape) == (1, 1) and case.item.tags.get(self.tag) == split
        ]

    def _threshold(self, cases: Sequence[Case]) -> float:
        dev = self._of(cases, self.dev)
        if not dev:
            raise UserError(
                f"no statement with {self.tag}={self.dev}",
                expected="the development split, on which the threshold is chosen",
                way_out="score the development items too",
            )
        return best_threshold(*_columns(dev))


def area_values(
    score_N: FloatArray, true_N: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Credit:
    """Values whose mean is the area under the curve, and whose spread is that of the area.

    A true statement's own value is the share of false ones below it, a false one's the share of
    true ones above it (DeLong et al. 1988). Each deviation from the area is scaled by N/T or N/F,
    so that resampling the units spreads as resampling both kinds does. Values of single units can
    thus lie outside 0 to 1.
    """
    valid_N = np.isfinite(score_N)
    true_T, false_F = score_N[valid_N & true_N], score_N[valid_N & ~true_N]
    value_N, tie_N = np.full(len(score_N), np.nan), np.zeros(len(score_N), dtype=np.bool_)
    if not len(true_T) or not len(false_F):
        return Credit(value_N, tie_N)
    below_T, level_T = _counts(true_T, false_F, tie_eps)
    above_F, level_F = _counts(-false_F, -true_T, tie_eps)
    own_T = (below_T + _TIE_WORTH[ties] * level_T) / len(false_F)
    own_F = (above_F + _TIE_WORTH[ties] * level_F) / len(true_T)
    area, n = float(own_T.mean()), len(true_T) + len(false_F)
    value_N[valid_N & true_N] = area + n / len(true_T) * (own_T - area)
    value_N[valid_N & ~true_N] = area + n / len(false_F) * (own_F - area)
    tie_N[valid_N & true_N], tie_N[valid_N & ~true_N] = level_T > 0, level_F > 0
    return Credit(value_N, tie_N)


def best_threshold(score_N: FloatArray, true_N: BoolArray) -> float:
    """The threshold above which statements are best called true; the lowest of equally good ones.

    Half way between two scores, or beyond all of them.
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


def _counts(score_N: FloatArray, rival_F: FloatArray, tie_eps: float) -> tuple[FloatArray, ...]:
    """Rivals below each score, and rivals level with it."""
    rival_F = np.sort(rival_F)
    below_N = np.searchsorted(rival_F, score_N - tie_eps, side="left")
    level_N = np.searchsorted(rival_F, score_N + tie_eps, side="right") - below_N
    return below_N.astype(np.float64), level_N.astype(np.float64)


def _columns(cases: Sequence[Case]) -> tuple[FloatArray, BoolArray]:
    score_N = np.array([score_cells(case)[0, 0] for case in cases], dtype=np.float64)
    true_N = np.array([true_cells(case.item.truth, case.item.id)[0, 0] for case in cases])
    return score_N, true_N
