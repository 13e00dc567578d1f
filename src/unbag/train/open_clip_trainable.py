"""A dual encoder of open_clip comes in; its towers, ready to be trained, go out.

Dimensions: N pictures or captions, L tokens, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from unbag.models.fingerprint import fingerprint
from unbag.models.open_clip.encoder import OpenClip
from unbag.models.open_clip.preparation import in_bytes
from unbag.models.open_clip.text import Masked, Native, TextTower, Unknown, text_tower
from unbag.train.layers import tower_layers
from unbag.train.lora import merged
from unbag.train.unused import close_unused

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.models.open_clip.tokens import Tokenizer
    from unbag.train.batch import Inputs

_TEMPERATURE = ("logit_scale", "logit_bias")


class OpenClipReads:
    """open_clip's transform for evaluation and a tokenizer."""

    def __init__(
        self, prepare: Callable[[Image], Tensor], tokenizer: Tokenizer, *, is_cut: bool
    ) -> None:
        """`is_cut` where captions run at their real length."""
        self._prepare = prepare
        self._tokenizer = tokenizer
        self._is_cut = is_cut

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the tokens that are remembered, which every worker finds by itself."""
        kind: Any = type(self._tokenizer)
        inner = getattr(self._tokenizer, "inner", None)
        return _again, (self._prepare, kind, inner, self._is_cut)

    def prepare(self, image: Image) -> Tensor:
        """In bytes for a device, where that is exact."""
        return self._prepare(image)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Ids [N, L], cut after the longest caption where padding cannot matter."""
        token_NL, real_NL = self._tokenizer(captions)
        if self._is_cut:
            token_NL = token_NL[:, : int(real_NL.any(dim=0).nonzero().max()) + 1].contiguous()
        return {"token_NL": token_NL}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self._tokenizer.count(captions)


def _again(
    prepare: Callable[[Image], Tensor], kind: Callable[[Any], Tokenizer], inner: Any, is_cut: bool
) -> OpenClipReads:
    return OpenClipReads(prepare, kind(inner), is_cut=is_cut)


class OpenClipTrainable:
    """Any dual encoder of open_clip, with captions at their real length where that is exact."""

    def __init__(self, encoder: OpenClip, *, device: str) -> None:
        """Copy the model of an encoder, which stays as it is."""
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: Any = deepcopy(encoder.model).to(device=device, dtype=torch.float32)
        self.module.train().requires_grad_(True)
        self._text = _text(encoder.text, self.module)
        self._shell = _shell(encoder, device=device)
        self._levels = deepcopy(self._shell._levels)
        can_cut = isinstance(self._text, Native | Masked) and not self._text.whole_because
        self.reads = OpenClipReads(self._shell._prepare, encoder.tokenize, is_cut=can_cut)
        found = [getattr(self.module, name, None) for name in _TEMPERATURE]
        self.temperature = tuple(weight for weight in found if weight is not None)
        self.picture_layers = tower_layers(self.module.visual)
        self.caption_layers = _caption_layers(self.module)
        close_unused(self, device=device)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Pixels or their levels to unit vectors [N, D]."""
        if self._levels and pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        found = self.module.visual(pixels)
        return _unit(found[0] if isinstance(found, tuple) else found)

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Token ids to unit vectors [N, D]."""
        token_NL = inputs["token_NL"]
        if isinstance(self._text, Native):
            return _unit(self._text.pooled_as_given(token_NL))
        return _unit(self._text.pooled(token_NL))

    def encoder(self, name: str) -> OpenClip:
        """A copy of the weights as they are now, with a fingerprint of their own."""
        model: Any = merged(self.module).eval().requires_grad_(False)
        found = copy(self._shell)
        found.model, found.text = model, _text(self._text, model)
        found.name = name
        found.fingerprint = fingerprint("trained", model.state_dict(), self.fingerprint)
        found.scale = float(model.logit_scale.exp())
        found.bias = 0.0 if len(self.temperature) == 1 else float(model.logit_bias)
        return found


def _unit(vector_ND: Tensor) -> Tensor:
    # Autocast lowers the product; a unit norm needs all digits.
    return functional.normalize(vector_ND.float(), dim=-1)


def _text(known: TextTower, model: Any) -> TextTower:
    """The kind that evaluation found exact, over other weights."""
    return Unknown(model, known.whole_because) if isinstance(known, Unknown) else text_tower(model)


def _shell(encoder: OpenClip, *, device: str) -> OpenClip:
    """An encoder without its weights, for this device."""
    found = copy(encoder)
    found.model, found.device, found.dtype = None, device, torch.float32
    found.text = Unknown(None, encoder.text.whole_because)
    if device != "cpu" and found._levels is None and (parts := in_bytes(found._prepare)):
        found._prepare, found._levels = parts
    return found


def _caption_layers(model: Any) -> Any:
    """The text tower stands at the top in the first form of CLIP, and below `text` in the second.

    What is neither tower's, such as the decoder of CoCa, counts to the last layer.
    """
    text = getattr(model, "text", None)
    if text is None:
        return tower_layers(model, without=("visual", *_TEMPERATURE))
    rest = [part for name, part in model.named_children() if name not in ("visual", "text")]
    return tower_layers(text, then=rest)
