"""One-picture items with several captions come in, `accuracy` goes out: was a true one picked?

Dimensions: N cases of one shape, C captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unbag.metrics.cases import cluster_of, outcomes, per_item, stacks
from unbag.metrics.ties import credit, has_choice
from unbag.types import Case, Outcomes, TieRule


@dataclass(frozen=True)
class Choice:
    """Pick among the captions of one picture (SugarCrepe, ARO, word order, VALSE, VL-CheckList).

    Items left without a false caption (every shuffle equalled the original) or without a true one
    ask nothing and are left out.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every one-picture item."""
        parts = []
        for every in stacks(cases, [(1, None)]):
            stack = every.chosen(has_choice(every.true_NPC[:, 0]))
            true_NC = stack.true_NPC[:, 0]
            credit_N, tie_N = credit(stack.score_NPC[:, 0], true_NC, ties=ties, tie_eps=tie_eps)
            clusters = [cluster_of(case.item) for case in stack.cases]
            chance_N = true_NC.mean(axis=1)
            parts.append(per_item(stack.cases, credit_N, tie_N, chance=chance_N, clusters=clusters))
        return [outcomes("accuracy", parts)]
