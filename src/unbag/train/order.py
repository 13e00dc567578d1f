"""Pairs and an epoch come in; the order in which they are gone through goes out.

Dimensions: N pairs, S shards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from unbag.train.pairs import Pairs
from unbag.types import IntArray

WINDOW = 16
"""Shards that are shuffled together: so many are read from at a time."""


@runtime_checkable
class InBlocks(Protocol):
    """Pairs that are read quickest where they stand together."""

    @property
    def block_ends(self) -> IntArray:
        """Places at which blocks end."""


def order_of(pairs: Pairs, *, seed: int, epoch: int) -> IntArray:
    """A permutation of places, which seed and epoch decide.

    Shards come in any order, and within a window of them their pairs.
    """
    random = np.random.default_rng((abs(seed), seed < 0, epoch))
    if not isinstance(pairs, InBlocks):
        return random.permutation(len(pairs))
    end_S = pairs.block_ends
    start_S = np.concatenate(([0], end_S[:-1]))
    shuffled_S = random.permutation(len(end_S))
    windows = []
    for first in range(0, len(end_S), WINDOW):
        blocks = shuffled_S[first : first + WINDOW]
        place = np.concatenate([np.arange(start_S[at], end_S[at]) for at in blocks])
        windows.append(random.permutation(place))
    return np.concatenate(windows)


@dataclass(eq=False)
class Orders:
    """Keeps the order of the epoch that was asked for last."""

    epoch: int = -1
    order_N: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    def of(self, pairs: Pairs, *, seed: int, epoch: int) -> IntArray:
        """As `order_of`."""
        if epoch != self.epoch:
            self.order_N = order_of(pairs, seed=seed, epoch=epoch)
            self.epoch = epoch
        return self.order_N
