"""Vectors of different pictures come in; which of them a model takes for the same goes out.

Erroneous agreement (Li et al. 2024, section 3.1): the share of pairs of different pictures with a
cosine strictly above 0.95. Pairs that one encoder merges and another keeps apart are mined as MMVP
was: above 0.95 for one, below 0.6 for the other. Limits: a threshold on a cosine means little where
all vectors lie in a narrow cone; look at `centred` vectors too.

Dimensions: N pictures, D and E spaces of two encoders, R and C rows and columns of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.errors import UserError
from unbag.probes.vectors import cosines, unit
from unbag.types import FloatArray, IntArray

ABOVE, BELOW = 0.95, 0.6
BLOCK = 4_096
MOST = 1_000


@dataclass(frozen=True)
class MinedPair:
    """Two pictures that are one to the first encoder and two to the second."""

    first: int
    second: int
    merged: float
    """Cosine by the encoder that merges them."""
    apart: float
    """Cosine by the other."""


def agree(first_ND: FloatArray, second_ND: FloatArray, *, above: float = ABOVE) -> FloatArray:
    """For each pair of rows 1 if it agrees, 0 if not, NaN where a vector has no direction."""
    cosine_N = cosines(first_ND, second_ND)
    return np.where(np.isnan(cosine_N), np.nan, cosine_N > above)


def mine_pairs(
    merging_ND: FloatArray,
    parting_NE: FloatArray,
    *,
    above: float = ABOVE,
    below: float = BELOW,
    most: int = MOST,
    block: int = BLOCK,
    keys: Sequence[str] | None = None,
) -> list[MinedPair]:
    """The pairs with the highest cosine by the first encoder, best first.

    Memory is that of a block of cosines and of `most` pairs. Pairs with equal keys (pixel hashes)
    are the same picture and no pair.
    """
    if len(merging_ND) != len(parting_NE):
        raise UserError(
            f"{len(merging_ND)} vectors of one encoder and {len(parting_NE)} of the other",
            expected="both encoders on the same pictures",
        )
    merging_ND, parting_NE = (_single(one) for one in (merging_ND, parting_NE))
    number_N = _numbers(keys, len(merging_ND))
    kept = _Kept(most, above)
    for top in range(0, len(merging_ND), block):
        for left in range(top, len(merging_ND), block):
            rows, columns = slice(top, top + block), slice(left, left + block)
            cosine_RC = merging_ND[rows] @ merging_ND[columns].T
            # Most blocks hold nothing: one pass that finds the largest settles that.
            if not cosine_RC.max(initial=-1.0) > kept.least:
                continue
            i_P, j_P = np.nonzero(cosine_RC > kept.least)
            merged_P = cosine_RC[i_P, j_P]
            i_P, j_P = i_P + top, j_P + left
            is_pair_P = (i_P < j_P) & (number_N[i_P] != number_N[j_P])
            i_P, j_P, merged_P = i_P[is_pair_P], j_P[is_pair_P], merged_P[is_pair_P]
            apart_P = (parting_NE[i_P] * parting_NE[j_P]).sum(axis=1)
            kept.add([one[apart_P < below] for one in (i_P, j_P, merged_P, apart_P)])
    return kept.pairs()


class _Kept:
    """The best pairs so far."""

    def __init__(self, most: int, above: float) -> None:
        self.most = most
        self.least = above
        """A pair must be above this to be kept; rises once there are enough."""
        self.found: list[FloatArray] = [np.empty(0) for _ in range(4)]

    def add(self, more: Sequence[FloatArray]) -> None:
        both = [np.concatenate([a, b]) for a, b in zip(self.found, more, strict=True)]
        order = np.lexsort((both[1], both[0], -both[2]))[: self.most]
        self.found = [one[order] for one in both]
        if len(order) == self.most and self.most:
            self.least = max(self.least, float(self.found[2][-1]))

    def pairs(self) -> list[MinedPair]:
        rows = zip(*self.found, strict=True)
        return [MinedPair(int(i), int(j), float(m), float(a)) for i, j, m, a in rows]


def _single(vector_ND: FloatArray) -> FloatArray:
    """Unit vectors in single precision; what has no direction is like nothing."""
    found: FloatArray = np.nan_to_num(unit(np.asarray(vector_ND, dtype=float))).astype(np.float32)
    return found


def _numbers(keys: Sequence[str] | None, count: int) -> IntArray:
    if keys is None:
        return np.arange(count)
    number: dict[str, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys])
