"""The trainable encoders of each kind of loaded model: `make_trainable`.

Dimensions: N images or captions, L tokens, E width of the text part, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.batching import Levels
from unbag.models.huggingface.dual import HfDual, ImagePreparation
from unbag.models.joined import Changed, JoinedEncoder, module_of
from unbag.models.layers import unit_rows
from unbag.models.open_clip.encoder import OpenClip, in_bytes
from unbag.models.open_clip.text import Masked, Native, TextNetwork, Unknown, text_network
from unbag.models.photo import CONTEXT, Photo, PhotoHeads, squeezed
from unbag.models.text_encoders import CaptionReads, TextPart
from unbag.models.tiny import Tiny, WordTokenizer
from unbag.models.weights import fingerprint
from unbag.training.encoders.base import (
    CAPTIONS,
    Layers,
    Part,
    Reads,
    Trainable,
    encoder_layers,
    freeze_unused,
    weights_of,
)
from unbag.training.encoders.lora import merged

if TYPE_CHECKING:
    from PIL.Image import Image

    from unbag.models.open_clip.text import Tokenizer
    from unbag.models.photo import PhotoNetwork
    from unbag.models.tiny import TinyNetwork
    from unbag.training.data.batch import Inputs
    from unbag.types import DualEncoder


_HF_ENCODERS = ("vision_model", "text_model")
_HF_PROJECTIONS = ("visual_projection", "text_projection")
_OPEN_CLIP_TEMPERATURE = ("logit_scale", "logit_bias")


def make_trainable(encoder: object, *, device: str) -> Trainable:
    """Make a trainable copy in float32, with every weight trainable; the encoder is not changed."""
    if isinstance(encoder, Tiny):
        return TinyTrainable(encoder, device=device)
    if isinstance(encoder, OpenClip):
        return OpenClipTrainable(encoder, device=device)
    if isinstance(encoder, HfDual):
        return HfTrainable(encoder, device=device)
    if isinstance(encoder, Photo | PhotoHeads):
        return PhotoTrainable(encoder, device=device)
    if isinstance(encoder, JoinedEncoder):
        images = make_trainable(encoder.image, device=device)
        return JoinedTrainable(encoder, images, device=device)
    raise UnbagError(
        f"{getattr(encoder, 'name', type(encoder).__name__)} cannot be trained: it is no dual "
        "encoder of a known library",
        expected="tiny:..., photo:..., open_clip:..., or a dual encoder of hf:... (CLIP, SigLIP, "
        "ALIGN ...)",
        hint="`unbag list models` shows what each name is",
    )


class PlainReads:
    """Image preparation and tokenizer of an encoder."""

    def __init__(self, prepare: Callable[[Image], Tensor], captions: CaptionReads) -> None:
        """Use those of the encoder, without weights."""
        self._prepare, self._captions = prepare, captions

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out cached tokens: every worker has its own cache."""
        return PlainReads, (self._prepare, self._captions.fresh())

    def prepare(self, image: Image) -> Tensor:
        """Prepare an image, as bytes for a GPU where that is exact."""
        return self._prepare(image)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Return the arguments of the text encoder, padded as the model needs."""
        return self._captions(captions)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the number of tokens before truncation, special ones included."""
        return self._captions.count(captions) if captions else []


class TinyTrainable:
    """The encoders of `unbag.models.tiny`; images are bytes or numbers from -1 to 1."""

    def __init__(self, encoder: Tiny, *, device: str) -> None:
        """Copy the networks of an encoder, which is not changed."""
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: TinyNetwork = deepcopy(encoder.network).to(device).train().requires_grad_(True)
        self.image_layers = encoder_layers(self.module.picture)
        self.text_layers = encoder_layers(self.module.caption)
        self.temperature = (self.module.log_scale,)
        config = encoder.config
        self.reads = TinyReads(side=config.pixels, words=config.words, context=config.context)
        self._device = device
        self._levels = Levels(_tiny_pixels)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Embed images [N, 3, H, W] as unit vectors [N, D]."""
        if pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        return unit_rows(self.module.picture(pixels)[:, 0])

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Embed token ids as unit vectors [N, D], read at the end token."""
        token_NL, end_N = inputs["token_NL"], inputs["end_N"]
        row_N = torch.arange(len(token_NL), device=token_NL.device)
        return unit_rows(self.module.caption(token_NL)[row_N, end_N])

    def encoder(self, name: str) -> Tiny:
        """Return a copy of the current weights as an encoder with their fingerprint."""
        return Tiny(merged(self.module), name=name, device=self._device)


class TinyReads:
    """Prepares images as bytes, and captions as words with the position of the end token."""

    def __init__(self, *, side: int, words: Sequence[str], context: int) -> None:
        """Take the image size in pixels, the vocabulary without special tokens and the context."""
        self._side = side
        self._split = WordTokenizer(words, context=context)

    def prepare(self, image: Image) -> Tensor:
        """Return the bytes [3, H, W] of an RGB image, a quarter of the size of floats."""
        if image.size != (self._side, self._side):
            from PIL.Image import Resampling

            image = image.resize((self._side, self._side), Resampling.BICUBIC)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Return token ids [N, L] padded to the longest, and the position of each end token."""
        token_NL, end_N = self._split(captions)
        return {"token_NL": torch.from_numpy(token_NL), "end_N": torch.from_numpy(end_N)}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the number of words of each caption plus the end token."""
        return [len(self._split.split(caption)) for caption in captions]


def _tiny_pixels(image: Image) -> Tensor:
    """Scale an image as `Tiny.prepare` does."""
    pixels = np.asarray(image, dtype=np.float32) / 127.5 - 1.0
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


class OpenClipTrainable:
    """Any dual encoder of open_clip, with captions at their real length where that is exact."""

    def __init__(self, encoder: OpenClip, *, device: str) -> None:
        """Copy the model of an encoder, which is not changed."""
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: Any = deepcopy(encoder.model).to(device=device, dtype=torch.float32)
        self.module.train().requires_grad_(True)
        self._text = _text_network_of(encoder.text, self.module)
        self._shell = _without_weights(encoder, device=device)
        self._levels = deepcopy(self._shell._levels)
        can_cut = isinstance(self._text, Native | Masked) and not self._text.whole_because
        self.reads = OpenClipReads(self._shell._prepare, encoder.tokenize, is_cut=can_cut)
        temperature = [getattr(self.module, name, None) for name in _OPEN_CLIP_TEMPERATURE]
        self.temperature = tuple(weight for weight in temperature if weight is not None)
        self.image_layers = encoder_layers(self.module.visual)
        self.text_layers = _open_clip_caption_layers(self.module)
        freeze_unused(self, device=device)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Embed pixels or bytes as unit vectors [N, D]."""
        if self._levels and pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        output = self.module.visual(pixels)
        return unit_rows(output[0] if isinstance(output, tuple) else output)

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Embed token ids as unit vectors [N, D]."""
        token_NL = inputs["token_NL"]
        if isinstance(self._text, Native):
            return unit_rows(self._text.pooled_as_given(token_NL))
        return unit_rows(self._text.pooled(token_NL))

    def encoder(self, name: str) -> OpenClip:
        """Return a copy of the current weights as an encoder with their fingerprint."""
        model: Any = merged(self.module).eval().requires_grad_(False)
        encoder = copy(self._shell)
        encoder.model, encoder.text = model, _text_network_of(self._text, model)
        encoder.name = name
        encoder.fingerprint = fingerprint("trained", model.state_dict(), self.fingerprint)
        encoder.scale = float(model.logit_scale.exp())
        encoder.bias = 0.0 if len(self.temperature) == 1 else float(model.logit_bias)
        return encoder


class OpenClipReads:
    """open_clip's transform for evaluation and a tokenizer."""

    def __init__(
        self, prepare: Callable[[Image], Tensor], tokenizer: Tokenizer, *, is_cut: bool
    ) -> None:
        """Take the preparation; `is_cut` if captions run at their real length."""
        self._prepare = prepare
        self._tokenizer = tokenizer
        self._is_cut = is_cut

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out cached tokens: every worker has its own cache."""
        kind: Any = type(self._tokenizer)
        inner = getattr(self._tokenizer, "inner", None)
        return _open_clip_reads, (self._prepare, kind, inner, self._is_cut)

    def prepare(self, image: Image) -> Tensor:
        """Prepare an image, as bytes for a GPU where that is exact."""
        return self._prepare(image)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Return token ids [N, L], cut after the longest caption where padding has no effect."""
        token_NL, real_NL = self._tokenizer(captions)
        if self._is_cut:
            token_NL = token_NL[:, : int(real_NL.any(dim=0).nonzero().max()) + 1].contiguous()
        return {"token_NL": token_NL}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the number of tokens before truncation, special ones included."""
        return self._tokenizer.count(captions)


def _open_clip_reads(
    prepare: Callable[[Image], Tensor], kind: Callable[[Any], Tokenizer], inner: Any, is_cut: bool
) -> OpenClipReads:
    return OpenClipReads(prepare, kind(inner), is_cut=is_cut)


def _text_network_of(known: TextNetwork, model: Any) -> TextNetwork:
    """Return a text network of the same kind, which evaluation found exact, for other weights."""
    return (
        Unknown(model, known.whole_because) if isinstance(known, Unknown) else text_network(model)
    )


def _without_weights(encoder: OpenClip, *, device: str) -> OpenClip:
    """Return a copy of an encoder for this device, without weights."""
    shell = copy(encoder)
    shell.model, shell.device, shell.dtype = None, device, torch.float32
    shell.text = Unknown(None, encoder.text.whole_because)
    if device != "cpu" and shell._levels is None and (parts := in_bytes(shell._prepare)):
        shell._prepare, shell._levels = parts
    return shell


def _open_clip_caption_layers(model: Any) -> Any:
    """Return the layers of the text encoder: the model itself in CLIP, `text` in CustomTextCLIP.

    Modules of neither encoder, such as the decoder of CoCa, belong to the last layer.
    """
    text = getattr(model, "text", None)
    if text is None:
        return encoder_layers(model, without=("visual", *_OPEN_CLIP_TEMPERATURE))
    rest = [part for name, part in model.named_children() if name not in ("visual", "text")]
    return encoder_layers(text, then=rest)


class HfTrainable:
    """CLIP, SigLIP, ALIGN and the like, by their `get_*_features`."""

    def __init__(self, encoder: HfDual, *, device: str) -> None:
        """Copy the model of an encoder, which is not changed."""
        _check_encoders(encoder)
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: Any = deepcopy(encoder.model).to(device=device, dtype=torch.float32)
        self.module.train().requires_grad_(True)
        self._inverse = hasattr(self.module, "temperature")
        if self._inverse:
            # ALIGN divides by a temperature; training uses the logarithm of the scale.
            value = self.module.temperature.detach()
            del self.module.temperature
            self.module.log_scale = nn.Parameter(-value.log())
        names = ("log_scale",) if self._inverse else ("logit_scale", "logit_bias")
        temperature = [getattr(self.module, name, None) for name in names]
        self.temperature = tuple(weight for weight in temperature if weight is not None)
        self.image_layers, self.text_layers = _hf_layers(self.module, names)
        # Two preparations: one holds tensors on the device, the other goes to workers.
        self._images, worker_images = (
            ImagePreparation(encoder.images.processor, name=self.name, device=device)
            for _ in range(2)
        )
        self.reads = PlainReads(worker_images, encoder.captions.fresh())
        self._shell = copy(encoder)
        self._shell.model = self._shell._ask_image = self._shell._ask_caption = None
        self._shell.images, self._shell.device = self._images, device
        freeze_unused(self, device=device)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Embed pixels or bytes as unit vectors [N, D]."""
        return _unit_vectors(self.module.get_image_features(**dict(self._images.inputs(pixels))))

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Embed token ids, with a mask if there is one, as unit vectors [N, D]."""
        return _unit_vectors(self.module.get_text_features(**inputs))

    def encoder(self, name: str) -> HfDual:
        """Return a copy of the current weights as an encoder with their fingerprint."""
        model: Any = merged(self.module).eval().requires_grad_(False)
        encoder = copy(self._shell)
        encoder.name = name
        encoder.scale = float(self.temperature[0].detach().exp())
        encoder.bias = float(self.temperature[1].detach()) if len(self.temperature) > 1 else 0.0
        if self._inverse:
            value = model.log_scale.detach()
            del model.log_scale
            model.temperature = nn.Parameter((-value).exp(), requires_grad=False)
        encoder.model = model
        encoder._ask_image, encoder._ask_caption = model.get_image_features, model.get_text_features
        encoder.fingerprint = fingerprint("trained", model.state_dict(), self.fingerprint)
        return encoder


def _unit_vectors(output: Any) -> Tensor:
    """Normalize the output of a model: transformers 4 returns vectors, 5 an object with them."""
    vector_ND = output if isinstance(output, Tensor) else output.pooler_output
    return unit_rows(vector_ND)


def _check_encoders(encoder: HfDual) -> None:
    model = encoder.model
    missing = [
        name for name in _HF_ENCODERS if not isinstance(getattr(model, name, None), nn.Module)
    ]
    if not missing and not (hasattr(model, "logit_scale") or hasattr(model, "temperature")):
        missing = ["logit_scale"]
    if missing:
        raise UnbagError(
            f"{encoder.name} cannot be trained: a {encoder.model_type!r} has no {missing[0]}",
            expected="two encoders and a temperature, as CLIP, SigLIP and ALIGN have them",
        )


def _hf_layers(model: Any, temperature: Sequence[str]) -> tuple[Any, Any]:
    """Return the layers of both encoders with projections; the last text layer has the rest."""
    parts = dict(model.named_children())
    known = (*_HF_ENCODERS, *_HF_PROJECTIONS)
    other_parts: list[Part] = [part for name, part in parts.items() if name not in known]
    weights = model.named_parameters(recurse=False)
    other_parts += [weight for name, weight in weights if name not in temperature]
    image_projection, text_projection = (
        [parts[name]] if name in parts else [] for name in _HF_PROJECTIONS
    )
    return (
        encoder_layers(model.vision_model, then=image_projection),
        encoder_layers(model.text_model, then=[*text_projection, *other_parts]),
    )


class PhotoTrainable:
    """The encoders of `unbag.models.photo`; the last layer of each is its head."""

    def __init__(self, encoder: Photo | PhotoHeads, *, device: str) -> None:
        """Copy the networks of an encoder, which is not changed.

        Heads without parts need cached features: `unbag.training.encoders.cached_features`.
        """
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: PhotoNetwork = (
            deepcopy(encoder.network).to(device).train().requires_grad_(True)
        )
        self.image_layers, self.text_layers = _photo_layers(self.module)
        self.temperature = (self.module.log_scale,)
        has_parts = isinstance(encoder, Photo)
        self.reads: Reads = PhotoReads(encoder.tokenizer) if has_parts else NoReads()
        self._tokenizer = encoder.tokenizer
        self._device = device

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Embed bytes, or pixels from `Photo.prepare`, as unit vectors [N, D]."""
        if pixels.dtype == torch.uint8:
            pixels = (pixels.float() - 127.0) / 128.0
        return unit_rows(self.module.picture(pixels))

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Embed tokens as unit vectors [N, D]."""
        return unit_rows(self.module.caption(inputs["token_NL"], inputs["mask_NL"]))

    def image_head(self, feature_NC: Tensor) -> Tensor:
        """Map features to unit vectors [N, D]."""
        return unit_rows(self.module.picture.head(feature_NC))

    def text_head(self, feature_NC: Tensor) -> Tensor:
        """Map features to unit vectors [N, D]."""
        return unit_rows(self.module.caption.head(feature_NC))

    def encoder(self, name: str) -> Photo:
        """Return a copy of the current weights as an encoder with their fingerprint."""
        if self._tokenizer is None:
            # Heads alone are no encoder; `unbag.models.photo.read` adds the parts.
            raise NotImplementedError(name)
        return Photo(merged(self.module), self._tokenizer, name=name, device=self._device)


class PhotoReads:
    """Prepares images as bytes, and captions as tokens of MiniLM."""

    def __init__(self, tokenizer: Any) -> None:
        """Use the tokenizer of the encoder."""
        self._tokenizer = tokenizer

    def prepare(self, image: Image) -> Tensor:
        """Return the bytes [3, 224, 224] of an RGB image, a quarter of the size of floats."""
        return torch.from_numpy(np.array(squeezed(image))).permute(2, 0, 1).contiguous()

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Return token ids and mask [N, L], padded to the longest."""
        tokens = self._tokenizer(
            list(captions), padding=True, truncation=True, max_length=CONTEXT, return_tensors="pt"
        )
        return {"token_NL": tokens["input_ids"], "mask_NL": tokens["attention_mask"]}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the number of tokens before truncation, special ones included."""
        if not captions:
            return []
        return [len(ids) for ids in self._tokenizer(list(captions), verbose=False)["input_ids"]]


class NoReads:
    """For heads without parts: all features are cached, so nothing is prepared."""

    def prepare(self, image: Image) -> Tensor:
        """Not possible without the image part."""
        raise NotImplementedError

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Not possible without the text part."""
        raise NotImplementedError

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return 1 for each caption: the input is one row of cached features."""
        return [1] * len(captions)


def _photo_layers(network: Any) -> tuple[Layers, Layers]:
    """Return the layers: stem, 16 blocks, last convolution, head; embedding, 6 blocks, head.

    Of heads without parts, the heads only.
    """
    image_part, text_part = network.picture.part, network.caption.part
    image: Layers = ()
    caption: Layers = ()
    if not isinstance(image_part, nn.Identity):
        stem, last = (
            (image_part._conv_stem, image_part._bn0),
            (image_part._conv_head, image_part._bn1),
        )
        image = (stem, *((block,) for block in image_part._blocks), last)
    if not isinstance(text_part, nn.Identity):
        caption = ((text_part.embeddings,), *((block,) for block in text_part.encoder.layer))
    return (*image, (network.picture.head,)), (*caption, (network.caption.head,))


class JoinedTrainable:
    """A joined model; its last text layer is the connector, which freeze.text=part trains alone."""

    def __init__(self, encoder: JoinedEncoder, images: Trainable, *, device: str) -> None:
        """Copy an encoder, which is not changed; `images` is its trainable image model."""
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self._encoder, self._device = encoder, device
        self._images = images
        text = deepcopy(encoder.text.module).to(device=device, dtype=torch.float32)
        self._text: TextPart = encoder.text.holding(text)
        self.connector = deepcopy(encoder.connector).to(device)
        parts = {"picture": images.module, "text": text, "connector": self.connector}
        self.module = nn.ModuleDict(parts)
        self.module.train().requires_grad_(True)
        self.image_layers = images.image_layers
        # A table of features has one empty layer.
        text_layers = encoder_layers(text) if any(True for _ in text.parameters()) else ((),)
        self.text_layers: Layers = (*text_layers, (self.connector,))
        self.temperature = images.temperature
        self._initial_temperature = self._set_initial_temperature()
        # Names of the image encoder's weights, before LoRA renames them.
        ids = {id(weight) for weight in weights_of(images.image_layers)}
        self._image_weight_names = {n for n, w in images.module.named_parameters() if id(w) in ids}
        self.reads = PlainReads(images.reads.prepare, encoder.text.reads.fresh())
        # A table of features knows only its own captions.
        rows: Mapping[str, int] | None = getattr(encoder.text.reads, "row_of", None)
        # This also freezes the image model's own text encoder.
        captions = CAPTIONS if rows is None else list(rows)[:2]
        freeze_unused(self, device=device, captions=captions)

    @property
    def always_trainable(self) -> tuple[nn.Parameter, ...]:
        """Weights that LoRA training must train too: the connector was never trained before."""
        return tuple(self.connector.parameters())

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Embed images with the image model, [N, D]."""
        return self._images.embed_images(pixels)

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Embed the inputs of the text part as unit vectors [N, D]."""
        return self.text_head(self._text.pooled(inputs))

    def text_head(self, feature_NC: Tensor) -> Tensor:
        """Map features of the text part to unit vectors through the connector."""
        return unit_rows(self.connector(feature_NC))

    def encoder(self, name: str) -> JoinedEncoder:
        """Return a copy of the current weights as an encoder; unchanged parts are shared."""
        start = self._encoder
        image, changed_image = self._image(name)
        text, changed_text = self._text_part()
        scale, bias = start.scale, start.bias
        if any(
            not torch.equal(w, v)
            for w, v in zip(self.temperature, self._initial_temperature, strict=True)
        ):
            scale = float(self.temperature[0].detach().exp())
            bias = float(self.temperature[1].detach()) if len(self.temperature) > 1 else 0.0
        return JoinedEncoder(
            image,
            text,
            deepcopy(self.connector),
            name=name,
            origin=start.origin,
            changed=Changed(
                {**start.changed.image, **changed_image}, {**start.changed.text, **changed_text}
            ),
            temperature=(scale, bias),
        )

    def _image(self, name: str) -> tuple[DualEncoder, dict[str, Tensor]]:
        original = self._encoder.image
        is_trained = any(weight.requires_grad for weight in weights_of(self.image_layers))
        if not is_trained and original.device == self._device:
            return original, {}
        encoder = self._images.encoder(name)
        state = {
            k: v
            for k, v in module_of(encoder).state_dict().items()
            if k in self._image_weight_names
        }
        changed = _changed(state, module_of(original).state_dict())
        return (encoder if changed or original.device != self._device else original), changed

    def _text_part(self) -> tuple[TextPart, dict[str, Tensor]]:
        original, module = self._encoder.text, self._text.module
        is_here = self._encoder.device == self._device
        is_trained = any(weight.requires_grad for weight in module.parameters())
        if not is_trained and is_here:
            return original, {}
        merged_module = merged(module).eval().requires_grad_(False)
        changed = _changed(merged_module.state_dict(), original.module.state_dict())
        return (self._text.holding(merged_module) if changed or not is_here else original), changed

    def _set_initial_temperature(self) -> list[Tensor]:
        """Use the temperature of the joined model, which may have been trained before."""
        encoder = self._encoder
        if (encoder.scale, encoder.bias) != (encoder.image.scale, encoder.image.bias):
            with torch.no_grad():
                values = (log(encoder.scale), encoder.bias)
                for weight, value in zip(self.temperature, values, strict=False):
                    weight.fill_(value)
        return [weight.detach().clone() for weight in self.temperature]


def _changed(
    state: Mapping[str, Tensor], original_state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    return {
        name: value.detach().float()
        for name, value in state.items()
        if not torch.equal(value.float(), original_state[name].to(value.device).float())
    }
