"""Pictures with class names as captions come in; `accuracy` and `top5` go out.

Dimensions: N pictures, C classes, T prompts of a class, D embedding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.errors import UserError
from unbag.metrics.cases import Judged, cluster_of, outcomes, per_item, stacks
from unbag.metrics.chance import hit_chance
from unbag.metrics.ranking import hits, rank_rows
from unbag.metrics.ties import credit
from unbag.types import Caption, Case, Ensemble, FloatArray, Outcomes, TieRule


@dataclass(frozen=True)
class Classify:
    """Zero-shot classification: one picture, one caption (or ensemble of prompts) a class.

    Items carry the tag "class", so that Aggregate(by=("class",)) is the mean over classes. With
    five classes or fewer `top5` says nothing and is left out.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every one-picture item."""
        # By identity: items share their tuple of classes, and hashing it 50,000 times is slow.
        for captions in {id(case.item.captions): case.item.captions for case in cases}.values():
            check_names([_name(caption) for caption in captions])
        top1: list[Judged] = []
        top5: list[Judged] = []
        for stack in stacks(cases, [(1, None)]):
            score_NC, true_NC = stack.score_NPC[:, 0], stack.true_NPC[:, 0]
            clusters = [cluster_of(case.item) for case in stack.cases]
            value_N, tie_N = credit(score_NC, true_NC, ties=ties, tie_eps=tie_eps)
            chance_N = true_NC.mean(axis=1)
            top1.append(per_item(stack.cases, value_N, tie_N, chance=chance_N, clusters=clusters))
            if true_NC.shape[1] > 5:
                ranks = rank_rows(score_NC, true_NC, tie_eps=tie_eps)
                value_N, tie_N = hits(ranks, 5, ties=ties)
                chance_N = hit_chance(ranks.gallery, ranks.true_Q, 5)
                top5.append(
                    per_item(stack.cases, value_N, tie_N, chance=chance_N, clusters=clusters)
                )
        found = [outcomes("accuracy", top1)]
        return [*found, outcomes("top5", top5)] if top5 else found


def class_weights(names: Sequence[str], prompt_vectors: Sequence[FloatArray]) -> FloatArray:
    """One unit vector a class [C, D]: the mean of its unit prompt vectors [T, D], made unit again.

    A class whose vectors cancel out, or hold a zero vector, becomes NaN: invalid, never a guess.
    """
    check_names(names)
    for name, vector_TD in zip(names, prompt_vectors, strict=True):
        if len(vector_TD) == 0:
            raise UserError(
                f"class {name!r} has no prompts",
                expected="at least one template",
                way_out="give at least one template, such as 'a photo of a {}.'",
            )
    return np.stack([_unit(_unit(np.asarray(v)).mean(axis=0)) for v in prompt_vectors])


def check_names(names: Sequence[str]) -> None:
    """Class names must differ: no model can tell two equal ones apart."""
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise UserError(
            f"class names given more than once: {', '.join(repeated)}",
            expected="every class name once",
            way_out="rename them, such as 'crane (bird)' and 'crane (machine)'",
        )


def _name(caption: Caption) -> str:
    return caption.name if isinstance(caption, Ensemble) else caption


def _unit(vector_TD: FloatArray) -> FloatArray:
    norm_T1 = np.linalg.norm(vector_TD, axis=-1, keepdims=True)
    unit_TD: FloatArray = vector_TD / np.where(norm_T1 > 0, norm_T1, np.nan)
    return unit_TD
