"""A space and a gallery come in; what is found with and without order goes out as numbers.

`order-free`: "recall" is R@1 as captions are; "retention SHUFFLE" is R@1 with the words of all
captions, or the parts of all pictures, in another order over R@1 of the same queries as they are;
"text to image" and "image to text" is what is asked for what (methods.md 3.4). Retention means
little where recall is low, as of an untrained model.

Dimensions: S draws, Q queries, P pictures, D space.
"""

from __future__ import annotations

import numpy as np

from unbag.lab.probe_material import Asked
from unbag.metrics.retrieval import DIRECTIONS
from unbag.probes.order import Search, encode_shuffled, search, search_captions, search_pictures
from unbag.probes.space import Space


def order_free(space: Space, asked: Asked) -> dict[str, float]:
    """Recall, and how much of it every shuffle keeps."""
    gallery = asked.gallery
    picture_PD, caption_CD = space.pictures(gallery.pictures), space.captions(gallery.captions)
    original = search(picture_PD, caption_CD, gallery)
    shuffled_SPD = encode_shuffled(space, gallery.pictures, [asked.seed])
    found = {f"recall, {_spoken(way)}": float(np.nanmean(original.hit[way])) for way in DIRECTIONS}
    for one in (
        *search_captions(space, picture_PD, gallery, asked.shuffled),
        *search_pictures(shuffled_SPD, caption_CD, gallery),
    ):
        found |= _retentions(one, original)
    return found


def _retentions(one: Search, original: Search) -> dict[str, float]:
    """Nothing in a direction in which nothing is found as it is."""
    found = {}
    for way in DIRECTIONS:
        hit_SQ = one.hit[way]
        before_SQ = np.broadcast_to(original.hit[way], hit_SQ.shape)
        is_asked_SQ = np.isfinite(hit_SQ) & np.isfinite(before_SQ)
        if before := before_SQ[is_asked_SQ].sum():
            found[f"retention {one.name}, {_spoken(way)}"] = float(
                hit_SQ[is_asked_SQ].sum() / before
            )
    return found


def _spoken(way: str) -> str:
    return way.replace("_", " ")
