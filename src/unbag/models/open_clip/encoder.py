"""Dual encoders of open_clip in the interface of unbag, and how their images are prepared.

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
"""What open_clip's table says of the preparation of images."""


class OpenClip:
    """Any dual encoder of open_clip. Vectors are float32 whatever the model computes in."""

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
        """Wrap a model; it is moved, and computes in `dtype` throughout.

        `config` and `preparation` are open_clip's records of both; only an export and a random twin
        need them.
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
        found = in_bytes(prepare) if device != "cpu" else None
        self._prepare = found[0] if found else prepare
        self._levels = found[1] if found else None
        self._check_lengths()
        if compiles:
            self.model.visual.compile()
            # Captions come in many lengths; each would be compiled anew.
            getattr(self.model, "text", self.model).transformer.compile(dynamic=True)

    def random_init(self, *, name: str, seed: int) -> OpenClip | None:
        """The same architecture, and weights as open_clip begins; None where that is not known."""
        # It imports this module.
        from unbag.models.open_clip.loading import fingerprint_of

        config, prepared = self.config, self.preparation
        if config is None or prepared is None:
            return None
        with seeded(seed):
            has_bias = getattr(self.model, "logit_bias", None) is not None
            model = build(config, has_bias=has_bias)
        return OpenClip(
            model,
            name=name,
            fingerprint=fingerprint_of(model, config, prepared, self.tokenize, self.dtype),
            tokenizer=self.tokenize,
            prepare=make_transform(prepared),
            device=self.device,
            dtype=self.dtype,
            config=config,
            preparation=prepared,
        )

    def prepare(self, image: Image) -> Tensor:
        """open_clip's transform for evaluation, in bytes for a device where that is exact."""
        return self._prepare(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.tokenize.count(captions)

    def _placed(self, pixels: Tensor) -> Tensor:
        """Moved first and rounded there: a processor rounds more slowly than the bus carries."""
        pixels = pixels.to(self.device, non_blocking=True)
        if self._levels and pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        return pixels.to(self.dtype)

    @torch.inference_mode()
    def _check_lengths(self) -> None:
        """Real lengths only if they give open_clip's own vectors: tried, not believed."""
        token_NL, _ = self.tokenize(["a red cube", "a"])
        plain = Unknown(self.model, "its text encoder gives other vectors without padding")
        token_NL = token_NL.to(self.device)
        apart = (
            (unit_vectors(self.text.pooled(token_NL)) - unit_vectors(plain.pooled(token_NL)))
            .abs()
            .max()
        )
        if not apart < (1e-5 if self.dtype == torch.float32 else 0.05):
            self.text = plain

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Unit vectors [N, D]."""
        found = self.model.visual(self._placed(pixels))
        return unit_vectors(found[0] if isinstance(found, tuple) else found)

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Unit vectors [N, D], run at their real length where that is exact."""
        token_NL, _ = self.tokenize(captions)
        return unit_vectors(self.text.pooled(token_NL.to(self.device)))

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Unit vectors of places [N, L, D], row by row from the top left."""
        vector_NLD = unit_vectors(patches(self.model.visual, self._placed(pixels)))
        return TokenFeatures(vector_NLD, torch.ones(vector_NLD.shape[:2], dtype=torch.bool))

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Unit vectors of tokens [N, L, D]; the mask is True up to the end token."""
        token_NL, real_NL = self._tokens(captions)
        vector_NLD = unit_vectors(self.text.words(token_NL, length=real_NL.shape[1]))
        return TokenFeatures(vector_NLD, real_NL)

    @torch.inference_mode()
    def encode_padded(self, captions: Sequence[str], *, length: int) -> TokenFeatures:
        """The same with padding; a longer caption keeps its end token.

        Encoders that leave padding out where they can have zeros there: how much of it they run
        depends on the longest caption of a batch.
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
        """Places after each layer, and the class token where that is read out."""
        return image_layers(self.model.visual, self._placed(pixels))

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens after each layer, and the one that is read out."""
        return self.text.layers(*self._tokens(captions))

    def _tokens(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """At full length on the device, and which are real, up to the longest caption's end."""
        token_NL, real_NL = self.tokenize(captions)
        length = int(real_NL.any(dim=0).nonzero().max()) + 1
        return token_NL.to(self.device), real_NL[:, :length]


def make_transform(preparation: Mapping[str, Any]) -> Callable[[Image], Tensor]:
    """open_clip's own transform for evaluation."""
    package = library().transform
    made: Callable[[Image], Tensor] = package.image_transform_v2(
        package.PreprocessCfg(**preparation), is_train=False
    )
    return made


def in_bytes(whole: Callable[[Image], Tensor]) -> tuple[Callable[[Image], Tensor], Levels] | None:
    """A transform up to its bytes, and what becomes of them; None if it does not end so."""
    parts: Any = import_module("torchvision.transforms")
    steps = getattr(whole, "transforms", [])
    first = parts.Compose([*steps[:-2], parts.PILToTensor()])
    found = levels(whole, first, parts.Compose(steps[-2:]))
    return (first, found) if found else None


def full_preparation(preparation: Mapping[str, Any], size: object) -> dict[str, Any]:
    """Every part, with the size the image encoder wants."""
    default = asdict(library().transform.PreprocessCfg())
    return {**default, "size": size, **preparation}


def preparation_of_config(said: Mapping[str, Any]) -> dict[str, Any]:
    """What an open_clip_config.json says; open_clip's default for the rest."""
    found = said.get("preprocess_cfg") or {}
    return {key: found[key] for key in (*PARTS, "fill_color") if found.get(key) is not None}


def usual_preparation(arch: str) -> dict[str, Any]:
    """What all published weights of an architecture have; nothing (the default) if they differ."""
    tags = library().list_pretrained_tags_by_model(arch)
    known = [library().get_pretrained_cfg(arch, tag) for tag in tags]
    found = [{key: one[key] for key in PARTS if key in one} for one in known]
    return found[0] if found and all(one == found[0] for one in found) else {}


def note_on_preparation(arch: str) -> str:
    """Said where this is not what open_clip takes for a bare file (SigLIP, CLIPA, MobileCLIP)."""
    found = usual_preparation(arch)
    default = asdict(library().transform.PreprocessCfg())
    if all(default[key] == value for key, value in found.items()):
        return ""
    return (
        f"{arch}: images are prepared as for all published weights of {arch} "
        f"({', '.join(f'{key} {value}' for key, value in found.items())}); open_clip itself takes "
        "the preparation of OpenAI's weights for a bare file"
    )
