"""Galleries with ranks (or small score matrices) come in; recall and retention go out.

Dimensions: Q queries of one direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unbag.errors import UserError
from unbag.metrics.cases import Judged, outcomes, score_cells, true_cells
from unbag.metrics.chance import hit_chance
from unbag.metrics.ranking import hits, rank
from unbag.types import Case, IntArray, Item, Outcomes, Ranks, Sparse, TieRule

Direction = Literal["text_to_image", "image_to_text"]
DIRECTIONS: tuple[Direction, Direction] = ("text_to_image", "image_to_text")


@dataclass(frozen=True)
class Recall:
    """Is a true candidate among the first k? Every caption asks for its picture, and the reverse.

    A caption without a picture in the gallery (or the reverse) only distracts and is no query.
    Captions of the same picture are resampled together.
    """

    ks: tuple[int, ...] = (1, 5, 10)

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every query of every item, in both directions."""
        parts: dict[str, list[Judged]] = {f"{d}@{k}": [] for d in DIRECTIONS for k in self.ks}
        for case in cases:
            for direction, ranks in _directions(case, tie_eps):
                asked = _Asked.of(case, direction)
                for k in self.ks:
                    found = _recall(case, asked, ranks, k, ties=ties)
                    parts[f"{direction}@{k}"].append(found)
        return [outcomes(name, judged) for name, judged in parts.items()]


@dataclass(frozen=True)
class Retention:
    """How much of R@1 is left when order is not: shuffled / kept, for captions by default.

    An item whose tag says that it is kept is the partner of all others of its group, which hold the
    same captions and pictures in the same order, shuffled in some way; each query is compared with
    itself. A model that reads order loses, so less is better evidence of it. Several shuffled items
    of one kind (draws of several seeds) are averaged; what they say of one picture is resampled
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
        parts: dict[Direction, list[Judged]] = {direction: [] for direction in self.directions}
        for case in cases:
            if case.item.tags.get(self.tag, self.kept) == self.kept:
                continue
            if case.item.group not in kept:
                raise UserError(
                    f"item {case.item.id!r} has {self.tag}={case.item.tags[self.tag]} "
                    "but no partner",
                    expected=f"an item of group {case.item.group!r} with {self.tag}={self.kept}",
                    way_out="check the loader of this benchmark",
                )
            partner = kept[case.item.group]
            tags = partner.item.tags if self.is_beside_kept else case.item.tags
            for direction in self.directions:
                judged = _retained(partner, case, direction, tags, ties=ties, tie_eps=tie_eps)
                parts[direction].append(judged)
        return [outcomes(_RETENTION[direction], found) for direction, found in parts.items()]


_RETENTION: Mapping[Direction, str] = {
    "text_to_image": "retention",
    "image_to_text": "image_to_text_retention",
}


def _directions(case: Case, tie_eps: float) -> list[tuple[Direction, Ranks]]:
    """The ranks a case comes with, or those of its score matrix."""
    scores = case.scores
    known = [
        (direction, ranks)
        for direction, ranks in zip(
            DIRECTIONS, (scores.text_to_image, scores.image_to_text), strict=True
        )
        if ranks is not None
    ]
    if known:
        return known
    made = rank(score_cells(case), case.item.truth, tie_eps=tie_eps)
    return list(zip(DIRECTIONS, made, strict=True))


@dataclass(frozen=True, eq=False)
class _Asked:
    """The queries of one direction of an item: their numbers and what they are called."""

    query_Q: IntArray
    units: list[str]
    clusters: list[str]

    @classmethod
    def of(cls, case: Case, direction: Direction) -> _Asked:
        query_Q = _queries(case.item, direction)
        units = [f"{case.item.id}/{direction} {q}" for q in query_Q]
        return cls(query_Q, units, _clusters(case.item, direction, query_Q))


def _recall(case: Case, asked: _Asked, ranks: Ranks, k: int, *, ties: TieRule) -> Judged:
    value_Q, tie_Q = hits(ranks, k, ties=ties)
    query_Q = asked.query_Q
    chance_Q = hit_chance(ranks.gallery, ranks.true_Q, k)
    return Judged(
        units=asked.units,
        clusters=asked.clusters,
        tags=[case.item.tags] * len(query_Q),
        unparsed=_unparsed(case, len(query_Q)),
        value_U=value_Q[query_Q],
        tie_U=tie_Q[query_Q],
        chance_U=chance_Q[query_Q],
    )


def _retained(
    kept: Case,
    shuffled: Case,
    direction: Direction,
    tags: Mapping[str, str],
    *,
    ties: TieRule,
    tie_eps: float,
) -> Judged:
    ranks = [dict(_directions(case, tie_eps)).get(direction) for case in (kept, shuffled)]
    if ranks[0] is None or ranks[1] is None or len(ranks[0].true_Q) != len(ranks[1].true_Q):
        raise UserError(
            f"items {kept.item.id!r} and {shuffled.item.id!r} cannot be compared",
            expected=f"{direction.replace('_', '-')} ranks of equally many queries",
            way_out="score both items again, in full",
        )
    (kept_Q, kept_tie_Q), (value_Q, tie_Q) = (hits(found, 1, ties=ties) for found in ranks if found)
    query_Q = _queries(kept.item, direction)
    is_valid_Q = np.isfinite(kept_Q) & np.isfinite(value_Q)
    return Judged(
        units=[f"{shuffled.item.id}/{direction} {q}" for q in query_Q],
        clusters=_clusters(kept.item, direction, query_Q),
        tags=[tags] * len(query_Q),
        unparsed=_unparsed(shuffled, len(query_Q)),
        value_U=np.where(is_valid_Q, value_Q, np.nan)[query_Q],
        tie_U=(kept_tie_Q | tie_Q)[query_Q],
        chance_U=np.full(len(query_Q), np.nan),
        weight_U=np.where(is_valid_Q, kept_Q, 0.0)[query_Q],
    )


def _queries(item: Item, direction: Direction) -> IntArray:
    """Queries that have a true candidate at all."""
    axis = 0 if direction == "text_to_image" else 1
    if isinstance(item.truth, Sparse):
        index_T = item.truth.column_T if axis == 0 else item.truth.row_T
        return np.unique(index_T)
    return np.flatnonzero(true_cells(item.truth, item.id).any(axis=axis))


def _clusters(item: Item, direction: Direction, query_Q: IntArray) -> list[str]:
    """The picture a query is about: itself, or the first true one of a caption."""
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
