"""An encoder that shows layers, patches or words comes in; those of many inputs go out as arrays.

Dimensions: N pictures or captions, D joint space, L patches or words, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unbag.engine.cache import Vectors
from unbag.engine.progress import Progress
from unbag.engine.reading import Batch, Turn, reading
from unbag.probes.space import Features
from unbag.types import (
    BoolArray,
    DualEncoder,
    LayerEncoder,
    Layers,
    Picture,
    TokenEncoder,
    Tokens,
)

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 32
"""Inputs whose layers are in memory at once: a layer is a hundred times the size of its vector."""


class EncoderLayers:
    """Layers of both towers of a model."""

    def __init__(self, encoder: DualEncoder, progress: Progress, damaged: dict[str, str]) -> None:
        """The encoder must be a LayerEncoder; pictures that cannot be opened go to `damaged`."""
        assert isinstance(encoder, LayerEncoder)
        self._encoder: LayerEncoder = encoder
        self._progress = progress
        self._damaged = damaged

    @cached_property
    def picture_depth(self) -> int:
        """Found by asking for one grey picture."""
        from PIL import Image

        pixels = self._encoder.prepare(Image.new("RGB", (64, 64), (128, 128, 128)))
        return len(self._encoder.picture_layers(pixels[None]).vector_NLW)

    @cached_property
    def caption_depth(self) -> int:
        """Found by asking for one caption."""
        return len(self._encoder.caption_layers(["a"]).vector_NLW)

    def pictures(self, pictures: Sequence[Picture], layers: Sequence[int]) -> tuple[Features, ...]:
        """The layers asked for, in one pass over the different pictures."""
        kept = [_Kept() for _ in layers]
        with _opened(self._encoder, pictures, self._progress, self._damaged) as batches:
            for batch in batches:
                if batch.pixels is not None:
                    _keep(kept, layers, batch.keys, self._encoder.picture_layers(batch.pixels))
        keys = [picture.key for picture in pictures]
        return tuple(one.features(keys) for one in kept)

    def captions(self, captions: Sequence[str], layers: Sequence[int]) -> tuple[Features, ...]:
        """Likewise; captions are padded to the longest."""
        kept = [_Kept() for _ in layers]
        for some in _batches(captions, self._encoder.name, self._progress):
            _keep(kept, layers, some, self._encoder.caption_layers(some))
        return tuple(one.features(captions) for one in kept)


class EncoderTokens:
    """Patches and words of a model in the joint space."""

    def __init__(self, encoder: DualEncoder, progress: Progress, damaged: dict[str, str]) -> None:
        """The encoder must be a TokenEncoder; pictures that cannot be opened go to `damaged`."""
        assert isinstance(encoder, TokenEncoder)
        self._encoder: TokenEncoder = encoder
        self._progress = progress
        self._damaged = damaged

    def pictures(self, pictures: Sequence[Picture]) -> Features:
        """Patches, row by row from the top left."""
        kept = _Kept()
        with _opened(self._encoder, pictures, self._progress, self._damaged) as batches:
            for batch in batches:
                if batch.pixels is not None:
                    _keep_tokens(kept, batch.keys, self._encoder.encode_patches(batch.pixels))
        return kept.features([picture.key for picture in pictures])

    def captions(self, captions: Sequence[str]) -> Features:
        """Words or their pieces."""
        kept = _Kept()
        for some in _batches(captions, self._encoder.name, self._progress):
            _keep_tokens(kept, some, self._encoder.encode_tokens(some))
        return kept.features(captions)


class _Kept:
    """Vectors of one layer by key; lengths may differ from batch to batch."""

    def __init__(self) -> None:
        self.vector_LW: dict[str, Vectors] = {}
        self.mask_L: dict[str, BoolArray] = {}
        self.pooled_W: dict[str, Vectors] = {}

    def add(
        self, keys: Sequence[str], vector_NLW: Tensor, mask_NL: Tensor, pooled: Tensor | None
    ) -> None:
        self.vector_LW.update(zip(keys, vector_NLW.float().cpu().numpy(), strict=True))
        self.mask_L.update(zip(keys, mask_NL.cpu().numpy(), strict=True))
        if pooled is not None:
            self.pooled_W.update(zip(keys, pooled.float().cpu().numpy(), strict=True))

    def features(self, keys: Sequence[str]) -> Features:
        """In the order of the keys; NaN for those that are not there."""
        shapes = [one.shape for one in self.vector_LW.values()] or [(1, 1)]
        long, wide = max(shape[0] for shape in shapes), shapes[0][1]
        vector_NLW = np.full((len(keys), long, wide), np.nan, dtype=np.float32)
        mask_NL = np.zeros((len(keys), long), dtype=np.bool_)
        pooled_NW = np.full((len(keys), wide), np.nan, dtype=np.float32)
        for at, key in enumerate(keys):
            if key not in self.vector_LW:
                continue
            # Padding is zeros, so that sums over a mask never meet NaN.
            vector_NLW[at] = 0
            vector_NLW[at, : len(self.vector_LW[key])] = self.vector_LW[key]
            mask_NL[at, : len(self.mask_L[key])] = self.mask_L[key]
            if key in self.pooled_W:
                pooled_NW[at] = self.pooled_W[key]
        return Features(vector_NLW, mask_NL, pooled_NW if self.pooled_W else None)


def _keep(kept: Sequence[_Kept], layers: Sequence[int], keys: Sequence[str], found: Layers) -> None:
    for one, layer in zip(kept, layers, strict=True):
        one.add(keys, found.vector_NLW[layer], found.mask_NL, found.pooled_NW[layer])


def _keep_tokens(kept: _Kept, keys: Sequence[str], found: Tokens) -> None:
    kept.add(keys, found.vector_NLD, found.mask_NL, None)


@contextmanager
def _opened(
    encoder: DualEncoder,
    pictures: Sequence[Picture],
    progress: Progress,
    damaged: dict[str, str],
) -> Iterator[Iterator[Batch]]:
    """The different pictures, prepared, with a bar."""
    picture_of = {picture.key: picture for picture in pictures}
    keys = list(picture_of)
    todo = [keys[at : at + BATCH] for at in range(0, len(keys), BATCH)]
    with (
        progress.task(f"{encoder.name}: patches", len(keys)) as advance,
        reading(encoder, picture_of, todo, turn=Turn(encoder.device)) as batches,
    ):
        yield _told(batches, picture_of, advance, damaged)


def _told(
    batches: Iterator[Batch],
    picture_of: Mapping[str, Picture],
    advance: Callable[[int], None],
    damaged: dict[str, str],
) -> Iterator[Batch]:
    for batch in batches:
        damaged.update({picture_of[key].name: why for key, why in batch.damaged.items()})
        yield batch
        advance(len(batch.keys) + len(batch.damaged))


def _batches(captions: Sequence[str], name: str, progress: Progress) -> Iterator[list[str]]:
    """The different captions, those of like length together."""
    unique = sorted(dict.fromkeys(captions), key=lambda caption: (len(caption), caption))
    with progress.task(f"{name}: words", len(unique)) as advance:
        for at in range(0, len(unique), BATCH):
            yield unique[at : at + BATCH]
            advance(len(unique[at : at + BATCH]))
