"""A dual encoder of transformers comes in; vectors of pictures and captions go out.

Dimensions: N pictures or captions, L patches or tokens, D joint space, F numbers of a patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from warnings import warn

import torch
from torch.nn import functional

from unbag.errors import UserError
from unbag.models.fingerprint import fingerprint
from unbag.models.hf_captions import Captions, make_captions
from unbag.models.hf_kinds import KINDS, UNKNOWN, Kind, check_end
from unbag.models.hf_layers import caption_layers, picture_layers
from unbag.models.hf_pictures import Pictures
from unbag.models.hf_source import plain_config, torch_dtype
from unbag.types import Layers, Tokens

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_VERSION = "hf-dual-2"
"""Raise it whenever the code here changes a number."""


class HfDual:
    """CLIP, SigLIP, ALIGN and the like. Vectors are those of `get_*_features`, at unit norm."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        *,
        name: str,
        device: str = "cpu",
        dtype: str = "auto",
        compiles: bool = False,
    ) -> None:
        """Wrap a model that is loaded; the precision is set here."""
        self.name = name
        self.device = device
        self.model_type = str(model.config.model_type)
        self.kind = KINDS.get(self.model_type, UNKNOWN)
        captions = _captions(model.config, tokenizer, self.kind)
        check_end(model.config, tokenizer, self.kind, name=name)
        self.scale, self.bias = _temperature(model)
        self._ask_picture, self._ask_caption = model.get_image_features, model.get_text_features
        # In full precision: a lower one hides a difference, or makes one.
        self.model = model.to(device=device, dtype=torch.float32)
        self.captions = self._exact(captions)
        self.model = model.to(dtype=torch_dtype(dtype))
        self.pictures = Pictures(image_processor, name=name, device=device)
        self._check_widths()
        said = (plain_config(model.config), self.pictures.said, self.captions.said, _VERSION)
        self.fingerprint = fingerprint("hf", model.state_dict(), *said)
        if compiles:
            self._ask_picture = torch.compile(self._ask_picture)
            self._ask_caption = torch.compile(self._ask_caption, dynamic=True)

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included."""
        return self.captions.context

    def prepare(self, image: Image) -> Tensor:
        """One picture by the model's own image processor."""
        return self.pictures(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.captions.count(captions)

    @torch.inference_mode()
    def encode_pictures(self, pixels: Tensor) -> Tensor:
        """[N, ...] prepared pictures to unit vectors [N, D]."""
        return _unit(_pooled(self._ask_picture(**self._picture_inputs(pixels))))

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[str]) -> Tensor:
        """Captions to unit vectors [N, D]: at their real length where that is exact."""
        return self._embed(self.captions, captions)

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> Tokens:
        """Patch vectors in the joint space: through the layers that the pooled one goes through.

        For SigLIP, which pools by attention, a patch is pooled as if it were the only one.
        """
        if self.kind.patches is None:
            raise self._no_parts("patches")
        inputs = self._picture_inputs(pixels)
        hidden = self.model.vision_model(**inputs).last_hidden_state
        vector_NLD = _unit(self.kind.patches(self.model, hidden))
        mask_NL = inputs.get("pixel_attention_mask")
        if mask_NL is None:
            mask_NL = torch.ones(vector_NLD.shape[:2])
        return Tokens(vector_NLD, mask_NL.bool().cpu())

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> Tokens:
        """Token vectors in the joint space, special ones included; the mask leaves out padding."""
        if self.kind.tokens is None:
            raise self._no_parts("tokens")
        hidden = self.model.text_model(**self._caption_inputs(self.captions, captions))
        vector_NLD = _unit(self.kind.tokens(self.model, hidden.last_hidden_state))
        return Tokens(vector_NLD, self.captions.real(captions, vector_NLD.shape[1]))

    @torch.inference_mode()
    def encode_padded(self, captions: Sequence[str], *, length: int) -> Tokens:
        """The same at so many places, padding included; a longer caption keeps its end token.

        Padding does not look at padding, as where a tokenizer's mask is given to CLIP. Towers that
        were trained to look at it run at their full context.
        """
        if self.kind.tokens is None:
            raise self._no_parts("tokens")
        how = self.captions.padded()
        if not self.kind.is_padded:
            how = replace(how, context=min(length, how.context), has_mask=True)
        hidden = self.model.text_model(**self._caption_inputs(how, captions))
        vector_NLD = _unit(self.kind.tokens(self.model, hidden.last_hidden_state[:, :length]))
        return Tokens(vector_NLD, how.real(captions, vector_NLD.shape[1]))

    @torch.no_grad()
    def picture_layers(self, pixels: Tensor) -> Layers:
        """Patches after each layer, and the class token where that is read out."""
        return picture_layers(self.model, self.kind, self._picture_inputs(pixels))

    @torch.no_grad()
    def caption_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens after each layer, special ones included, and the one that is read out."""
        inputs = self._caption_inputs(self.captions, captions)
        real_NL = self.captions.real(captions, inputs["input_ids"].shape[1])
        return caption_layers(self.model, self.kind, inputs, real_NL)

    def _embed(self, how: Captions, captions: Sequence[str]) -> Tensor:
        return _unit(_pooled(self._ask_caption(**self._caption_inputs(how, captions))))

    def _caption_inputs(self, how: Captions, captions: Sequence[str]) -> dict[str, Tensor]:
        inputs = how(captions).items()
        return {name: value.to(self.device, non_blocking=True) for name, value in inputs}

    def _picture_inputs(self, pixels: Tensor) -> dict[str, Tensor]:
        inputs = dict(self.pictures.inputs(pixels.to(self.device, non_blocking=True)))
        return inputs | {"pixel_values": inputs["pixel_values"].to(self.model.dtype)}

    @torch.inference_mode()
    def _exact(self, captions: Captions) -> Captions:
        """Real lengths only if they give the vectors of the full context; tried, not believed."""
        if captions.is_padded:
            if self.kind is UNKNOWN:
                warn(self._runs_padded(captions, "is a kind not known here"), stacklevel=4)
            return captions
        tried = ["a red cube", "a"]
        short, full = (self._embed(how, tried) for how in (captions, captions.padded()))
        is_exact = (short - full).abs().max() < 1e-5
        if not is_exact:
            warn(self._runs_padded(captions, "gives other vectors without padding"), stacklevel=4)
        return captions if is_exact else captions.padded()

    def _runs_padded(self, captions: Captions, why: str) -> str:
        return (
            f"{self.name}: the text tower {why}, so captions run at {captions.context} tokens, "
            "which is right but slow"
        )

    def _check_widths(self) -> None:
        picture_D = self.encode_pictures(self.pictures.example()[None]).shape[1:]
        caption_D = self.encode_captions(["a"]).shape[1:]
        if picture_D != caption_D or len(picture_D) != 1:
            raise UserError(
                f"{self.name}: vectors of shape {tuple(picture_D)} for a picture and "
                f"{tuple(caption_D)} for a caption",
                expected="one vector each, of the same width",
                way_out="this kind of model cannot be scored by cosine",
            )

    def _no_parts(self, what: str) -> UserError:
        known = sorted(k for k, kind in KINDS.items() if getattr(kind, what) is not None)
        return UserError(
            f"{self.name}: {what} of a {self.model_type!r} have no place in the joint space",
            expected=f"one of {', '.join(known)}",
        )


def _captions(config: Any, tokenizer: Any, kind: Kind) -> Captions:
    return make_captions(
        config, tokenizer, is_padded=kind.is_padded, has_mask=kind.has_mask, most=kind.most
    )


def _temperature(model: Any) -> tuple[float, float]:
    """Scale and bias of the loss; read before the precision is lowered."""
    if hasattr(model, "temperature"):
        return 1.0 / float(model.temperature), 0.0
    scale = getattr(model, "logit_scale", None)
    bias = getattr(model, "logit_bias", None)
    return (
        1.0 if scale is None else float(scale.float().exp()),
        0.0 if bias is None else float(bias),
    )


def _pooled(found: Any) -> Tensor:
    """Version 4 of transformers gives the vectors, 5 an output that holds them."""
    pooled: Tensor = found if isinstance(found, torch.Tensor) else found.pooler_output
    return pooled


def _unit(vector: Tensor) -> Tensor:
    return functional.normalize(vector.float(), dim=-1).cpu()
