"""A tiny encoder that counts what it is shown, and images of two colours side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL.Image import Image
from torch import Tensor

from unbag.data import PixelImage
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.readouts.data import PoolRow
from unbag.types import Layers, TokenFeatures

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
WORDS = ("left", "of", "a", *COLOURS)
CONFIG = TinyConfig(
    pixels=32, patch=16, picture_width=16, picture_depth=1, caption_width=12, caption_depth=1,
    joint=8, heads=2, context=16, words=WORDS,
)  # fmt: skip


class Counting(Tiny):
    """Says how many images and captions it encoded."""

    images_seen = 0
    captions_read = 0

    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        self.images_seen += len(pixels)
        return super().encode_patches(pixels)

    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        self.captions_read += len(captions)
        return super().encode_tokens(captions)

    def image_layers(self, pixels: Tensor) -> Layers:
        self.images_seen += len(pixels)
        return super().image_layers(pixels)

    def text_layers(self, captions: Sequence[str]) -> Layers:
        self.captions_read += len(captions)
        return super().text_layers(captions)


def small(seed: int = 0) -> Counting:
    return Counting(untrained(CONFIG, seed=seed), name=f"tiny:small{seed}")


def halves(left: str, right: str) -> PixelImage:
    pixels = np.zeros((32, 32, 3), dtype=np.uint8)
    pixels[:, :16], pixels[:, 16:] = COLOURS[left], COLOURS[right]
    return PixelImage(pixels)


def rows() -> list[PoolRow]:
    """The hard negative exchanges the colours."""
    return [
        PoolRow(halves(a, b), f"{a} left of {b}", (f"{b} left of {a}",))
        for a in COLOURS
        for b in COLOURS
        if a != b
    ]


@dataclass(frozen=True, eq=False)
class Broken:
    """An image whose file is torn."""

    name: str = "torn.jpg"
    key: str = "broken"

    def open(self) -> Image:
        raise OSError("the file ends too early")
