"""A space and pictures or captions come in; features at each place of a tower go out.

Dimensions: N pictures or captions, D joint space, L patches or words, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import TypeAlias, TypeVar

import numpy as np

from unbag.engine.cache import Vectors
from unbag.errors import UserError, said_by
from unbag.probes.finding import Options
from unbag.probes.space import Features, Space
from unbag.types import BoolArray, FloatArray, Picture

Given = TypeVar("Given")
Ask: TypeAlias = Callable[[Sequence[Given], Sequence[int]], tuple[Features, ...]]
CHUNK = 64
"""Inputs whose layers are in memory at once: only their means are kept."""
NO_SUCH_LAYER = "there is no layer"
NO_LAYERS = "the model does not show its layers: only the vector that is compared was read from"


@dataclass(frozen=True, eq=False)
class Summary:
    """One layer, without its patches or words."""

    mean_NW: Vectors
    pooled_NW: Vectors | None
    quarter_NQ: Vectors | None = None
    """Means over each quarter of a picture, one after the other; None where there is no square
    grid of patches."""


@dataclass(frozen=True, eq=False)
class Places:
    """Where can be read from."""

    projected_ND: FloatArray
    """What is compared."""
    whole: Features | None = None
    """All patches or words of the last layer."""
    layers: Mapping[int, Summary] = field(default_factory=dict)
    """By number from 0; the last is what enters the projection."""
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> Summary | None:
        """The layer that enters the projection."""
        return self.layers[max(self.layers)] if self.layers else None


def picture_places(space: Space, pictures: Sequence[Picture], options: Options) -> Places:
    """Those of pictures: projected, the last layer, and layers for a curve."""
    view = space.layers
    projected_ND = space.pictures(pictures)
    if view is None:
        return Places(projected_ND, notes=(NO_LAYERS,))
    return _places(
        projected_ND, pictures, view.pictures, lambda: view.picture_depth, options, quarters
    )


def caption_places(space: Space, captions: Sequence[str], options: Options) -> Places:
    """Those of captions."""
    view = space.layers
    projected_ND = space.captions(captions)
    if view is None:
        return Places(projected_ND, notes=(NO_LAYERS,))
    return _places(projected_ND, captions, view.captions, lambda: view.caption_depth, options)


def _places(
    projected_ND: FloatArray,
    given: Sequence[Given],
    ask: Ask[Given],
    depth: Callable[[], int],
    options: Options,
    quartered: Callable[[Features], Vectors | None] | None = None,
) -> Places:
    """Pictures have a curve by default, captions only in full: it is quick to do without."""
    try:
        layers, note = curve_layers(depth(), options, has_curve=quartered is not None)
        parts = list(_parts(given, ask, layers, quartered or (lambda _: None)))
    except UserError as error:
        return Places(projected_ND, notes=(f"{NO_LAYERS} ({said_by(error)})",))
    summaries = {
        layer: _joined([summaries[at] for summaries, _ in parts]) for at, layer in enumerate(layers)
    }
    whole = _padded([features for _, features in parts])
    return Places(projected_ND, whole, summaries, note)


def curve_layers(
    depth: int, options: Options, *, has_curve: bool = True
) -> tuple[list[int], tuple[str, ...]]:
    """The last, those asked for, and two for a curve (all of them in full), from 0 on."""
    beyond = sorted({layer for layer in options.layers if not -depth <= layer < depth})
    asked = {layer % depth for layer in options.layers if layer not in beyond}
    few = (0, (depth - 1) // 2, depth - 1) if has_curve else (depth - 1,)
    usual = range(depth) if options.is_full else few
    notes = [f"{NO_SUCH_LAYER} {layer}: there are {depth}, from 0 on" for layer in beyond]
    return sorted({*usual, *asked}), tuple(notes)


def _parts(
    given: Sequence[Given],
    ask: Ask[Given],
    layers: Sequence[int],
    quartered: Callable[[Features], Vectors | None],
) -> Iterator[tuple[list[Summary], Features]]:
    for at in range(0, len(given), CHUNK):
        found = ask(given[at : at + CHUNK], layers)
        yield (
            [Summary(mean_place(one), one.pooled_NW, quartered(one)) for one in found],
            found[-1],
        )


def mean_place(features: Features) -> Vectors:
    """The mean over patches or words; NaN where there is none."""
    mask_NL = features.mask_NL
    count_N = mask_NL.sum(axis=1, dtype=np.float32)
    seen_NLW = np.where(mask_NL[..., None], features.vector_NLW, np.float32(0))
    with np.errstate(invalid="ignore"):
        mean_NW: Vectors = seen_NLW.sum(axis=1) / count_N[:, None]
    return mean_NW


def quarters(features: Features) -> Vectors | None:
    """[N, 4 W]: the mean patch of each quarter; None unless patches fill a square grid."""
    n, length, wide = features.vector_NLW.shape
    side = isqrt(length)
    if side < 2 or side * side != length or not features.mask_NL.all():
        return None
    grid_NRCW = features.vector_NLW.reshape(n, side, side, wide)
    halves = (slice(None, side // 2), slice(side // 2, None))
    means = [grid_NRCW[:, rows, columns].mean(axis=(1, 2)) for rows in halves for columns in halves]
    return np.concatenate(means, axis=1)


def _joined(parts: Sequence[Summary]) -> Summary:
    return Summary(
        np.concatenate([part.mean_NW for part in parts]),
        _whole([part.pooled_NW for part in parts]),
        _whole([part.quarter_NQ for part in parts]),
    )


def _whole(parts: Sequence[Vectors | None]) -> Vectors | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _padded(parts: Sequence[Features]) -> Features:
    """One after the other; padding is zeros outside the mask."""
    count = sum(len(part.mask_NL) for part in parts)
    long = max(part.mask_NL.shape[1] for part in parts)
    wide = max(part.vector_NLW.shape[2] for part in parts)
    vector_NLW = np.zeros((count, long, wide), dtype=np.float32)
    mask_NL: BoolArray = np.zeros((count, long), dtype=np.bool_)
    at = 0
    for part in parts:
        n, length, width = part.vector_NLW.shape
        vector_NLW[at : at + n, :length, :width] = part.vector_NLW
        mask_NL[at : at + n, :length] = part.mask_NL
        at += n
    return Features(vector_NLW, mask_NL)
