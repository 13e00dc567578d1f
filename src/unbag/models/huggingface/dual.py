"""Dual encoders of transformers (CLIP, SigLIP, ALIGN and the like) in the interface of unbag.

`KINDS` says for each family where its vectors are read and which way patches and tokens take into
the joint space.

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
from unbag.models.layers import blocks_of, laid_out, of_maps, recorded, unit_vectors
from unbag.models.weights import fingerprint, seeded
from unbag.types import Layers, TokenFeatures

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    Project = Callable[[Any, Any], Tensor]
    """Model and hidden states [N, L, hidden] to the joint space [N, L, D]."""

_VERSION = "hf-dual-2"
"""Raise it whenever the code here changes a number."""
_PLAIN = ("pixel_values",)
_PACKED = ("pixel_values", "pixel_attention_mask", "spatial_shapes")
"""SigLIP 2 NaFlex: patches of any grid, padded to a fixed number, with mask and grid."""


class ImageTextModel:
    """What models of transformers share that have an image processor and a tokenizer."""

    name: str
    device: str
    model: Any
    images: ImagePreparation
    captions: Captions

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included."""
        return self.captions.context

    def prepare(self, image: Image) -> Tensor:
        """One image by the model's own image processor."""
        return self.images(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.captions.count(captions)

    def random_init(self, *, name: str, seed: int) -> Self:
        """The same architecture, and weights as its class begins."""
        old, made = self.model, cast(Callable[..., Self], type(self))
        with seeded(seed):
            # The class makes its own weights from a config, and may change that config.
            model = type(old)(deepcopy(old.config))
        with catch_warnings():
            # All that is said of captions that run padded was said of the encoder.
            simplefilter("ignore")
            return made(
                model.eval().requires_grad_(False),
                self.captions.tokenizer,
                self.images.processor,
                name=name,
                device=self.device,
                dtype=str(old.dtype).removeprefix("torch."),
            )

    def _image_inputs(self, pixels: Tensor) -> dict[str, Tensor]:
        inputs = self.images.inputs(pixels.to(self.device, non_blocking=True))
        return inputs | {"pixel_values": inputs["pixel_values"].to(self.model.dtype)}

    def _caption_inputs(
        self, captions: Sequence[str], how: Captions | None = None
    ) -> dict[str, Tensor]:
        inputs = (how or self.captions)(captions).items()
        return {name: value.to(self.device, non_blocking=True) for name, value in inputs}


class HfDual(ImageTextModel):
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
        kind = self.kind
        captions = make_captions(
            model.config,
            tokenizer,
            is_padded=kind.is_padded,
            has_mask=kind.has_mask,
            most=kind.most,
        )
        check_end(model.config, tokenizer, kind, name=name)
        self.scale, self.bias = _temperature(model)
        self._ask_image, self._ask_caption = model.get_image_features, model.get_text_features
        # In full precision: a lower one hides a difference, or makes one.
        self.model = model.to(device=device, dtype=torch.float32)
        self.captions = self._exact(captions)
        self.model = model.to(dtype=torch_dtype(dtype))
        self.images = ImagePreparation(image_processor, name=name, device=device)
        self._check_widths()
        said = (plain_config(model.config), self.images.said, self.captions.said, _VERSION)
        self.fingerprint = fingerprint("hf", model.state_dict(), *said)
        if compiles:
            self._ask_image = torch.compile(self._ask_image)
            self._ask_caption = torch.compile(self._ask_caption, dynamic=True)

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """[N, ...] prepared images to unit vectors [N, D]."""
        return unit_vectors(_pooled(self._ask_image(**self._image_inputs(pixels))))

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Captions to unit vectors [N, D]: at their real length where that is exact."""
        return self._embed(captions)

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Patch vectors in the joint space: through the layers that the pooled one goes through.

        For SigLIP, which pools by attention, a patch is pooled as if it were the only one.
        """
        if self.kind.patches is None:
            raise self._no_parts("patches")
        inputs = self._image_inputs(pixels)
        hidden = self.model.vision_model(**inputs).last_hidden_state
        vector_NLD = unit_vectors(self.kind.patches(self.model, hidden))
        mask_NL = inputs.get("pixel_attention_mask")
        if mask_NL is None:
            mask_NL = torch.ones(vector_NLD.shape[:2])
        return TokenFeatures(vector_NLD, mask_NL.bool().cpu())

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Token vectors in the joint space, special ones included; the mask leaves out padding."""
        if self.kind.tokens is None:
            raise self._no_parts("tokens")
        hidden = self.model.text_model(**self._caption_inputs(captions))
        vector_NLD = unit_vectors(self.kind.tokens(self.model, hidden.last_hidden_state))
        return TokenFeatures(vector_NLD, self.captions.real(captions, vector_NLD.shape[1]))

    @torch.inference_mode()
    def encode_padded(self, captions: Sequence[str], *, length: int) -> TokenFeatures:
        """The same at so many places, padding included; a longer caption keeps its end token.

        Padding does not look at padding, as where a tokenizer's mask is given to CLIP. Encoders
        that were trained to look at it run at their full context.
        """
        if self.kind.tokens is None:
            raise self._no_parts("tokens")
        how = self.captions.padded()
        if not self.kind.is_padded:
            how = replace(how, context=min(length, how.context), has_mask=True)
        hidden = self.model.text_model(**self._caption_inputs(captions, how))
        vector_NLD = unit_vectors(
            self.kind.tokens(self.model, hidden.last_hidden_state[:, :length])
        )
        return TokenFeatures(vector_NLD, how.real(captions, vector_NLD.shape[1]))

    @torch.no_grad()
    def image_layers(self, pixels: Tensor) -> Layers:
        """Patches after each layer, and the class token where that is read out.

        SigLIP pools by attention: its last patches are what that is given, its last pooled vector
        is what it gives. Maps of ALIGN are averaged to the grid of the last.
        """
        inputs = self._image_inputs(pixels)
        if self.kind.looks is None:
            raise self._unknown_layers("image", "looks")
        encoder = self.model.vision_model
        found, hidden = states(encoder, inputs)
        if self.kind.looks == "class":
            hidden[-1] = encoder.post_layernorm(found.last_hidden_state)
            return laid_out([one[:, 1:] for one in hidden], [one[:, 0] for one in hidden])
        pooled = [*[None] * (len(hidden) - 1), found.pooler_output]
        vectors = of_maps(hidden) if self.kind.looks == "map" else hidden
        return laid_out(vectors, pooled, inputs.get("pixel_attention_mask"))

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens after each layer, special ones included, and the one that is read out."""
        inputs = self._caption_inputs(captions)
        token_NL = inputs["input_ids"]
        real_NL = self.captions.real(captions, token_NL.shape[1])
        if self.kind.tokens is None:
            raise self._unknown_layers("text", "tokens")
        _, hidden = states(self.model.text_model, inputs)
        # Where each caption's vector is read, as transformers finds it.
        end = self.model.config.text_config.eos_token_id
        if self.kind.pools != "end":
            place = 0 if self.kind.pools == "first" else token_NL.shape[1] - 1
            place_N = torch.full((len(token_NL),), place, device=token_NL.device)
        elif self.kind.pools_at_largest and end == 2:
            place_N = token_NL.argmax(dim=1)
        else:
            place_N = (token_NL == int(end)).int().argmax(dim=1)
        row_N = torch.arange(len(place_N), device=place_N.device)
        return laid_out(hidden, [one[row_N, place_N] for one in hidden], real_NL)

    def _embed(self, captions: Sequence[str], how: Captions | None = None) -> Tensor:
        return unit_vectors(_pooled(self._ask_caption(**self._caption_inputs(captions, how))))

    @torch.inference_mode()
    def _exact(self, captions: Captions) -> Captions:
        """Real lengths only if they give the vectors of the full context; tried, not believed."""
        if captions.is_padded:
            if self.kind is UNKNOWN:
                warn(self._runs_padded(captions, "is a kind not known here"), stacklevel=4)
            return captions
        tried = ["a red cube", "a"]
        short, full = (self._embed(tried, how) for how in (captions, captions.padded()))
        is_exact = (short - full).abs().max() < 1e-5
        if not is_exact:
            warn(self._runs_padded(captions, "gives other vectors without padding"), stacklevel=4)
        return captions if is_exact else captions.padded()

    def _runs_padded(self, captions: Captions, why: str) -> str:
        return (
            f"{self.name}: the text encoder {why}, so captions run at {captions.context} tokens, "
            "which is right but slow"
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

    def _no_parts(self, what: str) -> UnbagError:
        return UnbagError(
            f"{self.name}: {what} of a {self.model_type!r} have no place in the joint space",
            expected=f"one of {_known_by(what)}",
        )

    def _unknown_layers(self, what: str, by: str) -> UnbagError:
        return UnbagError(
            f"layers of the {what} encoder of a {self.model_type!r} are not known",
            expected=f"one of {_known_by(by)}",
            hint=f"use the {what} vector",
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


def check_end(config: Any, tokenizer: Any, kind: ModelFamily, *, name: str) -> None:
    """The end token that the tokenizer writes is the one that the model pools at.

    If it is not, transformers takes the first token's vector, which is the same for all captions.
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
            hint="set eos_token_id of text_config in config.json, or mend the tokenizer",
        )


class ImagePreparation:
    """An image processor that prepares one image at a time, always to the same shape."""

    def __init__(self, processor: Any, *, name: str, device: str = "cpu") -> None:
        """Try two shapes of image: batches need one shape of pixels."""
        from PIL import Image

        self.processor = processor
        self._levels: Levels | None = None
        names = set(processor(images=Image.new("RGB", (4, 4)), return_tensors="pt"))
        if names not in (set(_PLAIN), set(_PACKED)):
            raise UnbagError(
                f"{name}: its image processor gives {', '.join(sorted(names))}",
                expected=f"pixel_values alone, or what SigLIP 2 takes: {', '.join(_PACKED)}",
                hint="this kind of model is not supported; docs/extending.md: bring your own",
            )
        self.is_packed = names == set(_PACKED)
        shapes = [tuple(self(Image.new("RGB", size)).shape) for size in ((40, 30), (30, 40))]
        if shapes[0] != shapes[1]:
            raise UnbagError(
                f"{name}: its image processor gives pixels of shape {shapes[0]} for a wide image "
                f"and {shapes[1]} for a high one",
                expected="one shape, so that images can be run together",
                hint="set a fixed size, or do_center_crop, in preprocessor_config.json",
            )
        if device != "cpu" and not self.is_packed:
            last = partial(self._processed, do_resize=False, do_center_crop=False)
            self._levels = levels(self._processed, self._in_bytes, last)

    def __call__(self, image: Image) -> Tensor:
        """[channels, height, width], in bytes for a device where that is exact.

        Or [L, F + 3], each patch with its mask and the grid.
        """
        if self._levels:
            return self._in_bytes(image)
        if not self.is_packed:
            return self._processed(image)
        found = self.processor(images=image, return_tensors="pt")
        value_LF, mask_L, grid = (found[name][0] for name in _PACKED)
        last_L3 = torch.cat([mask_L[:, None], grid.expand(len(mask_L), 2)], dim=1)
        return torch.cat([value_LF, last_L3.to(value_LF.dtype)], dim=1)

    def _processed(self, image: Image, **steps: bool) -> Tensor:
        found: Tensor = self.processor(images=image, return_tensors="pt", **steps)["pixel_values"]
        return found[0]

    def _in_bytes(self, image: Image) -> Tensor:
        return self._processed(image, do_rescale=False, do_normalize=False)

    def inputs(self, pixels: Tensor) -> dict[str, Tensor]:
        """Arguments of the image encoder by name, from stacked prepared images."""
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
        """A prepared image, to try a model on."""
        from PIL import Image

        return self(Image.new("RGB", (40, 30), (90, 120, 150)))

    @property
    def said(self) -> str:
        """All that decides a pixel, for the fingerprint."""
        return f"{type(self.processor).__name__} {self.processor.to_json_string()}"


def states(encoder: Any, inputs: Mapping[str, Tensor]) -> tuple[Any, list[Tensor]]:
    """What an encoder gives; what enters its first block, leaves each, and its last hidden state.

    Read by hooks rather than `output_hidden_states`, whose last entry stands before the final norm
    in some models and behind it in others, from version to version.
    """
    # AltCLIP's text encoder is one of RoBERTa with a norm and a linear layer on top.
    blocks = blocks_of(getattr(encoder, "roberta", encoder))
    found, hidden = recorded(blocks, lambda: encoder(**inputs))
    return found, [*hidden, found.last_hidden_state]


@dataclass(frozen=True)
class ModelFamily:
    """What a family of models has in common."""

    pools: Literal["end", "first", "last"]
    """The token whose vector is the caption's: the end token, the first, or the last position,
    padding included."""
    is_padded: bool = False
    """Captions must run at the full context; else they run at their real length."""
    has_mask: bool = True
    most: int | None = None
    """Tokens it was trained on, where config and tokenizer say more."""
    pools_at_largest: bool = False
    """With end token 2 in its config, pools at the largest token number instead: configs of CLIP
    said 2 by mistake for long, and transformers keeps to that."""
    looks: Literal["class", "attention", "map"] | None = None
    """What the image encoder pools with, where its layers are known: a class token, attention
    over patches, or the mean of a map."""
    patches: Project | None = None
    tokens: Project | None = None


def _siglip_patches(model: Any, hidden: Any) -> Tensor:
    """SigLIP pools by attention. A patch goes through that head alone.

    It gets the vector that the image would have if this were its only patch.
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
"""Trained on 64 tokens without a mask and pooled at the last, which mostly is padding."""
_BERT = ModelFamily(
    "first",
    looks="class",
    patches=lambda model, hidden: model.visual_projection(
        model.vision_model.post_layernorm(hidden[:, 1:])
    ),
    tokens=lambda model, hidden: model.text_projection(hidden),
)
"""CLIP's image encoder beside a text encoder like BERT."""
_CLIP = replace(_BERT, pools="end", has_mask=False)
"""Causal and pooled at the first end token, so padding on the right cannot matter. With a mask
transformers asks the device at every pass whether anything is masked."""
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


def _known_by(field: str) -> str:
    return ", ".join(sorted(name for name, kind in KINDS.items() if getattr(kind, field)))


UNKNOWN = ModelFamily("last", is_padded=True)
"""A dual encoder of a family not listed: the full context is right, whatever it pools."""
EXCLUDED = frozenset({"blip", "blip-2", "clipseg", "flava", "owlvit", "owlv2"})
"""Kinds with both methods of a dual encoder whose vectors are not meant for scoring a caption."""
