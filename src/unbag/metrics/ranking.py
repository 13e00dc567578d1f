"""Scores of a gallery come in, whole or block by block; the ranks of both directions go out.

Dimensions: P pictures, C captions, B pictures of a block, Q queries, K kept candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unbag.errors import UserError
from unbag.metrics.cases import true_cells
from unbag.metrics.ties import finite_rows
from unbag.types import BoolArray, FloatArray, IntArray, Ranks, Sparse, TieRule, Truth

Block: TypeAlias = Callable[[int, int], FloatArray]
"""(start, stop) to the scores of those pictures [stop - start, C]. It is called twice for every
block and must answer the same both times."""


def rank(
    score_PC: FloatArray, truth: Truth, *, keep: int = 10, tie_eps: float = 0.0
) -> tuple[Ranks, Ranks]:
    """Ranks (text to image, image to text) from a whole matrix."""
    if score_PC.shape != tuple(truth.shape):
        raise UserError(
            f"scores of shape {score_PC.shape}", expected=f"pictures x captions = {truth.shape}"
        )
    return rank_blocks(lambda start, stop: score_PC[start:stop], truth, keep=keep, tie_eps=tie_eps)


def rank_blocks(
    block: Block, truth: Truth, *, rows: int = 128, keep: int = 10, tie_eps: float = 0.0
) -> tuple[Ranks, Ranks]:
    """Ranks (text to image, image to text) without ever holding more than `rows` pictures.

    A picture (or caption) without any finite score is damaged: invalid as a query and out of the
    gallery of the other direction. A query with any other non-finite score, or whose true
    candidates are all damaged, is invalid. Candidates that tie at the end of the kept ones are
    taken in their own order.
    """
    gallery = _Gallery(block, truth, rows)
    found = _survey(gallery)
    by_text = _Count.empty(gallery.captions, keep, gallery.pictures)
    by_picture = _Count.empty(gallery.pictures, keep, gallery.captions)
    for part, score_BC, true_BC in gallery.blocks():
        true_BC = true_BC & found.alive_P[part, None] & found.alive_C
        by_picture.add(score_BC - found.best_P[part, None], true_BC, tie_eps, part)
        by_picture.keep(score_BC, 0, part)
        by_text.add((score_BC - found.best_C).T, true_BC.T, tie_eps, slice(None))
        by_text.keep(score_BC.T, part.start, slice(None))
    text_to_image = by_text.ranks(found.valid_C, int(found.alive_P.sum()))
    return text_to_image, by_picture.ranks(found.valid_P, int(found.alive_C.sum()))


@dataclass(frozen=True, eq=False)
class _Gallery:
    """Pictures and captions, a block of pictures at a time."""

    block: Block
    truth: Truth
    rows: int

    @property
    def pictures(self) -> int:
        return int(self.truth.shape[0])

    @property
    def captions(self) -> int:
        return int(self.truth.shape[1])

    def blocks(self) -> Iterator[tuple[slice, FloatArray, BoolArray]]:
        """Which pictures, their scores (NaN wherever not finite), and which are true."""
        true_rows = _true_rows(self.truth)
        for start in range(0, self.pictures, self.rows):
            stop = min(start + self.rows, self.pictures)
            score_BC = np.asarray(self.block(start, stop), dtype=np.float64)
            if score_BC.shape != (stop - start, self.captions):
                raise UserError(
                    f"a block of scores has shape {score_BC.shape}",
                    expected=f"{(stop - start, self.captions)}",
                )
            score_BC = np.where(np.isfinite(score_BC), score_BC, np.nan)
            yield slice(start, stop), score_BC, true_rows(start, stop)


@dataclass(frozen=True, eq=False)
class _Survey:
    """What the first pass finds: best true scores, damaged candidates, valid queries."""

    best_P: FloatArray
    best_C: FloatArray
    alive_P: BoolArray
    alive_C: BoolArray
    valid_P: BoolArray
    valid_C: BoolArray


def _survey(gallery: _Gallery) -> _Survey:
    pictures, captions = gallery.pictures, gallery.captions
    best_P, best_C = np.full(pictures, -np.inf), np.full(captions, -np.inf)
    gaps_P, gaps_C = np.zeros(pictures, dtype=np.int64), np.zeros(captions, dtype=np.int64)
    for part, score_BC, true_BC in gallery.blocks():
        is_gap_BC = np.isnan(score_BC)
        own_BC = np.where(true_BC & ~is_gap_BC, score_BC, -np.inf)
        best_P[part] = own_BC.max(axis=1)
        np.maximum(best_C, own_BC.max(axis=0), out=best_C)
        gaps_P[part] = is_gap_BC.sum(axis=1)
        gaps_C += is_gap_BC.sum(axis=0)
    alive_P, alive_C = gaps_P < captions, gaps_C < pictures
    valid_P = alive_P & (gaps_P == (~alive_C).sum()) & np.isfinite(best_P)
    valid_C = alive_C & (gaps_C == (~alive_P).sum()) & np.isfinite(best_C)
    return _Survey(best_P, best_C, alive_P, alive_C, valid_P, valid_C)


@dataclass(frozen=True, eq=False)
class _Count:
    """Ranks of one direction in the making."""

    greater_Q: IntArray
    equal_Q: IntArray
    true_equal_Q: IntArray
    true_Q: IntArray
    top_QK: IntArray
    top_score_QK: FloatArray

    @classmethod
    def empty(cls, queries: int, keep: int, candidates: int) -> _Count:
        greater_Q, equal_Q, true_equal_Q, true_Q = np.zeros((4, queries), dtype=np.int64)
        shape = (queries, min(keep, candidates))
        top_QK, top_score_QK = np.full(shape, -1, dtype=np.int64), np.full(shape, -np.inf)
        return cls(greater_Q, equal_Q, true_equal_Q, true_Q, top_QK, top_score_QK)

    def add(self, ahead_QB: FloatArray, true_QB: BoolArray, eps: float, queries: slice) -> None:
        """Count candidates by how far they are ahead of the best true one; NaN is never counted."""
        near_QB = np.abs(ahead_QB) <= eps
        self.greater_Q[queries] += ((ahead_QB > eps) & ~true_QB).sum(axis=1)
        self.equal_Q[queries] += (near_QB & ~true_QB).sum(axis=1)
        self.true_equal_Q[queries] += (near_QB & true_QB).sum(axis=1)
        self.true_Q[queries] += true_QB.sum(axis=1)

    def keep(self, score_QB: FloatArray, offset: int, queries: slice) -> None:
        """Merge new candidates, numbered from `offset`, into the kept ones."""
        kept = self.top_QK.shape[1]
        old_QK = self.top_QK[queries].copy()
        score_QN = np.concatenate([self.top_score_QK[queries], score_QB], axis=1)
        score_QN[np.isnan(score_QN)] = -np.inf
        row_Q = np.arange(len(score_QN))
        for place in range(kept):
            best_Q = score_QN.argmax(axis=1)
            old_Q = old_QK[row_Q, np.minimum(best_Q, kept - 1)]
            self.top_QK[queries, place] = np.where(best_Q < kept, old_Q, best_Q - kept + offset)
            self.top_score_QK[queries, place] = score_QN[row_Q, best_Q]
            score_QN[row_Q, best_Q] = -np.inf

    def ranks(self, valid_Q: BoolArray, gallery: int) -> Ranks:
        """The finished ranks; places without a scored candidate hold -1 and NaN."""
        is_filled_QK = np.isfinite(self.top_score_QK)
        return Ranks(
            greater_Q=np.where(valid_Q, self.greater_Q, -1),
            equal_Q=np.where(valid_Q, self.equal_Q, 0),
            true_equal_Q=np.where(valid_Q, self.true_equal_Q, 1),
            true_Q=self.true_Q,
            gallery=gallery,
            top_QK=np.where(is_filled_QK, self.top_QK, -1),
            top_score_QK=np.where(is_filled_QK, self.top_score_QK, np.nan),
        )


def _true_rows(truth: Truth) -> Callable[[int, int], BoolArray]:
    """Access to the truth of a block of pictures."""
    if not isinstance(truth, Sparse):
        true_PC = true_cells(truth, "ranking")
        return lambda start, stop: true_PC[start:stop]
    order_T = np.argsort(truth.row_T, kind="stable")
    row_T, column_T = truth.row_T[order_T], truth.column_T[order_T]

    def rows(start: int, stop: int) -> BoolArray:
        first, last = np.searchsorted(row_T, [start, stop])
        true_BC = np.zeros((stop - start, truth.shape[1]), dtype=np.bool_)
        true_BC[row_T[first:last] - start, column_T[first:last]] = True
        return true_BC

    return rows


def rank_rows(score_QC: FloatArray, true_QC: BoolArray, *, tie_eps: float = 0.0) -> Ranks:
    """Ranks of queries that each have their own row of candidates; none of these is kept."""
    is_valid_Q: BoolArray = finite_rows(score_QC) & np.any(true_QC, axis=1)
    score_QC = np.where(is_valid_Q[:, None], score_QC, 0.0)
    best_Q1 = np.where(true_QC, score_QC, -np.inf).max(axis=1, keepdims=True)
    count = _Count.empty(len(score_QC), 0, score_QC.shape[1])
    count.add(score_QC - best_Q1, true_QC, tie_eps, slice(None))
    return count.ranks(is_valid_Q, score_QC.shape[1])


def hits(ranks: Ranks, k: int, *, ties: TieRule = "wrong") -> tuple[FloatArray, BoolArray]:
    """Credit of finding a true candidate among the first k, and where a tie decides it.

    `wrong` puts tied false candidates first, `right` and the argmax rules last; `half` gives the
    expected credit when ties are broken at random. NaN where the query is invalid.
    """
    free_Q = k - ranks.greater_Q
    sure_Q, possible_Q = free_Q > ranks.equal_Q, free_Q > 0
    tie_Q = possible_Q & ~sure_Q & (ranks.greater_Q >= 0)
    value_Q = sure_Q.astype(np.float64)
    if ties == "half":
        value_Q[tie_Q] = _expected(ranks, free_Q)[tie_Q]
    elif ties != "wrong":
        value_Q[tie_Q] = 1.0
    value_Q[ranks.greater_Q < 0] = np.nan
    return value_Q, tie_Q


def _expected(ranks: Ranks, free_Q: IntArray) -> FloatArray:
    """1 - C(e, s) / C(e + t, s): s free places, e tied false and t tied true candidates."""
    missed_Q = np.ones(len(free_Q))
    for drawn in range(int(free_Q.max(initial=0))):
        left_Q = np.clip(ranks.equal_Q - drawn, 0, None)
        tied_Q = np.clip(ranks.equal_Q + ranks.true_equal_Q - drawn, 1, None)
        missed_Q *= np.where(drawn < free_Q, left_Q / tied_Q, 1.0)
    return 1.0 - missed_Q
