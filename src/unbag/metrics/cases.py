"""Building blocks of metrics: stack cases of one shape into arrays, and join outcomes of units.

Dimensions: N cases of one shape, or rows (one question each); P images, C captions or candidates,
U units, Q queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from unbag.errors import UnbagError
from unbag.types import BoolArray, Case, FloatArray, Item, Outcomes, Sparse, Truth

CELLS = 4_000_000
"""Scores per stack: 50,000 images x 1,000 classes must not be in memory twice."""


def stacks(cases: Sequence[Case], shapes: Sequence[tuple[int, int | None]]) -> Iterator[Stack]:
    """Stacks of the cases that have one of the shapes (None: any number of captions)."""
    cases_of_shape: dict[tuple[int, int], list[Case]] = {}
    for case in cases:
        rows, columns = case.item.truth.shape
        if (rows, columns) in shapes or (rows, None) in shapes:
            cases_of_shape.setdefault((rows, columns), []).append(case)
    for (rows, columns), members in cases_of_shape.items():
        step = max(1, CELLS // (rows * columns))
        for start in range(0, len(members), step):
            part = tuple(members[start : start + step])
            score_NPC = np.array([score_cells(case) for case in part], dtype=np.float64)
            true_NPC = np.array([true_cells(case.item.truth, case.item.id) for case in part])
            yield Stack(part, score_NPC, true_NPC)


@dataclass(frozen=True, eq=False)
class Stack:
    """Arrays of several cases of one shape."""

    cases: tuple[Case, ...]
    score_NPC: FloatArray
    true_NPC: BoolArray

    def select(self, keep_N: BoolArray) -> Stack:
        """The cases where `keep_N` is True."""
        if keep_N.all():
            return self
        cases = tuple(case for case, keep in zip(self.cases, keep_N, strict=True) if keep)
        return Stack(cases, self.score_NPC[keep_N], self.true_NPC[keep_N])


def score_cells(case: Case) -> FloatArray:
    """The full score matrix of a case."""
    values, shape = case.scores.values, tuple(case.item.truth.shape)
    if values is None or values.shape != shape:
        content = "only ranks" if values is None else f"scores of shape {values.shape}"
        raise UnbagError(
            f"item {case.item.id!r} comes with {content}",
            expected=f"scores of shape {shape}",
            hint="score this item again; ranks suffice only for recall and retention",
        )
    return values


def true_cells(truth: Truth, item: str) -> BoolArray:
    """Truth as a full matrix of booleans."""
    if isinstance(truth, Sparse):
        true_PC = np.zeros(truth.shape, dtype=np.bool_)
        true_PC[truth.row_T, truth.column_T] = True
        return true_PC
    if truth.dtype != np.bool_:
        raise UnbagError(
            f"item {item!r} has ratings, not true and false",
            expected="a truth matrix of bool",
            hint="measure ratings with a rank correlation, or set a threshold in the loader",
        )
    return truth.astype(np.bool_, copy=False)


@dataclass(frozen=True, eq=False)
class UnitOutcomes:
    """Values, ties and chance levels of some units of a metric."""

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
    clusters: Sequence[str] | None = None,
) -> UnitOutcomes:
    """Outcomes with one unit per item; clusters default to `cluster_of`."""
    units_clusters = [cluster_of(case.item) for case in cases] if clusters is None else clusters
    return UnitOutcomes(
        units=[case.item.id for case in cases],
        clusters=units_clusters,
        tags=[case.item.tags for case in cases],
        unparsed=[case.scores.unparsed for case in cases],
        value_U=value_U,
        tie_U=tie_U,
        chance_U=np.broadcast_to(np.asarray(chance, dtype=np.float64), value_U.shape),
    )


def outcomes(
    metric: str,
    parts: Sequence[UnitOutcomes],
    *,
    chance_independent: float | None = None,
    is_rate: bool = True,
) -> Outcomes:
    """Join the parts of one metric."""
    empty, join = np.zeros(0), chain.from_iterable
    weights = [np.ones(len(p.value_U)) if p.weight_U is None else p.weight_U for p in parts]
    return Outcomes(
        metric=metric,
        units=tuple(join(part.units for part in parts)),
        value_U=np.concatenate([empty, *(part.value_U for part in parts)]),
        clusters=tuple(join(part.clusters for part in parts)),
        tags=tuple(join(part.tags for part in parts)),
        tie_U=np.concatenate([empty.astype(np.bool_), *(part.tie_U for part in parts)]),
        chance_U=np.concatenate([empty, *(part.chance_U for part in parts)]),
        weight_U=np.concatenate([empty, *weights]),
        unparsed_U=np.array([n for part in parts for n in part.unparsed], dtype=np.int64),
        chance_independent=chance_independent,
        is_rate=is_rate,
    )


def cluster_of(item: Item) -> str:
    """The resampling cluster of a one-image item: its group, or all items of the same image."""
    return item.group or item.images[0].key
