"""A tiny dual encoder comes in; its towers, ready to be trained, go out.

Dimensions: N pictures or captions, L tokens, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from unbag.models.levels import Levels
from unbag.models.tiny import Tiny
from unbag.models.tiny_words import WordTokenizer
from unbag.train.layers import tower_layers
from unbag.train.lora import merged

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.models.tiny_towers import TinyTowers
    from unbag.train.batch import Inputs


class TinyReads:
    """Bytes of pictures, and words with the place of their end."""

    def __init__(self, *, side: int, words: Sequence[str], context: int) -> None:
        """Pixels of a side; the vocabulary without special tokens; tokens of a caption."""
        self._side = side
        self._split = WordTokenizer(words, context=context)

    def prepare(self, image: Image) -> Tensor:
        """RGB to levels [3, H, W], which are a quarter of the numbers to send."""
        if image.size != (self._side, self._side):
            from PIL.Image import Resampling

            image = image.resize((self._side, self._side), Resampling.BICUBIC)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Token ids [N, L] as long as the longest, and where each ends."""
        token_NL, end_N = self._split(captions)
        return {"token_NL": torch.from_numpy(token_NL), "end_N": torch.from_numpy(end_N)}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Words and the end token."""
        return [len(self._split.split(caption)) for caption in captions]


class TinyTrainable:
    """The towers of `unbag.models.tiny`. Pictures are levels, or numbers from -1 to 1."""

    def __init__(self, encoder: Tiny, *, device: str) -> None:
        """Copy the towers of an encoder, which stays as it is."""
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: TinyTowers = deepcopy(encoder.towers).to(device).train().requires_grad_(True)
        self.picture_layers = tower_layers(self.module.picture)
        self.caption_layers = tower_layers(self.module.caption)
        self.temperature = (self.module.log_scale,)
        config = encoder.config
        self.reads = TinyReads(side=config.pixels, words=config.words, context=config.context)
        self._device = device
        self._levels = Levels(_numbers)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """[N, 3, H, W] to unit vectors [N, D]."""
        if pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        # Autocast lowers the product; a unit norm needs all digits.
        return functional.normalize(self.module.picture(pixels)[:, 0].float(), dim=-1)

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Token ids to unit vectors [N, D], read at the end token."""
        token_NL, end_N = inputs["token_NL"], inputs["end_N"]
        row_N = torch.arange(len(token_NL), device=token_NL.device)
        vector_ND = self.module.caption(token_NL)[row_N, end_N]
        return functional.normalize(vector_ND.float(), dim=-1)

    def encoder(self, name: str) -> Tiny:
        """A copy of the weights as they are now; the fingerprint is theirs."""
        return Tiny(merged(self.module), name=name, device=self._device)


def _numbers(image: Image) -> Tensor:
    """Levels as `Tiny.prepare` scales them."""
    pixels = np.asarray(image, dtype=np.float32) / 127.5 - 1.0
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
