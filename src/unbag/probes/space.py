"""Vectors of images and captions for probes, and the geometry that compares them.

A space is a model (`EncoderSpace`) or a constructed reference with known verdicts
(`unbag.probes.reference_spaces`). It caches its vectors, so probes can ask for them repeatedly.

Dimensions: N images or captions, D joint space, M gallery, L patches or words, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from unbag.evaluation.embedding import embed
from unbag.evaluation.plan import Plan
from unbag.models.features import batches_of, extract_images, extract_texts
from unbag.runs.cache import Vectors
from unbag.runs.progress import Progress, Silent
from unbag.types import (
    BoolArray,
    DualEncoder,
    FloatArray,
    ImageSource,
    LayerEncoder,
    Layers,
    TokenEncoder,
    TokenFeatures,
)

if TYPE_CHECKING:
    from torch import Tensor


class Space(Protocol):
    """A joint space of images and captions."""

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def fingerprint(self) -> str:
        """Identity of the vectors: changes whenever a vector could change."""

    @property
    def damaged(self) -> Mapping[str, str]:
        """Names of the images that could not be opened so far, with the reasons."""

    @property
    def layers(self) -> LayerView | None:
        """Features of each layer; None where the model does not expose them."""

    @property
    def tokens(self) -> TokenView | None:
        """Patches and words in the joint space; None where the model does not expose them."""

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Unit vectors [N, D]; NaN for an image that cannot be opened."""

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D]."""


class LayerView(Protocol):
    """Layers of both encoders: 0 is the input of the first block, the last that of the projection.

    Vectors are not normalised, and NaN for an image that cannot be opened. An encoder whose layers
    cannot be read raises UnbagError.
    """

    @property
    def picture_depth(self) -> int:
        """Number of layers of the image encoder, input and output included."""

    @property
    def caption_depth(self) -> int:
        """Number of layers of the text encoder."""

    def images(
        self, images: Sequence[ImageSource], layers: Sequence[int]
    ) -> tuple[TokenFeatures, ...]:
        """Return these layers (-1 is the last), in one pass over the images."""

    def captions(self, captions: Sequence[str], layers: Sequence[int]) -> tuple[TokenFeatures, ...]:
        """Return these layers; captions are padded to the longest."""


class TokenView(Protocol):
    """Patches and words as unit vectors in the joint space, [N, L, D]."""

    def images(self, images: Sequence[ImageSource]) -> TokenFeatures:
        """Patches, row by row from the top left."""

    def captions(self, captions: Sequence[str]) -> TokenFeatures:
        """Words or their pieces."""


TIE = 1e-6
"""Cosines of vectors in single precision that differ by less are equal but for rounding."""


def unit(vector_ND: FloatArray) -> FloatArray:
    """Normalise to length 1; NaN for vectors of length 0."""
    length_N1 = np.linalg.norm(vector_ND, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Vectors that cancel out up to rounding have no direction either.
        return np.where(length_N1 > 1e-12, vector_ND / length_N1, np.nan)


def cosines(first_ND: FloatArray, second_ND: FloatArray) -> FloatArray:
    """Return the cosine of each row with the same row of the other, [N]."""
    cosine_N: FloatArray = (unit(first_ND) * unit(second_ND)).sum(axis=-1)
    return cosine_N


def centred(vector_ND: FloatArray, gallery_MD: FloatArray) -> FloatArray:
    """Subtract the mean of the gallery: vectors of one model lie in a cone, and share its axis."""
    axis_D: FloatArray = gallery_MD.mean(axis=0)
    return vector_ND - axis_D


def spearman(first_ND: FloatArray, second_ND: FloatArray) -> FloatArray:
    """Return the rank correlation of the D numbers of each two rows, [N]; NaN for constant vectors.

    Source: Li et al. 2024, section 3.2. A high cosine does not mean that vectors hold no
    difference: (10, 11, 12) and (12, 11, 10) have cosine 0.989 and correlation -1.
    """
    from scipy.stats import rankdata

    ranks = [
        np.asarray(rankdata(ranks_ND, axis=-1), dtype=float) for ranks_ND in (first_ND, second_ND)
    ]
    first, second = (ranks_ND - ranks_ND.mean(axis=-1, keepdims=True) for ranks_ND in ranks)
    return cosines(first, second)


Encoder = TypeVar("Encoder", bound=DualEncoder)
Features = TypeVar("Features")
BATCH = 256
"""Inputs per batch."""
LAYERS_BATCH = 32
"""Inputs per batch where layers are read: a layer is a hundred times the size of a vector."""


class EncoderSpace:
    """The vectors of a model, cached in memory, and on disk with a cache folder."""

    def __init__(
        self,
        encoder: DualEncoder,
        *,
        cache: Path | None = None,
        batch_size: int = BATCH,
        progress: Progress | None = None,
    ) -> None:
        """Encode nothing yet: vectors are computed on first use."""
        self.encoder = encoder
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.damaged: dict[str, str] = {}
        progress = progress or Silent()
        self.layers = self.tokens = None
        if isinstance(encoder, LayerEncoder):
            self.layers = EncoderLayers(encoder, progress, self.damaged)
        if isinstance(encoder, TokenEncoder):
            self.tokens = EncoderTokens(encoder, progress, self.damaged)
        self._cache = cache
        self._batch = batch_size
        self._progress = progress
        self._image: dict[str, FloatArray] = {}
        self._caption: dict[str, FloatArray] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Return unit vectors [N, D] in double precision; NaN for images that cannot be opened."""
        keys = [image.key for image in images]
        self._encode({k: p for k, p in zip(keys, images, strict=True) if k not in self._image})
        # The width is not known before an image could be opened.
        width = _width(self._image)
        empty_D = np.full(width, np.nan)
        rows = [self._image[key] for key in keys]
        return np.array([row if len(row) == width else empty_D for row in rows]).reshape(-1, width)

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Return unit vectors [N, D] in double precision."""
        self._encode({}, tuple(dict.fromkeys(c for c in captions if c not in self._caption)))
        rows = [self._caption[caption] for caption in captions]
        return np.array(rows).reshape(-1, _width(self._caption))

    def _encode(self, images: Mapping[str, ImageSource], captions: tuple[str, ...] = ()) -> None:
        if not images and not captions:
            return
        plan = Plan(tuple(images.values()), tuple(images), captions, captions)
        embeddings = embed(
            self.encoder,
            plan,
            cache=self._cache,
            batch_size=self._batch,
            progress=self._progress,
        )
        self.damaged.update(embeddings.damaged)
        if images:
            self._image.update(zip(images, embeddings.image_ND.astype(float), strict=True))
        if captions:
            self._caption.update(zip(captions, embeddings.caption_ND.astype(float), strict=True))


def _width(known: Mapping[str, FloatArray]) -> int:
    return max((len(row) for row in known.values()), default=1)


class _InnerView(Generic[Encoder]):
    """Extracts inner features of an encoder, each unique input once per call."""

    def __init__(self, encoder: Encoder, progress: Progress, damaged: dict[str, str]) -> None:
        """Collect images that cannot be opened in `damaged`."""
        self._encoder = encoder
        self._progress = progress
        self._damaged = damaged

    def _extract_images(
        self,
        images: Sequence[ImageSource],
        encode: Callable[[Tensor], Features],
        put: Callable[[Sequence[str], Features], None],
    ) -> None:
        image_of = {image.key: image for image in images}
        damaged = extract_images(
            self._encoder,
            image_of,
            batches_of(list(image_of), LAYERS_BATCH),
            encode,
            put,
            label=f"{self._encoder.name}: patches",
            progress=self._progress,
        )
        self._damaged.update({image_of[key].name: why for key, why in damaged.items()})

    def _extract_captions(
        self,
        captions: Sequence[str],
        encode: Callable[[list[str]], Features],
        put: Callable[[Sequence[str], Features], None],
    ) -> None:
        # Sorted by length, for little padding.
        unique = sorted(dict.fromkeys(captions), key=lambda caption: (len(caption), caption))
        extract_texts(
            self._encoder,
            {caption: caption for caption in unique},
            batches_of(unique, LAYERS_BATCH),
            encode,
            put,
            label=f"{self._encoder.name}: words",
            progress=self._progress,
        )


class EncoderLayers(_InnerView[LayerEncoder]):
    """Layers of both encoders of a model."""

    @cached_property
    def picture_depth(self) -> int:
        """Number of layers, found by encoding one grey image."""
        from PIL import Image

        pixels = self._encoder.prepare(Image.new("RGB", (64, 64), (128, 128, 128)))
        return len(self._encoder.image_layers(pixels[None]).vector_NLW)

    @cached_property
    def caption_depth(self) -> int:
        """Number of layers, found by encoding one caption."""
        return len(self._encoder.text_layers(["a"]).vector_NLW)

    def images(
        self, images: Sequence[ImageSource], layers: Sequence[int]
    ) -> tuple[TokenFeatures, ...]:
        """Return these layers, in one pass over the unique images."""
        vectors = [_LayerVectors() for _ in layers]
        put = partial(_add_layers, vectors, layers)
        self._extract_images(images, self._encoder.image_layers, put)
        keys = [image.key for image in images]
        return tuple(layer_vectors.features(keys) for layer_vectors in vectors)

    def captions(self, captions: Sequence[str], layers: Sequence[int]) -> tuple[TokenFeatures, ...]:
        """Return these layers; captions are padded to the longest."""
        vectors = [_LayerVectors() for _ in layers]
        put = partial(_add_layers, vectors, layers)
        self._extract_captions(captions, self._encoder.text_layers, put)
        return tuple(layer_vectors.features(captions) for layer_vectors in vectors)


class EncoderTokens(_InnerView[TokenEncoder]):
    """Patches and words of a model in the joint space."""

    def images(self, images: Sequence[ImageSource]) -> TokenFeatures:
        """Patches, row by row from the top left."""
        vectors = _LayerVectors()
        self._extract_images(images, self._encoder.encode_patches, vectors.add_tokens)
        return vectors.features([image.key for image in images])

    def captions(self, captions: Sequence[str]) -> TokenFeatures:
        """Words or their pieces."""
        vectors = _LayerVectors()
        self._extract_captions(captions, self._encoder.encode_tokens, vectors.add_tokens)
        return vectors.features(captions)


class _LayerVectors:
    """Vectors of one layer by key; lengths may differ from batch to batch."""

    def __init__(self) -> None:
        self.vector_LW: dict[str, Vectors] = {}
        self.mask_L: dict[str, BoolArray] = {}
        self.pooled_W: dict[str, Vectors] = {}

    def add(self, keys: Sequence[str], features: TokenFeatures) -> None:
        self.add_tokens(keys, features)
        if features.pooled_NW is not None:
            pooled_NW = features.pooled_NW.float().cpu().numpy()
            self.pooled_W.update(zip(keys, pooled_NW, strict=True))

    def add_tokens(self, keys: Sequence[str], features: TokenFeatures) -> None:
        """Add features without the pooled vector."""
        vector_NLW = features.vector_NLW.float().cpu().numpy()
        self.vector_LW.update(zip(keys, vector_NLW, strict=True))
        self.mask_L.update(zip(keys, features.mask_NL.cpu().numpy(), strict=True))

    def features(self, keys: Sequence[str]) -> TokenFeatures:
        """Return features in the order of the keys; NaN for missing keys."""
        import torch

        shapes = [vector_LW.shape for vector_LW in self.vector_LW.values()] or [(1, 1)]
        length, width = max(shape[0] for shape in shapes), shapes[0][1]
        vector_NLW = np.full((len(keys), length, width), np.nan, dtype=np.float32)
        mask_NL = np.zeros((len(keys), length), dtype=np.bool_)
        pooled_NW = np.full((len(keys), width), np.nan, dtype=np.float32)
        for row, key in enumerate(keys):
            if key not in self.vector_LW:
                continue
            # Padding is 0, so that masked sums never meet NaN.
            vector_NLW[row] = 0
            vector_NLW[row, : len(self.vector_LW[key])] = self.vector_LW[key]
            mask_NL[row, : len(self.mask_L[key])] = self.mask_L[key]
            if key in self.pooled_W:
                pooled_NW[row] = self.pooled_W[key]
        return TokenFeatures(
            torch.from_numpy(vector_NLW),
            torch.from_numpy(mask_NL),
            torch.from_numpy(pooled_NW) if self.pooled_W else None,
        )


def _add_layers(
    vectors: Sequence[_LayerVectors], layers: Sequence[int], keys: Sequence[str], features: Layers
) -> None:
    for layer_vectors, layer in zip(vectors, layers, strict=True):
        layer_vectors.add(keys, features[layer])
