"""Dual encoders of transformers (CLIP, SigLIP, ALIGN and the like).

`KINDS` defines for each family how it pools and how patches and tokens are projected into the joint
space.

Dimensions: N images or captions, L patches or tokens, D joint space, F numbers of a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from warnings import catch_warnings, simplefilter, warn

import torch

from unbag.errors import UnbagError
from unbag.models.batching import Levels, levels
from unbag.models.huggingface.inputs import Captions, make_captions
from unbag.models.huggingface.loading import plain_config, torch_dtype
from unbag.models.layers import blocks_of, flatten_maps, make_layers, record_blocks, unit_vectors
from unbag.models.weights import fingerprint, seeded
from unbag.types import Layers, TokenFeatures

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    Project = Callable[[Any, Any], Tensor]
    """Projects hidden states [N, L, hidden] of a model into the joint space [N, L, D]."""

_VERSION = "hf-dual-2"
"""Part of the fingerprint: increase it whenever a change here alters a result."""
_PLAIN = ("pixel_values",)
_PACKED = ("pixel_values", "pixel_attention_mask", "spatial_shapes")
"""SigLIP 2 NaFlex: patches of any grid, padded to a fixed number, with mask and grid."""


class ImageTextModel:
    """Base class of models of transformers with an image processor and a tokenizer."""

    name: str
    device: str
    model: Any
    images: ImagePreparation
    captions: Captions

    @property
    def context(self) -> int:
        """Maximum tokens of a caption, special tokens included."""
        return self.captions.context

    def prepare(self, image: Image) -> Tensor:
        """Prepare an image with the image processor of the model."""
        return self.images(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        return self.captions.count(captions)

    def random_init(self, *, name: str, seed: int) -> Self:
        """Return a randomly initialized model of the same architecture."""
        trained, make = self.model, cast(Callable[..., Self], type(self))
        with seeded(seed):
            # Copied, since the class may change its config.
            model = type(trained)(deepcopy(trained.config))
        with catch_warnings():
            # The warnings about padded captions were already given for the trained model.
            simplefilter("ignore")
            return make(
                model.eval().requires_grad_(False),
                self.captions.tokenizer,
                self.images.processor,
                name=name,
                device=self.device,
                dtype=str(trained.dtype).removeprefix("torch."),
            )

    def _image_inputs(self, pixels: Tensor) -> dict[str, Tensor]:
        inputs = self.images.inputs(pixels.to(self.device, non_blocking=True))
        return inputs | {"pixel_values": inputs["pixel_values"].to(self.model.dtype)}

    def _caption_inputs(
        self, captions: Sequence[str], tokenize: Captions | None = None
    ) -> dict[str, Tensor]:
        inputs = (tokenize or self.captions)(captions).items()
        return {name: value.to(self.device, non_blocking=True) for name, value in inputs}


class HfDual(ImageTextModel):
    """CLIP, SigLIP, ALIGN and the like. Vectors are normalized results of `get_*_features`."""

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
        """Wrap a loaded model and set its precision."""
        self.name = name
        self.device = device
        self.model_type = str(model.config.model_type)
        self.kind = KINDS.get(self.model_type, UNKNOWN)
        kind = self.kind
        captions = make_captions(
            model.config,
            tokenizer,
            is_padded=kind.is_padded,
            has_mask=kind.has_mask,
            most=kind.most,
        )
        check_end_token(model.config, tokenizer, kind, name=name)
        self.scale, self.bias = _temperature(model)
        self._ask_image, self._ask_caption = model.get_image_features, model.get_text_features
        # In full precision, since a lower one may hide or cause a difference.
        self.model = model.to(device=device, dtype=torch.float32)
        self.captions = self._check_padding(captions)
        self.model = model.to(dtype=torch_dtype(dtype))
        self.images = ImagePreparation(image_processor, name=name, device=device)
        self._check_widths()
        settings = (
            plain_config(model.config),
            self.images.settings,
            self.captions.settings,
            _VERSION,
        )
        self.fingerprint = fingerprint("hf", model.state_dict(), *settings)
        if compiles:
            self._ask_image = torch.compile(self._ask_image)
            self._ask_caption = torch.compile(self._ask_caption, dynamic=True)

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Encode prepared images [N, ...] to unit vectors [N, D]."""
        return unit_vectors(_pooled(self._ask_image(**self._image_inputs(pixels))))

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Encode captions to unit vectors [N, D], at their real length if that is exact."""
        return self._embed(captions)

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Project patches into the joint space by the layers of the pooled vector.

        For SigLIP, which pools by attention, each patch is pooled as if it were the only one.
        """
        if self.kind.patches is None:
            raise self._no_tokens_error("patches")
        inputs = self._image_inputs(pixels)
        hidden = self.model.vision_model(**inputs).last_hidden_state
        vector_NLD = unit_vectors(self.kind.patches(self.model, hidden))
        mask_NL = inputs.get("pixel_attention_mask")
        if mask_NL is None:
            mask_NL = torch.ones(vector_NLD.shape[:2])
        return TokenFeatures(vector_NLD, mask_NL.bool().cpu())

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Encode tokens in the joint space, special tokens included; the mask excludes padding."""
        if self.kind.tokens is None:
            raise self._no_tokens_error("tokens")
        hidden = self.model.text_model(**self._caption_inputs(captions))
        vector_NLD = unit_vectors(self.kind.tokens(self.model, hidden.last_hidden_state))
        return TokenFeatures(vector_NLD, self.captions.real(captions, vector_NLD.shape[1]))

    @torch.inference_mode()
    def encode_padded(self, captions: Sequence[str], *, length: int) -> TokenFeatures:
        """Encode `length` tokens, padding included; a longer caption keeps its end token.

        Padding is masked, as when the tokenizer's mask is passed to CLIP. Encoders that were
        trained to attend to padding run at their full context.
        """
        if self.kind.tokens is None:
            raise self._no_tokens_error("tokens")
        tokenize = self.captions.padded()
        if not self.kind.is_padded:
            tokenize = replace(tokenize, context=min(length, tokenize.context), has_mask=True)
        hidden = self.model.text_model(**self._caption_inputs(captions, tokenize))
        vector_NLD = unit_vectors(
            self.kind.tokens(self.model, hidden.last_hidden_state[:, :length])
        )
        return TokenFeatures(vector_NLD, tokenize.real(captions, vector_NLD.shape[1]))

    @torch.no_grad()
    def image_layers(self, pixels: Tensor) -> Layers:
        """Return patches and, if it is pooled, the class token of each layer.

        SigLIP pools by attention: its last patches are the input and its last pooled vector is the
        output of that attention. Maps of ALIGN are averaged to the grid of the last.
        """
        inputs = self._image_inputs(pixels)
        if self.kind.looks is None:
            raise self._unknown_layers_error("image", "looks")
        encoder = self.model.vision_model
        output, hidden = states(encoder, inputs)
        if self.kind.looks == "class":
            hidden[-1] = encoder.post_layernorm(output.last_hidden_state)
            return make_layers(
                [layer[:, 1:] for layer in hidden], [layer[:, 0] for layer in hidden]
            )
        pooled = [*[None] * (len(hidden) - 1), output.pooler_output]
        vectors = flatten_maps(hidden) if self.kind.looks == "map" else hidden
        return make_layers(vectors, pooled, inputs.get("pixel_attention_mask"))

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Return the tokens and the pooled token of each layer."""
        inputs = self._caption_inputs(captions)
        token_NL = inputs["input_ids"]
        real_NL = self.captions.real(captions, token_NL.shape[1])
        if self.kind.tokens is None:
            raise self._unknown_layers_error("text", "tokens")
        _, hidden = states(self.model.text_model, inputs)
        # Index of the pooled token of each caption, as in transformers.
        end = self.model.config.text_config.eos_token_id
        if self.kind.pools != "end":
            index = 0 if self.kind.pools == "first" else token_NL.shape[1] - 1
            index_N = torch.full((len(token_NL),), index, device=token_NL.device)
        elif self.kind.pools_at_largest and end == 2:
            index_N = token_NL.argmax(dim=1)
        else:
            index_N = (token_NL == int(end)).int().argmax(dim=1)
        row_N = torch.arange(len(index_N), device=index_N.device)
        return make_layers(hidden, [layer[row_N, index_N] for layer in hidden], real_NL)

    def _embed(self, captions: Sequence[str], tokenize: Captions | None = None) -> Tensor:
        return unit_vectors(_pooled(self._ask_caption(**self._caption_inputs(captions, tokenize))))

    @torch.inference_mode()
    def _check_padding(self, captions: Captions) -> Captions:
        """Pad to the full context unless real lengths give the same vectors in a test."""
        if captions.is_padded:
            if self.kind is UNKNOWN:
                warn(self._padding_warning(captions, "is of an unknown kind"), stacklevel=4)
            return captions
        texts = ["a red cube", "a"]
        short, full = (self._embed(texts, tokenize) for tokenize in (captions, captions.padded()))
        is_exact = (short - full).abs().max() < 1e-5
        if not is_exact:
            warn(
                self._padding_warning(captions, "gives other vectors without padding"), stacklevel=4
            )
        return captions if is_exact else captions.padded()

    def _padding_warning(self, captions: Captions, reason: str) -> str:
        return (
            f"{self.name}: the text encoder {reason}, so captions are padded to {captions.context} "
            "tokens, which is correct but slow"
        )

    def _check_widths(self) -> None:
        image_D = self.encode_images(self.images.example()[None]).shape[1:]
        caption_D = self.encode_texts(["a"]).shape[1:]
        if image_D != caption_D or len(image_D) != 1:
            raise UnbagError(
                f"{self.name}: vectors of shape {tuple(image_D)} for an image and "
                f"{tuple(caption_D)} for a caption",
                expected="one vector each, of the same width",
                hint="this kind of model cannot be scored by cosine",
            )

    def _no_tokens_error(self, what: str) -> UnbagError:
        return UnbagError(
            f"{self.name}: {what} of a {self.model_type!r} have no place in the joint space",
            expected=f"one of {_families_with(what)}",
        )

    def _unknown_layers_error(self, what: str, field: str) -> UnbagError:
        return UnbagError(
            f"layers of the {what} encoder of a {self.model_type!r} are not known",
            expected=f"one of {_families_with(field)}",
            hint=f"use the {what} vector",
        )


def _temperature(model: Any) -> tuple[float, float]:
    """Return scale and bias of the loss, before the precision is lowered."""
    if hasattr(model, "temperature"):
        return 1.0 / float(model.temperature), 0.0
    scale = getattr(model, "logit_scale", None)
    bias = getattr(model, "logit_bias", None)
    return (
        1.0 if scale is None else float(scale.float().exp()),
        0.0 if bias is None else float(bias),
    )


def _pooled(output: Any) -> Tensor:
    """Return the vectors: the output in version 4 of transformers, a part of it in version 5."""
    pooled: Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return pooled


def check_end_token(config: Any, tokenizer: Any, kind: ModelFamily, *, name: str) -> None:
    """Raise UnbagError unless the model pools at the end token of the tokenizer.

    Otherwise transformers would pool the first token, which is the same for all captions.
    """
    if kind.pools != "end":
        return
    end = config.text_config.eos_token_id
    written = int(tokenizer("a")["input_ids"][-1])
    if kind.pools_at_largest and end == 2:
        end = max(tokenizer.get_vocab().values())
    if written != end:
        raise UnbagError(
            f"{name}: the tokenizer ends a caption with token {written}, and the model looks for "
            f"{end}",
            expected="one end token; all captions would get the same vector",
            hint="set eos_token_id of text_config in config.json, or correct the tokenizer",
        )


class ImagePreparation:
    """An image processor that prepares single images to one shape."""

    def __init__(self, processor: Any, *, name: str, device: str = "cpu") -> None:
        """Wrap a processor and check that it gives one shape for all images."""
        from PIL import Image

        self.processor = processor
        self._levels: Levels | None = None
        names = set(processor(images=Image.new("RGB", (4, 4)), return_tensors="pt"))
        if names not in (set(_PLAIN), set(_PACKED)):
            raise UnbagError(
                f"{name}: its image processor gives {', '.join(sorted(names))}",
                expected=f"pixel_values alone, or the inputs of SigLIP 2: {', '.join(_PACKED)}",
                hint="docs/how-to/extend.md shows how to add a model of another kind",
            )
        self.is_packed = names == set(_PACKED)
        shapes = [tuple(self(Image.new("RGB", size)).shape) for size in ((40, 30), (30, 40))]
        if shapes[0] != shapes[1]:
            raise UnbagError(
                f"{name}: its image processor gives pixels of shape {shapes[0]} for a wide image "
                f"and {shapes[1]} for a tall one",
                expected="one shape, so that images can be batched",
                hint="set a fixed size, or do_center_crop, in preprocessor_config.json",
            )
        if device != "cpu" and not self.is_packed:
            last = partial(self._processed, do_resize=False, do_center_crop=False)
            self._levels = levels(self._processed, self._in_bytes, last)

    def __call__(self, image: Image) -> Tensor:
        """Prepare an image to [channels, height, width], in bytes if the device converts them.

        For SigLIP 2 to [L, F + 3], each patch with its mask and the grid.
        """
        if self._levels:
            return self._in_bytes(image)
        if not self.is_packed:
            return self._processed(image)
        inputs = self.processor(images=image, return_tensors="pt")
        value_LF, mask_L, grid = (inputs[name][0] for name in _PACKED)
        last_L3 = torch.cat([mask_L[:, None], grid.expand(len(mask_L), 2)], dim=1)
        return torch.cat([value_LF, last_L3.to(value_LF.dtype)], dim=1)

    def _processed(self, image: Image, **steps: bool) -> Tensor:
        pixels: Tensor = self.processor(images=image, return_tensors="pt", **steps)["pixel_values"]
        return pixels[0]

    def _in_bytes(self, image: Image) -> Tensor:
        return self._processed(image, do_rescale=False, do_normalize=False)

    def inputs(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return the arguments of the image encoder for stacked prepared images."""
        if self._levels and pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        if not self.is_packed:
            return {"pixel_values": pixels}
        return {
            "pixel_values": pixels[..., :-3],
            "pixel_attention_mask": pixels[..., -3].long(),
            "spatial_shapes": pixels[:, 0, -2:].long(),
        }

    def example(self) -> Tensor:
        """Return a prepared test image."""
        from PIL import Image

        return self(Image.new("RGB", (40, 30), (90, 120, 150)))

    @property
    def settings(self) -> str:
        """All that decides pixels, for the fingerprint."""
        return f"{type(self.processor).__name__} {self.processor.to_json_string()}"


def states(encoder: Any, inputs: Mapping[str, Tensor]) -> tuple[Any, list[Tensor]]:
    """Return the output of an encoder, and its input, the outputs of blocks and the last state.

    Uses hooks rather than `output_hidden_states`, whose last entry is before or after the final
    norm depending on the model and version.
    """
    # AltCLIP's text encoder is a RoBERTa with a norm and a linear layer on top.
    blocks = blocks_of(getattr(encoder, "roberta", encoder))
    output, hidden = record_blocks(blocks, lambda: encoder(**inputs))
    return output, [*hidden, output.last_hidden_state]


@dataclass(frozen=True)
class ModelFamily:
    """Properties of a family of models."""

    pools: Literal["end", "first", "last"]
    """The pooled token of a caption: the end token, the first, or the last position, padding
    included."""
    is_padded: bool = False
    """Whether captions must be padded to the full context."""
    has_mask: bool = True
    most: int | None = None
    """Maximum tokens in training, if config and tokenizer state more."""
    pools_at_largest: bool = False
    """Whether end token 2 in the config means pooling at the largest token id: old configs of CLIP
    contain 2 by mistake, and transformers handles them so."""
    looks: Literal["class", "attention", "map"] | None = None
    """How the image encoder pools, if its layers are known: by a class token, by attention over
    patches, or by the mean of a map."""
    patches: Project | None = None
    tokens: Project | None = None


def _siglip_patches(model: Any, hidden: Any) -> Tensor:
    """Pool each patch of SigLIP alone by its attention head.

    The result is the vector of an image with only this patch.
    """
    shape = hidden.shape
    pooled: Tensor = model.vision_model.head(hidden.reshape(shape[0] * shape[1], 1, shape[2]))
    return pooled.reshape(shape[0], shape[1], -1)


_SIGLIP = ModelFamily(
    "last",
    True,
    has_mask=False,
    looks="attention",
    patches=_siglip_patches,
    tokens=lambda model, hidden: model.text_model.head(hidden),
)
"""Trained on 64 tokens without a mask; the pooled last token is mostly padding."""
_BERT = ModelFamily(
    "first",
    looks="class",
    patches=lambda model, hidden: model.visual_projection(
        model.vision_model.post_layernorm(hidden[:, 1:])
    ),
    tokens=lambda model, hidden: model.text_projection(hidden),
)
"""CLIP's image encoder with a text encoder like BERT."""
_CLIP = replace(_BERT, pools="end", has_mask=False)
"""Causal and pooled at the first end token, so padding on the right has no effect. A mask would
make transformers synchronize with the device in every pass."""
KINDS: Mapping[str, ModelFamily] = {
    "clip": replace(_CLIP, pools_at_largest=True),
    "metaclip_2": _CLIP,
    "groupvit": ModelFamily("end", pools_at_largest=True),
    "aimv2": ModelFamily("end"),
    "chinese_clip": _BERT,
    "altclip": _BERT,
    # Its image vector is the mean of its last map, [N, D, height, width].
    "align": replace(
        _BERT,
        most=64,
        looks="map",
        patches=lambda model, hidden: hidden.flatten(2).transpose(1, 2),
    ),
    "vision-text-dual-encoder": ModelFamily("first"),
    "siglip": _SIGLIP,
    "siglip2": _SIGLIP,
}


def _families_with(field: str) -> str:
    return ", ".join(sorted(name for name, kind in KINDS.items() if getattr(kind, field)))


UNKNOWN = ModelFamily("last", is_padded=True)
"""A family that is not listed: padding to the full context is always correct."""
EXCLUDED = frozenset({"blip", "blip-2", "clipseg", "flava", "owlvit", "owlv2"})
"""Kinds with the methods of a dual encoder whose vectors do not score captions."""
