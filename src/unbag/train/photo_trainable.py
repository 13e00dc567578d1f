"""A photo dual encoder comes in; its towers, ready to be trained, go out.

Dimensions: N pictures or captions, L tokens, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from unbag.models.photo import CONTEXT, Photo, squeezed
from unbag.models.photo_heads import PhotoHeads
from unbag.train.layers import Layers
from unbag.train.lora import merged
from unbag.train.trainable import Reads

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.models.photo_towers import PhotoTowers
    from unbag.train.batch import Inputs


class PhotoReads:
    """Bytes of pictures, and the tokens of MiniLM."""

    def __init__(self, tokenizer: Any) -> None:
        """As the encoder has it."""
        self._tokenizer = tokenizer

    def prepare(self, image: Image) -> Tensor:
        """RGB to levels [3, 224, 224], which are a quarter of the numbers to send."""
        return torch.from_numpy(np.array(squeezed(image))).permute(2, 0, 1).contiguous()

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Token ids and mask [N, L], as long as the longest."""
        found = self._tokenizer(
            list(captions), padding=True, truncation=True, max_length=CONTEXT, return_tensors="pt"
        )
        return {"token_NL": found["input_ids"], "mask_NL": found["attention_mask"]}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        if not captions:
            return []
        return [len(ids) for ids in self._tokenizer(list(captions), verbose=False)["input_ids"]]


class PhotoTrainable:
    """The towers of `unbag.models.photo`; the last layer of each is its head."""

    def __init__(self, encoder: Photo | PhotoHeads, *, device: str) -> None:
        """Copy the towers of an encoder, which stays as it is.

        Heads alone can be run on kept features only: `unbag.train.kept_photo`.
        """
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: PhotoTowers = deepcopy(encoder.towers).to(device).train().requires_grad_(True)
        self.picture_layers = _picture_layers(self.module.picture)
        self.caption_layers = _caption_layers(self.module.caption)
        self.temperature = (self.module.log_scale,)
        self.reads: Reads = PhotoReads(encoder.tokenizer)
        self._tokenizer = encoder.tokenizer
        self._device = device

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Levels, or numbers as `Photo.prepare` gives them, to unit vectors [N, D]."""
        if pixels.dtype == torch.uint8:
            pixels = (pixels.float() - 127.0) / 128.0
        # Autocast lowers the product; a unit norm needs all digits.
        return functional.normalize(self.module.picture(pixels).float(), dim=-1)

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Tokens to unit vectors [N, D]."""
        vector_ND = self.module.caption(inputs["token_NL"], inputs["mask_NL"])
        return functional.normalize(vector_ND.float(), dim=-1)

    def encoder(self, name: str) -> Photo:
        """A copy of the weights as they are now; the fingerprint is theirs."""
        if self._tokenizer is None:
            # Heads alone are none; `unbag.models.photo.read` puts parts before those of a file.
            raise NotImplementedError(name)
        return Photo(merged(self.module), self._tokenizer, name=name, device=self._device)


def _picture_layers(tower: Any) -> Layers:
    """Stem, sixteen blocks, the last convolution, the head; or the head alone."""
    part = tower.part
    if isinstance(part, nn.Identity):
        return ((tower.head,),)
    blocks = [(block,) for block in part._blocks]
    return (part._conv_stem, part._bn0), *blocks, (part._conv_head, part._bn1), (tower.head,)


def _caption_layers(tower: Any) -> Layers:
    """Embedding, six blocks, the head; or the head alone."""
    if isinstance(tower.part, nn.Identity):
        return ((tower.head,),)
    blocks = [(block,) for block in tower.part.encoder.layer]
    return (tower.part.embeddings,), *blocks, (tower.head,)
