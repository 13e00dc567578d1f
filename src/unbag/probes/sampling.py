"""Which rows, pairs and images a quick probe looks at, chosen by hash; what they have in common.

Dimensions: T true cells, P images, C captions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from unbag.edits.shuffles import BY_TAG, BY_WORD, words
from unbag.probes.base import Gallery, ImagePair, Options, Row
from unbag.types import IntArray, Sparse

MOST_ROWS, MOST_SWAPS = 40, 60
"""Of each kind, unless all are asked for; swaps decide, so there are more of them."""
MOST_PAIRS = 16
"""Of images, of each relation: each pair has two images of its own."""
Kept = TypeVar("Kept")


def choose_rows(rows: Sequence[Row], options: Options) -> list[Row]:
    """Some of each kind, cluster by cluster: a cluster shares its images.

    Every probe that asks this looks at the same rows, so that little is encoded for one alone.
    Clusters that turn out to share an image are one.
    """
    if options.is_full:
        return unite(rows)
    swaps = [row for row in rows if is_swap(row)]
    known = {row.id for row in swaps}
    others = [row for row in rows if row.id not in known]
    few = [
        *_choose(swaps, [(row.kind, cluster_of(row), row.id) for row in swaps], MOST_SWAPS),
        *_choose(others, [(row.kind, cluster_of(row), row.id) for row in others], MOST_ROWS),
    ]
    kept = {row.id for row in few}
    return unite([row for row in rows if row.id in kept])


def unite(rows: Sequence[Row]) -> list[Row]:
    """Clusters that show an image in common become one, under the name of the first.

    Benchmarks may share scenes: taken apart, one scene would count as several.
    """
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while above.get(name, name) != name:
            name = above[name]
        return name

    first_of: dict[str, str] = {}
    for row in rows:
        name = cluster_of(row)
        above[top(name)] = top(first_of.setdefault(row.image.key, name))
    names = [top(cluster_of(row)) for row in rows]
    return [
        row if cluster_of(row) == name else replace(row, cluster=name)
        for row, name in zip(rows, names, strict=True)
    ]


def choose_pairs(pairs: Sequence[ImagePair], options: Options) -> list[ImagePair]:
    """Some of each relation, likewise."""
    if options.is_full:
        return list(pairs)
    names = [(pair.relation, pair.cluster or pair.id, pair.id) for pair in pairs]
    return _choose(pairs, names, MOST_PAIRS)


def _choose(every: Sequence[Kept], names: Sequence[tuple[str, str, str]], most: int) -> list[Kept]:
    """By kind, cluster and id of each; in the order in which they come."""
    order = sorted(range(len(every)), key=lambda at: tuple(map(hashed, names[at][1:])))
    counts: Counter[str] = Counter()
    taken = set()
    for at in order:
        kind = names[at][0]
        counts[kind] += 1
        if counts[kind] <= most:
            taken.add(at)
    return [one for at, one in enumerate(every) if at in taken]


def choose_gallery(gallery: Gallery, most: int | None) -> Gallery:
    """At most so many images, with the captions that are true of one of them."""
    if most is None or len(gallery.images) <= most:
        return gallery
    every = sorted(range(len(gallery.images)), key=lambda at: hashed(gallery.images[at].key))
    return part_of(gallery, every[:most])


def part_of(gallery: Gallery, places: Sequence[int]) -> Gallery:
    """The images at these places, in their order, with the captions true of one of them."""
    image_P = np.sort(np.array(places))
    is_kept_T = np.isin(gallery.image_T, image_P)
    caption_C = np.unique(gallery.caption_T[is_kept_T])
    return Gallery(
        images=tuple(gallery.images[at] for at in image_P),
        captions=tuple(gallery.captions[at] for at in caption_C),
        image_T=np.searchsorted(image_P, gallery.image_T[is_kept_T]),
        caption_T=np.searchsorted(caption_C, gallery.caption_T[is_kept_T]),
    )


def told_part(kept: int, every: int, what: str) -> tuple[str, ...]:
    """A note where not all is looked at."""
    if kept == every:
        return ()
    return (f"{kept:,} of {every:,} {what} are looked at, chosen by hash; --full takes all.",)


def truth_of(gallery: Gallery) -> Sparse:
    """What belongs together, as ranking wants it."""
    shape = (len(gallery.images), len(gallery.captions))
    return Sparse(shape, gallery.image_T, gallery.caption_T)


def first_images(gallery: Gallery) -> IntArray:
    """The first image that each caption is true of, [C]; -1 where there is none."""
    none = len(gallery.images)
    first_C = np.full(len(gallery.captions), none)
    np.minimum.at(first_C, gallery.caption_T, gallery.image_T)
    return np.where(first_C < none, first_C, -1)


def cluster_of(row: Row) -> str:
    """A row that names no cluster is one of its own."""
    return row.cluster or row.id


def has_same_words(first: str, second: str) -> bool:
    """The second is the first in another order of words, whatever the case."""
    one, other = words(first.lower()), words(second.lower())
    return one != other and sorted(one) == sorted(other)


def is_swap(row: Row) -> bool:
    """The negative says something else with the same words; shuffles into nonsense do not count."""
    is_shuffle = row.kind in BY_TAG or row.kind in BY_WORD
    return row.negative is not None and not is_shuffle and has_same_words(row.caption, row.negative)


def deal(groups: Sequence[str], parts: int, *, salt: str = "") -> IntArray:
    """The part of each unit: units of one group share one, and groups are dealt out in turn.

    Which group goes where depends on salt and names, not on their order.
    """
    order = sorted(set(groups), key=lambda name: hashed(f"{salt}{name}"))
    part_of_group = {name: at % parts for at, name in enumerate(order)}
    return np.array([part_of_group[name] for name in groups], dtype=np.int64)


def hashed(text: str) -> bytes:
    """An order that no file and no loader decides."""
    return blake2b(text.encode(), digest_size=8).digest()
