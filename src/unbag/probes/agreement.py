"""Vectors of different pictures come in; which of them a model takes for the same goes out.

Erroneous agreement (Li et al. 2024, section 3.1): the share of pairs of different pictures with a
cosine strictly above 0.95. Pairs that one encoder merges and another keeps apart are mined as MMVP
was: above 0.95 for one, below 0.6 for the other. Limits: a threshold on a cosine means little where
all vectors lie in a narrow cone; look at `centred` vectors too.

Dimensions: N pictures, D and E spaces of two encoders, R and C rows and columns of a block, S and T
those of them that are looked into, P pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unbag.engine.cache import Vectors
from unbag.errors import UserError
from unbag.probes.vectors import cosines, unit
from unbag.types import BoolArray, FloatArray, IntArray, Picture

ABOVE, BELOW = 0.95, 0.6
BLOCK = 4_096
STRIP = 512
"""Rows of a block that are looked into at a time, should all of them be near."""
MOST = 1_000


class Encoder(Protocol):
    """Any encoder of pictures; captions are not needed to mine."""

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        """Vectors [N, D]; NaN for a picture that cannot be opened."""


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


def mine(
    merging: Encoder,
    parting: Encoder,
    pictures: Sequence[Picture],
    *,
    above: float = ABOVE,
    below: float = BELOW,
    most: int = MOST,
) -> list[MinedPair]:
    """The pairs among these pictures that the first encoder merges and the second keeps apart.

    Places are those of the pictures given. Copies of a picture are no pair.
    """
    if len(pictures) < 2:
        raise UserError(
            f"{len(pictures)} pictures to find pairs among",
            expected="at least two; thousands, to find some that matter",
        )
    both = merging.pictures(pictures), parting.pictures(pictures)
    keys = [picture.key for picture in pictures]
    return mine_pairs(*both, above=above, below=below, most=most, keys=keys)


def mine_pairs(
    merging_ND: FloatArray | Vectors,
    parting_NE: FloatArray | Vectors,
    *,
    above: float = ABOVE,
    below: float = BELOW,
    most: int = MOST,
    block: int = BLOCK,
    keys: Sequence[str] | None = None,
) -> list[MinedPair]:
    """The pairs with the highest cosine by the first encoder, best first.

    Memory is that of the first vectors in single precision, of a few blocks of cosines and of
    `most` pairs. Pairs with equal keys (pixel hashes) are the same picture and no pair. A picture
    without a direction is in no pair.
    """
    if len(merging_ND) != len(parting_NE):
        raise UserError(
            f"{len(merging_ND)} vectors of one encoder and {len(parting_NE)} of the other",
            expected="both encoders on the same pictures",
        )
    single_ND, is_known_N = _single(merging_ND)
    is_known_N &= _known(parting_NE)
    search = _Search(single_ND, parting_NE, is_known_N, _numbers(keys, len(single_ND)), below)
    kept = _Kept(most, above)
    for rows, columns, cosine_RC in block_cosines(single_ND, block):
        # Most blocks hold nothing: one pass that finds the largest of each row settles that.
        best_R = cosine_RC.max(axis=1, initial=-1.0)
        for strip in range(0, len(best_R), STRIP):
            row_S = strip + np.flatnonzero(best_R[strip : strip + STRIP] > kept.least)
            if len(row_S):
                near_SC = cosine_RC[row_S]
                kept.add(search.among(rows.start + row_S, columns.start, near_SC, kept.least))
    return kept.pairs()


def block_cosines(single_ND: Vectors, block: int = BLOCK) -> Iterator[tuple[slice, slice, Vectors]]:
    """Rows, columns and products of each block of the upper triangle, all in the same memory."""
    count = len(single_ND)
    space = np.empty(min(block, count) ** 2, dtype=np.float32)
    for top in range(0, count, block):
        for left in range(top, count, block):
            rows = slice(top, min(top + block, count))
            columns = slice(left, min(left + block, count))
            shape = rows.stop - top, columns.stop - left
            cosine_RC = space[: shape[0] * shape[1]].reshape(shape)
            np.matmul(single_ND[rows], single_ND[columns].T, out=cosine_RC)
            if top == left:
                np.fill_diagonal(cosine_RC, -1.0)
            yield rows, columns, cosine_RC


@dataclass(frozen=True, eq=False)
class _Search:
    """What tells whether two pictures that lie near are a pair."""

    merging_ND: Vectors
    parting_NE: FloatArray | Vectors
    is_known_N: BoolArray
    number_N: IntArray
    """Equal for copies of a picture."""
    below: float

    def among(self, i_S: IntArray, left: int, cosine_SC: Vectors, least: float) -> list[FloatArray]:
        """Pairs of these rows with columns from `left` on: first, second, merged, apart."""
        column_T = np.flatnonzero((cosine_SC > least).any(axis=0))
        j_T, cosine_ST = left + column_T, cosine_SC[:, column_T]
        is_pair_ST = (cosine_ST > least) & (i_S[:, None] < j_T)
        is_pair_ST &= self.is_known_N[i_S, None] & self.is_known_N[j_T]
        is_pair_ST &= self.number_N[i_S, None] != self.number_N[j_T]
        first, second = (_single(self.parting_NE[at])[0] for at in (i_S, j_T))
        apart_ST = first @ second.T
        s_P, t_P = np.nonzero(is_pair_ST & (apart_ST < self.below))
        found = i_S[s_P], j_T[t_P], cosine_ST[s_P, t_P], apart_ST[s_P, t_P]
        return [np.asarray(one, dtype=float) for one in found]


class _Kept:
    """The best pairs so far."""

    def __init__(self, most: int, above: float) -> None:
        self.most = most
        self.least = above
        """A pair must be above this to be kept; rises once there are enough."""
        self.found: list[FloatArray] = [np.empty(0) for _ in range(4)]

    def add(self, more: Sequence[FloatArray]) -> None:
        both = [np.concatenate([a, b]) for a, b in zip(self.found, more, strict=True)]
        if self.most and len(both[2]) > self.most:
            is_good = both[2] >= np.partition(both[2], -self.most)[-self.most]
            both = [one[is_good] for one in both]
        order = np.lexsort((both[1], both[0], -both[2]))[: self.most]
        self.found = [one[order] for one in both]
        if len(order) == self.most and self.most:
            self.least = max(self.least, float(self.found[2][-1]))

    def pairs(self) -> list[MinedPair]:
        rows = zip(*self.found, strict=True)
        return [MinedPair(int(i), int(j), float(m), float(a)) for i, j, m, a in rows]


def _single(vector_ND: FloatArray | Vectors) -> tuple[Vectors, BoolArray]:
    """Unit vectors in single precision, and which have a direction; the others are zero."""
    found_ND = np.empty(vector_ND.shape, dtype=np.float32)
    is_known_N = np.empty(len(vector_ND), dtype=np.bool_)
    for at in range(0, len(vector_ND), BLOCK):
        part = slice(at, at + BLOCK)
        unit_RD = unit(np.asarray(vector_ND[part], dtype=float))
        is_known_N[part] = ~np.isnan(unit_RD).any(axis=1)
        found_ND[part] = np.where(is_known_N[part, None], unit_RD, 0.0)
    return found_ND, is_known_N


def _known(vector_ND: FloatArray | Vectors) -> BoolArray:
    """Which have a direction."""
    parts = [_single(vector_ND[at : at + BLOCK])[1] for at in range(0, len(vector_ND), BLOCK)]
    return np.concatenate([np.empty(0, dtype=np.bool_), *parts])


def _numbers(keys: Sequence[str] | None, count: int) -> IntArray:
    if keys is None:
        return np.arange(count)
    number: dict[str, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
