"""Rules from a picture or a text to a vector come in; a space that follows them goes out.

Dimensions: N pictures or captions, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil, sqrt

import numpy as np

from unbag.pictures.shuffled import ShuffledPicture
from unbag.probes.probe import Subject
from unbag.types import Ensemble, FloatArray, Picture, Query
from unbag.world.draw import ScenePicture
from unbag.world.scene import Scene

_BITS = 512
"""Of one hash."""


@dataclass(frozen=True, eq=False)
class ConstructedSpace:
    """A space that is made, not learned: what probes must say of it is known beforehand."""

    name: str
    fingerprint: str
    of_picture: Callable[[Picture], FloatArray]
    """[D], of any length but 0."""
    of_caption: Callable[[str], FloatArray]
    layers: None = None
    tokens: None = None
    damaged: Mapping[str, str] = field(default_factory=dict)
    _picture: dict[str, FloatArray] = field(default_factory=dict, repr=False)
    _caption: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        """Unit vectors [N, D]."""
        keys = [picture.key for picture in pictures]
        for key, picture in zip(keys, pictures, strict=True):
            if key not in self._picture:
                self._picture[key] = scaled(self.of_picture(picture))
        return np.array([self._picture[key] for key in keys])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D]."""
        for caption in captions:
            if caption not in self._caption:
                self._caption[caption] = scaled(self.of_caption(caption))
        return np.array([self._caption[caption] for caption in captions])


@dataclass(frozen=True)
class SpaceScorer:
    """The cosine in a space, for probes that ask a scorer."""

    space: ConstructedSpace
    scoring: str = "cosine"
    is_blind: bool = False

    @property
    def name(self) -> str:
        """The space's."""
        return self.space.name

    @property
    def fingerprint(self) -> str:
        """The space's."""
        return self.space.fingerprint

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """One cosine a query; of an ensemble with the mean of its prompts."""
        picture_ND = self.space.pictures([query.picture for query in queries])
        caption_ND = np.array([self._caption(query.caption) for query in queries])
        found: FloatArray = (picture_ND * caption_ND).sum(axis=-1)
        return found

    def _caption(self, caption: str | Ensemble) -> FloatArray:
        texts = caption.prompts if isinstance(caption, Ensemble) else (caption,)
        mean_D: FloatArray = self.space.captions(texts).mean(axis=0)
        return mean_D if len(texts) == 1 else scaled(mean_D)


def constructed_subject(space: ConstructedSpace, *, other: Subject | None = None) -> Subject:
    """A constructed space as a model under examination."""
    scorer = SpaceScorer(space)
    return Subject(space.name, scorer, space, scorer, other=other)


def signs(name: str, width: int) -> FloatArray:
    """A unit vector that follows from a name alone, on every machine.

    It is nearly at right angles to that of any other name: cosines have mean 0 and standard
    deviation 1 / sqrt(width).
    """
    blocks = [blake2b(f"{name}|{i}".encode()).digest() for i in range(ceil(width / _BITS))]
    bit_D = np.unpackbits(np.frombuffer(b"".join(blocks), dtype=np.uint8), count=width)
    found: FloatArray = (2.0 * bit_D.astype(float) - 1.0) / sqrt(width)
    return found


def scaled(vector_D: FloatArray) -> FloatArray:
    """At length 1."""
    found: FloatArray = vector_D / np.linalg.norm(vector_D)
    return found


def scene_behind(picture: Picture, *, through_shuffles: bool = False) -> Scene | None:
    """The scene that a picture shows; None if it shows none.

    A shuffled picture shows none either, unless one looks at its parts only.
    """
    if through_shuffles and isinstance(picture, ShuffledPicture):
        return scene_behind(picture.picture, through_shuffles=True)
    return picture.scene if isinstance(picture, ScenePicture) else None
