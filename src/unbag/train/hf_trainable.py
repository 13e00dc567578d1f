"""A dual encoder of transformers comes in; its towers, ready to be trained, go out.

Dimensions: N pictures or captions, L tokens, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UserError
from unbag.models.fingerprint import fingerprint
from unbag.models.hf_dual import HfDual
from unbag.models.hf_pictures import Pictures
from unbag.train.layers import Part, tower_layers
from unbag.train.lora import merged
from unbag.train.unused import close_unused

if TYPE_CHECKING:
    from PIL.Image import Image

    from unbag.models.hf_captions import Captions
    from unbag.train.batch import Inputs

_TOWERS = ("vision_model", "text_model")
_PROJECTIONS = ("visual_projection", "text_projection")


class HfReads:
    """An image processor and a tokenizer, each with its model's rule."""

    def __init__(self, pictures: Pictures, captions: Captions) -> None:
        """As the encoder has them."""
        self._pictures = pictures
        self._captions = captions

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the tokens that are remembered, which every worker finds by itself."""
        return HfReads, (self._pictures, replace(self._captions, known={}))

    def prepare(self, image: Image) -> Tensor:
        """In bytes for a device, where that is exact."""
        return self._pictures(image)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Arguments of the text tower, padded as far as the model asks."""
        return self._captions(captions)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self._captions.count(captions)


class HfTrainable:
    """CLIP, SigLIP, ALIGN and the like, as `get_*_features` gives them."""

    def __init__(self, encoder: HfDual, *, device: str) -> None:
        """Copy the model of an encoder, which stays as it is."""
        _check_towers(encoder)
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: Any = deepcopy(encoder.model).to(device=device, dtype=torch.float32)
        self.module.train().requires_grad_(True)
        self._inverse = hasattr(self.module, "temperature")
        if self._inverse:
            _to_logarithm(self.module)
        names = ("log_scale",) if self._inverse else ("logit_scale", "logit_bias")
        found = [getattr(self.module, name, None) for name in names]
        self.temperature = tuple(weight for weight in found if weight is not None)
        self.picture_layers, self.caption_layers = _layers(self.module, names)
        # Two, since the levels of one move to the device, and workers must not.
        self._pictures, sent = (
            Pictures(encoder.pictures.processor, name=self.name, device=device) for _ in range(2)
        )
        self.reads = HfReads(sent, replace(encoder.captions, known={}))
        self._shell = copy(encoder)
        self._shell.model = self._shell._ask_picture = self._shell._ask_caption = None
        self._shell.pictures, self._shell.device = self._pictures, device
        close_unused(self, device=device)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Pixels or their levels to unit vectors [N, D]."""
        return _unit(self.module.get_image_features(**dict(self._pictures.inputs(pixels))))

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Token ids, with a mask where there is one, to unit vectors [N, D]."""
        return _unit(self.module.get_text_features(**inputs))

    def encoder(self, name: str) -> HfDual:
        """A copy of the weights as they are now, with a fingerprint of their own."""
        model: Any = merged(self.module).eval().requires_grad_(False)
        found = copy(self._shell)
        found.name = name
        found.scale = float(self.temperature[0].detach().exp())
        found.bias = float(self.temperature[1].detach()) if len(self.temperature) > 1 else 0.0
        if self._inverse:
            _from_logarithm(model)
        found.model = model
        found._ask_picture, found._ask_caption = model.get_image_features, model.get_text_features
        found.fingerprint = fingerprint("trained", model.state_dict(), self.fingerprint)
        return found


def _unit(found: Any) -> Tensor:
    """Version 4 of transformers gives the vectors, 5 an output that holds them."""
    vector_ND = found if isinstance(found, Tensor) else found.pooler_output
    # Autocast lowers the product; a unit norm needs all digits.
    return functional.normalize(vector_ND.float(), dim=-1)


def _check_towers(encoder: HfDual) -> None:
    model = encoder.model
    missing = [name for name in _TOWERS if not isinstance(getattr(model, name, None), nn.Module)]
    if not missing and not (hasattr(model, "logit_scale") or hasattr(model, "temperature")):
        missing = ["logit_scale"]
    if missing:
        raise UserError(
            f"{encoder.name} cannot be trained: a {encoder.model_type!r} has no {missing[0]}",
            expected="two towers and a temperature, as CLIP, SigLIP and ALIGN have them",
        )


def _layers(model: Any, temperature: Sequence[str]) -> tuple[Any, Any]:
    """Towers with their projections; what is neither's counts to the last caption layer."""
    parts = dict(model.named_children())
    known = (*_TOWERS, *_PROJECTIONS)
    rest: list[Part] = [part for name, part in parts.items() if name not in known]
    own = model.named_parameters(recurse=False)
    rest += [weight for name, weight in own if name not in temperature]
    eyes, words = ([parts[name]] if name in parts else [] for name in _PROJECTIONS)
    return (
        tower_layers(model.vision_model, then=eyes),
        tower_layers(model.text_model, then=[*words, *rest]),
    )


def _to_logarithm(model: Any) -> None:
    """ALIGN divides by a temperature; training wants the logarithm of the scale."""
    value = model.temperature.detach()
    del model.temperature
    model.log_scale = nn.Parameter(-value.log())


def _from_logarithm(model: Any) -> None:
    value = model.log_scale.detach()
    del model.log_scale
    model.temperature = nn.Parameter((-value).exp(), requires_grad=False)
