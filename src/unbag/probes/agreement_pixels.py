"""Pairs of pictures come in; how much their pixels differ goes out, to set beside a cosine.

Dimensions: N pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from unbag.engine.progress import Progress
from unbag.probes.material import PicturePair
from unbag.types import FloatArray, IntArray, Picture
from unbag.world.draw import ImageArray, pixel_difference

SIDE = 64
"""Pixels; pictures of the world have this size, others are brought to it."""


def pixel_differences(pairs: Sequence[PicturePair], progress: Progress) -> FloatArray:
    """[N]: mean absolute difference in grey levels of 255; NaN where one cannot be opened."""
    found = np.full(len(pairs), np.nan)
    with progress.task("pixel differences", len(pairs)) as advance:
        for at, pair in enumerate(pairs):
            first, second = _small(pair.first), _small(pair.second)
            if first is not None and second is not None:
                found[at] = pixel_difference(first, second)
            advance(1)
    return found


def drawn(pairs: Sequence[PicturePair], most: int) -> IntArray:
    """Places of at most so many pairs, chosen by a hash of their names, in their order."""
    mark = [blake2b(pair.id.encode(), digest_size=8).digest() for pair in pairs]
    return np.array(sorted(sorted(range(len(pairs)), key=mark.__getitem__)[:most]), dtype=np.int64)


def _small(picture: Picture) -> ImageArray | None:
    try:
        image = picture.open().convert("RGB")
    except (OSError, ValueError):
        return None
    return np.asarray(image if image.size == (SIDE, SIDE) else image.resize((SIDE, SIDE)))
