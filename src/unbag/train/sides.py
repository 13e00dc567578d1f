"""Preparation of pictures comes in; an error goes out if it could mirror or cut them at random.

A mirrored picture makes "left of" false. Preparation is looked through for random transforms by
name, and tried on a picture whose four quarters differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from types import FunctionType, MethodType, ModuleType

import numpy as np

from unbag.errors import UserError
from unbag.train.trainable import Reads

_SIDES = re.compile(r"\b(left|right|leftmost|rightmost|clockwise)\b", re.IGNORECASE)
_RANDOM = re.compile(r"Random|RandAugment|AutoAugment|TrivialAugment|AugMix|Flip")
_PLAIN = (str, bytes, int, float, type(None), type, ModuleType, FunctionType, np.ndarray)
"""What is not looked into."""
_LONGEST = 100
_TRIES = 4
_SIZE = 256


def speaks_of_sides(captions: Iterable[str]) -> bool:
    """Whether any of them says left or right."""
    return any(_SIDES.search(caption) for caption in captions)


def assert_no_flip(transform: object, captions: Iterable[str]) -> None:
    """Raises UserError if a transform is random and the captions speak of sides."""
    if not speaks_of_sides(captions):
        return
    for found in _walk(transform):
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


def _walk(top: object) -> Iterator[object]:
    """The object and all that it holds, each once."""
    seen: dict[int, object] = {}
    waiting = [top]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen and not isinstance(found, _PLAIN):
            seen[id(found)] = found
            yield found
            waiting += _inside(found)


def _inside(found: object) -> list[object]:
    if isinstance(found, list | tuple):
        # A vocabulary is longer than any row of transforms.
        return list(found) if len(found) <= _LONGEST else []
    if isinstance(found, partial):
        return [found.func, *found.args, *found.keywords.values()]
    if isinstance(found, MethodType):
        return [found.__self__]
    held = [*getattr(found, "__dict__", {}).values()]
    # Modules of torch keep their parts in a dictionary.
    return [*held, *getattr(found, "_modules", {}).values()]
