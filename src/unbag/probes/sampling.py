"""Choose by hash which rows, pairs and images a quick probe uses; clusters and folds.

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

MAX_ROWS, MAX_SWAPS = 40, 60
"""Rows per kind in a quick diagnosis. Swaps decide verdicts, so there are more of them."""
MAX_PAIRS = 16
"""Pairs of images per relation: each pair has two images of its own."""
Chosen = TypeVar("Chosen")


def choose_rows(rows: Sequence[Row], options: Options) -> list[Row]:
    """Choose some rows of each kind, cluster by cluster, since a cluster shares its images.

    All probes choose the same rows, so they share encoded vectors. Clusters that share an image are
    merged.
    """
    if options.is_full:
        return unite(rows)
    swaps = [row for row in rows if is_swap(row)]
    swap_ids = {row.id for row in swaps}
    others = [row for row in rows if row.id not in swap_ids]
    chosen = [
        *_choose(swaps, [(row.kind, cluster_of(row), row.id) for row in swaps], MAX_SWAPS),
        *_choose(others, [(row.kind, cluster_of(row), row.id) for row in others], MAX_ROWS),
    ]
    chosen_ids = {row.id for row in chosen}
    return unite([row for row in rows if row.id in chosen_ids])


def unite(rows: Sequence[Row]) -> list[Row]:
    """Merge clusters that share an image, under the name of the first.

    Benchmarks may share scenes; otherwise one scene would count as several clusters.
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
    """Choose some pairs of each relation."""
    if options.is_full:
        return list(pairs)
    names = [(pair.relation, pair.cluster or pair.id, pair.id) for pair in pairs]
    return _choose(pairs, names, MAX_PAIRS)


def _choose(
    items: Sequence[Chosen], names: Sequence[tuple[str, str, str]], max_items: int
) -> list[Chosen]:
    """Choose by (kind, cluster, id) of each item; the order of the items stays."""
    order = sorted(range(len(items)), key=lambda place: tuple(map(hashed, names[place][1:])))
    counts: Counter[str] = Counter()
    chosen = set()
    for place in order:
        kind = names[place][0]
        counts[kind] += 1
        if counts[kind] <= max_items:
            chosen.add(place)
    return [item for place, item in enumerate(items) if place in chosen]


def choose_gallery(gallery: Gallery, max_images: int | None) -> Gallery:
    """Choose at most `max_images` images, with the captions that are true of one of them."""
    if max_images is None or len(gallery.images) <= max_images:
        return gallery
    order = sorted(range(len(gallery.images)), key=lambda at: hashed(gallery.images[at].key))
    return part_of(gallery, order[:max_images])


def part_of(gallery: Gallery, places: Sequence[int]) -> Gallery:
    """Return the images at these places, in their order, with the captions true of one of them."""
    image_P = np.sort(np.array(places))
    is_chosen_T = np.isin(gallery.image_T, image_P)
    caption_C = np.unique(gallery.caption_T[is_chosen_T])
    return Gallery(
        images=tuple(gallery.images[at] for at in image_P),
        captions=tuple(gallery.captions[at] for at in caption_C),
        image_T=np.searchsorted(image_P, gallery.image_T[is_chosen_T]),
        caption_T=np.searchsorted(caption_C, gallery.caption_T[is_chosen_T]),
    )


def part_note(chosen: int, total: int, what: str) -> tuple[str, ...]:
    """Return a note where only a part is used."""
    if chosen == total:
        return ()
    return (f"{chosen:,} of {total:,} {what} are used, chosen by hash; --full uses all.",)


def truth_of(gallery: Gallery) -> Sparse:
    """Return the truth of a gallery in the form that ranking functions take."""
    shape = (len(gallery.images), len(gallery.captions))
    return Sparse(shape, gallery.image_T, gallery.caption_T)


def first_images(gallery: Gallery) -> IntArray:
    """Return the first image that each caption is true of, [C]; -1 where there is none."""
    none = len(gallery.images)
    first_C = np.full(len(gallery.captions), none)
    np.minimum.at(first_C, gallery.caption_T, gallery.image_T)
    return np.where(first_C < none, first_C, -1)


def cluster_of(row: Row) -> str:
    """Return the cluster of a row; a row without one is a cluster of its own."""
    return row.cluster or row.id


def has_same_words(first: str, second: str) -> bool:
    """Whether the second text is the first in another order of words, ignoring case."""
    first_words, second_words = words(first.lower()), words(second.lower())
    return first_words != second_words and sorted(first_words) == sorted(second_words)


def is_swap(row: Row) -> bool:
    """Whether the negative is another sentence of the same words, and not a shuffle."""
    is_shuffle = row.kind in BY_TAG or row.kind in BY_WORD
    return row.negative is not None and not is_shuffle and has_same_words(row.caption, row.negative)


def deal(groups: Sequence[str], parts: int, *, salt: str = "") -> IntArray:
    """Return the part of each unit: whole groups are assigned to the parts in turn.

    The assignment depends on salt and names, not on the order of groups.
    """
    order = sorted(set(groups), key=lambda name: hashed(f"{salt}{name}"))
    part_of_group = {name: place % parts for place, name in enumerate(order)}
    return np.array([part_of_group[name] for name in groups], dtype=np.int64)


def hashed(text: str) -> bytes:
    """Return a hash to sort by: the order of files and loaders does not matter."""
    return blake2b(text.encode(), digest_size=8).digest()
