"""Preparation of pictures comes in; an error goes out if it could mirror or cut them at random.

A mirrored picture makes "left of" false. Preparation is looked through for random transforms by
name, and tried on a picture whose four quarters differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from unbag.errors import UserError
from unbag.train.trainable import Reads

_SIDES = re.compile(r"\b(left|right|leftmost|rightmost|clockwise)\b", re.IGNORECASE)
_RANDOM = re.compile(r"Random|RandAugment|AutoAugment|TrivialAugment|AugMix|Flip")
_LIBRARIES = ("torchvision", "open_clip", "timm", "unbag")
_DEPTH = 8
_TRIES = 4
_SIZE = 256


def speaks_of_sides(captions: Iterable[str]) -> bool:
    """Whether any of them says left or right."""
    return any(_SIDES.search(caption) for caption in captions)


def assert_no_flip(transform: object, captions: Iterable[str]) -> None:
    """Raises UserError if a transform is random and the captions speak of sides."""
    if not speaks_of_sides(captions):
        return
    for found in _walk(transform, _DEPTH):
        if _RANDOM.search(type(found).__name__) and getattr(found, "p", 1) != 0:
            raise UserError(
                f"pictures are prepared with {type(found).__name__}, but captions speak of left "
                "and right",
                expected="preparation that leaves sides alone, as for evaluation",
                way_out="take it out of the model's preparation",
            )


def check_sides(reads: Reads, captions: Iterable[str]) -> None:
    """Look preparation through, and try it: what comes out must be the same every time, unturned.

    Raises UserError where captions speak of sides and it is not.
    """
    captions = list(captions)
    if not speaks_of_sides(captions):
        return
    assert_no_flip(reads, captions)
    from PIL import Image

    quarters = np.zeros((_SIZE, _SIZE, 3), np.uint8)
    half = _SIZE // 2
    quarters[:half, half:], quarters[half:, :half], quarters[half:, half:] = 90, 170, 255
    tried = [reads.prepare(Image.fromarray(quarters)) for _ in range(_TRIES)]
    if any(one.shape != tried[0].shape or not bool((one == tried[0]).all()) for one in tried):
        raise _turned("differs from time to time")
    # Some models take pictures as rows of patches, whose sides cannot be told here.
    if tried[0].ndim == 3 and tried[0].shape[0] in (1, 3):
        grey = tried[0].double().mean(0)
        height, width = grey.shape
        corners = [
            grey[y, x] for y in (height // 4, -height // 4) for x in (width // 4, -width // 4)
        ]
        if not corners[0] < corners[1] < corners[2] < corners[3]:
            raise _turned("turns or mirrors them")


def _turned(what: str) -> UserError:
    return UserError(
        f"the model's preparation of pictures {what}, but captions speak of left and right",
        expected="preparation that leaves sides alone, as for evaluation",
        way_out="mend `prepare` of the model",
    )


def _walk(found: object, depth: int) -> Iterator[object]:
    """The object, and what objects of picture libraries hold."""
    yield found
    if depth == 0:
        return
    inside: list[object] = []
    if isinstance(found, list | tuple):
        inside = list(found)
    elif type(found).__module__.partition(".")[0] in _LIBRARIES or hasattr(found, "transforms"):
        # Modules of torch keep their parts in a dictionary of their own.
        inside = [*vars(found).values(), *getattr(found, "_modules", {}).values()]
    elif hasattr(found, "__self__") and not isinstance(found, type):
        inside = [found.__self__]
    elif hasattr(found, "func"):
        inside = [found.func, *getattr(found, "args", ())]
    for one in inside:
        if not isinstance(one, str | int | float | type(None)):
            yield from _walk(one, depth - 1)
