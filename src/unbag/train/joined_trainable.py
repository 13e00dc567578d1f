"""A joined model comes in; its picture tower, text part and connector, ready to train, go out.

Dimensions: N pictures or captions, E width of the text part, D joint space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import log
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.models.joined import Changed, Joined
from unbag.models.joined_files import module_of
from unbag.models.text_part import CaptionReads, TextPart
from unbag.train.layers import Layers, tower_layers, weights_of
from unbag.train.lora import merged
from unbag.train.trainable import Reads, Trainable
from unbag.train.unused import CAPTIONS, close_unused

if TYPE_CHECKING:
    from PIL.Image import Image

    from unbag.train.batch import Inputs
    from unbag.types import DualEncoder


class JoinedReads:
    """Pictures as the picture model reads them, captions as the text part does."""

    def __init__(self, pictures: Reads, captions: CaptionReads) -> None:
        """Both without weights."""
        self._pictures, self._captions = pictures, captions

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the tokens that are remembered, which every worker finds by itself."""
        return JoinedReads, (self._pictures, self._captions.fresh())

    def prepare(self, image: Image) -> Tensor:
        """By the picture model."""
        return self._pictures.prepare(image)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """By the text part, padded to the longest."""
        return self._captions(captions)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self._captions.count(captions) if captions else []


class JoinedTrainable:
    """The last caption layer is the connector alone, so that locks.caption=part trains only it."""

    def __init__(self, encoder: Joined, pictures: Trainable, *, device: str) -> None:
        """Copy an encoder, which stays as it is; `pictures` is its picture model with gradients."""
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self._encoder, self._device = encoder, device
        self._pictures = pictures
        text = deepcopy(encoder.text.module).to(device=device, dtype=torch.float32)
        self._text: TextPart = encoder.text.holding(text)
        self.connector = deepcopy(encoder.connector).to(device)
        parts = {"picture": pictures.module, "text": text, "connector": self.connector}
        self.module = nn.ModuleDict(parts)
        self.module.train().requires_grad_(True)
        self.picture_layers = pictures.picture_layers
        self.caption_layers: Layers = (*_text_layers(text), (self.connector,))
        self.temperature = pictures.temperature
        self._first = self._start_temperature()
        self._names = _names(pictures)
        self.reads: Reads = JoinedReads(pictures.reads, encoder.text.reads.fresh())
        # The text tower that the picture model came with is among them.
        close_unused(self, device=device, captions=_known(encoder.text.reads))

    @property
    def always_open(self) -> tuple[nn.Parameter, ...]:
        """What LoRA has to train beside its own matrices: no connector was ever trained before."""
        return tuple(self.connector.parameters())

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """As the picture model does, [N, D]."""
        return self._pictures.embed_pictures(pixels)

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """What the text part's reads gave, to unit vectors [N, D]."""
        return self.connected(self._text.pooled(inputs))

    def connected(self, pooled_NE: Tensor) -> Tensor:
        """Through the connector; a unit norm needs all digits, which autocast takes away."""
        return functional.normalize(self.connector(pooled_NE).float(), dim=-1)

    def encoder(self, name: str) -> Joined:
        """A copy of the weights as they are now; parts that did not change are the encoder's."""
        start = self._encoder
        picture, seen = self._picture(name)
        text, read = self._text_part()
        scale, bias = start.scale, start.bias
        if any(not torch.equal(w, v) for w, v in zip(self.temperature, self._first, strict=True)):
            scale = float(self.temperature[0].detach().exp())
            bias = float(self.temperature[1].detach()) if len(self.temperature) > 1 else 0.0
        return Joined(
            picture,
            text,
            deepcopy(self.connector),
            name=name,
            origin=start.origin,
            changed=Changed({**start.changed.picture, **seen}, {**start.changed.text, **read}),
            temperature=(scale, bias),
        )

    def _picture(self, name: str) -> tuple[DualEncoder, dict[str, Tensor]]:
        was = self._encoder.picture
        is_open = any(weight.requires_grad for weight in weights_of(self.picture_layers))
        if not is_open and was.device == self._device:
            return was, {}
        found = self._pictures.encoder(name)
        now = {k: v for k, v in module_of(found).state_dict().items() if k in self._names}
        changed = _changed(now, module_of(was).state_dict())
        return (found if changed or was.device != self._device else was), changed

    def _text_part(self) -> tuple[TextPart, dict[str, Tensor]]:
        was, module = self._encoder.text, self._text.module
        is_here = self._encoder.device == self._device
        is_open = any(weight.requires_grad for weight in module.parameters())
        if not is_open and is_here:
            return was, {}
        found = merged(module).eval().requires_grad_(False)
        changed = _changed(found.state_dict(), was.module.state_dict())
        return (self._text.holding(found) if changed or not is_here else was), changed

    def _start_temperature(self) -> list[Tensor]:
        """That of the joined model, which may have been trained before."""
        encoder = self._encoder
        if (encoder.scale, encoder.bias) != (encoder.picture.scale, encoder.picture.bias):
            with torch.no_grad():
                values = (log(encoder.scale), encoder.bias)
                for weight, value in zip(self.temperature, values, strict=False):
                    weight.fill_(value)
        return [weight.detach().clone() for weight in self.temperature]


def _text_layers(module: nn.Module) -> Layers:
    """Of a table there is only an empty embedding."""
    return tower_layers(module) if any(True for _ in module.parameters()) else ((),)


def _names(pictures: Trainable) -> frozenset[str]:
    """Weights of the picture tower, taken before LoRA gives them other names."""
    ids = {id(weight) for weight in weights_of(pictures.picture_layers)}
    return frozenset(n for n, w in pictures.module.named_parameters() if id(w) in ids)


def _changed(now: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: value.detach().float()
        for name, value in now.items()
        if not torch.equal(value.float(), before[name].to(value.device).float())
    }


def _known(reads: CaptionReads) -> Sequence[str]:
    """Captions that can be read: a table has only its own."""
    rows: Mapping[str, int] | None = getattr(reads, "row_of", None)
    return CAPTIONS if rows is None else list(rows)[:2]
