"""The nearest of a user's images are pairs that a model should tell apart."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.probes import data as material_pairs
from unbag.probes.data import near_pairs
from unbag.types import FloatArray, ImageSource


class Placed:
    """A space in which vectors are given by the names of images."""

    name, fingerprint, layers, tokens = "placed", "placed-1", None, None

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.damaged: dict[str, str] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return np.array([self.vectors[image.name] for image in images], dtype=float)

    def captions(self, captions: Sequence[str]) -> FloatArray:
        raise NotImplementedError


def named(name: str, shade: int) -> PixelImage:
    return PixelImage(np.full((2, 2, 3), shade, dtype=np.uint8), name=name)


def test_the_nearest_images_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    nan = float("nan")
    space = Placed({"a": (1, 0), "b": (0.8, 0.6), "c": (0, 1), "torn": (nan, nan), "d": (-1, 0)})
    every = [named(name, n) for n, name in enumerate(space.vectors)]
    copy = replace(every[0], name="a again")
    for block in (1, 2, 512):
        monkeypatch.setattr(material_pairs, "BLOCK", block)
        found = near_pairs(space, [*every, copy], max_pairs=3)
        # Cosines: a-b .8, b-c .6, a-c 0 and c-d 0, b-d -.8, a-d -1.
        assert [one.id for one in found] == ["a/b", "b/c", "a/c"]
        assert len(near_pairs(space, every, max_pairs=100)) == 6
    assert {one.relation for one in found} == {"nearest images"}
    assert found[0].captions is None
    assert near_pairs(space, every[:1]) == ()
