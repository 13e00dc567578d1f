"""Choosing among captions, classes or images: was a true one scored best?

Dimensions: N cases of one shape, P images, C captions or classes, T prompts of a class, D
embedding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.cases import (
    UnitOutcomes,
    cluster_of,
    outcomes,
    per_item,
    score_cells,
    stacks,
    true_cells,
)
from unbag.metrics.retrieval import hits, rank_rows
from unbag.metrics.ties import credit, has_choice, hit_chance
from unbag.types import Case, FloatArray, Outcomes, TieRule
from unbag.types.items import text_of


@dataclass(frozen=True)
class Choice:
    """Pick among the captions of one image (SugarCrepe, ARO, word order, VALSE, VL-CheckList).

    Items without a false caption (every shuffle equals the original) or without a true one are
    left out.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every one-image item."""
        parts = []
        for full_stack in stacks(cases, [(1, None)]):
            stack = full_stack.select(has_choice(full_stack.true_NPC[:, 0]))
            true_NC = stack.true_NPC[:, 0]
            credit_N, tie_N = credit(stack.score_NPC[:, 0], true_NC, ties=ties, tie_eps=tie_eps)
            parts.append(per_item(stack.cases, credit_N, tie_N, chance=true_NC.mean(axis=1)))
        return [outcomes("accuracy", parts)]


@dataclass(frozen=True)
class Classify:
    """Zero-shot classification: one image, and one caption (or ensemble of prompts) per class.

    Items have the tag "class", so that Aggregate(by=("class",)) is the mean over classes. With five
    classes or fewer `top5` is always 1 and is left out.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every one-image item."""
        # By identity: items share their tuple of classes, and hashing it 50,000 times is slow.
        for captions in {id(case.item.captions): case.item.captions for case in cases}.values():
            check_names([text_of(caption) for caption in captions])
        top1: list[UnitOutcomes] = []
        top5: list[UnitOutcomes] = []
        for stack in stacks(cases, [(1, None)]):
            score_NC, true_NC = stack.score_NPC[:, 0], stack.true_NPC[:, 0]
            value_N, tie_N = credit(score_NC, true_NC, ties=ties, tie_eps=tie_eps)
            top1.append(per_item(stack.cases, value_N, tie_N, chance=true_NC.mean(axis=1)))
            if true_NC.shape[1] > 5:
                ranks = rank_rows(score_NC, true_NC, tie_eps=tie_eps)
                value_N, tie_N = hits(ranks, 5, ties=ties)
                chance_N = hit_chance(ranks.gallery, ranks.true_Q, 5)
                top5.append(per_item(stack.cases, value_N, tie_N, chance=chance_N))
        results = [outcomes("accuracy", top1)]
        return [*results, outcomes("top5", top5)] if top5 else results


def check_names(names: Sequence[str]) -> None:
    """Raise an error if class names repeat: no model can distinguish equal names."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise UnbagError(
            f"class names given more than once: {', '.join(repeated)}",
            expected="every class name once",
            hint="rename them, such as 'crane (bird)' and 'crane (machine)'",
        )


def class_weights(names: Sequence[str], prompt_vectors: Sequence[FloatArray]) -> FloatArray:
    """One unit vector per class [C, D]: the normalized mean of its unit prompt vectors [T, D].

    A class whose vectors cancel out, or include a zero vector, becomes NaN, which is invalid.
    """
    check_names(names)
    for name, vector_TD in zip(names, prompt_vectors, strict=True):
        if len(vector_TD) == 0:
            raise UnbagError(
                f"class {name!r} has no prompts",
                expected="at least one template",
                hint="give at least one template, such as 'a photo of a {}.'",
            )
    return np.stack([_unit(_unit(np.asarray(v)).mean(axis=0)) for v in prompt_vectors])


def _unit(vector_TD: FloatArray) -> FloatArray:
    norm_T1 = np.linalg.norm(vector_TD, axis=-1, keepdims=True)
    unit_TD: FloatArray = vector_TD / np.where(norm_T1 > 0, norm_T1, np.nan)
    return unit_TD


@dataclass(frozen=True)
class PickImage:
    """Pick among the images of one caption (SVO-Probes).

    Items of one group are resampled together, so items with the same sentence need one group.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every item of several images and one caption."""
        sizes: dict[int, list[Case]] = {}
        for case in cases:
            images, captions = case.item.truth.shape
            if captions == 1 and images > 1:
                sizes.setdefault(images, []).append(case)
        parts = []
        for members in sizes.values():
            true_NP = np.stack([true_cells(c.item.truth, c.item.id)[:, 0] for c in members])
            score_NP = np.stack([score_cells(case)[:, 0] for case in members])
            keep_N = has_choice(true_NP)
            selected = [case for case, keep in zip(members, keep_N, strict=True) if keep]
            credit_N, tie_N = credit(score_NP[keep_N], true_NP[keep_N], ties=ties, tie_eps=tie_eps)
            clusters = [case.item.group or case.item.id for case in selected]
            chance_N = true_NP[keep_N].mean(axis=1)
            parts.append(per_item(selected, credit_N, tie_N, chance=chance_N, clusters=clusters))
        return [outcomes("image_accuracy", parts)]


@dataclass(frozen=True)
class Flips:
    """Does the choice change when the options are reordered? One unit per image.

    It needs a scorer that returns log-probabilities of each order. A tie for the first place in one
    order counts as a change, because then no option was chosen.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every image with several orders."""
        units, clusters, tags, values, tied = [], [], [], [], []
        for case in cases:
            rows, images = case.scores.order_logprobs, len(case.item.images)
            if not rows:
                continue
            log_POC = np.array(rows, dtype=np.float64).reshape(images, -1, len(rows[0]))
            for p, log_OC in enumerate(log_POC):
                top_OC = log_OC >= log_OC.max(axis=1, keepdims=True) - tie_eps
                is_tied = bool((top_OC.sum(axis=1) > 1).any())
                is_same = not is_tied and len(set(log_OC.argmax(axis=1).tolist())) == 1
                units.append(f"{case.item.id}/picture {p}")
                clusters.append(cluster_of(case.item))
                tags.append(case.item.tags)
                finite = bool(np.isfinite(log_OC).all())
                values.append(float(not is_same) if finite else np.nan)
                tied.append(is_tied and finite)
        flips = UnitOutcomes(
            units=units,
            clusters=clusters,
            tags=tags,
            unparsed=[0] * len(units),
            value_U=np.array(values, dtype=np.float64),
            tie_U=np.array(tied, dtype=np.bool_),
            chance_U=np.full(len(units), np.nan),
        )
        return [outcomes("order_flip", [flips])]


def has_orders(cases: Sequence[Case]) -> bool:
    """Whether a case has log-probabilities of several orders."""
    return any(case.scores.order_logprobs for case in cases)
