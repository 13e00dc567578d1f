"""Items of two pictures and two captions come in; `text`, `image` and `group` go out.

Dimensions: N cases, P = 2 pictures, C = 2 captions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.metrics.cases import Judged, Stack, outcomes, per_item, stacks
from unbag.metrics.chance import CHANCE
from unbag.metrics.ties import Credit, credit
from unbag.types import BoolArray, Case, FloatArray, Outcomes, TieRule


def is_matching(true_NPC: BoolArray) -> BoolArray:
    """Cases (square ones) in which every picture has exactly one caption of its own."""
    one_each_NC: BoolArray = (true_NPC.sum(axis=1) == 1) & (true_NPC.sum(axis=2) == 1)
    matching_N: BoolArray = np.all(one_each_NC, axis=1)
    return matching_N


def is_valid(stack: Stack) -> BoolArray:
    """Cases with finite scores only, and with captions that differ."""
    differ_N = np.array([len(set(case.item.captions)) for case in stack.cases], dtype=np.int64)
    valid_N: BoolArray = np.all(np.isfinite(stack.score_NPC), axis=(1, 2))
    valid_N &= differ_N == stack.score_NPC.shape[2]
    return valid_N


def judge_groups(
    score_NPC: FloatArray, true_NPC: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Mapping[str, Credit]:
    """`text` (each picture picks its caption), `image` (the reverse) and `group` (both)."""

    def both(score: FloatArray, true: BoolArray) -> Credit:
        credits = [credit(score[:, i], true[:, i], ties=ties, tie_eps=tie_eps) for i in (0, 1)]
        (first_N, first_tie_N), (second_N, second_tie_N) = credits
        return Credit(first_N * second_N, first_tie_N | second_tie_N)

    text = both(score_NPC, true_NPC)
    image = both(score_NPC.swapaxes(1, 2), true_NPC.swapaxes(1, 2))
    group = Credit(text.credit_N * image.credit_N, text.tie_N | image.tie_N)
    return {"text": text, "image": image, "group": group}


@dataclass(frozen=True)
class Groups:
    """Winoground's three scores, which MMVP-VLM, ColorSwap, EqBen and BiVLC share.

    `text` is the convention of "pair accuracy" in the MLLM papers, `image` that of the MMVP code.
    Items with a non-finite score or with equal captions are invalid.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every 2 x 2 item in which each picture has its own caption."""
        parts: dict[str, list[Judged]] = {"text": [], "image": [], "group": []}
        for every in stacks(cases, [(2, 2)]):
            stack = every.chosen(is_matching(every.true_NPC))
            valid_N = is_valid(stack)
            clusters = [case.item.group or case.item.id for case in stack.cases]
            found = judge_groups(stack.score_NPC, stack.true_NPC, ties=ties, tie_eps=tie_eps)
            for name, (credit_N, tie_N) in found.items():
                value_N = np.where(valid_N, credit_N, np.nan)
                judged = per_item(
                    stack.cases, value_N, tie_N & valid_N, chance=CHANCE[name], clusters=clusters
                )
                parts[name].append(judged)
        return [outcomes(name, judged) for name, judged in parts.items()]
