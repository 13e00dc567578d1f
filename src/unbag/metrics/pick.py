"""One-caption items with several pictures come in; was a true picture picked?

Dimensions: N cases of one shape, P pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.metrics.cases import Judged, outcomes, per_item, score_cells, true_cells
from unbag.metrics.ties import credit, has_choice
from unbag.types import Case, Outcomes, TieRule


@dataclass(frozen=True)
class PickPicture:
    """Pick among the pictures of one caption (SVO-Probes).

    Items of one group are resampled together: give items with the same sentence one group.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every item of several pictures and one caption."""
        sizes: dict[int, list[Case]] = {}
        for case in cases:
            pictures, captions = case.item.truth.shape
            if captions == 1 and pictures > 1:
                sizes.setdefault(pictures, []).append(case)
        parts = [_picked(members, ties=ties, tie_eps=tie_eps) for members in sizes.values()]
        return [outcomes("picture_accuracy", parts)]


def _picked(cases: Sequence[Case], *, ties: TieRule, tie_eps: float) -> Judged:
    true_NP = np.stack([true_cells(case.item.truth, case.item.id)[:, 0] for case in cases])
    score_NP = np.stack([score_cells(case)[:, 0] for case in cases])
    keep_N = has_choice(true_NP)
    kept = [case for case, keep in zip(cases, keep_N, strict=True) if keep]
    credit_N, tie_N = credit(score_NP[keep_N], true_NP[keep_N], ties=ties, tie_eps=tie_eps)
    clusters = [case.item.group or case.item.id for case in kept]
    chance_N = true_NP[keep_N].mean(axis=1)
    return per_item(kept, credit_N, tie_N, chance=chance_N, clusters=clusters)
