"""A chat model that shows its hidden state comes in; a dual encoder without questions goes out.

The vector of a picture is read behind "Represent the given image", that of a caption behind the
caption alone; so every benchmark and probe takes a chat model as it takes a CLIP.

Dimensions: N pictures or captions, D width of the language model, F bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from unbag.errors import PictureError, UserError
from unbag.models.asks import HiddenGenerator
from unbag.pictures.files import PixelPicture
from unbag.readouts.vlm2vec_core import unit
from unbag.readouts.vlm2vec_prompts import VERSION, instruction, text_instruction

if TYPE_CHECKING:
    from PIL.Image import Image

_SIDES = 8
"""Bytes in front of a prepared picture: its height and its width."""
_UNLIMITED = 1_000_000


@dataclass(frozen=True, eq=False)
class Vlm2Vec:
    """Embeds pictures and captions with a chat model."""

    model: HiddenGenerator
    scale: float = 1.0
    """Inverse temperature of the training loss; 1 if it was not trained to embed."""
    bias: float = 0.0

    @property
    def name(self) -> str:
        """The model's, and that it embeds."""
        return f"{self.model.name} (vlm2vec)"

    @property
    def fingerprint(self) -> str:
        """Of the model and the instruction."""
        return f"{self.model.fingerprint}-vlm2vec{VERSION}"

    @property
    def device(self) -> str:
        """The model's."""
        return str(getattr(self.model, "device", "cpu"))

    @property
    def context(self) -> int:
        """The model's; a longer caption is refused, not cut."""
        return getattr(self.model, "context", None) or _UNLIMITED

    def prepare(self, image: Image) -> Tensor:
        """Height, width and pixels as bytes: processors of chat models need the picture itself."""
        pixels = np.asarray(image.convert("RGB"))
        sides = np.array(pixels.shape[:2], dtype="<i4").view(np.uint8)
        return torch.from_numpy(np.concatenate([sides, pixels.reshape(-1)]))

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Tokens where the model tells them, else words."""
        count = getattr(self.model, "count_tokens", None)
        if count is None:
            return [len(caption.split()) for caption in captions]
        found: list[int] = count(captions)
        return found

    def encode_pictures(self, pixels: Tensor) -> Tensor:
        """[N, F] prepared pictures to [N, D]; NaN where the model cannot take one for its shape."""
        pictures = [_unpacked(one) for one in pixels.cpu().numpy()]
        asks = [(picture, instruction(None)) for picture in pictures]
        try:
            return unit(self.model.last_hidden(asks))
        except PictureError as error:
            warn(f"without a vector: {error.found}", stacklevel=2)
        nothing_D = torch.full_like(self.encode_captions([instruction(None)])[0], torch.nan)
        return torch.stack([self._alone(ask, nothing_D) for ask in asks])

    def _alone(self, ask: tuple[PixelPicture, str], nothing_D: Tensor) -> Tensor:
        try:
            return unit(self.model.last_hidden([ask]))[0]
        except PictureError:
            return nothing_D

    def encode_captions(self, captions: Sequence[str]) -> Tensor:
        """N captions to [N, D]."""
        return unit(self.model.last_hidden([(None, caption) for caption in captions]))

    def encode_questions(self, questions: Sequence[str]) -> Tensor:
        """N questions without a picture to [N, D]: nearest to what the model would say unseen."""
        return self.encode_captions([text_instruction(question) for question in questions])


def hidden_generator(model: object) -> HiddenGenerator:
    """The model, if it can show what it made of all that it read."""
    if isinstance(model, HiddenGenerator):
        return model
    raise UserError(
        f"{getattr(model, 'name', type(model).__name__)} shows no hidden state behind a prompt",
        expected="a chat model on this machine, such as hf:FOLDER of a LLaVA or Qwen-VL",
        way_out="name one with --model (or behind vlm2vec:); this model is scored without vlm2vec",
    )


def _unpacked(byte_F: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> PixelPicture:
    height, width = (int(side) for side in byte_F[:_SIDES].view("<i4"))
    end = _SIDES + height * width * 3
    return PixelPicture(byte_F[_SIDES:end].reshape(height, width, 3))
