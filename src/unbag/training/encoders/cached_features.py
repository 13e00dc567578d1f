"""Train any model on cached features of its frozen encoders, or of the frozen parts before a head.

The output of a frozen part never changes, so it is computed once and cached by the part's
fingerprint and the input's content. Only what follows runs at every step: the head of a photo
model, the connector of a joined one, nothing of an encoder that is completely frozen.

Every batch has the same shape: images in batches of one size, texts in batches of one size and one
length, the last one padded. So a row does not depend on the others in its batch, and a run that
finds some features in the cache has the same bits as a run that finds none.

Dimensions: N images or texts, C features of a part, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import torch
from PIL import Image as PilImage

from unbag.data.pairs import Pair, Pairs
from unbag.errors import UnbagError
from unbag.models.features import (
    batches_of,
    batches_of_one_length,
    extract_images,
    extract_texts,
    text_key,
)
from unbag.models.joined import JoinedEncoder, module_of
from unbag.models.text_encoders import TextTable
from unbag.runs.cache import VECTOR, FeatureTable, TensorCache
from unbag.runs.progress import Progress
from unbag.training.data.pairs import columns_of, readable_pairs
from unbag.training.encoders.adapters import NoReads, make_trainable
from unbag.training.encoders.base import Trainable, is_encoder_frozen, is_part_frozen
from unbag.training.recipes import Recipe
from unbag.types import DualEncoder, ImageSource

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor, nn

    from unbag.training.data.batch import Inputs
    from unbag.training.encoders.base import Reads

SLICE, SLICE_CUDA = 16, 256
"""Inputs per batch, on the CPU and on a GPU."""
IMAGES, TEXTS = 128, 1_024
"""Inputs whose features are written together; a stopped run loses at most these."""
MAX_NUMBERS = 1 << 30
"""Limit of memory, in numbers: 4 GB, 800,000 images or 2.7 million texts of a photo model."""
EncoderName = Literal["image", "text"]


@runtime_checkable
class ImageHead(Protocol):
    """A trainable whose last image layer can run on the features of the layers before it."""

    def image_head(self, feature_NC: Tensor) -> Tensor:
        """Map features to unit vectors [N, D]."""


@runtime_checkable
class TextHead(Protocol):
    """A trainable whose last text layer can run on the features of the layers before it."""

    def text_head(self, feature_NC: Tensor) -> Tensor:
        """Map features to unit vectors [N, D]."""


@runtime_checkable
class PartEncoder(Protocol):
    """An encoder that returns the inputs of its heads."""

    def image_features(self, pixels: Tensor) -> Tensor:
        """Return the input of the image head [N, C], or unit vectors where there is no head."""

    def text_features(self, captions: Sequence[str]) -> Tensor:
        """Return the input of the text head [N, C]."""

    def part_fingerprint(self, encoder: str) -> str:
        """Return the fingerprint of the part before the head of an encoder."""


def cache_frozen(
    model: DualEncoder,
    trainable: Trainable,
    pairs: Pairs,
    recipe: Recipe,
    *,
    cache: Path | None,
    progress: Progress,
) -> Trainable:
    """Put encoders on cached features where the recipe freezes enough of them.

    Texts are cached if all texts are known in advance: their edits exist already, or the recipe
    uses none. Without a cache folder, features are cached in memory only.
    """
    has_images = _can_cache(model, trainable, "image", recipe)
    has_texts = _can_cache(model, trainable, "text", recipe)
    kinds = frozenset(columns_of(recipe).kinds)
    has_texts = has_texts and (pairs.has_edits or not kinds)
    if not has_images and not has_texts:
        return trainable
    read_pairs = list(readable_pairs(pairs, range(len(pairs))))
    texts = _texts(read_pairs, kinds) if has_texts else ()
    count = len(read_pairs) * _feature_width(model, "image") if has_images else 0
    count += len(texts) * _feature_width(model, "text") if has_texts else 0
    if count > MAX_NUMBERS:
        progress.say(
            f"features of {len(read_pairs):,} images and {len(texts):,} captions do not "
            "fit into memory; frozen parts run at every step"
        )
        return trainable
    images = [pair.image for pair in read_pairs]
    return CachedEncoders(
        trainable,
        images=image_table(model, images, cache, progress) if has_images else None,
        texts=text_table(model, texts, cache, progress) if has_texts else None,
    )


def _can_cache(
    model: DualEncoder, trainable: Trainable, encoder: EncoderName, recipe: Recipe
) -> bool:
    """Return whether features of an encoder never change and are not in a file already."""
    if isinstance(model, JoinedEncoder) and isinstance(model.text, TextTable):
        if encoder == "text":
            return False
    elif not isinstance(model, PartEncoder):
        weights = module_of(model).parameters()
        # Training computes in float32, so features must be float32 too.
        if any(weight.dtype != torch.float32 for weight in weights):
            return False
    head = ImageHead if encoder == "image" else TextHead
    is_frozen = is_part_frozen if isinstance(trainable, head) else is_encoder_frozen
    return is_frozen(trainable, encoder, recipe.freeze)


def _texts(pairs: Sequence[Pair], kinds: frozenset[str]) -> tuple[str, ...]:
    """Return every text that a step may draw."""
    texts: dict[str, None] = {}
    for pair in pairs:
        texts.update(dict.fromkeys(pair.captions))
        for edits in pair.edits:
            texts.update((edit.text, None) for edit in edits if edit.kind in kinds)
    return tuple(texts)


class CachedEncoders:
    """Encoders of any model of which one or both start from cached features."""

    def __init__(
        self, network: Trainable, *, images: FeatureTable | None, texts: FeatureTable | None
    ) -> None:
        """Use encoders without copying them; the features must be theirs."""
        if isinstance(network.reads, NoReads) and (images is None or texts is None):
            raise ValueError("heads without parts need features of images and of captions")
        self.network = network
        self.name, self.fingerprint = network.name, network.fingerprint
        self.module: nn.Module = network.module
        self.image_layers, self.text_layers = network.image_layers, network.text_layers
        self.temperature = network.temperature
        self.always_trainable = getattr(network, "always_trainable", ())
        self._device = str(next(network.module.parameters()).device)
        self._images = None if images is None else images.to(self._device)
        self._texts = None if texts is None else texts.to(self._device)
        self.reads: Reads = CachedReads(network.reads, images, texts)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Map rows of the features [N], or pixels, to unit vectors [N, D]."""
        if self._images is None:
            return self.network.embed_images(pixels)
        feature_NC = self._images.vectors[pixels]
        if isinstance(self.network, ImageHead):
            return self.network.image_head(feature_NC)
        return feature_NC

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Map rows of the features, or tokens, to unit vectors [N, D]."""
        if self._texts is None:
            return self.network.embed_texts(inputs)
        feature_NC = self._texts.vectors[inputs["place_N"]]
        if isinstance(self.network, TextHead):
            return self.network.text_head(feature_NC)
        return feature_NC

    def encoder(self, name: str) -> DualEncoder:
        """Return a copy of the current weights as an encoder."""
        return self.network.encoder(name)

    def with_model(self, encoder: DualEncoder) -> CachedEncoders:
        """Put another model on the same features, for losses that compare with the start."""
        network = make_trainable(encoder, device=self._device)
        return CachedEncoders(network, images=self._images, texts=self._texts)


class CachedReads:
    """Prepares an image or a text as its row among cached features, where there are any."""

    def __init__(
        self, preparation: Reads, images: FeatureTable | None, texts: FeatureTable | None
    ) -> None:
        """Take the rows only, so that features are not sent to workers.

        `preparation` prepares inputs without features.
        """
        self._preparation = preparation
        self._images = None if images is None else images.row_of
        self._damaged = {} if images is None else images.damaged
        self._texts = None if texts is None else texts.row_of

    def prepare(self, image: Image) -> Tensor:
        """Prepare the pixels of an image."""
        return self._preparation.prepare(image)

    def read_cached(self, image: ImageSource) -> Tensor:
        """Return the row of an image, or its pixels if images have no features."""
        if self._images is None:
            return self.prepare(image.open())
        row = self._images.get(image.name)
        if row is None:
            reason = self._damaged.get(image.name, "it is not in the collection")
            raise ValueError(f"no features of {image.name} are cached: {reason}")
        return torch.tensor(row)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Return the rows of captions, or tokens if texts have no features."""
        if self._texts is None:
            return self._preparation.tokenize(captions)
        return {"place_N": torch.tensor([self._texts[caption] for caption in captions])}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the number of tokens before truncation, special ones included."""
        return self._preparation.count_tokens(captions)


def image_table(
    model: DualEncoder, images: Sequence[ImageSource], cache: Path | None, progress: Progress
) -> FeatureTable:
    """Return the features of images by name; computes those that the cache does not have."""
    key_of = {image.name: image.key for image in images}
    image_of = {key_of[image.name]: image for image in images}
    store = _open_cache(model, "image", cache, progress)
    damaged = extract_images(
        model,
        image_of,
        batches_of(store.missing(image_of), IMAGES),
        lambda pixels: _in_batches(pixels, _features(model, "image"), model.device),
        lambda keys, vector_NC: store.put(keys, {VECTOR: vector_NC}),
        label="features of images",
        progress=progress,
    )
    reasons = {name: damaged[key] for name, key in key_of.items() if key in damaged}
    return _table(
        {name: key for name, key in key_of.items() if name not in reasons}, store, reasons
    )


def text_table(
    model: DualEncoder, texts: Sequence[str], cache: Path | None, progress: Progress
) -> FeatureTable:
    """Return the features of texts; computes those that the cache does not have."""
    key_of = {text: text_key(text) for text in texts}
    store = _open_cache(model, "text", cache, progress)
    missing = set(store.missing(key_of.values()))
    text_of = {key: text for text, key in key_of.items() if key in missing}
    extract_texts(
        model,
        text_of,
        batches_of_one_length(model, text_of, TEXTS),
        lambda captions: _in_batches(captions, _features(model, "text"), model.device),
        lambda keys, vector_NC: store.put(keys, {VECTOR: vector_NC}),
        label="features of captions",
        progress=progress,
    )
    return _table(key_of, store)


def _in_batches(inputs: Tensor | list[str], run: Callable[..., Tensor], device: str) -> Tensor:
    """Run inputs in batches of one size; the last batch is padded with its last input."""
    size = SLICE if device == "cpu" else SLICE_CUDA
    outputs = []
    for start in range(0, len(inputs), size):
        part = inputs[start : start + size]
        padding = size - len(part)
        if isinstance(part, list):
            rows = run([*part, *part[-1:] * padding])
        else:
            rows = run(torch.cat([part, part[-1:].expand(padding, *part.shape[1:])]))
        outputs.append(rows[: len(part)].cpu())
    return torch.cat(outputs)


def _table(
    key_of: Mapping[str, str], store: TensorCache, damaged: Mapping[str, str] | None = None
) -> FeatureTable:
    """Make a table of cached features; names with the same content share a row."""
    keys = list(dict.fromkeys(key_of.values()))
    if not keys:
        raise UnbagError("no image can be opened", expected="at least one, to train on")
    row_of = {key: row for row, key in enumerate(keys)}
    return FeatureTable(
        {name: row_of[key] for name, key in key_of.items()}, store.get(keys), damaged or {}
    )


def _features(model: DualEncoder, encoder: EncoderName) -> Callable[..., Tensor]:
    """Return the function for the input of an encoder's head, or for vectors if it has no head."""
    if isinstance(model, PartEncoder):
        return model.image_features if encoder == "image" else model.text_features
    return model.encode_images if encoder == "image" else model.encode_texts


def _feature_width(model: DualEncoder, encoder: EncoderName) -> int:
    """Return the number of features of an image or a text, by running one."""
    grey = PilImage.new("RGB", (64, 64), (128, 128, 128))
    inputs = model.prepare(grey)[None] if encoder == "image" else ["a"]
    return int(_features(model, encoder)(inputs).shape[1])


def _open_cache(
    model: DualEncoder, encoder: EncoderName, cache: Path | None, progress: Progress
) -> TensorCache:
    if cache is None:
        return TensorCache(None, progress=progress)
    name = model.fingerprint
    if isinstance(model, PartEncoder):
        name = model.part_fingerprint(encoder)
    folder = cache / f"{name}-{model.device.partition(':')[0]}" / encoder
    return TensorCache(folder, progress=progress)
