"""Nothing comes in; a collection without photographs goes out, for small runs of `photos`.

Captions with an edit of each family, and features that dice decide: enough to show that the code
runs where neither photographs nor pretrained parts are at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import torch

from unbag.data import PixelPicture
from unbag.data.pairs import Pair
from unbag.lab.photos_collection import Collection, Seen, shared_out
from unbag.models.photo import WIDE, WORDS_WIDE
from unbag.training.towers.cached_features import Features
from unbag.types import Edit

_NOUNS = ("dog", "boy", "ball", "horse", "car", "bird", "girl", "boat", "man", "cup", "tree")
_COLOURS = ("red", "blue", "green", "white", "black", "brown", "grey")


def drawn_collection() -> Collection:
    """A picture of one dot for each sentence."""
    return shared_out(tuple(_pairs()), about="drawn", fingerprint="drawn")


def drawn_features(collection: Collection) -> Seen:
    """Of no meaning, and the same each time."""
    both = (*collection.train.pairs, *collection.asked.pairs)
    texts = [text for pair in both for text in pair.captions]
    texts += [edit.text for pair in both for some in pair.edits for edit in some]
    pictures = [pair.picture.name for pair in both]
    return Seen(_features(pictures, WIDE), _features(list(dict.fromkeys(texts)), WORDS_WIDE))


def _pairs() -> Iterator[Pair]:
    for number, ((one, other), colour) in enumerate(product(combinations(_NOUNS, 2), _COLOURS)):
        caption = f"the {colour} {one} and the big {other}"
        edits = (
            Edit(f"the {colour} {other} and the big {one}", "swap_nouns", False, (0, 0)),
            Edit(f"the pink {one} and the big {other}", "replace_colour", False, (0, 0)),
            Edit(f"no {colour} {one} and no big {other}", "negate", False, (0, 0)),
            Edit(f"the {colour} {one} and the large {other}", "synonym", True, (0, 0)),
        )
        dot = np.array([[(*divmod(number, 256), 0)]], dtype=np.uint8)
        yield Pair(str(number), PixelPicture(dot, str(number)), (caption,), (edits,))


def _features(names: list[str], width: int) -> Features:
    dice = np.random.default_rng(width)
    vector_NC = torch.from_numpy(dice.standard_normal((len(names), width), dtype=np.float32))
    return Features({name: row for row, name in enumerate(names)}, vector_NC)
