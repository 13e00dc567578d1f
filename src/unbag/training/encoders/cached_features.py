"""Train any model on cached features of its frozen encoders, or of the frozen parts before a head.

What a frozen part makes of an input never changes, so it is computed once and cached by the part's
fingerprint and the input's content. Only what follows is run at every step: the head of a photo
model, the connector of a joined one, nothing of an encoder that is frozen as a whole.

Every pass has the same shape: images in slices of one size, texts in slices of one size and one
length, the last filled up. So a row does not depend on what was computed beside it, and a run that
finds some of its features in the cache has the bits of one that found none.

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
"""Inputs of a pass."""
IMAGES, TEXTS = 128, 1_024
"""Whose features are written together; a run that is stopped loses no more."""
MAX_NUMBERS = 1 << 30
"""That are kept in memory: four gigabytes, 800,000 images or 2.7 million texts of a photo model."""
EncoderName = Literal["image", "text"]


@runtime_checkable
class ImageHead(Protocol):
    """A trainable whose last image layer can be run on features of those before it."""

    def image_head(self, feature_NC: Tensor) -> Tensor:
        """To unit vectors [N, D]."""


@runtime_checkable
class TextHead(Protocol):
    """A trainable whose last text layer can be run on features of those before it."""

    def text_head(self, feature_NC: Tensor) -> Tensor:
        """To unit vectors [N, D]."""


@runtime_checkable
class PartEncoder(Protocol):
    """An encoder that shows what its heads are given."""

    def image_features(self, pixels: Tensor) -> Tensor:
        """[N, C], or unit vectors where there is no head."""

    def text_features(self, captions: Sequence[str]) -> Tensor:
        """[N, C]."""

    def part_fingerprint(self, encoder: str) -> str:
        """Of what comes before the head of an encoder."""


def cache_frozen(
    model: DualEncoder,
    trainable: Trainable,
    pairs: Pairs,
    recipe: Recipe,
    *,
    cache: Path | None,
    progress: Progress,
) -> Trainable:
    """The encoders as they are, or on cached features where the recipe freezes enough of them.

    Texts are cached if all that can be drawn is known: their edits were made before, or there are
    none. Without a cache folder features are kept in memory only.
    """
    has_images = _is_frozen(model, trainable, "image", recipe)
    has_texts = _is_frozen(model, trainable, "text", recipe)
    kinds = frozenset(columns_of(recipe).kinds)
    has_texts = has_texts and (pairs.has_edits or not kinds)
    if not has_images and not has_texts:
        return trainable
    found = list(readable_pairs(pairs, range(len(pairs))))
    texts = _texts(found, kinds) if has_texts else ()
    numbers = len(found) * _width(model, "image") if has_images else 0
    numbers += len(texts) * _width(model, "text") if has_texts else 0
    if numbers > MAX_NUMBERS:
        progress.say(
            f"features of {len(found):,} images and {len(texts):,} captions are too many to keep "
            "in memory; frozen parts are run at every step"
        )
        return trainable
    images = [pair.image for pair in found]
    return CachedEncoders(
        trainable,
        images=image_table(model, images, cache, progress) if has_images else None,
        texts=text_table(model, texts, cache, progress) if has_texts else None,
    )


def _is_frozen(
    model: DualEncoder, trainable: Trainable, encoder: EncoderName, recipe: Recipe
) -> bool:
    """Whether features of an encoder stay the same, and are not in a file already."""
    if isinstance(model, JoinedEncoder) and isinstance(model.text, TextTable):
        if encoder == "text":
            return False
    elif not isinstance(model, PartEncoder):
        weights = module_of(model).parameters()
        # Training computes in single precision, and its features must too.
        if any(weight.dtype != torch.float32 for weight in weights):
            return False
    head = ImageHead if encoder == "image" else TextHead
    is_frozen = is_part_frozen if isinstance(trainable, head) else is_encoder_frozen
    return is_frozen(trainable, encoder, recipe.freeze)


def _texts(pairs: Sequence[Pair], kinds: frozenset[str]) -> tuple[str, ...]:
    """Every string that a step may draw."""
    found: dict[str, None] = {}
    for pair in pairs:
        found.update(dict.fromkeys(pair.captions))
        for edits in pair.edits:
            found.update((edit.text, None) for edit in edits if edit.kind in kinds)
    return tuple(found)


class CachedEncoders:
    """Encoders of any model of which one or both start from cached features."""

    def __init__(
        self, network: Trainable, *, images: FeatureTable | None, texts: FeatureTable | None
    ) -> None:
        """Take encoders over, without copying them; features must be those of their encoder."""
        if isinstance(network.reads, NoReads) and (images is None or texts is None):
            raise ValueError("heads without parts need features of images and of captions")
        self.network = network
        self.name, self.fingerprint = network.name, network.fingerprint
        self.module: nn.Module = network.module
        self.image_layers, self.text_layers = network.image_layers, network.text_layers
        self.temperature = network.temperature
        self.always_open = getattr(network, "always_open", ())
        self._device = str(next(network.module.parameters()).device)
        self._images = None if images is None else images.to(self._device)
        self._texts = None if texts is None else texts.to(self._device)
        self.reads: Reads = CachedReads(network.reads, images, texts)

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Places [N], or pixels, to unit vectors [N, D]."""
        if self._images is None:
            return self.network.embed_images(pixels)
        feature_NC = self._images.vectors[pixels]
        if isinstance(self.network, ImageHead):
            return self.network.image_head(feature_NC)
        return feature_NC

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Places, or tokens, to unit vectors [N, D]."""
        if self._texts is None:
            return self.network.embed_texts(inputs)
        feature_NC = self._texts.vectors[inputs["place_N"]]
        if isinstance(self.network, TextHead):
            return self.network.text_head(feature_NC)
        return feature_NC

    def encoder(self, name: str) -> DualEncoder:
        """A copy of the weights as they are now."""
        return self.network.encoder(name)

    def beside(self, encoder: DualEncoder) -> CachedEncoders:
        """Another model on the same features, for losses that compare with the start."""
        network = make_trainable(encoder, device=self._device)
        return CachedEncoders(network, images=self._images, texts=self._texts)


class CachedReads:
    """An image or a text is its row among cached features, where there are some."""

    def __init__(
        self, plain: Reads, images: FeatureTable | None, texts: FeatureTable | None
    ) -> None:
        """Rows only: features stay with the encoders and are sent to no worker.

        `plain` prepares what has no features.
        """
        self._plain = plain
        self._images = None if images is None else images.row_of
        self._damaged = {} if images is None else images.damaged
        self._texts = None if texts is None else texts.row_of

    def prepare(self, image: Image) -> Tensor:
        """As the encoders want pixels."""
        return self._plain.prepare(image)

    def kept(self, image: ImageSource) -> Tensor:
        """A row, or pixels where the image encoder is trained."""
        if self._images is None:
            return self.prepare(image.open())
        row = self._images.get(image.name)
        if row is None:
            why = self._damaged.get(image.name, "it is not in the collection")
            raise ValueError(f"no features of {image.name} are kept: {why}")
        return torch.tensor(row)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Rows, or tokens where the text encoder is trained."""
        if self._texts is None:
            return self._plain.tokenize(captions)
        return {"place_N": torch.tensor([self._texts[one] for one in captions])}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self._plain.count_tokens(captions)


def image_table(
    model: DualEncoder, images: Sequence[ImageSource], cache: Path | None, progress: Progress
) -> FeatureTable:
    """Features of each by name; computed where the cache does not have them."""
    key_of = {image.name: image.key for image in images}
    image_of = {key_of[image.name]: image for image in images}
    rows = _rows(model, "image", cache, progress)
    damaged = extract_images(
        model,
        image_of,
        batches_of(rows.missing(image_of), IMAGES),
        lambda pixels: _in_passes(pixels, _features(model, "image"), model.device),
        lambda keys, vector_NC: rows.put(keys, {VECTOR: vector_NC}),
        label="features of images",
        progress=progress,
    )
    reasons = {name: damaged[key] for name, key in key_of.items() if key in damaged}
    return _table({n: key for n, key in key_of.items() if n not in reasons}, rows, reasons)


def text_table(
    model: DualEncoder, texts: Sequence[str], cache: Path | None, progress: Progress
) -> FeatureTable:
    """Features of each; computed where the cache does not have them."""
    key_of = {text: text_key(text) for text in texts}
    rows = _rows(model, "text", cache, progress)
    missing = set(rows.missing(key_of.values()))
    text_of = {key: text for text, key in key_of.items() if key in missing}
    extract_texts(
        model,
        text_of,
        batches_of_one_length(model, text_of, TEXTS),
        lambda some: _in_passes(some, _features(model, "text"), model.device),
        lambda keys, vector_NC: rows.put(keys, {VECTOR: vector_NC}),
        label="features of captions",
        progress=progress,
    )
    return _table(key_of, rows)


def _in_passes(inputs: Tensor | list[str], run: Callable[..., Tensor], device: str) -> Tensor:
    """Rows of all inputs, from passes of one size; the last repeats its last input."""
    size = SLICE if device == "cpu" else SLICE_CUDA
    found = []
    for at in range(0, len(inputs), size):
        part = inputs[at : at + size]
        rest = size - len(part)
        if isinstance(part, list):
            rows = run([*part, *part[-1:] * rest])
        else:
            rows = run(torch.cat([part, part[-1:].expand(rest, *part.shape[1:])]))
        found.append(rows[: len(part)].cpu())
    return torch.cat(found)


def _table(
    key_of: Mapping[str, str], rows: TensorCache, damaged: Mapping[str, str] | None = None
) -> FeatureTable:
    """Rows in the order of the names; two names of one content share a row."""
    keys = list(dict.fromkeys(key_of.values()))
    if not keys:
        raise UnbagError("no image can be opened", expected="at least one, to train on")
    row_of = {key: row for row, key in enumerate(keys)}
    return FeatureTable(
        {name: row_of[key] for name, key in key_of.items()}, rows.get(keys), damaged or {}
    )


def _features(model: DualEncoder, encoder: EncoderName) -> Callable[..., Tensor]:
    """What the head of an encoder is given, or the vectors of an encoder without one."""
    if isinstance(model, PartEncoder):
        return model.image_features if encoder == "image" else model.text_features
    return model.encode_images if encoder == "image" else model.encode_texts


def _width(model: DualEncoder, encoder: EncoderName) -> int:
    """Numbers of an image or a text, found by trying one."""
    grey = PilImage.new("RGB", (64, 64), (128, 128, 128))
    inputs = model.prepare(grey)[None] if encoder == "image" else ["a"]
    return int(_features(model, encoder)(inputs).shape[1])


def _rows(
    model: DualEncoder, encoder: EncoderName, cache: Path | None, progress: Progress
) -> TensorCache:
    if cache is None:
        return TensorCache(None, progress=progress)
    name = model.fingerprint
    if isinstance(model, PartEncoder):
        name = model.part_fingerprint(encoder)
    folder = cache / f"{name}-{model.device.partition(':')[0]}" / encoder
    return TensorCache(folder, progress=progress)
