"""Triples of caption, hard negative and hard positive: are edits and rewordings distinguished?

Dimensions: N cases, C = 3 captions in the item's own order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unbag.metrics.cases import UnitOutcomes, outcomes, per_item, stacks, true_cells
from unbag.metrics.ties import CHANCE, CHANCE_INDEPENDENT, credit, duel, finite_rows
from unbag.types import BoolArray, Case, FloatArray, Outcomes, TieRule

MEANS = ("mean_original", "mean_negative", "mean_positive")

NAMES = (
    "original",
    "augmented",
    "brittleness",
    "share_augmented",
    "share_neg_like_hp",
    "share_hp_over_orig",
    "share_both_below",
    "share_tie",
    *MEANS,
)


@dataclass(frozen=True)
class Triples:
    """Does a model distinguish edits that change the meaning from edits that preserve it?

    Kamath et al., "The Hard Positive Truth about Vision-Language Compositionality", eq. 1-2. The
    first true caption is c, the second c_p, the false one c_n. Triples with two equal captions are
    left out.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every 1 x 3 item with two true captions."""
        parts: dict[str, list[UnitOutcomes]] = {name: [] for name in NAMES}
        for full_stack in stacks(cases, [(1, 3)]):
            captions = [case.item.captions for case in full_stack.cases]
            differ_N = np.array([len(set(texts)) == len(texts) for texts in captions])
            stack = full_stack.select((full_stack.true_NPC[:, 0].sum(axis=1) == 2) & differ_N)
            results = triple_outcomes(
                stack.score_NPC[:, 0], stack.true_NPC[:, 0], ties=ties, tie_eps=tie_eps
            )
            for name, (value_N, tie_N) in results.items():
                chance = CHANCE.get(name, np.nan)
                parts[name].append(per_item(stack.cases, value_N, tie_N, chance=chance))
        return [
            outcomes(
                name,
                units,
                chance_independent=CHANCE_INDEPENDENT.get(name),
                is_rate=name not in MEANS,
            )
            for name, units in parts.items()
        ]


@dataclass(frozen=True)
class TextOnly:
    """Is a caption closer to its paraphrase than either is to the hard negative?

    In SugarCrepe++ this measures the text encoder alone, without images. Scorers without caption
    similarities do not get this metric.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every item with two true captions and a false one, all different."""
        applicable = [
            case
            for case in cases
            if case.scores.caption_CC is not None
            and tuple(case.item.truth.shape) == (1, 3)
            and len(set(case.item.captions)) == 3
            and int(true_cells(case.item.truth, case.item.id).sum()) == 2
        ]
        if not applicable:
            return []
        score_N3 = np.array([_similarities(case) for case in applicable])
        true_N3: BoolArray = np.broadcast_to(np.array([True, False, False]), score_N3.shape)
        credit_N, tie_N = credit(score_N3, true_N3, ties=ties, tie_eps=tie_eps)
        units = per_item(applicable, credit_N, tie_N, chance=CHANCE["text_only"])
        return [outcomes("text_only", [units])]


def _similarities(case: Case) -> FloatArray:
    """Similarities of (caption, paraphrase), (caption, negative) and (paraphrase, negative)."""
    caption_CC = case.scores.caption_CC
    assert caption_CC is not None
    true_C = true_cells(case.item.truth, case.item.id)[0]
    c, p = np.flatnonzero(true_C)
    n = int(np.flatnonzero(~true_C)[0])
    return np.array([caption_CC[c, p], caption_CC[c, n], caption_CC[p, n]])


def triple_outcomes(
    score_NC: FloatArray, true_NC: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Mapping[str, TripleOutcome]:
    """All outcomes of rows with two true captions (c, then c_p) and one false one (c_n).

    `original`, `augmented` and `brittleness` apply the tie rule to each comparison: under `half`,
    a c_p tied with c_n is half above and half below it. The five shares are always strict; any row
    with a tie is in `share_tie`, so they sum to 1 under every rule.
    """
    is_valid_N = finite_rows(score_NC)
    score_NC = np.where(is_valid_N[:, None], score_NC, 0.0)
    own_N, negative_N = true_NC.argmax(axis=1), true_NC.argmin(axis=1)
    positive_N = 2 - true_NC[:, ::-1].argmax(axis=1)
    c = duel(score_NC, own_N, negative_N, ties=ties, tie_eps=tie_eps)
    p = duel(score_NC, positive_N, negative_N, ties=ties, tie_eps=tie_eps)
    strict_c = duel(score_NC, own_N, negative_N, ties="wrong", tie_eps=tie_eps)
    strict_p = duel(score_NC, positive_N, negative_N, ties="wrong", tie_eps=tie_eps)
    tie_N, never_N = c.tie_N | p.tie_N, np.zeros(len(score_NC), dtype=np.bool_)
    row_N = np.arange(len(score_NC))
    outcomes_by_name = {
        "original": TripleOutcome(c.won_N, c.tie_N),
        "augmented": TripleOutcome(c.won_N * p.won_N, tie_N),
        "brittleness": TripleOutcome(c.won_N * p.lost_N + c.lost_N * p.won_N, tie_N),
        "share_augmented": TripleOutcome(strict_c.won_N * strict_p.won_N, tie_N),
        "share_neg_like_hp": TripleOutcome(strict_c.won_N * strict_p.lost_N, tie_N),
        "share_hp_over_orig": TripleOutcome(strict_c.lost_N * strict_p.won_N, tie_N),
        "share_both_below": TripleOutcome(strict_c.lost_N * strict_p.lost_N, tie_N),
        "share_tie": TripleOutcome(tie_N.astype(np.float64), tie_N),
        "mean_original": TripleOutcome(score_NC[row_N, own_N], never_N),
        "mean_negative": TripleOutcome(score_NC[row_N, negative_N], never_N),
        "mean_positive": TripleOutcome(score_NC[row_N, positive_N], never_N),
    }
    return {
        name: TripleOutcome(np.where(is_valid_N, value_N, np.nan), tied_N & is_valid_N)
        for name, (value_N, tied_N) in outcomes_by_name.items()
    }


class TripleOutcome(NamedTuple):
    """One outcome of each row, and whether a tie could have decided it."""

    value_N: FloatArray
    tie_N: BoolArray
