"""Retrieval: recall at a rank in galleries of images and captions, and what shuffles leave of it.

Dimensions: P images, C captions, B images of a block, Q queries of one direction, K kept
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.cases import JudgedUnits, outcomes, score_cells, true_cells
from unbag.metrics.ties import finite_rows, hit_chance
from unbag.types import (
    BoolArray,
    Case,
    FloatArray,
    IntArray,
    Item,
    Outcomes,
    Ranks,
    Sparse,
    TieRule,
    Truth,
)

Direction = Literal["text_to_image", "image_to_text"]
DIRECTIONS: tuple[Direction, Direction] = ("text_to_image", "image_to_text")
_RETENTION: Mapping[Direction, str] = {
    "text_to_image": "retention",
    "image_to_text": "image_to_text_retention",
}
Block: TypeAlias = Callable[[int, int], FloatArray]
"""(start, stop) to the scores of those images [stop - start, C]. It is called twice for every
block and must answer the same both times."""


@dataclass(frozen=True)
class Recall:
    """Is a true candidate among the first k? Every caption asks for its image, and the reverse.

    A caption without an image in the gallery (or the reverse) only distracts and is no query.
    Captions of the same image are resampled together.
    """

    ks: tuple[int, ...] = (1, 5, 10)

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every query of every item, in both directions."""
        parts: dict[str, list[JudgedUnits]] = {f"{d}@{k}": [] for d in DIRECTIONS for k in self.ks}
        for case in cases:
            for direction, ranks in _directions(case, tie_eps).items():
                query_Q = _queries(case.item, direction)
                units = [f"{case.item.id}/{direction} {q}" for q in query_Q]
                clusters = _clusters(case.item, direction, query_Q)
                for k in self.ks:
                    value_Q, tie_Q = hits(ranks, k, ties=ties)
                    found = JudgedUnits(
                        units=units,
                        clusters=clusters,
                        tags=[case.item.tags] * len(query_Q),
                        unparsed=_unparsed(case, len(query_Q)),
                        value_U=value_Q[query_Q],
                        tie_U=tie_Q[query_Q],
                        chance_U=hit_chance(ranks.gallery, ranks.true_Q, k)[query_Q],
                    )
                    parts[f"{direction}@{k}"].append(found)
        return [outcomes(name, judged) for name, judged in parts.items()]


@dataclass(frozen=True)
class Retention:
    """How much of R@1 is left when order is not: shuffled / kept, for captions by default.

    An item whose tag says that it is kept is the partner of all others of its group, which hold the
    same captions and images in the same order, shuffled in some way; each query is compared with
    itself. A model that reads order loses, so less is better evidence of it. Several shuffled items
    of one kind (draws of several seeds) are averaged; what they say of one image is resampled
    together.
    """

    tag: str = "order"
    kept: str = "kept"
    directions: tuple[Direction, ...] = ("text_to_image",)
    is_beside_kept: bool = True
    """Units carry the tags of the kept item, to stand beside its recall; else those of the shuffled
    item, for a retention of each kind of shuffle."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Pair every shuffled item with the kept one of its group."""
        kept = {c.item.group: c for c in cases if c.item.tags.get(self.tag) == self.kept}
        parts: dict[Direction, list[JudgedUnits]] = {direction: [] for direction in self.directions}
        for case in cases:
            if case.item.tags.get(self.tag, self.kept) == self.kept:
                continue
            if case.item.group not in kept:
                raise UnbagError(
                    f"item {case.item.id!r} has {self.tag}={case.item.tags[self.tag]} "
                    "but no partner",
                    expected=f"an item of group {case.item.group!r} with {self.tag}={self.kept}",
                    hint="check the loader of this benchmark",
                )
            partner = kept[case.item.group]
            tags = partner.item.tags if self.is_beside_kept else case.item.tags
            for direction in self.directions:
                judged = _retained(partner, case, direction, tags, ties=ties, tie_eps=tie_eps)
                parts[direction].append(judged)
        return [outcomes(_RETENTION[direction], found) for direction, found in parts.items()]


def _retained(
    kept: Case,
    shuffled: Case,
    direction: Direction,
    tags: Mapping[str, str],
    *,
    ties: TieRule,
    tie_eps: float,
) -> JudgedUnits:
    ranks = [_directions(case, tie_eps).get(direction) for case in (kept, shuffled)]
    if ranks[0] is None or ranks[1] is None or len(ranks[0].true_Q) != len(ranks[1].true_Q):
        raise UnbagError(
            f"items {kept.item.id!r} and {shuffled.item.id!r} cannot be compared",
            expected=f"{direction.replace('_', '-')} ranks of equally many queries",
            hint="score both items again, in full",
        )
    (kept_Q, kept_tie_Q), (value_Q, tie_Q) = (hits(found, 1, ties=ties) for found in ranks if found)
    query_Q = _queries(kept.item, direction)
    is_valid_Q = np.isfinite(kept_Q) & np.isfinite(value_Q)
    return JudgedUnits(
        units=[f"{shuffled.item.id}/{direction} {q}" for q in query_Q],
        clusters=_clusters(kept.item, direction, query_Q),
        tags=[tags] * len(query_Q),
        unparsed=_unparsed(shuffled, len(query_Q)),
        value_U=np.where(is_valid_Q, value_Q, np.nan)[query_Q],
        tie_U=(kept_tie_Q | tie_Q)[query_Q],
        chance_U=np.full(len(query_Q), np.nan),
        weight_U=np.where(is_valid_Q, kept_Q, 0.0)[query_Q],
    )


def _directions(case: Case, tie_eps: float) -> dict[Direction, Ranks]:
    """The ranks a case comes with, or those of its score matrix."""
    given = (case.scores.text_to_image, case.scores.image_to_text)
    if given == (None, None):
        given = rank(score_cells(case), case.item.truth, tie_eps=tie_eps)
    return {name: ranks for name, ranks in zip(DIRECTIONS, given, strict=True) if ranks is not None}


def _queries(item: Item, direction: Direction) -> IntArray:
    """Queries that have a true candidate at all."""
    axis = 0 if direction == "text_to_image" else 1
    if isinstance(item.truth, Sparse):
        index_T = item.truth.column_T if axis == 0 else item.truth.row_T
        return np.unique(index_T)
    return np.flatnonzero(true_cells(item.truth, item.id).any(axis=axis))


def _clusters(item: Item, direction: Direction, query_Q: IntArray) -> list[str]:
    """The image a query is about: itself, or the first true one of a caption."""
    name = item.group or item.id
    if direction == "image_to_text":
        return [f"{name}/picture {q}" for q in query_Q]
    if isinstance(item.truth, Sparse):
        first_C = np.full(item.truth.shape[1], item.truth.shape[0])
        np.minimum.at(first_C, item.truth.column_T, item.truth.row_T)
    else:
        first_C = item.truth.argmax(axis=0)
    return [f"{name}/picture {first_C[q]}" for q in query_Q]


def _unparsed(case: Case, queries: int) -> list[int]:
    """Unread answers of the whole item, counted once."""
    return [case.scores.unparsed, *[0] * (queries - 1)][:queries]


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


def rank(
    score_PC: FloatArray, truth: Truth, *, keep: int = 10, tie_eps: float = 0.0
) -> tuple[Ranks, Ranks]:
    """Ranks (text to image, image to text) from a whole matrix."""
    if score_PC.shape != tuple(truth.shape):
        raise UnbagError(
            f"scores of shape {score_PC.shape}", expected=f"images x captions = {truth.shape}"
        )
    return rank_blocks(lambda start, stop: score_PC[start:stop], truth, keep=keep, tie_eps=tie_eps)


def rank_rows(score_QC: FloatArray, true_QC: BoolArray, *, tie_eps: float = 0.0) -> Ranks:
    """Ranks of queries that each have their own row of candidates; none of these is kept."""
    is_valid_Q: BoolArray = finite_rows(score_QC) & np.any(true_QC, axis=1)
    score_QC = np.where(is_valid_Q[:, None], score_QC, 0.0)
    best_Q1 = np.where(true_QC, score_QC, -np.inf).max(axis=1, keepdims=True)
    count = _Count.empty(len(score_QC), 0, score_QC.shape[1])
    count.add(score_QC - best_Q1, true_QC, tie_eps, slice(None))
    return count.ranks(is_valid_Q, score_QC.shape[1])


def rank_blocks(
    block: Block, truth: Truth, *, rows: int = 128, keep: int = 10, tie_eps: float = 0.0
) -> tuple[Ranks, Ranks]:
    """Ranks (text to image, image to text) without ever holding more than `rows` images.

    An image (or caption) without any finite score is damaged: invalid as a query and out of the
    gallery of the other direction. A query with any other non-finite score, or whose true
    candidates are all damaged, is invalid. Candidates that tie at the end of the kept ones are
    taken in their own order.
    """
    gallery = _Gallery(block, truth, rows)
    found = _survey(gallery)
    by_text = _Count.empty(gallery.captions, keep, gallery.images)
    by_image = _Count.empty(gallery.images, keep, gallery.captions)
    for part, score_BC, true_BC in gallery.blocks():
        true_BC = true_BC & found.alive_P[part, None] & found.alive_C
        by_image.add(score_BC - found.best_P[part, None], true_BC, tie_eps, part)
        by_image.keep(score_BC, 0, part)
        by_text.add((score_BC - found.best_C).T, true_BC.T, tie_eps, slice(None))
        by_text.keep(score_BC.T, part.start, slice(None))
    text_to_image = by_text.ranks(found.valid_C, int(found.alive_P.sum()))
    return text_to_image, by_image.ranks(found.valid_P, int(found.alive_C.sum()))


@dataclass(frozen=True, eq=False)
class _Gallery:
    """Images and captions, a block of images at a time."""

    block: Block
    truth: Truth
    rows: int

    @property
    def images(self) -> int:
        return int(self.truth.shape[0])

    @property
    def captions(self) -> int:
        return int(self.truth.shape[1])

    def blocks(self) -> Iterator[tuple[slice, FloatArray, BoolArray]]:
        """Which images, their scores (NaN wherever not finite), and which are true."""
        true_rows = _true_rows(self.truth)
        for start in range(0, self.images, self.rows):
            stop = min(start + self.rows, self.images)
            score_BC = np.asarray(self.block(start, stop), dtype=np.float64)
            if score_BC.shape != (stop - start, self.captions):
                raise UnbagError(
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
    images, captions = gallery.images, gallery.captions
    best_P, best_C = np.full(images, -np.inf), np.full(captions, -np.inf)
    gaps_P, gaps_C = np.zeros(images, dtype=np.int64), np.zeros(captions, dtype=np.int64)
    for part, score_BC, true_BC in gallery.blocks():
        is_gap_BC = np.isnan(score_BC)
        own_BC = np.where(true_BC & ~is_gap_BC, score_BC, -np.inf)
        best_P[part] = own_BC.max(axis=1)
        np.maximum(best_C, own_BC.max(axis=0), out=best_C)
        gaps_P[part] = is_gap_BC.sum(axis=1)
        gaps_C += is_gap_BC.sum(axis=0)
    alive_P, alive_C = gaps_P < captions, gaps_C < images
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
    """Access to the truth of a block of images."""
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
