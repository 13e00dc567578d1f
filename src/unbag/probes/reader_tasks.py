"""Units with groups and classes come in; what is fitted to and what is tested on go out.

Dimensions: N units, T units of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from unbag.engine.cache import Vectors
from unbag.errors import UserError
from unbag.metrics.resample import generator
from unbag.types import FloatArray, IntArray

Feature: TypeAlias = FloatArray | Vectors
"""In either precision."""

STOP_FOLDS = 5
"""One in so many groups of the training part says when to stop."""


@dataclass(frozen=True)
class Effort:
    """How hard a reader tries."""

    folds: int = 3
    inverse_strengths: tuple[float, ...] = (1e-3, 1e-1)
    """C of a logistic regression, weakest last: it least sum(loss) + |weights|^2 / (2 C)."""
    shuffles: int = 1
    """Controls: readers that are fitted to shuffled labels; 0 for none."""
    epochs: int = 25
    """Most rounds over the training part of the readers that are networks."""
    patience: int = 5
    """Rounds without a better loss on the groups that say when to stop."""

    def __post_init__(self) -> None:
        if self.folds < 3 or self.shuffles < 0 or not self.inverse_strengths or self.epochs < 1:
            raise UserError(
                f"{self.folds} folds, {self.shuffles} shuffles, {self.epochs} epochs, "
                f"{len(self.inverse_strengths)} strengths",
                expected="at least 3 folds, so that a training part can be split again, 1 epoch "
                "and 1 strength; 0 shuffles or more",
            )


QUICK = Effort()
FULL = Effort(
    folds=5,
    inverse_strengths=tuple(10.0**power for power in range(-4, 5)),
    shuffles=3,
    epochs=200,
    patience=25,
)


@dataclass(frozen=True, eq=False)
class Task:
    """One reader to fit: indices of units, and the classes it is told."""

    train_T: IntArray
    told_T: IntArray
    """Of the training units; shuffled in a control."""
    inner_T: IntArray
    """Fold of each training unit, by group: for what is chosen without the test part. Networks
    are not fitted to fold 0, which says when to stop."""
    test_T: IntArray
    seed: int
    """Of its first weights."""


def group_folds(groups: Sequence[str], folds: int, *, seed: int, use: str = "test") -> IntArray:
    """The fold of each unit: units of one group share one, groups are dealt out evenly.

    Which group goes where depends on the seed and the names, not on their order.
    """

    def place(name: str) -> bytes:
        return blake2b(f"{seed}\0{use}\0{name}".encode(), digest_size=8).digest()

    dealt = {name: at % folds for at, name in enumerate(sorted(set(groups), key=place))}
    return np.array([dealt[name] for name in groups], dtype=np.int64)


def tasks_of(
    class_N: IntArray, groups: Sequence[str], effort: Effort, *, inner: int, seed: int
) -> list[list[Task]]:
    """For each fold the reader of the true classes, then those of shuffled ones."""
    fold_N = group_folds(groups, effort.folds, seed=seed)
    found = []
    for fold in range(effort.folds):
        train_T, test_T = np.flatnonzero(fold_N != fold), np.flatnonzero(fold_N == fold)
        names = [groups[at] for at in train_T.tolist()]
        inner_T = group_folds(names, min(inner, len(set(names))), seed=seed, use="inner")
        row = []
        for shuffle in range(effort.shuffles + 1):
            rng = generator(seed, "reader", str(fold), str(shuffle))
            told_T = class_N[train_T]
            # Over the whole part: within a group nothing would change where a group is one class.
            told_T = rng.permutation(told_T) if shuffle else told_T
            row.append(Task(train_T, told_T, inner_T, test_T, int(rng.integers(2**31))))
        found.append(row)
    return found
