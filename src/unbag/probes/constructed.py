"""Nothing comes in but rows for one of them; spaces whose verdicts are known beforehand go out.

They bracket every probe on the world, in tests and to teach: a bag of words, a perfect space, one
that is collapsed and one that knows edits but not meaning. All vectors follow from names by a hash.

Dimensions: D joint space.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from unbag.errors import UserError
from unbag.probes.constructed_base import (
    ConstructedSpace,
    SpaceScorer,
    constructed_subject,
    scene_behind,
    signs,
)
from unbag.probes.constructed_perfect import perfect_space
from unbag.probes.material import Row
from unbag.types import FloatArray, Picture
from unbag.world.grammar import ATTRIBUTES
from unbag.world.parse import content_words

__all__ = [
    "ConstructedSpace",
    "SpaceScorer",
    "bag_of_words_space",
    "collapsed_space",
    "constructed_subject",
    "detector_space",
    "perfect_space",
    "unmixed",
]

WIDTH = 1_024
SMALL = 256
"""Of spaces that tell no words apart."""


def bag_of_words_space() -> ConstructedSpace:
    """Knows every word and no tie between words.

    A picture is the sum of the directions of all shapes, colours, sizes and textures that some
    thing has; a caption is that of its content words, a synonym being the same word. Relations,
    numbers, negation and "thing" count for nothing, and so does where things lie: pictures of the
    same things in other places are one vector, shuffled pictures and shuffled words too.
    """
    return ConstructedSpace("bag of words", "constructed:bag/1", _bag_of_picture, _bag_of_caption)


def _bag_of_picture(picture: Picture) -> FloatArray:
    scene = scene_behind(picture, through_shuffles=True)
    if scene is None:
        raise UserError(
            f"picture {picture.name!r} has no scene",
            expected="a picture of the built-in world: constructed spaces read what is in it",
            way_out="put this space to the world's material only",
        )
    return _bag({(name, getattr(t, name)) for t in scene.things for name in ATTRIBUTES}, "nothing")


def _bag_of_caption(text: str) -> FloatArray:
    return _bag({(w.attribute, w.value) for w in content_words(text) if w.value is not None}, text)


def _bag(values: Iterable[tuple[str, str]], otherwise: str) -> FloatArray:
    # Summed in one order, so that equal bags are equal to the last bit.
    rows = [signs(f"{name} {value}", WIDTH) for name, value in sorted(values)]
    found: FloatArray = np.sum(rows or [signs(f"no words in {otherwise}", WIDTH)], axis=0)
    return found


def collapsed_space(*, noise: float = 0.05) -> ConstructedSpace:
    """All pictures point one way and all captions another, up to noise of this length.

    With noise 0 every picture is the same vector.
    """

    def of_picture(picture: Picture) -> FloatArray:
        return signs("pictures", SMALL) + noise * signs(f"picture {picture.key}", SMALL)

    def of_caption(text: str) -> FloatArray:
        return signs("captions", SMALL) + noise * signs(f"caption {text}", SMALL)

    return ConstructedSpace(
        "collapsed space", f"constructed:collapsed/1/{noise:g}", of_picture, of_caption
    )


def detector_space(rows: Sequence[Row]) -> ConstructedSpace:
    """Knows which texts are originals and which are edits, and nothing of what they say.

    An original points to its pictures; any other text, an edit that is true as well as one that is
    false, is equally far from all pictures and from all originals. A text has one vector: one that
    is an original here and an edit there keeps its first role. `unmixed` gives the rows in which
    no text plays two.
    """
    role = _roles(rows)
    pictures_of: dict[str, list[str]] = {}
    for row in rows:
        if role[row.caption] == "original":
            pictures_of.setdefault(row.caption, []).append(row.picture.key)

    def of_picture(picture: Picture) -> FloatArray:
        return _detected(signs(f"picture {picture.key}", SMALL), np.zeros(SMALL))

    def of_caption(text: str) -> FloatArray:
        keys = sorted(set(pictures_of.get(text, ())))
        if not keys:
            return _detected(np.zeros(SMALL), signs(f"edit {text}", SMALL))
        own_D = np.sum([signs(f"picture {key}", SMALL) for key in keys], axis=0)
        return _detected(own_D / np.linalg.norm(own_D), np.zeros(SMALL))

    identity = blake2b(repr(sorted(pictures_of.items())).encode(), digest_size=8).hexdigest()
    return ConstructedSpace(
        "perturbation detector", f"constructed:detector/1/{identity}", of_picture, of_caption
    )


def unmixed(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows, in order, in which every text has the role it had first.

    The world's triples use each caption as original, negative and positive in turn, so that no
    scorer of captions alone gains by it; on all of them no space can be a detector.
    """
    role: dict[str, str] = {}
    kept = []
    for row in rows:
        told = _told(row)
        if all(role.get(text, as_) == as_ for text, as_ in told) and len(dict(told)) == len(told):
            role.update(told)
            kept.append(row)
    return tuple(kept)


def _roles(rows: Sequence[Row]) -> dict[str, str]:
    role: dict[str, str] = {}
    for row in rows:
        for text, as_ in _told(row):
            role.setdefault(text, as_)
    return role


def _told(row: Row) -> list[tuple[str, str]]:
    edits = [text for text in (row.negative, row.positive) if text is not None]
    return [(row.caption, "original"), *((text, "edit") for text in edits)]


def _detected(picture_D: FloatArray, edit_D: FloatArray) -> FloatArray:
    """One shared number, what pictures have of their own, what edits have of their own."""
    return np.concatenate([[0.5], picture_D, edit_D])
