"""Images that know their vector, as pairs to put to the probe of agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unbag.data import PixelImage
from unbag.probes.agreement import AGREEMENT
from unbag.probes.base import ImagePair, Options, ProbeData, ProbeResult
from unbag.probes.reference_spaces import ConstructedSpace, collapsed_space, constructed_subject
from unbag.types import FloatArray, ImageSource

from .putting import put

if TYPE_CHECKING:
    from PIL.Image import Image

FEW = Options(resamples=200)


@dataclass(frozen=True)
class Plain:
    """An image of one grey level, which knows its vector."""

    name: str
    vector: tuple[float, ...]
    level: int = 0

    @property
    def key(self) -> str:
        return self.name

    def open(self) -> Image:
        if self.level < 0:
            raise OSError("damaged")
        return PixelImage(np.full((10, 10, 3), self.level, dtype=np.uint8)).open()


class Given:
    """The vectors that images say they have."""

    name = "given"
    fingerprint = "given"
    layers = None
    tokens = None

    def __init__(self) -> None:
        self.damaged: dict[str, str] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return np.array([p.vector for p in images if isinstance(p, Plain)])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        return np.ones((len(captions), 2))


def given(*pairs: tuple[Plain, Plain], relation: str = "left/right") -> ProbeData:
    made = [ImagePair(f"pair {i}", a, b, relation) for i, (a, b) in enumerate(pairs)]
    return ProbeData("two images of mine", pairs=tuple(made))


def asked(material: ProbeData, space: ConstructedSpace | None = None) -> ProbeResult:
    subject = constructed_subject(space or collapsed_space())
    return put(AGREEMENT, subject if space else replace(subject, space=Given()), material, FEW)
