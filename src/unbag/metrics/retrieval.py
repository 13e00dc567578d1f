"""Retrieval: recall at k in galleries of images and captions, and its retention under shuffles.

Dimensions: P images, C captions, B images of a block, Q queries of one direction, K best
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.cases import UnitOutcomes, outcomes, score_cells, true_cells
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
"""Maps (start, stop) to the scores of those images [stop - start, C]. It is called twice for every
block and must return the same scores both times."""


@dataclass(frozen=True)
class Recall:
    """Is a true candidate among the first k? In both directions: captions to images, and back.

    A caption without an image in the gallery (or the reverse) is a distractor, not a query.
    Captions of the same image are resampled together.
    """

    ks: tuple[int, ...] = (1, 5, 10)

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every query of every item, in both directions."""
        parts: dict[str, list[UnitOutcomes]] = {f"{d}@{k}": [] for d in DIRECTIONS for k in self.ks}
        for case in cases:
            for direction, ranks in _directions(case, tie_eps).items():
                query_Q = _queries(case.item, direction)
                names = [f"{case.item.id}/{direction} {q}" for q in query_Q]
                clusters = _clusters(case.item, direction, query_Q)
                for k in self.ks:
                    value_Q, tie_Q = hits(ranks, k, ties=ties)
                    units = UnitOutcomes(
                        units=names,
                        clusters=clusters,
                        tags=[case.item.tags] * len(query_Q),
                        unparsed=_unparsed(case, len(query_Q)),
                        value_U=value_Q[query_Q],
                        tie_U=tie_Q[query_Q],
                        chance_U=hit_chance(ranks.gallery, ranks.true_Q, k)[query_Q],
                    )
                    parts[f"{direction}@{k}"].append(units)
        return [outcomes(name, units) for name, units in parts.items()]


@dataclass(frozen=True)
class Retention:
    """R@1 of shuffled items divided by R@1 of the original item, text to image by default.

    The tag of an item says whether it is the original of its group. The other items of the group
    have the same captions and images in the same order, shuffled in some way; each query is
    compared with itself. A model that uses order loses recall, so lower is better. Several draws of
    one kind of shuffle are averaged, and their queries about one image are resampled together.
    """

    tag: str = "order"
    original: str = "kept"
    directions: tuple[Direction, ...] = ("text_to_image",)
    uses_original_tags: bool = True
    """Units get the tags of the original, to be listed with its recall; else those of the shuffled
    item, for a retention of each kind of shuffle."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Pair every shuffled item with the original of its group."""
        originals = {c.item.group: c for c in cases if c.item.tags.get(self.tag) == self.original}
        parts: dict[Direction, list[UnitOutcomes]] = {
            direction: [] for direction in self.directions
        }
        for case in cases:
            if case.item.tags.get(self.tag, self.original) == self.original:
                continue
            if case.item.group not in originals:
                raise UnbagError(
                    f"item {case.item.id!r} has {self.tag}={case.item.tags[self.tag]}, but its "
                    "group has no original",
                    expected=f"an item with {self.tag}={self.original} in group "
                    f"{case.item.group!r}",
                    hint="check the loader of this benchmark",
                )
            partner = originals[case.item.group]
            tags = partner.item.tags if self.uses_original_tags else case.item.tags
            for direction in self.directions:
                units = _retained(partner, case, direction, tags, ties=ties, tie_eps=tie_eps)
                parts[direction].append(units)
        return [outcomes(_RETENTION[direction], units) for direction, units in parts.items()]


def _retained(
    original: Case,
    shuffled: Case,
    direction: Direction,
    tags: Mapping[str, str],
    *,
    ties: TieRule,
    tie_eps: float,
) -> UnitOutcomes:
    ranks = [_directions(case, tie_eps).get(direction) for case in (original, shuffled)]
    if ranks[0] is None or ranks[1] is None or len(ranks[0].true_Q) != len(ranks[1].true_Q):
        raise UnbagError(
            f"items {original.item.id!r} and {shuffled.item.id!r} cannot be compared",
            expected=f"{direction.replace('_', '-')} ranks of equally many queries",
            hint="score both items again, in full",
        )
    (original_Q, original_tie_Q), (value_Q, tie_Q) = (hits(r, 1, ties=ties) for r in ranks if r)
    query_Q = _queries(original.item, direction)
    is_valid_Q = np.isfinite(original_Q) & np.isfinite(value_Q)
    return UnitOutcomes(
        units=[f"{shuffled.item.id}/{direction} {q}" for q in query_Q],
        clusters=_clusters(original.item, direction, query_Q),
        tags=[tags] * len(query_Q),
        unparsed=_unparsed(shuffled, len(query_Q)),
        value_U=np.where(is_valid_Q, value_Q, np.nan)[query_Q],
        tie_U=(original_tie_Q | tie_Q)[query_Q],
        chance_U=np.full(len(query_Q), np.nan),
        weight_U=np.where(is_valid_Q, original_Q, 0.0)[query_Q],
    )


def _directions(case: Case, tie_eps: float) -> dict[Direction, Ranks]:
    """The ranks of a case, computed from its score matrix if it has none."""
    pair = (case.scores.text_to_image, case.scores.image_to_text)
    if pair == (None, None):
        pair = rank(score_cells(case), case.item.truth, tie_eps=tie_eps)
    return {name: ranks for name, ranks in zip(DIRECTIONS, pair, strict=True) if ranks is not None}


def _queries(item: Item, direction: Direction) -> IntArray:
    """Queries with at least one true candidate."""
    axis = 0 if direction == "text_to_image" else 1
    if isinstance(item.truth, Sparse):
        index_T = item.truth.column_T if axis == 0 else item.truth.row_T
        return np.unique(index_T)
    return np.flatnonzero(true_cells(item.truth, item.id).any(axis=axis))


def _clusters(item: Item, direction: Direction, query_Q: IntArray) -> list[str]:
    """The cluster of each query: the image itself, or the first true image of a caption."""
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
    """Unparsed answers of the item, all counted with its first query."""
    return [case.scores.unparsed, *[0] * (queries - 1)][:queries]


def hits(ranks: Ranks, k: int, *, ties: TieRule = "wrong") -> tuple[FloatArray, BoolArray]:
    """Credit for a true candidate among the first k, and whether a tie decides it.

    `wrong` ranks tied false candidates first, `right` and the argmax rules rank them last; `half`
    gives the expected credit under random tie breaking. NaN for invalid queries.
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
    """1 - C(e, s) / C(e + t, s) for s free places, e tied false and t tied true candidates."""
    missed_Q = np.ones(len(free_Q))
    for drawn in range(int(free_Q.max(initial=0))):
        left_Q = np.clip(ranks.equal_Q - drawn, 0, None)
        tied_Q = np.clip(ranks.equal_Q + ranks.true_equal_Q - drawn, 1, None)
        missed_Q *= np.where(drawn < free_Q, left_Q / tied_Q, 1.0)
    return 1.0 - missed_Q


def rank(
    score_PC: FloatArray, truth: Truth, *, keep: int = 10, tie_eps: float = 0.0
) -> tuple[Ranks, Ranks]:
    """Ranks (text to image, image to text) from a full score matrix."""
    if score_PC.shape != tuple(truth.shape):
        raise UnbagError(
            f"scores of shape {score_PC.shape}", expected=f"images x captions = {truth.shape}"
        )
    return rank_blocks(lambda start, stop: score_PC[start:stop], truth, keep=keep, tie_eps=tie_eps)


def rank_rows(score_QC: FloatArray, true_QC: BoolArray, *, tie_eps: float = 0.0) -> Ranks:
    """Ranks of queries with separate candidates, one row each, without the best candidates."""
    is_valid_Q: BoolArray = finite_rows(score_QC) & np.any(true_QC, axis=1)
    score_QC = np.where(is_valid_Q[:, None], score_QC, 0.0)
    best_Q1 = np.where(true_QC, score_QC, -np.inf).max(axis=1, keepdims=True)
    count = _Count.empty(len(score_QC), 0, score_QC.shape[1])
    count.add(score_QC - best_Q1, true_QC, tie_eps, slice(None))
    return count.ranks(is_valid_Q, score_QC.shape[1])


def rank_blocks(
    block: Block, truth: Truth, *, rows: int = 128, keep: int = 10, tie_eps: float = 0.0
) -> tuple[Ranks, Ranks]:
    """Ranks (text to image, image to text), with at most `rows` images in memory at once.

    An image (or caption) without any finite score is damaged: it is invalid as a query and not in
    the gallery of the other direction. A query with any other non-finite score, or with only
    damaged true candidates, is invalid. Ties among the `keep` best candidates are resolved by
    their order.
    """
    gallery = _Gallery(block, truth, rows)
    survey = _survey(gallery)
    text_count = _Count.empty(gallery.captions, keep, gallery.images)
    image_count = _Count.empty(gallery.images, keep, gallery.captions)
    for part, score_BC, true_BC in gallery.blocks():
        true_BC = true_BC & survey.alive_P[part, None] & survey.alive_C
        image_count.add(score_BC - survey.best_P[part, None], true_BC, tie_eps, part)
        image_count.keep(score_BC, 0, part)
        text_count.add((score_BC - survey.best_C).T, true_BC.T, tie_eps, slice(None))
        text_count.keep(score_BC.T, part.start, slice(None))
    text_to_image = text_count.ranks(survey.valid_C, int(survey.alive_P.sum()))
    return text_to_image, image_count.ranks(survey.valid_P, int(survey.alive_C.sum()))


@dataclass(frozen=True, eq=False)
class _Gallery:
    """Scores and truth of a gallery, read in blocks of images."""

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
        """The slice of images, their scores (NaN where not finite) and their truth."""
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
    """Results of the first pass: best true scores, intact candidates, valid queries."""

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
    """Accumulates the ranks of one direction."""

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
        """Count candidates by their lead over the best true one; NaN is not counted."""
        near_QB = np.abs(ahead_QB) <= eps
        self.greater_Q[queries] += ((ahead_QB > eps) & ~true_QB).sum(axis=1)
        self.equal_Q[queries] += (near_QB & ~true_QB).sum(axis=1)
        self.true_equal_Q[queries] += (near_QB & true_QB).sum(axis=1)
        self.true_Q[queries] += true_QB.sum(axis=1)

    def keep(self, score_QB: FloatArray, offset: int, queries: slice) -> None:
        """Merge candidates, numbered from `offset`, into the best ones so far."""
        size = self.top_QK.shape[1]
        old_QK = self.top_QK[queries].copy()
        score_QN = np.concatenate([self.top_score_QK[queries], score_QB], axis=1)
        score_QN[np.isnan(score_QN)] = -np.inf
        row_Q = np.arange(len(score_QN))
        for place in range(size):
            best_Q = score_QN.argmax(axis=1)
            old_Q = old_QK[row_Q, np.minimum(best_Q, size - 1)]
            self.top_QK[queries, place] = np.where(best_Q < size, old_Q, best_Q - size + offset)
            self.top_score_QK[queries, place] = score_QN[row_Q, best_Q]
            score_QN[row_Q, best_Q] = -np.inf

    def ranks(self, valid_Q: BoolArray, gallery: int) -> Ranks:
        """The final ranks; places without a scored candidate are -1 and NaN."""
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
    """A function that returns the truth of a block of images."""
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
