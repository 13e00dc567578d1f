"""What metrics are made of: stacked cases, credit under a tie rule, chance levels, and Outcomes.

Dimensions: N cases of one shape, or rows (one question each); P pictures, C captions or candidates,
U units, Q queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unbag.errors import UserError
from unbag.types import (
    BoolArray,
    Case,
    FloatArray,
    IntArray,
    Item,
    Metric,
    Outcomes,
    Scores,
    Sparse,
    TieRule,
    Truth,
)

CELLS = 4_000_000
"""Scores stacked at once: 50,000 pictures x 1,000 classes must not lie in memory twice."""

CHANCE: Mapping[str, float] = MappingProxyType(
    {
        "original": 1 / 2,
        "augmented": 1 / 3,
        "brittleness": 1 / 3,
        "share_augmented": 1 / 3,
        "share_neg_like_hp": 1 / 6,
        "share_hp_over_orig": 1 / 6,
        "share_both_below": 1 / 3,
        "share_tie": 0.0,
        "individual": 1 / 2,
        "pair": 1 / 4,
        "same_answer": 1 / 2,
        "relaxed": 1 / 2,
        "individual4": 1 / 4,
        "pair4": 1 / 16,
        "set": 1 / 256,
        "text": 1 / 4,
        "image": 1 / 4,
        "group": 1 / 6,
        "question_pair": 1 / 4,
        "image_pair": 1 / 4,
        "all_four": 1 / 16,
        "auc": 1 / 2,
        "threshold_accuracy": 1 / 2,
        "text_only": 1 / 3,
    }
)
"""Levels that hold for every unit: independent continuous scores, so every order of the options
is equally likely and ties never happen."""
CHANCE_INDEPENDENT: Mapping[str, float] = MappingProxyType(
    {"augmented": 1 / 4, "brittleness": 1 / 2}
)
"""The other sensible null of triples: c against c_n and c_p against c_n are two fair coins. A bag
of words sits here, because only tiny order effects separate its scores."""


def stacks(cases: Sequence[Case], shapes: Sequence[tuple[int, int | None]]) -> Iterator[Stack]:
    """The cases of the wanted shapes (None: any number of captions), stacked; no others."""
    wanted: dict[tuple[int, int], list[Case]] = {}
    for case in cases:
        rows, columns = case.item.truth.shape
        if (rows, columns) in shapes or (rows, None) in shapes:
            wanted.setdefault((rows, columns), []).append(case)
    for (rows, columns), members in wanted.items():
        step = max(1, CELLS // (rows * columns))
        for start in range(0, len(members), step):
            part = tuple(members[start : start + step])
            score_NPC = np.array([score_cells(case) for case in part], dtype=np.float64)
            true_NPC = np.array([true_cells(case.item.truth, case.item.id) for case in part])
            yield Stack(part, score_NPC, true_NPC)


@dataclass(frozen=True, eq=False)
class Stack:
    """Cases of one shape, side by side."""

    cases: tuple[Case, ...]
    score_NPC: FloatArray
    true_NPC: BoolArray

    def chosen(self, keep_N: BoolArray) -> Stack:
        """Only the cases where `keep` is True."""
        if keep_N.all():
            return self
        cases = tuple(case for case, keep in zip(self.cases, keep_N, strict=True) if keep)
        return Stack(cases, self.score_NPC[keep_N], self.true_NPC[keep_N])


def score_cells(case: Case) -> FloatArray:
    """The full score matrix of a case."""
    values, shape = case.scores.values, tuple(case.item.truth.shape)
    if values is None or values.shape != shape:
        found = "only ranks" if values is None else f"scores of shape {values.shape}"
        raise UserError(
            f"item {case.item.id!r} comes with {found}",
            expected=f"scores of shape {shape}",
            way_out="score this item again; ranks serve recall and retention only",
        )
    return values


def true_cells(truth: Truth, item: str) -> BoolArray:
    """Truth as a full matrix of bool."""
    if isinstance(truth, Sparse):
        true_PC = np.zeros(truth.shape, dtype=np.bool_)
        true_PC[truth.row_T, truth.column_T] = True
        return true_PC
    if truth.dtype != np.bool_:
        raise UserError(
            f"item {item!r} has ratings, not true and false",
            expected="a truth matrix of bool",
            way_out="judge ratings with a rank correlation, or set a threshold in the loader",
        )
    return truth.astype(np.bool_, copy=False)


@dataclass(frozen=True, eq=False)
class JudgedUnits:
    """Some units and what was found about them."""

    units: Sequence[str]
    clusters: Sequence[str]
    tags: Sequence[Mapping[str, str]]
    unparsed: Sequence[int]
    value_U: FloatArray
    tie_U: BoolArray
    chance_U: FloatArray
    weight_U: FloatArray | None = None


def per_item(
    cases: Sequence[Case],
    value_U: FloatArray,
    tie_U: BoolArray,
    *,
    chance: FloatArray | float,
    clusters: Sequence[str],
) -> JudgedUnits:
    """Verdicts where every unit is one item."""
    return JudgedUnits(
        units=[case.item.id for case in cases],
        clusters=clusters,
        tags=[case.item.tags for case in cases],
        unparsed=[case.scores.unparsed for case in cases],
        value_U=value_U,
        tie_U=tie_U,
        chance_U=np.broadcast_to(np.asarray(chance, dtype=np.float64), value_U.shape),
    )


def outcomes(
    metric: str,
    parts: Sequence[JudgedUnits],
    *,
    chance_independent: float | None = None,
    is_rate: bool = True,
) -> Outcomes:
    """All parts of one metric, joined."""
    empty = np.zeros(0)
    weights = [np.ones(len(p.value_U)) if p.weight_U is None else p.weight_U for p in parts]
    return Outcomes(
        metric=metric,
        units=tuple(chain.from_iterable(part.units for part in parts)),
        value_U=np.concatenate([empty, *(part.value_U for part in parts)]),
        clusters=tuple(chain.from_iterable(part.clusters for part in parts)),
        tags=tuple(chain.from_iterable(part.tags for part in parts)),
        tie_U=np.concatenate([empty.astype(np.bool_), *(part.tie_U for part in parts)]),
        chance_U=np.concatenate([empty, *(part.chance_U for part in parts)]),
        weight_U=np.concatenate([empty, *weights]),
        unparsed_U=np.array(
            [*chain.from_iterable(part.unparsed for part in parts)], dtype=np.int64
        ),
        chance_independent=chance_independent,
        is_rate=is_rate,
    )


def cluster_of(item: Item) -> str:
    """What a one-picture item is resampled with: its group, or all items of the same picture."""
    return item.group or item.pictures[0].key


def credit(
    score_NC: FloatArray, true_NC: BoolArray, *, ties: TieRule = "wrong", tie_eps: float = 0.0
) -> Credit:
    """Credit of picking the best-scored candidate of each row.

    NaN where a score is not finite, and where there is nothing to choose between (no candidate is
    true, or all are).
    """
    is_judged_N = finite_rows(score_NC) & has_choice(true_NC)
    score_NC = np.where(is_judged_N[:, None], score_NC, 0.0)
    best_true_N = np.where(true_NC, score_NC, -np.inf).max(axis=1)
    best_false_N = np.where(true_NC, -np.inf, score_NC).max(axis=1)
    ahead_N = best_true_N - best_false_N
    tie_N = is_judged_N & (np.abs(ahead_N) <= tie_eps)
    credit_N = (ahead_N > tie_eps).astype(np.float64)
    if tie_N.any():
        credit_N[tie_N] = _worth(score_NC[tie_N], true_NC[tie_N], ties=ties, tie_eps=tie_eps)
    credit_N[~is_judged_N] = np.nan
    return Credit(credit_N, tie_N)


class Credit(NamedTuple):
    """What each row earned, and where its best true and best false candidate were level."""

    credit_N: FloatArray
    tie_N: BoolArray


def _worth(
    score_NC: FloatArray, true_NC: BoolArray, *, ties: TieRule, tie_eps: float
) -> FloatArray | float:
    """What tied rows earn under each rule."""
    if ties == "wrong":
        return 0.0
    if ties == "right":
        return 1.0
    top_NC = score_NC.max(axis=1, keepdims=True) - score_NC <= tie_eps
    if ties == "half":
        shared_N: FloatArray = (top_NC & true_NC).sum(axis=1) / top_NC.sum(axis=1)
        return shared_N
    first_N = top_NC.argmax(axis=1)
    last_N = top_NC.shape[1] - 1 - top_NC[:, ::-1].argmax(axis=1)
    chosen_N = first_N if ties == "argmax_first" else last_N
    chosen_N1 = np.expand_dims(chosen_N, 1)
    return np.take_along_axis(true_NC, chosen_N1, axis=1)[:, 0].astype(np.float64)


def duel(
    score_NC: FloatArray, own_N: IntArray, other_N: IntArray, *, ties: TieRule, tie_eps: float
) -> Duel:
    """Column `own` against column `other` of each row, by the same tie rules.

    Under `half` a tie is half won and half lost; under the argmax rules the order of the columns
    decides. The rows must be finite.
    """
    column_N2 = np.sort(np.stack([own_N, other_N], axis=1), axis=1)
    score_N2 = np.take_along_axis(score_NC, column_N2, axis=1)
    won_N, tie_N = credit(score_N2, column_N2 == own_N[:, None], ties=ties, tie_eps=tie_eps)
    lost_N = 1.0 - won_N
    if ties == "wrong":
        lost_N[tie_N] = 0.0
    return Duel(won_N, lost_N, tie_N)


class Duel(NamedTuple):
    """Two candidates of each row compared. Under `wrong` a tie is neither won nor lost."""

    won_N: FloatArray
    lost_N: FloatArray
    tie_N: BoolArray


def finite_rows(score_NC: FloatArray) -> BoolArray:
    """Rows in which every score is a finite number."""
    finite_N: BoolArray = np.all(np.isfinite(score_NC), axis=1)
    return finite_N


def has_choice(true_NC: BoolArray) -> BoolArray:
    """Rows with both a true and a false candidate."""
    both_N: BoolArray = np.any(true_NC, axis=1) & np.any(~true_NC, axis=1)
    return both_N


def hit_chance(gallery: int, true_Q: IntArray, k: int) -> FloatArray:
    """Probability that at least one of the true candidates is among k drawn at random.

    1 - C(n - m, k) / C(n, k) for m true ones among n, which is k/n for m = 1.
    """
    missed_Q = np.ones(len(true_Q))
    for drawn in range(min(k, gallery)):
        missed_Q *= np.clip(gallery - true_Q - drawn, 0, None) / (gallery - drawn)
    return 1.0 - missed_Q


def simulate(
    metric: Metric,
    item: Item,
    *,
    cases: int,
    rng: np.random.Generator,
    ties: TieRule = "wrong",
) -> Mapping[str, float]:
    """Mean of every outcome of the real metric over copies of an item with random scores."""
    rows, columns = item.truth.shape
    score_NPC = rng.standard_normal((cases, rows, columns))
    made = [Case(item, Scores(item.id, score_PC)) for score_PC in score_NPC]
    judged = metric(made, ties=ties, tie_eps=0.0)
    return {found.metric: float(np.nanmean(found.value_U)) for found in judged}
