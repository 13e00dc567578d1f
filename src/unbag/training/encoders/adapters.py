"""The encoders of each kind of loaded model, ready to be trained: `make_trainable`.

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
    """A copy in float32 with every weight of both encoders open; the encoder stays as it is."""
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
    """Preparation and tokenizer of an encoder, each with its model's rule."""

    def __init__(self, prepare: Callable[[Image], Tensor], captions: CaptionReads) -> None:
        """As the encoder has them, without weights."""
        self._prepare, self._captions = prepare, captions

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the tokens that are remembered, which every worker finds by itself."""
        return PlainReads, (self._prepare, self._captions.fresh())

    def prepare(self, image: Image) -> Tensor:
        """In bytes for a device, where that is exact."""
        return self._prepare(image)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Arguments of the text encoder, padded as far as the model asks."""
        return self._captions(captions)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self._captions.count(captions) if captions else []


class TinyTrainable:
    """The encoders of `unbag.models.tiny`. Images are levels, or numbers from -1 to 1."""

    def __init__(self, encoder: Tiny, *, device: str) -> None:
        """Copy the encoders of an encoder, which stays as it is."""
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
        """[N, 3, H, W] to unit vectors [N, D]."""
        if pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        return unit_rows(self.module.picture(pixels)[:, 0])

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Token ids to unit vectors [N, D], read at the end token."""
        token_NL, end_N = inputs["token_NL"], inputs["end_N"]
        row_N = torch.arange(len(token_NL), device=token_NL.device)
        return unit_rows(self.module.caption(token_NL)[row_N, end_N])

    def encoder(self, name: str) -> Tiny:
        """A copy of the weights as they are now; the fingerprint is theirs."""
        return Tiny(merged(self.module), name=name, device=self._device)


class TinyReads:
    """Bytes of images, and words with the place of their end."""

    def __init__(self, *, side: int, words: Sequence[str], context: int) -> None:
        """Pixels of a side; the vocabulary without special tokens; tokens of a caption."""
        self._side = side
        self._split = WordTokenizer(words, context=context)

    def prepare(self, image: Image) -> Tensor:
        """RGB to levels [3, H, W], which are a quarter of the numbers to send."""
        if image.size != (self._side, self._side):
            from PIL.Image import Resampling

            image = image.resize((self._side, self._side), Resampling.BICUBIC)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Token ids [N, L] as long as the longest, and where each ends."""
        token_NL, end_N = self._split(captions)
        return {"token_NL": torch.from_numpy(token_NL), "end_N": torch.from_numpy(end_N)}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Words and the end token."""
        return [len(self._split.split(caption)) for caption in captions]


def _tiny_pixels(image: Image) -> Tensor:
    """Levels as `Tiny.prepare` scales them."""
    pixels = np.asarray(image, dtype=np.float32) / 127.5 - 1.0
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


class OpenClipTrainable:
    """Any dual encoder of open_clip, with captions at their real length where that is exact."""

    def __init__(self, encoder: OpenClip, *, device: str) -> None:
        """Copy the model of an encoder, which stays as it is."""
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: Any = deepcopy(encoder.model).to(device=device, dtype=torch.float32)
        self.module.train().requires_grad_(True)
        self._text = _text_network_of(encoder.text, self.module)
        self._shell = _without_weights(encoder, device=device)
        self._levels = deepcopy(self._shell._levels)
        can_cut = isinstance(self._text, Native | Masked) and not self._text.whole_because
        self.reads = OpenClipReads(self._shell._prepare, encoder.tokenize, is_cut=can_cut)
        found = [getattr(self.module, name, None) for name in _OPEN_CLIP_TEMPERATURE]
        self.temperature = tuple(weight for weight in found if weight is not None)
        self.image_layers = encoder_layers(self.module.visual)
        self.text_layers = _open_clip_caption_layers(self.module)
        freeze_unused(self, device=device)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Pixels or their levels to unit vectors [N, D]."""
        if self._levels and pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        found = self.module.visual(pixels)
        return unit_rows(found[0] if isinstance(found, tuple) else found)

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Token ids to unit vectors [N, D]."""
        token_NL = inputs["token_NL"]
        if isinstance(self._text, Native):
            return unit_rows(self._text.pooled_as_given(token_NL))
        return unit_rows(self._text.pooled(token_NL))

    def encoder(self, name: str) -> OpenClip:
        """A copy of the weights as they are now, with a fingerprint of their own."""
        model: Any = merged(self.module).eval().requires_grad_(False)
        found = copy(self._shell)
        found.model, found.text = model, _text_network_of(self._text, model)
        found.name = name
        found.fingerprint = fingerprint("trained", model.state_dict(), self.fingerprint)
        found.scale = float(model.logit_scale.exp())
        found.bias = 0.0 if len(self.temperature) == 1 else float(model.logit_bias)
        return found


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
        return _open_clip_reads, (self._prepare, kind, inner, self._is_cut)

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


def _open_clip_reads(
    prepare: Callable[[Image], Tensor], kind: Callable[[Any], Tokenizer], inner: Any, is_cut: bool
) -> OpenClipReads:
    return OpenClipReads(prepare, kind(inner), is_cut=is_cut)


def _text_network_of(known: TextNetwork, model: Any) -> TextNetwork:
    """The kind that evaluation found exact, over other weights."""
    return (
        Unknown(model, known.whole_because) if isinstance(known, Unknown) else text_network(model)
    )


def _without_weights(encoder: OpenClip, *, device: str) -> OpenClip:
    """An encoder without its weights, for this device."""
    found = copy(encoder)
    found.model, found.device, found.dtype = None, device, torch.float32
    found.text = Unknown(None, encoder.text.whole_because)
    if device != "cpu" and found._levels is None and (parts := in_bytes(found._prepare)):
        found._prepare, found._levels = parts
    return found


def _open_clip_caption_layers(model: Any) -> Any:
    """The text encoder stands at the top in the first form of CLIP, and below `text` in the second.

    What is neither encoder's, such as the decoder of CoCa, counts to the last layer.
    """
    text = getattr(model, "text", None)
    if text is None:
        return encoder_layers(model, without=("visual", *_OPEN_CLIP_TEMPERATURE))
    rest = [part for name, part in model.named_children() if name not in ("visual", "text")]
    return encoder_layers(text, then=rest)


class HfTrainable:
    """CLIP, SigLIP, ALIGN and the like, as `get_*_features` gives them."""

    def __init__(self, encoder: HfDual, *, device: str) -> None:
        """Copy the model of an encoder, which stays as it is."""
        _check_encoders(encoder)
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.module: Any = deepcopy(encoder.model).to(device=device, dtype=torch.float32)
        self.module.train().requires_grad_(True)
        self._inverse = hasattr(self.module, "temperature")
        if self._inverse:
            # ALIGN divides by a temperature; training wants the logarithm of the scale.
            value = self.module.temperature.detach()
            del self.module.temperature
            self.module.log_scale = nn.Parameter(-value.log())
        names = ("log_scale",) if self._inverse else ("logit_scale", "logit_bias")
        found = [getattr(self.module, name, None) for name in names]
        self.temperature = tuple(weight for weight in found if weight is not None)
        self.image_layers, self.text_layers = _hf_layers(self.module, names)
        # Two, since the levels of one move to the device, and workers must not.
        self._images, sent = (
            ImagePreparation(encoder.images.processor, name=self.name, device=device)
            for _ in range(2)
        )
        self.reads = PlainReads(sent, encoder.captions.fresh())
        self._shell = copy(encoder)
        self._shell.model = self._shell._ask_image = self._shell._ask_caption = None
        self._shell.images, self._shell.device = self._images, device
        freeze_unused(self, device=device)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Pixels or their levels to unit vectors [N, D]."""
        return _hf_vectors(self.module.get_image_features(**dict(self._images.inputs(pixels))))

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Token ids, with a mask where there is one, to unit vectors [N, D]."""
        return _hf_vectors(self.module.get_text_features(**inputs))

    def encoder(self, name: str) -> HfDual:
        """A copy of the weights as they are now, with a fingerprint of their own."""
        model: Any = merged(self.module).eval().requires_grad_(False)
        found = copy(self._shell)
        found.name = name
        found.scale = float(self.temperature[0].detach().exp())
        found.bias = float(self.temperature[1].detach()) if len(self.temperature) > 1 else 0.0
        if self._inverse:
            value = model.log_scale.detach()
            del model.log_scale
            model.temperature = nn.Parameter((-value).exp(), requires_grad=False)
        found.model = model
        found._ask_image, found._ask_caption = model.get_image_features, model.get_text_features
        found.fingerprint = fingerprint("trained", model.state_dict(), self.fingerprint)
        return found


def _hf_vectors(found: Any) -> Tensor:
    """Version 4 of transformers gives the vectors, 5 an output that holds them."""
    vector_ND = found if isinstance(found, Tensor) else found.pooler_output
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
    """Encoders with their projections; what is neither's counts to the last caption layer."""
    parts = dict(model.named_children())
    known = (*_HF_ENCODERS, *_HF_PROJECTIONS)
    rest: list[Part] = [part for name, part in parts.items() if name not in known]
    own = model.named_parameters(recurse=False)
    rest += [weight for name, weight in own if name not in temperature]
    eyes, words = ([parts[name]] if name in parts else [] for name in _HF_PROJECTIONS)
    return (
        encoder_layers(model.vision_model, then=eyes),
        encoder_layers(model.text_model, then=[*words, *rest]),
    )


class PhotoTrainable:
    """The encoders of `unbag.models.photo`; the last layer of each is its head."""

    def __init__(self, encoder: Photo | PhotoHeads, *, device: str) -> None:
        """Copy the encoders of an encoder, which stays as it is.

        Heads alone run on cached features only: `unbag.training.encoders.cached_features`.
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
        """Levels, or numbers as `Photo.prepare` gives them, to unit vectors [N, D]."""
        if pixels.dtype == torch.uint8:
            pixels = (pixels.float() - 127.0) / 128.0
        return unit_rows(self.module.picture(pixels))

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Tokens to unit vectors [N, D]."""
        return unit_rows(self.module.caption(inputs["token_NL"], inputs["mask_NL"]))

    def image_head(self, feature_NC: Tensor) -> Tensor:
        """What the head is given, to unit vectors [N, D]."""
        return unit_rows(self.module.picture.head(feature_NC))

    def text_head(self, feature_NC: Tensor) -> Tensor:
        """What the head is given, to unit vectors [N, D]."""
        return unit_rows(self.module.caption.head(feature_NC))

    def encoder(self, name: str) -> Photo:
        """A copy of the weights as they are now; the fingerprint is theirs."""
        if self._tokenizer is None:
            # Heads alone are none; `unbag.models.photo.read` puts parts before those of a file.
            raise NotImplementedError(name)
        return Photo(merged(self.module), self._tokenizer, name=name, device=self._device)


class PhotoReads:
    """Bytes of images, and the tokens of MiniLM."""

    def __init__(self, tokenizer: Any) -> None:
        """As the encoder has it."""
        self._tokenizer = tokenizer

    def prepare(self, image: Image) -> Tensor:
        """RGB to levels [3, 224, 224], which are a quarter of the numbers to send."""
        return torch.from_numpy(np.array(squeezed(image))).permute(2, 0, 1).contiguous()

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Token ids and mask [N, L], as long as the longest."""
        found = self._tokenizer(
            list(captions), padding=True, truncation=True, max_length=CONTEXT, return_tensors="pt"
        )
        return {"token_NL": found["input_ids"], "mask_NL": found["attention_mask"]}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        if not captions:
            return []
        return [len(ids) for ids in self._tokenizer(list(captions), verbose=False)["input_ids"]]


class NoReads:
    """Of heads alone: nothing is prepared, since features of everything are cached."""

    def prepare(self, image: Image) -> Tensor:
        """There is nothing to run pixels through."""
        raise NotImplementedError

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """There is nothing to run tokens through."""
        raise NotImplementedError

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """A row each: whatever was too long was cut when its features were made."""
        return [1] * len(captions)


def _photo_layers(network: Any) -> tuple[Layers, Layers]:
    """Stem, sixteen blocks, the last convolution and embedding, six blocks, each with its head.

    Or the heads alone.
    """
    eyes, words = network.picture.part, network.caption.part
    image: Layers = ()
    caption: Layers = ()
    if not isinstance(eyes, nn.Identity):
        stem, last = (eyes._conv_stem, eyes._bn0), (eyes._conv_head, eyes._bn1)
        image = (stem, *((block,) for block in eyes._blocks), last)
    if not isinstance(words, nn.Identity):
        caption = ((words.embeddings,), *((block,) for block in words.encoder.layer))
    return (*image, (network.picture.head,)), (*caption, (network.caption.head,))


class JoinedTrainable:
    """The last caption layer is the connector alone, so that freeze.text=part trains only it."""

    def __init__(self, encoder: JoinedEncoder, images: Trainable, *, device: str) -> None:
        """Copy an encoder, which stays as it is; `images` is its image model with gradients."""
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
        inside = encoder_layers(text) if any(True for _ in text.parameters()) else ((),)
        self.text_layers: Layers = (*inside, (self.connector,))
        self.temperature = images.temperature
        self._first = self._start_temperature()
        # Weights of the image encoder, taken before LoRA gives them other names.
        ids = {id(weight) for weight in weights_of(images.image_layers)}
        self._names = {n for n, w in images.module.named_parameters() if id(w) in ids}
        self.reads = PlainReads(images.reads.prepare, encoder.text.reads.fresh())
        # A table of features knows only its own captions.
        rows: Mapping[str, int] | None = getattr(encoder.text.reads, "row_of", None)
        # The text encoder that the image model came with is among what is closed.
        readable = CAPTIONS if rows is None else list(rows)[:2]
        freeze_unused(self, device=device, captions=readable)

    @property
    def always_trainable(self) -> tuple[nn.Parameter, ...]:
        """What LoRA has to train beside its own matrices: no connector was ever trained before."""
        return tuple(self.connector.parameters())

    def embed_images(self, pixels: Tensor) -> Tensor:
        """As the image model does, [N, D]."""
        return self._images.embed_images(pixels)

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """What the text part's reads gave, to unit vectors [N, D]."""
        return self.text_head(self._text.pooled(inputs))

    def text_head(self, feature_NC: Tensor) -> Tensor:
        """Through the connector."""
        return unit_rows(self.connector(feature_NC))

    def encoder(self, name: str) -> JoinedEncoder:
        """A copy of the weights as they are now; parts that did not change are the encoder's."""
        start = self._encoder
        image, seen = self._image(name)
        text, read = self._text_part()
        scale, bias = start.scale, start.bias
        if any(not torch.equal(w, v) for w, v in zip(self.temperature, self._first, strict=True)):
            scale = float(self.temperature[0].detach().exp())
            bias = float(self.temperature[1].detach()) if len(self.temperature) > 1 else 0.0
        return JoinedEncoder(
            image,
            text,
            deepcopy(self.connector),
            name=name,
            origin=start.origin,
            changed=Changed({**start.changed.image, **seen}, {**start.changed.text, **read}),
            temperature=(scale, bias),
        )

    def _image(self, name: str) -> tuple[DualEncoder, dict[str, Tensor]]:
        was = self._encoder.image
        is_open = any(weight.requires_grad for weight in weights_of(self.image_layers))
        if not is_open and was.device == self._device:
            return was, {}
        found = self._images.encoder(name)
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
        if (encoder.scale, encoder.bias) != (encoder.image.scale, encoder.image.bias):
            with torch.no_grad():
                values = (log(encoder.scale), encoder.bias)
                for weight, value in zip(self.temperature, values, strict=False):
                    weight.fill_(value)
        return [weight.detach().clone() for weight in self.temperature]


def _changed(now: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: value.detach().float()
        for name, value in now.items()
        if not torch.equal(value.float(), before[name].to(value.device).float())
    }
