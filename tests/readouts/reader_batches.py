"""Random frozen features of a few images and captions, as a batch or pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from unbag.readouts.data import Pool
from unbag.readouts.reader import ReaderBatch, Sizes
from unbag.training.trainer import Trainer, TrainState
from unbag.types import TokenFeatures

SIZES = Sizes(patches=4, picture_width=8, caption_width=6)


class Bare:
    """A dual encoder that shows no parts."""

    name = "bare"
    fingerprint = "bare"
    device = "cpu"
    scale = 1.0
    bias = 0.0
    context = 8

    def prepare(self, image: Image) -> Tensor:
        raise NotImplementedError

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [1 for _ in captions]

    def encode_images(self, pixels: Tensor) -> Tensor:
        return torch.ones((len(pixels), 1))

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        return torch.ones((len(captions), 1))


def parts(count: int, length: int, width: int, *, seed: int, missing: int = 0) -> TokenFeatures:
    """The last `missing` parts of every second row are absent."""
    rng = torch.Generator().manual_seed(seed)
    mask_NL = torch.ones((count, length), dtype=torch.bool)
    mask_NL[1::2, length - missing :] = False
    vector_NLW = torch.randn((count, length, width), generator=rng) * mask_NL[..., None]
    return TokenFeatures(vector_NLW, mask_NL, torch.randn((count, width), generator=rng))


def images(count: int, *, seed: int = 0, missing: int = 0) -> TokenFeatures:
    return parts(count, SIZES.patches, SIZES.picture_width, seed=seed, missing=missing)


def captions(count: int, *, seed: int = 1, missing: int = 2) -> TokenFeatures:
    return parts(count, 5, SIZES.caption_width, seed=seed, missing=missing)


def batch(size: int = 4, each: int = 2, *, also_true: Tensor | None = None) -> ReaderBatch:
    """The last negative of the last row is missing."""
    mask_BK = torch.ones((size, each), dtype=torch.bool)
    if each:
        mask_BK[-1, -1] = False
    return ReaderBatch(
        image=images(size),
        caption=captions(size),
        negative=captions(size * each, seed=2) if each else None,
        negative_mask_BK=mask_BK,
        also_true_BB=torch.eye(size).bool() & False if also_true is None else also_true,
    )


def padded(given: TokenFeatures, by: int) -> TokenFeatures:
    """The same with parts at the end that mean nothing."""
    vector_NLW = torch.cat([given.vector_NLW, torch.zeros_like(given.vector_NLW[:, :1])], dim=1)
    mask_NL = torch.cat([given.mask_NL, torch.zeros_like(given.mask_NL[:, :1])], dim=1)
    one = TokenFeatures(vector_NLW, mask_NL, given.pooled_NW)
    return one if by == 1 else padded(one, by - 1)


def pool(count: int) -> Pool:
    """Random images and captions, each with one negative: to be learned by heart."""
    own_N = torch.arange(count)
    return Pool(
        image=parts(count, 4, 16, seed=1),
        caption=parts(2 * count, 3, 16, seed=2),
        image_N=own_N,
        caption_N=own_N,
        negative_NK=(own_N + count)[:, None],
    )


def run_losses(trainer: Trainer[Any]) -> list[float]:
    """Take the steps that are left; gives the loss of each."""
    found: list[float] = []

    def on_step(state: TrainState, numbers: Mapping[str, Tensor]) -> bool:
        found.append(float(numbers["loss"]))
        return False

    trainer.run(on_step=on_step)
    return found
