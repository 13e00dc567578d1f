"""Measure a dual encoder of your own on two benchmarks and write a report.

    python examples/measure_your_model.py [OUT.html]

The model below is deliberately simple: it counts the colours of an image and the colour words of
a caption. Put your own in its place: ten names, nothing to inherit. Where two functions are enough,
`ub.wrap` makes a model of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

import unbag as ub
from unbag.world.vocabulary import COLOURS

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

RGB = np.array([rgb for _, rgb in COLOURS.values()], dtype=np.float32)
COLUMN = {word: i for i, (name, (rare, _)) in enumerate(COLOURS.items()) for word in (name, rare)}


class ColourWords:
    """Knows which colours there are, never what has them: a bag of words by construction."""

    name = "colour-words"
    fingerprint = "colour-words-1"  # change it whenever a vector could change: it names the cache
    device = "cpu"
    scale = 1.0
    bias = 0.0
    context = 77

    def prepare(self, image: Image) -> Tensor:
        """Pixels as the image side wants them. Called in threads, so it must be pure."""
        return torch.from_numpy(np.asarray(image, dtype=np.float32))

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Longer captions than `context` are counted in the run record."""
        return [len(caption.split()) for caption in captions]

    def encode_images(self, pixels: Tensor) -> Tensor:
        """[N, H, W, 3] to unit vectors [N, 13]: which colours cover some of the image."""
        distance = torch.cdist(pixels.flatten(1, 2), torch.from_numpy(RGB))
        covered = (distance < 40).float().mean(dim=1)
        return _unit((covered > 0.005).float())

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Captions to unit vectors [N, 13]: which colours are named."""
        said = torch.zeros(len(captions), len(COLOURS))
        for row, caption in enumerate(captions):
            for word in caption.split():
                if word in COLUMN:
                    said[row, COLUMN[word]] = 1.0
        return _unit(said)


def _unit(vectors: Tensor) -> Tensor:
    """Unit norm. The small constant keeps a caption without colours from being a zero vector."""
    constant = torch.full((len(vectors), 1), 0.1)
    return torch.nn.functional.normalize(torch.cat([vectors, constant], dim=1), dim=1)


def main(page: str) -> None:
    """Measure where words are enough, and where they are not."""
    results = ub.evaluate(ColourWords(), ["world-replace", "world-binding"])
    for result in results:
        print(f"{result.benchmark}: {result.about}")
        print(f"  {result.headline}: {result.overall[result.headline]}")
    colour = results[0].by_tag["kind=replace_colour"]["original"]
    print(f"only replaced colours: {colour}")
    print(f"page: {results.save(page)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "colour-words.html")
