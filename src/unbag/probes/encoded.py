"""A dual encoder comes in; a space that encodes each picture and each caption once goes out.

Dimensions: N pictures or captions, D joint space, L patches or words, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from unbag.engine.embed import embed
from unbag.engine.plan import Plan
from unbag.engine.progress import Progress, Silent
from unbag.probes.encoded_parts import EncoderLayers, EncoderTokens
from unbag.types import DualEncoder, FloatArray, LayerEncoder, Picture, TokenEncoder

BATCH = 256


class EncoderSpace:
    """The vectors of a model, kept in memory, and on disk if there is a cache."""

    def __init__(
        self,
        encoder: DualEncoder,
        *,
        cache: Path | None = None,
        batch: int = BATCH,
        progress: Progress | None = None,
    ) -> None:
        """Nothing is encoded before it is asked for."""
        self.encoder = encoder
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.damaged: dict[str, str] = {}
        progress = progress or Silent()
        has_layers, has_tokens = (
            isinstance(encoder, LayerEncoder),
            isinstance(encoder, TokenEncoder),
        )
        self.layers = EncoderLayers(encoder, progress, self.damaged) if has_layers else None
        self.tokens = EncoderTokens(encoder, progress, self.damaged) if has_tokens else None
        self._cache = cache
        self._batch = batch
        self._progress = progress
        self._picture: dict[str, FloatArray] = {}
        self._caption: dict[str, FloatArray] = {}

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        """Unit vectors [N, D] in double precision; NaN for a picture that cannot be opened."""
        keys = [picture.key for picture in pictures]
        self._encode({k: p for k, p in zip(keys, pictures, strict=True) if k not in self._picture})
        # Where nothing could be opened so far, the width is not known.
        width = _width(self._picture)
        empty_D = np.full(width, np.nan)
        rows = [self._picture[key] for key in keys]
        return np.array([row if len(row) == width else empty_D for row in rows]).reshape(-1, width)

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        self._encode({}, tuple(dict.fromkeys(c for c in captions if c not in self._caption)))
        rows = [self._caption[caption] for caption in captions]
        return np.array(rows).reshape(-1, _width(self._caption))

    def _encode(self, pictures: Mapping[str, Picture], captions: tuple[str, ...] = ()) -> None:
        if not pictures and not captions:
            return
        plan = Plan(tuple(pictures.values()), tuple(pictures), captions, captions, {}, {})
        found = embed(
            self.encoder,
            plan,
            cache=self._cache,
            grids={},
            save_grids=_nothing,
            batch=self._batch,
            progress=self._progress,
        )
        self.damaged.update(found.damaged)
        if pictures:
            self._picture.update(zip(pictures, found.picture_ND.astype(float), strict=True))
        if captions:
            self._caption.update(zip(captions, found.caption_ND.astype(float), strict=True))


def _nothing() -> None:
    """A diagnosis is not continued batch by batch."""


def _width(known: Mapping[str, FloatArray]) -> int:
    return max((len(row) for row in known.values()), default=1)
