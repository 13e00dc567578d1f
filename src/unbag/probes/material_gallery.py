"""Pictures with captions come in; a gallery to search among goes out, no larger than is useful.

Dimensions: P pictures, T true cells.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unbag.probes.chosen import hashed
from unbag.probes.material import Gallery
from unbag.types import Item, Picture, Sparse

MOST_PICTURES = 1_000
"""Of a gallery: more make retrieval harder, not the finding another."""


def gallery_from(found: Iterable[tuple[Picture, str]]) -> Gallery | None:
    """Each picture once, with its caption; None of fewer than two pictures.

    A caption that several pictures have is one caption, true of all of them.
    """
    pictures: dict[str, Picture] = {}
    captions: dict[str, int] = {}
    caption_T: list[int] = []
    for picture, caption in found:
        if picture.key not in pictures:
            pictures[picture.key] = picture
            caption_T.append(captions.setdefault(caption, len(captions)))
        if len(pictures) == MOST_PICTURES:
            break
    if len(pictures) < 2:
        return None
    return Gallery(
        tuple(pictures.values()), tuple(captions), np.arange(len(pictures)), np.array(caption_T)
    )


def gallery_item(item: Item, *, most: int = MOST_PICTURES) -> Gallery | None:
    """The gallery that an item with sparse truth is, or `most` of its pictures; None of others.

    Pictures are chosen by a hash of their first caption, captions are those of chosen pictures.
    """
    truth = item.truth
    captions = [caption for caption in item.captions if isinstance(caption, str)]
    if not isinstance(truth, Sparse) or len(captions) < len(item.captions):
        return None
    if len(item.pictures) <= most:
        return Gallery(item.pictures, tuple(captions), truth.row_T, truth.column_T)
    first: dict[int, str] = {}
    for row, column in zip(truth.row_T.tolist(), truth.column_T.tolist(), strict=True):
        first.setdefault(row, captions[column])
    chosen_P = np.sort(sorted(first, key=lambda at: (hashed(first[at]), at))[:most])
    is_kept_T = np.isin(truth.row_T, chosen_P)
    caption_C = np.unique(truth.column_T[is_kept_T])
    return Gallery(
        tuple(item.pictures[at] for at in chosen_P),
        tuple(captions[at] for at in caption_C),
        np.searchsorted(chosen_P, truth.row_T[is_kept_T]),
        np.searchsorted(caption_C, truth.column_T[is_kept_T]),
    )
