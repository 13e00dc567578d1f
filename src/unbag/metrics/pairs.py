"""Pairs of images and captions, and sets of four: does each image pick its own caption?

By the relaxed criterion a pair is solved if the correct assignment beats the crossed one as a
whole, even if a prior makes both images prefer the same caption.

Dimensions: N cases or pairs, P images, C = P captions; image i owns the caption own_NP[:, i].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np

from unbag.metrics.cases import Stack, UnitOutcomes, outcomes, per_item, score_cells, stacks
from unbag.metrics.ties import CHANCE, Credit, credit, duel
from unbag.types import (
    BoolArray,
    Case,
    FloatArray,
    IntArray,
    Item,
    Metric,
    Outcomes,
    Sparse,
    TieRule,
)

Form = Literal["additive", "ratio"]
TWO_WAY = ("individual", "pair", "same_answer", "relaxed")
FOUR_WAY = ("individual4", "pair4", "set")


@dataclass(frozen=True)
class Groups:
    """Winoground's three scores, which MMVP-VLM, ColorSwap, EqBen and BiVLC also use.

    `text` is the "pair accuracy" of MLLM papers, `image` that of the MMVP code. Items with a
    non-finite score or with equal captions are invalid.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every 2 x 2 item in which each image has its own caption."""
        parts: dict[str, list[UnitOutcomes]] = {"text": [], "image": [], "group": []}
        for full_stack in stacks(cases, [(2, 2)]):
            stack = full_stack.select(is_matching(full_stack.true_NPC))
            valid_N = is_valid(stack)
            clusters = [case.item.group or case.item.id for case in stack.cases]
            credits = group_outcomes(stack.score_NPC, stack.true_NPC, ties=ties, tie_eps=tie_eps)
            for name, (credit_N, tie_N) in credits.items():
                value_N, tie_N = np.where(valid_N, credit_N, np.nan), tie_N & valid_N
                chance = CHANCE[name]
                units = per_item(stack.cases, value_N, tie_N, chance=chance, clusters=clusters)
                parts[name].append(units)
        return [outcomes(name, units) for name, units in parts.items()]


def group_outcomes(
    score_NPC: FloatArray, true_NPC: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Mapping[str, Credit]:
    """`text` (each image picks its caption), `image` (the reverse) and `group` (both)."""

    def both(score: FloatArray, true: BoolArray) -> Credit:
        credits = [credit(score[:, i], true[:, i], ties=ties, tie_eps=tie_eps) for i in (0, 1)]
        (first_N, first_tie_N), (second_N, second_tie_N) = credits
        return Credit(first_N * second_N, first_tie_N | second_tie_N)

    text = both(score_NPC, true_NPC)
    image = both(score_NPC.swapaxes(1, 2), true_NPC.swapaxes(1, 2))
    group = Credit(text.credit_N * image.credit_N, text.tie_N | image.tie_N)
    return {"text": text, "image": image, "group": group}


@dataclass(frozen=True)
class Pairs:
    """Both images of an opposite pair must pick their caption (What'sUp, MMVP, Winoground).

    2 x 2 items give the two-way metrics; 4 x 4 sets also `individual4`, `pair4` and `set`, where
    all four captions compete. One non-finite score or two equal captions make the whole set
    invalid. With identical embeddings `individual` is exactly 1/2 and `pair` exactly 0.
    """

    pairs: Mapping[str, tuple[int, int]] | None = None
    """Opposite pairs by name, such as {"left/right": (0, 1), "on/under": (2, 3)}; a unit of a pair
    gets the tag {"relation": name}. None: images 0 and 1, 2 and 3, without names."""
    form: Form = "additive"
    """Form of `relaxed`; `ratio` needs positive scores."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every 2 x 2 and 4 x 4 item in which each image has its own caption."""
        parts: dict[str, list[UnitOutcomes]] = {name: [] for name in (*TWO_WAY, *FOUR_WAY)}
        has_sets = False
        for full_stack in stacks(cases, [(2, 2), (4, 4)]):
            stack = full_stack.select(is_matching(full_stack.true_NPC))
            self._two_way(stack, parts, ties=ties, tie_eps=tie_eps)
            if stack.score_NPC.shape[1] == 4:
                has_sets = True
                self._four_way(stack, parts, ties=ties, tie_eps=tie_eps)
        names = (*TWO_WAY, *FOUR_WAY) if has_sets else TWO_WAY
        return [outcomes(name, parts[name]) for name in names]

    def _two_way(
        self, stack: Stack, parts: dict[str, list[UnitOutcomes]], *, ties: TieRule, tie_eps: float
    ) -> None:
        own_NP = stack.true_NPC.argmax(axis=2)
        score_NPC = _finite(stack)
        for name, (i, j) in self._of(stack):
            credits = pair_outcomes(
                score_NPC, own_NP, (i, j), ties=ties, tie_eps=tie_eps, form=self.form
            )
            for image, side in ((i, "first"), (j, "second")):
                unit = f"image {image}"
                parts["individual"].append(
                    _pair_units(stack, "individual", credits[side], unit, name)
                )
            for metric in ("pair", "same_answer", "relaxed"):
                parts[metric].append(
                    _pair_units(stack, metric, credits[metric], f"pair {i}-{j}", name)
                )

    def _four_way(
        self, stack: Stack, parts: dict[str, list[UnitOutcomes]], *, ties: TieRule, tie_eps: float
    ) -> None:
        score_NPC = _finite(stack)
        credits = [
            credit(score_NPC[:, i], stack.true_NPC[:, i], ties=ties, tie_eps=tie_eps)
            for i in range(4)
        ]
        for name, (i, j) in self._of(stack):
            for image in (i, j):
                unit = f"image {image}"
                units = _pair_units(stack, "individual4", credits[image], unit, name)
                parts["individual4"].append(units)
            both = _all_of([credits[i], credits[j]])
            parts["pair4"].append(_pair_units(stack, "pair4", both, f"pair {i}-{j}", name))
        parts["set"].append(_pair_units(stack, "set", _all_of(credits), "", ""))

    def _of(self, stack: Stack) -> list[tuple[str, tuple[int, int]]]:
        """The opposite pairs that sets of this size have."""
        images = stack.score_NPC.shape[1]
        if self.pairs is None:
            return [("", (i, i + 1)) for i in range(0, images, 2)]
        return [(name, pair) for name, pair in self.pairs.items() if max(pair) < images]


def pair_outcomes(
    score_NPC: FloatArray,
    own_NP: IntArray,
    pair: tuple[int, int],
    *,
    ties: TieRule = "wrong",
    tie_eps: float = 0.0,
    form: Form = "additive",
) -> Mapping[str, Credit]:
    """Two-way outcomes of one opposite pair: only the captions of its two images compete.

    Keys: `first` and `second` (each image by itself), `pair`, `same_answer`, `relaxed`. Under the
    rule `wrong` a tie has no winner, so it is not the same answer either.
    """
    i, j = pair
    first = duel(score_NPC[:, i], own_NP[:, i], own_NP[:, j], ties=ties, tie_eps=tie_eps)
    second = duel(score_NPC[:, j], own_NP[:, j], own_NP[:, i], ties=ties, tie_eps=tie_eps)
    tie_N = first.tie_N | second.tie_N
    same_N = first.won_N * second.lost_N + first.lost_N * second.won_N
    row_N22 = np.arange(len(score_NPC))[:, None, None]
    score_N22 = score_NPC[row_N22, np.array([[i], [j]]), own_NP[:, None, [i, j]]]
    return {
        "first": Credit(first.won_N, first.tie_N),
        "second": Credit(second.won_N, second.tie_N),
        "pair": Credit(first.won_N * second.won_N, tie_N),
        "same_answer": Credit(same_N, tie_N),
        "relaxed": _solved(relaxed_margin(score_N22, form), ties=ties, tie_eps=tie_eps),
    }


def _finite(stack: Stack) -> FloatArray:
    """Scores with invalid cases set to 0; `_pair_units` makes their outcomes NaN."""
    return np.where(is_valid(stack)[:, None, None], stack.score_NPC, 0.0)


def _all_of(credits: Sequence[Credit]) -> Credit:
    """Credit for all of them being right."""
    value_N = np.prod([credit.credit_N for credit in credits], axis=0)
    return Credit(value_N, np.any([credit.tie_N for credit in credits], axis=0))


def _pair_units(
    stack: Stack, metric: str, credit: Credit, unit: str, relation: str
) -> UnitOutcomes:
    """One unit of every set. Unparsed answers count with the first unit only."""
    valid_N = is_valid(stack)
    items = [case.item for case in stack.cases]
    is_first = unit in ("", "image 0", "pair 0-1")
    return UnitOutcomes(
        units=[f"{item.id}/{unit}" if unit else item.id for item in items],
        clusters=[item.group or item.id for item in items],
        tags=[{**item.tags, "relation": relation} if relation else item.tags for item in items],
        unparsed=[case.scores.unparsed if is_first else 0 for case in stack.cases],
        value_U=np.where(valid_N, credit.credit_N, np.nan),
        tie_U=credit.tie_N & valid_N,
        chance_U=np.full(len(items), CHANCE[metric]),
    )


@dataclass(frozen=True)
class Relaxed:
    """Is the correct assignment preferred to the crossed one as a whole (Winoground, MMVP)?

    It applies to 2 x 2 items, and to groups of two one-image items with the same two captions and
    opposite truths. Other groups are left out.
    """

    form: Form = "additive"
    """`ratio` for probabilities."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every pair."""
        pairs = [*_items(cases), *_groups(cases)]
        if not pairs:
            return [outcomes("relaxed", [])]
        score_N22 = np.array([pair.score_22 for pair in pairs])
        valid_N: BoolArray = np.all(np.isfinite(score_N22), axis=(1, 2))
        margin_N = relaxed_margin(np.where(valid_N[:, None, None], score_N22, 0.0), self.form)
        margin_N = np.where(valid_N, margin_N, np.nan)
        credit_N, tie_N = _solved(margin_N, ties=ties, tie_eps=tie_eps)
        units = UnitOutcomes(
            units=[pair.unit for pair in pairs],
            clusters=[pair.cluster for pair in pairs],
            tags=[_shared_tags(pair.cases) for pair in pairs],
            unparsed=[sum(case.scores.unparsed for case in pair.cases) for pair in pairs],
            value_U=credit_N,
            tie_U=tie_N,
            chance_U=np.full(len(pairs), CHANCE["relaxed"]),
        )
        return [outcomes("relaxed", [units])]


@dataclass(frozen=True)
class _ScoredPair:
    """Scores of a pair, with images and captions in the same order."""

    unit: str
    cluster: str
    cases: tuple[Case, ...]
    score_22: FloatArray


def _items(cases: Sequence[Case]) -> list[_ScoredPair]:
    pairs = []
    for case in cases:
        truth = case.item.truth
        if isinstance(truth, Sparse) or truth.shape != (2, 2) or truth.dtype != np.bool_:
            continue
        true_22: BoolArray = truth.astype(np.bool_)
        if bool(is_matching(true_22[None])[0]) and len(set(case.item.captions)) == 2:
            score_22 = score_cells(case)[:, true_22.argmax(axis=1)]
            cluster = case.item.group or case.item.id
            pairs.append(_ScoredPair(case.item.id, cluster, (case,), score_22))
    return pairs


def _groups(cases: Sequence[Case]) -> list[_ScoredPair]:
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if case.item.group and tuple(case.item.truth.shape) == (1, 2):
            groups.setdefault(case.item.group, []).append(case)
    pairs = []
    for name, members in groups.items():
        if len(members) != 2 or len({case.item.captions for case in members}) != 1:
            continue
        true_22 = np.array([np.asarray(case.item.truth)[0] for case in members])
        if true_22.dtype == np.bool_ and bool(is_matching(true_22[None])[0]):
            score_22 = np.array([score_cells(case)[0] for case in members])
            own = true_22.argmax(axis=1)
            pairs.append(_ScoredPair(name, name, tuple(members), score_22[:, own]))
    return pairs


def in_form(metrics: Sequence[Metric], form: Form) -> tuple[Metric, ...]:
    """The same metrics, with this form of `relaxed`."""
    return tuple(
        replace(metric, form=form) if isinstance(metric, Pairs | Relaxed) else metric
        for metric in metrics
    )


def relaxed_margin(score_N22: FloatArray, form: Form) -> FloatArray:
    """By how much the correct assignment beats the crossed one: 0 is a tie, NaN is invalid."""
    return additive_margin(score_N22) if form == "additive" else ratio_margin(score_N22)


def _solved(margin_N: FloatArray, *, ties: TieRule, tie_eps: float) -> Credit:
    """Credit for a positive margin."""
    rival_N2 = np.stack([margin_N, np.where(np.isnan(margin_N), np.nan, 0.0)], axis=1)
    straight_N2 = np.broadcast_to(np.array([True, False]), rival_N2.shape)
    return credit(rival_N2, straight_N2, ties=ties, tie_eps=tie_eps)


def additive_margin(score_N22: FloatArray) -> FloatArray:
    """s11 + s22 - s12 - s21: for cosines and log-probabilities.

    Summed as two differences, so that rounding cannot undo a strictly solved pair.
    """
    own_N = score_N22[:, 0, 0] - score_N22[:, 0, 1]
    other_N: FloatArray = score_N22[:, 1, 1] - score_N22[:, 1, 0]
    return own_N + other_N


def ratio_margin(score_N22: FloatArray) -> FloatArray:
    """s11/(s11+s12) - s21/(s21+s22): for positive scores, larger is better; NaN for others."""
    positive_N: BoolArray = np.all(score_N22 > 0, axis=(1, 2))
    score_N22 = np.where(positive_N[:, None, None], score_N22, 1.0)
    share_N2 = score_N22[:, :, 0] / score_N22.sum(axis=2)
    return np.where(positive_N, share_N2[:, 0] - share_N2[:, 1], np.nan)


def perplexity_margin(perplexity_N22: FloatArray) -> FloatArray:
    """The ratio form with reversed sign, because a smaller perplexity is better."""
    return -ratio_margin(perplexity_N22)


def printed_perplexity_margin(perplexity_N22: FloatArray) -> FloatArray:
    """The rule as printed in "On Erroneous Agreements", sec. 5.2.

    It is here to show that its sign is wrong: it solves a pair if the crossed assignment is
    likelier.
    """
    return ratio_margin(perplexity_N22)


@dataclass(frozen=True)
class Joined:
    """NaturalBench: two questions about two images, four items in one group.

    `question_pair`: one question, both images; `image_pair`: one image, both questions;
    `all_four`: everything. A unit with a missing or invalid item is invalid.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Join the one-image items of every group."""
        answers = _answers(cases, ties=ties, tie_eps=tie_eps)

        def question(item: Item) -> str:
            return f"{item.group}/{item.question.text if item.question else ''}"

        return [
            _joined("question_pair", answers, by=question, members=2),
            _joined("image_pair", answers, by=lambda i: f"{i.group}/{i.images[0].name}", members=2),
            _joined("all_four", answers, by=lambda item: item.group, members=4),
        ]


@dataclass(frozen=True)
class JoinedPairs:
    """MMVP: the two items of a group ask about two images; `pair` needs both."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Join the one-image items of every group."""
        answers = _answers(cases, ties=ties, tie_eps=tie_eps)
        return [_joined("pair", answers, by=lambda item: item.group, members=2)]


@dataclass(frozen=True)
class ItemCredit:
    """The credit of one item of a group."""

    case: Case
    credit: float
    is_tied: bool


def _answers(cases: Sequence[Case], *, ties: TieRule, tie_eps: float) -> list[ItemCredit]:
    """The credit of every one-image item of a group, in the order of the cases."""
    grouped = [case for case in cases if case.item.group]
    answers: dict[str, ItemCredit] = {}
    for stack in stacks(grouped, [(1, None)]):
        credit_N, tie_N = credit(
            stack.score_NPC[:, 0], stack.true_NPC[:, 0], ties=ties, tie_eps=tie_eps
        )
        for case, value, is_tied in zip(stack.cases, credit_N, tie_N, strict=True):
            answers[case.item.id] = ItemCredit(case, float(value), bool(is_tied))
    return [answers[case.item.id] for case in grouped if case.item.id in answers]


def _joined(
    metric: str, answers: Sequence[ItemCredit], *, by: Callable[[Item], str], members: int
) -> Outcomes:
    members_of_unit: dict[str, list[ItemCredit]] = {}
    for answer in answers:
        members_of_unit.setdefault(by(answer.case.item), []).append(answer)
    joined = list(members_of_unit.values())
    complete = [len(unit) == members for unit in joined]
    values = [prod(answer.credit for answer in unit) for unit in joined]
    value_U = np.where(complete, values, np.nan) if joined else np.zeros(0)
    is_tied = [any(answer.is_tied for answer in unit) for unit in joined]
    units = UnitOutcomes(
        units=list(members_of_unit),
        clusters=[unit[0].case.item.group for unit in joined],
        tags=[_shared_tags([answer.case for answer in unit]) for unit in joined],
        unparsed=[sum(answer.case.scores.unparsed for answer in unit) for unit in joined],
        value_U=value_U,
        tie_U=np.array(is_tied, dtype=np.bool_) & np.isfinite(value_U),
        chance_U=np.full(len(joined), CHANCE[metric]),
    )
    return outcomes(metric, [units])


def _shared_tags(cases: Sequence[Case]) -> Mapping[str, str]:
    """The tags that all cases share."""
    first, *others = (case.item.tags for case in cases)
    return {
        tag: value for tag, value in first.items() if all(tags.get(tag) == value for tags in others)
    }


def is_matching(true_NPC: BoolArray) -> BoolArray:
    """Square cases in which images and captions match one to one."""
    one_each_NC: BoolArray = (true_NPC.sum(axis=1) == 1) & (true_NPC.sum(axis=2) == 1)
    matching_N: BoolArray = np.all(one_each_NC, axis=1)
    return matching_N


def is_valid(stack: Stack) -> BoolArray:
    """Cases with only finite scores and different captions."""
    differ_N = np.array([len(set(case.item.captions)) for case in stack.cases], dtype=np.int64)
    valid_N: BoolArray = np.all(np.isfinite(stack.score_NPC), axis=(1, 2))
    valid_N &= differ_N == stack.score_NPC.shape[2]
    return valid_N
