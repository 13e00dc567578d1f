"""One-picture items that belong together come in; what a whole group got right goes out.

Dimensions: N cases of one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from unbag.metrics.cases import Judged, outcomes, stacks
from unbag.metrics.chance import CHANCE
from unbag.metrics.ties import credit
from unbag.types import Case, Item, Outcomes, TieRule


@dataclass(frozen=True)
class Answer:
    """One item of a group, judged by itself."""

    case: Case
    credit: float
    is_tied: bool


@dataclass(frozen=True)
class Joined:
    """NaturalBench: two questions about two pictures, four items in one group.

    `question_pair`: one question, both pictures; `image_pair`: one picture, both questions;
    `all_four`. A unit of which an item is missing or invalid is invalid.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Join the one-picture items of every group."""
        answers = _answers(cases, ties=ties, tie_eps=tie_eps)
        return [
            _joined("question_pair", answers, by=_question_of, members=2),
            _joined("image_pair", answers, by=_picture_of, members=2),
            _joined("all_four", answers, by=_group_of, members=4),
        ]


@dataclass(frozen=True)
class JoinedPairs:
    """MMVP: the two items of a group ask about two pictures; `pair` needs both."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Join the one-picture items of every group."""
        answers = _answers(cases, ties=ties, tie_eps=tie_eps)
        return [_joined("pair", answers, by=_group_of, members=2)]


def _answers(cases: Sequence[Case], *, ties: TieRule, tie_eps: float) -> list[Answer]:
    """Every one-picture item that belongs to a group, in the order of the cases."""
    grouped = [case for case in cases if case.item.group]
    found: dict[str, Answer] = {}
    for stack in stacks(grouped, [(1, None)]):
        credit_N, tie_N = credit(
            stack.score_NPC[:, 0], stack.true_NPC[:, 0], ties=ties, tie_eps=tie_eps
        )
        for case, value, is_tied in zip(stack.cases, credit_N, tie_N, strict=True):
            found[case.item.id] = Answer(case, float(value), bool(is_tied))
    return [found[case.item.id] for case in grouped if case.item.id in found]


def _joined(
    metric: str, answers: Sequence[Answer], *, by: Callable[[Item], str], members: int
) -> Outcomes:
    units: dict[str, list[Answer]] = {}
    for answer in answers:
        units.setdefault(by(answer.case.item), []).append(answer)
    joined = list(units.values())
    complete = [len(unit) == members for unit in joined]
    values = [prod(answer.credit for answer in unit) for unit in joined]
    value_U = np.where(complete, values, np.nan) if joined else np.zeros(0)
    is_tied = [any(answer.is_tied for answer in unit) for unit in joined]
    judged = Judged(
        units=list(units),
        clusters=[unit[0].case.item.group for unit in joined],
        tags=[_shared_tags(unit) for unit in joined],
        unparsed=[sum(answer.case.scores.unparsed for answer in unit) for unit in joined],
        value_U=value_U,
        tie_U=np.array(is_tied, dtype=np.bool_) & np.isfinite(value_U),
        chance_U=np.full(len(joined), CHANCE[metric]),
    )
    return outcomes(metric, [judged])


def _group_of(item: Item) -> str:
    return item.group


def _question_of(item: Item) -> str:
    return f"{item.group}/{item.question.text if item.question else ''}"


def _picture_of(item: Item) -> str:
    return f"{item.group}/{item.pictures[0].name}"


def _shared_tags(unit: Sequence[Answer]) -> Mapping[str, str]:
    first, *others = (answer.case.item.tags for answer in unit)
    return {
        tag: value for tag, value in first.items() if all(tags.get(tag) == value for tags in others)
    }
