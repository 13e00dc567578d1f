"""Similarities of three captions come in; whether the two that mean the same are closest goes out.

Dimensions: N cases, C = 3 captions in the item's own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.metrics.cases import Judged, cluster_of, outcomes, per_item, true_cells
from unbag.metrics.chance import CHANCE
from unbag.metrics.ties import credit
from unbag.types import BoolArray, Case, FloatArray, Item, Outcomes, TieRule

NAME = "text_only"


@dataclass(frozen=True)
class TextOnly:
    """Is a caption closer to its paraphrase than either is to the hard negative?

    SugarCrepe++ asks this of the text encoder alone: no picture takes part. A scorer that has no
    similarity of captions gets no such metric.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every item with two true captions and a false one, all different."""
        asked = [c for c in cases if c.scores.caption_CC is not None and _is_triple(c.item)]
        if not asked:
            return []
        score_N3 = np.array([_similarities(case) for case in asked])
        true_N3: BoolArray = np.broadcast_to(np.array([True, False, False]), score_N3.shape)
        credit_N, tie_N = credit(score_N3, true_N3, ties=ties, tie_eps=tie_eps)
        clusters = [cluster_of(case.item) for case in asked]
        judged: Judged = per_item(asked, credit_N, tie_N, chance=CHANCE[NAME], clusters=clusters)
        return [outcomes(NAME, [judged])]


def _similarities(case: Case) -> FloatArray:
    """Caption with paraphrase, caption with negative, paraphrase with negative."""
    caption_CC = case.scores.caption_CC
    assert caption_CC is not None
    true_C = true_cells(case.item.truth, case.item.id)[0]
    c, p = np.flatnonzero(true_C)
    n = int(np.flatnonzero(~true_C)[0])
    return np.array([caption_CC[c, p], caption_CC[c, n], caption_CC[p, n]])


def _is_triple(item: Item) -> bool:
    if tuple(item.truth.shape) != (1, 3) or len(set(item.captions)) < 3:
        return False
    return int(true_cells(item.truth, item.id).sum()) == 2
