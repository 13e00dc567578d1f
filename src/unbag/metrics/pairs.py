"""Pairs of pictures and sets of four come in; two-way, four-way and relaxed outcomes go out.

Dimensions: N cases, P pictures, C = P captions; picture i owns the caption own_NP[:, i].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.metrics.cases import Judged, Stack, outcomes, stacks
from unbag.metrics.chance import CHANCE
from unbag.metrics.groups import is_matching, is_valid
from unbag.metrics.relaxed import Form, relaxed_margin
from unbag.metrics.ties import Credit, credit, duel
from unbag.types import Case, FloatArray, IntArray, Outcomes, TieRule

TWO_WAY = ("individual", "pair", "same_answer", "relaxed")
FOUR_WAY = ("individual4", "pair4", "set")


def judge_pair(
    score_NPC: FloatArray,
    own_NP: IntArray,
    pair: tuple[int, int],
    *,
    ties: TieRule = "wrong",
    tie_eps: float = 0.0,
    form: Form = "additive",
) -> Mapping[str, Credit]:
    """Two-way outcomes of one opposite pair: only the two pictures' own captions compete.

    Keys: `first` and `second` (each picture by itself), `pair`, `same_answer`, `relaxed`. Under
    `wrong` a tie names no winner, so it is no same answer either.
    """
    i, j = pair
    first = duel(score_NPC[:, i], own_NP[:, i], own_NP[:, j], ties=ties, tie_eps=tie_eps)
    second = duel(score_NPC[:, j], own_NP[:, j], own_NP[:, i], ties=ties, tie_eps=tie_eps)
    tie_N = first.tie_N | second.tie_N
    same_N = first.won_N * second.lost_N + first.lost_N * second.won_N
    row_N22 = np.arange(len(score_NPC))[:, None, None]
    score_N22 = score_NPC[row_N22, np.array([[i], [j]]), own_NP[:, None, [i, j]]]
    margin_N = relaxed_margin(score_N22, form)
    rival_N2 = np.stack([margin_N, np.where(np.isnan(margin_N), np.nan, 0.0)], axis=1)
    straight_N2 = np.broadcast_to(np.array([True, False]), rival_N2.shape)
    return {
        "first": Credit(first.won_N, first.tie_N),
        "second": Credit(second.won_N, second.tie_N),
        "pair": Credit(first.won_N * second.won_N, tie_N),
        "same_answer": Credit(same_N, tie_N),
        "relaxed": credit(rival_N2, straight_N2, ties=ties, tie_eps=tie_eps),
    }


@dataclass(frozen=True)
class Pairs:
    """Both pictures of an opposite pair must pick their caption (What'sUp, MMVP, Winoground).

    2 x 2 items give the two-way metrics; 4 x 4 sets also `individual4`, `pair4` and `set`, where
    all four captions compete. One non-finite score or two equal captions make the whole set
    invalid. With identical embeddings `individual` is exactly 1/2 and `pair` exactly 0.
    """

    pairs: Mapping[str, tuple[int, int]] | None = None
    """Names of the opposite pairs, as {"left/right": (0, 1), "on/under": (2, 3)}; a unit of a pair
    is tagged {"relation": name}. None: pictures 0 and 1, 2 and 3, without a name."""
    form: Form = "additive"
    """Of `relaxed`; `ratio` needs positive scores."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every 2 x 2 and 4 x 4 item in which each picture has its own caption."""
        parts: dict[str, list[Judged]] = {name: [] for name in (*TWO_WAY, *FOUR_WAY)}
        has_sets = False
        for every in stacks(cases, [(2, 2), (4, 4)]):
            stack = every.chosen(is_matching(every.true_NPC))
            self._two_way(stack, parts, ties=ties, tie_eps=tie_eps)
            if stack.score_NPC.shape[1] == 4:
                has_sets = True
                self._four_way(stack, parts, ties=ties, tie_eps=tie_eps)
        names = (*TWO_WAY, *FOUR_WAY) if has_sets else TWO_WAY
        return [outcomes(name, parts[name]) for name in names]

    def _two_way(
        self, stack: Stack, parts: dict[str, list[Judged]], *, ties: TieRule, tie_eps: float
    ) -> None:
        own_NP = stack.true_NPC.argmax(axis=2)
        score_NPC = _finite(stack)
        for name, (i, j) in self._of(stack):
            found = judge_pair(
                score_NPC, own_NP, (i, j), ties=ties, tie_eps=tie_eps, form=self.form
            )
            for picture, side in ((i, "first"), (j, "second")):
                unit = f"picture {picture}"
                parts["individual"].append(_judged(stack, "individual", found[side], unit, name))
            for metric in ("pair", "same_answer", "relaxed"):
                parts[metric].append(_judged(stack, metric, found[metric], f"pair {i}-{j}", name))

    def _four_way(
        self, stack: Stack, parts: dict[str, list[Judged]], *, ties: TieRule, tie_eps: float
    ) -> None:
        score_NPC = _finite(stack)
        each = [
            credit(score_NPC[:, i], stack.true_NPC[:, i], ties=ties, tie_eps=tie_eps)
            for i in range(4)
        ]
        for name, (i, j) in self._of(stack):
            for picture in (i, j):
                unit = f"picture {picture}"
                found = _judged(stack, "individual4", each[picture], unit, name)
                parts["individual4"].append(found)
            both = _all_of([each[i], each[j]])
            parts["pair4"].append(_judged(stack, "pair4", both, f"pair {i}-{j}", name))
        parts["set"].append(_judged(stack, "set", _all_of(each), "", ""))

    def _of(self, stack: Stack) -> list[tuple[str, tuple[int, int]]]:
        """The opposite pairs that sets of this size have."""
        pictures = stack.score_NPC.shape[1]
        if self.pairs is None:
            return [("", (i, i + 1)) for i in range(0, pictures, 2)]
        return [(name, pair) for name, pair in self.pairs.items() if max(pair) < pictures]


def _finite(stack: Stack) -> FloatArray:
    """Scores with invalid cases set to 0; their verdicts are taken back in `_judged`."""
    return np.where(is_valid(stack)[:, None, None], stack.score_NPC, 0.0)


def _all_of(credits: Sequence[Credit]) -> Credit:
    """Credit for getting all of them right."""
    value_N = np.prod([found.credit_N for found in credits], axis=0)
    return Credit(value_N, np.any([found.tie_N for found in credits], axis=0))


def _judged(stack: Stack, metric: str, found: Credit, unit: str, relation: str) -> Judged:
    """One unit of every set. Answers that no rule could read count with the first unit only."""
    valid_N = is_valid(stack)
    items = [case.item for case in stack.cases]
    is_first = unit in ("", "picture 0", "pair 0-1")
    return Judged(
        units=[f"{item.id}/{unit}" if unit else item.id for item in items],
        clusters=[item.group or item.id for item in items],
        tags=[{**item.tags, "relation": relation} if relation else item.tags for item in items],
        unparsed=[case.scores.unparsed if is_first else 0 for case in stack.cases],
        value_U=np.where(valid_N, found.credit_N, np.nan),
        tie_U=found.tie_N & valid_N,
        chance_U=np.full(len(items), CHANCE[metric]),
    )
