"""Encoders of a few numbers in double precision, so that two ways to a gradient can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.training.data.batch import Batch, CaptionTexts, Inputs, make_batch
from unbag.types import DualEncoder

WIDTH = 5


class PlainReads:
    """Images are vectors; a caption is its words, each a number."""

    def prepare(self, image: object) -> Tensor:
        raise NotImplementedError

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        words = [[1 + crc32(word.encode()) % 49 for word in text.split()] for text in captions]
        longest = max(map(len, words))
        return {"word_NL": torch.tensor([w + [0] * (longest - len(w)) for w in words])}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in captions]


class _Module(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.picture = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(dropout), nn.Linear(WIDTH, WIDTH)
        )
        self.words = nn.Embedding(50, WIDTH, padding_idx=0)
        self.caption = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(dropout))
        self.log_scale = nn.Parameter(torch.tensor(1.5))
        self.bias = nn.Parameter(torch.tensor(-1.0))


class PlainEncoders:
    """A Trainable; `encoder` is not needed here."""

    name = "plain"
    fingerprint = "plain"
    reads = PlainReads()

    def __init__(self, *, seed: int = 0, dropout: float = 0.0) -> None:
        torch.manual_seed(seed)
        self.module = _Module(dropout).double().train()
        self.image_layers: Sequence[Sequence[nn.Module | nn.Parameter]] = [[self.module.picture]]
        self.text_layers: Sequence[Sequence[nn.Module | nn.Parameter]] = [
            [self.module.words],
            [self.module.caption],
        ]
        self.temperature = (self.module.log_scale, self.module.bias)

    def embed_images(self, pixels: Tensor) -> Tensor:
        return functional.normalize(self.module.picture(pixels), dim=-1)

    def embed_texts(self, inputs: Inputs) -> Tensor:
        summed = self.module.words(inputs["word_NL"]).sum(dim=1)
        return functional.normalize(self.module.caption(summed), dim=-1)

    def encoder(self, name: str) -> DualEncoder:
        raise NotImplementedError


def batch_of(said: Sequence[CaptionTexts], *, first: int = 0, largest: int | None = None) -> Batch:
    """Images are made of their place in the whole batch, so that parts are the same images."""
    pixels = torch.stack(
        [
            torch.randn(
                WIDTH, generator=torch.Generator().manual_seed(first + at), dtype=torch.float64
            )
            for at in range(len(said))
        ]
    )
    reads = PlainReads()
    return make_batch(
        pixels,
        said,
        tokenize=reads.tokenize,
        count_tokens=reads.count_tokens,
        largest=largest,
    )


SAID = (
    CaptionTexts("a red cup", ("a blue cup", "a cup"), ("a crimson cup",)),
    CaptionTexts("two dogs run", (None, "three dogs run"), (None,)),
    CaptionTexts("a cat on a mat", ("a mat on a cat", None), ("a mat under a cat",)),
    CaptionTexts("rain", (None, None), (None,)),
    CaptionTexts(
        "a man eats an apple now", ("an apple eats a man now", None), ("a man now eats an apple",)
    ),
    CaptionTexts("a red cup", ("a green cup", "no red cup"), ("a scarlet cup",)),
    CaptionTexts("snow on a hill", (None, "snow under a hill"), ("snow upon a hill",)),
    CaptionTexts("a bird", ("a fish", None), (None,)),
)
"""Eight images; the second half has other missing edits than the first."""
