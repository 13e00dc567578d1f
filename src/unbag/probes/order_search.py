"""A gallery comes in; how much of it is found, as it is and with words or pictures shuffled, out.

Dimensions: P pictures, C captions, Q queries of one direction, S seeds, D space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from unbag.metrics.chance import hit_chance
from unbag.metrics.retrieval import DIRECTIONS, Direction
from unbag.pictures.shuffled import GRIDS
from unbag.probes.chosen import first_pictures, truth_of
from unbag.probes.finding import Known, Options, Quantity, mean
from unbag.probes.material import Gallery
from unbag.probes.order import found_first
from unbag.probes.order_shuffles import Shuffled
from unbag.probes.space import Space
from unbag.types import BoolArray, FloatArray, IntArray

ORIGINAL = "original"


@dataclass(frozen=True, eq=False)
class Search:
    """What is found first in a gallery under one shuffle."""

    name: str
    hit: Mapping[Direction, FloatArray]
    """[S, Q], one row a seed; NaN where nothing was asked."""


def search(picture_PD: FloatArray, caption_CD: FloatArray, gallery: Gallery) -> Search:
    """As it is."""
    found = found_first(picture_PD, caption_CD, truth_of(gallery))
    return Search(ORIGINAL, {direction: hit_Q[None] for direction, hit_Q in found.items()})


def search_captions(
    space: Space, picture_PD: FloatArray, gallery: Gallery, drawn: Sequence[Shuffled]
) -> list[Search]:
    """With all captions shuffled, in every way that was drawn.

    A caption that has no other order stays in the gallery, and is no query.
    """
    found = []
    for name, every in groupby(drawn, key=lambda one: one.name):
        hits = [_shuffled_captions(space, picture_PD, gallery, one) for one in every]
        found.append(_search(name, hits))
    return found


def _shuffled_captions(
    space: Space, picture_PD: FloatArray, gallery: Gallery, one: Shuffled
) -> Mapping[Direction, FloatArray]:
    pairs = zip(one.captions, gallery.captions, strict=True)
    caption_CD = space.captions([old if new is None else new for new, old in pairs])
    hit = found_first(picture_PD, caption_CD, truth_of(gallery))
    is_new_C = np.array([new is not None for new in one.captions], dtype=np.bool_)
    is_new_P = np.zeros(len(gallery.pictures), dtype=np.bool_)
    is_new_P[gallery.picture_T[is_new_C[gallery.caption_T]]] = True
    asked: Mapping[Direction, BoolArray] = {"text_to_image": is_new_C, "image_to_text": is_new_P}
    return {direction: np.where(asked[direction], hit[direction], np.nan) for direction in hit}


def search_pictures(
    shuffled_SPD: Mapping[str, FloatArray], caption_CD: FloatArray, gallery: Gallery
) -> list[Search]:
    """With all pictures cut and put together in another order, for each kind of cut."""
    truth = truth_of(gallery)
    return [
        _search(kind, [found_first(picture_PD, caption_CD, truth) for picture_PD in every_SPD])
        for kind, every_SPD in shuffled_SPD.items()
    ]


def _search(name: str, hits: Sequence[Mapping[Direction, FloatArray]]) -> Search:
    return Search(name, {way: np.stack([hit[way] for hit in hits]) for way in DIRECTIONS})


def recalls(found: Search, gallery: Gallery, options: Options, beside: str = "") -> list[Quantity]:
    """R@1 in both directions."""
    is_original = found.name == ORIGINAL
    return [
        mean(
            f"R@1, {found.name}{beside}, {_spoken(way)}",
            found.hit[way][:, asked.query_Q].ravel(),
            about=f"Share of queries whose counterpart comes first, {_spoken(way)}; a tie is wrong",
            options=options,
            units=asked.units(len(found.hit[way])),
            clusters=asked.clusters * len(found.hit[way]),
            known=Known(perfect=1.0 if is_original else None, chance=asked.chance),
            better="higher" if is_original else "neither",
            is_rate=True,
        )
        for way, asked in _asked(gallery)
    ]


def retentions(
    found: Search, original: Search, gallery: Gallery, options: Options
) -> list[Quantity]:
    """R@1 under the shuffle over R@1 of the same queries as they are, in both directions."""
    quantities = []
    for way, asked in _asked(gallery):
        value_SQ = found.hit[way][:, asked.query_Q]
        weight_SQ = np.broadcast_to(original.hit[way][:, asked.query_Q], value_SQ.shape)
        is_valid_SQ = np.isfinite(value_SQ) & np.isfinite(weight_SQ)
        quantity = mean(
            f"retention, {found.name}, {_spoken(way)}",
            np.where(is_valid_SQ, value_SQ, np.nan).ravel(),
            about=f"R@1 with {found.name} shuffled over R@1 as it is, {_spoken(way)}",
            options=options,
            units=asked.units(len(value_SQ)),
            clusters=asked.clusters * len(value_SQ),
            weight_N=np.where(is_valid_SQ, weight_SQ, 0.0).ravel(),
            known=Known(bag=None if found.name in GRIDS else 1.0),
            better="lower",
            is_rate=True,
        )
        quantities.append(quantity)
    return quantities


@dataclass(frozen=True, eq=False)
class _Asked:
    """The queries of one direction that have a counterpart."""

    query_Q: IntArray
    clusters: tuple[str, ...]
    """The picture that each is about."""
    chance: float

    def units(self, seeds: int) -> tuple[str, ...]:
        return tuple(f"{query}/{seed}" for seed in range(seeds) for query in self.query_Q)


def _asked(gallery: Gallery) -> Iterator[tuple[Direction, _Asked]]:
    first_C = first_pictures(gallery)
    for way in DIRECTIONS:
        is_text = way == "text_to_image"
        asking_T = gallery.caption_T if is_text else gallery.picture_T
        query_Q, true_Q = np.unique(asking_T, return_counts=True)
        picture_Q = first_C[query_Q] if is_text else query_Q
        size = len(gallery.pictures if is_text else gallery.captions)
        chance = float(hit_chance(size, true_Q, 1).mean()) if len(query_Q) else float("nan")
        yield way, _Asked(query_Q, tuple(f"picture {at}" for at in picture_Q), chance)


def _spoken(way: Direction) -> str:
    return way.replace("_", " ")
