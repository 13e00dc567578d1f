"""Dual encoders of open_clip, and the preparation of their images.

Dimensions: N inputs, L tokens or patches, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from unbag.models.batching import Levels, levels
from unbag.models.layers import unit_vectors
from unbag.models.open_clip.checkpoint import build
from unbag.models.open_clip.layers import image_layers, patches
from unbag.models.open_clip.library import library
from unbag.models.open_clip.text import Native, TextNetwork, Unknown, text_network
from unbag.models.weights import seeded
from unbag.types import Layers, TokenFeatures

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.models.open_clip.text import Tokenizer

PARTS = ("mean", "std", "interpolation", "resize_mode")
"""Fields of open_clip's table about the preparation of images."""


class OpenClip:
    """A dual encoder of open_clip. Vectors are float32 for any precision of the model."""

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        fingerprint: str,
        tokenizer: Tokenizer,
        prepare: Callable[[Image], Tensor],
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        compiles: bool = False,
        trained_on: tuple[str, ...] = (),
        config: Mapping[str, Any] | None = None,
        preparation: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap a model, moved to `device` and converted to `dtype`.

        `config` and `preparation` are in open_clip's format; only exports and `random_init` need
        them.
        """
        self.scale = float(model.logit_scale.detach().exp())
        bias = getattr(model, "logit_bias", None)
        self.bias = 0.0 if bias is None else float(bias.detach())
        self.model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
        self.name = name
        self.fingerprint = fingerprint
        self.device = device
        self.dtype = dtype
        self.tokenize = tokenizer
        self.context = tokenizer.context
        self.trained_on = trained_on
        self.config = config
        self.preparation = preparation
        self.text: TextNetwork = text_network(self.model)
        byte_preparation = in_bytes(prepare) if device != "cpu" else None
        self._prepare = byte_preparation[0] if byte_preparation else prepare
        self._levels = byte_preparation[1] if byte_preparation else None
        self._check_padding()
        if compiles:
            self.model.visual.compile()
            # Dynamic, since each length of captions would be compiled separately.
            getattr(self.model, "text", self.model).transformer.compile(dynamic=True)

    def random_init(self, *, name: str, seed: int) -> OpenClip | None:
        """Return a randomly initialized model; None without config and preparation."""
        # Imported here, since it imports this module.
        from unbag.models.open_clip.loading import fingerprint_of

        config, preparation = self.config, self.preparation
        if config is None or preparation is None:
            return None
        with seeded(seed):
            has_bias = getattr(self.model, "logit_bias", None) is not None
            model = build(config, has_bias=has_bias)
        return OpenClip(
            model,
            name=name,
            fingerprint=fingerprint_of(model, config, preparation, self.tokenize, self.dtype),
            tokenizer=self.tokenize,
            prepare=make_transform(preparation),
            device=self.device,
            dtype=self.dtype,
            config=config,
            preparation=preparation,
        )

    def prepare(self, image: Image) -> Tensor:
        """Apply open_clip's transform for evaluation, in bytes if the device converts them."""
        return self._prepare(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        return self.tokenize.count(captions)

    def _on_device(self, pixels: Tensor) -> Tensor:
        """Move pixels and round them on the device, which is faster than rounding on the CPU."""
        pixels = pixels.to(self.device, non_blocking=True)
        if self._levels and pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        return pixels.to(self.dtype)

    @torch.inference_mode()
    def _check_padding(self) -> None:
        """Pad captions unless a test confirms that real lengths give open_clip's vectors."""
        token_NL, _ = self.tokenize(["a red cube", "a"])
        padded = Unknown(self.model, "its text encoder gives other vectors without padding")
        token_NL = token_NL.to(self.device)
        difference = (
            (unit_vectors(self.text.pooled(token_NL)) - unit_vectors(padded.pooled(token_NL)))
            .abs()
            .max()
        )
        if not difference < (1e-5 if self.dtype == torch.float32 else 0.05):
            self.text = padded

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Encode prepared images to unit vectors [N, D]."""
        output = self.model.visual(self._on_device(pixels))
        return unit_vectors(output[0] if isinstance(output, tuple) else output)

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Encode captions to unit vectors [N, D], at their real length if that is exact."""
        token_NL, _ = self.tokenize(captions)
        return unit_vectors(self.text.pooled(token_NL.to(self.device)))

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Encode patches to unit vectors [N, L, D], row by row from the top left."""
        vector_NLD = unit_vectors(patches(self.model.visual, self._on_device(pixels)))
        return TokenFeatures(vector_NLD, torch.ones(vector_NLD.shape[:2], dtype=torch.bool))

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Encode tokens to unit vectors [N, L, D]; the mask is True up to the end token."""
        token_NL, real_NL = self._tokens(captions)
        vector_NLD = unit_vectors(self.text.words(token_NL, length=real_NL.shape[1]))
        return TokenFeatures(vector_NLD, real_NL)

    @torch.inference_mode()
    def encode_padded(self, captions: Sequence[str], *, length: int) -> TokenFeatures:
        """Encode `length` tokens, padding included; a longer caption keeps its end token.

        Encoders that skip padding get zeros there, since how much of it they run depends on the
        longest caption of the batch.
        """
        token_NL, real_NL = self.tokenize(captions)
        length = min(length, self.context)
        if self.tokenize.end is not None:
            token_NL[real_NL[:, length:].any(dim=1), length - 1] = self.tokenize.end
        vector_NLD = unit_vectors(self.text.words(token_NL.to(self.device), length=length))
        real_NL = real_NL[:, : vector_NLD.shape[1]]
        if not isinstance(self.text, Native):
            vector_NLD = vector_NLD.masked_fill(~real_NL[..., None], 0)
        return TokenFeatures(vector_NLD, real_NL)

    @torch.no_grad()
    def image_layers(self, pixels: Tensor) -> Layers:
        """Return patches and, if it is pooled, the class token of each layer."""
        return image_layers(self.model.visual, self._on_device(pixels))

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Return the tokens and the pooled token of each layer."""
        return self.text.layers(*self._tokens(captions))

    def _tokens(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return padded tokens on the device, and a mask up to the end of the longest caption."""
        token_NL, real_NL = self.tokenize(captions)
        length = int(real_NL.any(dim=0).nonzero().max()) + 1
        return token_NL.to(self.device), real_NL[:, :length]


def make_transform(preparation: Mapping[str, Any]) -> Callable[[Image], Tensor]:
    """Make open_clip's transform for evaluation."""
    package = library().transform
    transform: Callable[[Image], Tensor] = package.image_transform_v2(
        package.PreprocessCfg(**preparation), is_train=False
    )
    return transform


def in_bytes(
    transform: Callable[[Image], Tensor],
) -> tuple[Callable[[Image], Tensor], Levels] | None:
    """Split a transform into one to bytes and their `Levels`; None if that is not exact."""
    transforms: Any = import_module("torchvision.transforms")
    steps = getattr(transform, "transforms", [])
    to_bytes = transforms.Compose([*steps[:-2], transforms.PILToTensor()])
    table = levels(transform, to_bytes, transforms.Compose(steps[-2:]))
    return (to_bytes, table) if table else None


def full_preparation(preparation: Mapping[str, Any], size: object) -> dict[str, Any]:
    """Complete a preparation with defaults and the size of the image encoder."""
    default = asdict(library().transform.PreprocessCfg())
    return {**default, "size": size, **preparation}


def preparation_of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preparation in an open_clip_config.json."""
    preparation = config.get("preprocess_cfg") or {}
    return {
        key: preparation[key] for key in (*PARTS, "fill_color") if preparation.get(key) is not None
    }


def usual_preparation(arch: str) -> dict[str, Any]:
    """Return the preparation of all published weights of an architecture; empty if they differ."""
    tags = library().list_pretrained_tags_by_model(arch)
    configs = [library().get_pretrained_cfg(arch, tag) for tag in tags]
    preparations = [{key: config[key] for key in PARTS if key in config} for config in configs]
    return (
        preparations[0]
        if preparations and all(config == preparations[0] for config in preparations)
        else {}
    )


def note_on_preparation(arch: str) -> str:
    """Return a note if open_clip prepares a bare file differently (SigLIP, CLIPA, MobileCLIP)."""
    preparation = usual_preparation(arch)
    default = asdict(library().transform.PreprocessCfg())
    if all(default[key] == value for key, value in preparation.items()):
        return ""
    settings = ", ".join(f"{key} {value}" for key, value in preparation.items())
    return (
        f"{arch}: images are prepared as for all published weights of {arch} ({settings}); "
        "open_clip itself uses the preparation of OpenAI's weights for a bare file"
    )
