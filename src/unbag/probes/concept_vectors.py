"""Rings of pictures and a space come in; the vector of each concept goes out.

i(x), i(x_a), i(x,g) ... are means of the unit vectors of all pictures that show the concept, at
unit length again: a condition asks about the concept, not about one rendering.

Dimensions: B rings, S things or pairs of a ring, K colourings, G places, R renderings, D space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.probes.concepts import THINGS, WAYS, Ring
from unbag.probes.space import Space
from unbag.probes.vectors import unit
from unbag.types import FloatArray
from unbag.world.draw import ScenePicture
from unbag.world.grammar import Ast, Not, Obj
from unbag.world.realise import realise


@dataclass(frozen=True, eq=False)
class Concepts:
    """Unit vectors; NaN where a picture could not be opened or a mean has no direction."""

    rings: tuple[Ring, ...]
    thing_BSD: FloatArray
    """i(x)"""
    coloured_BSKD: FloatArray
    """i(x_a), i(x_b)"""
    placed_BSGD: FloatArray
    """i(x,g1), i(x,g2)"""
    pair_BSD: FloatArray
    """i(x,y)"""
    bound_BSKD: FloatArray
    """i(x_a,y_b), i(x_b,y_a)"""
    related_BSGD: FloatArray
    """i(x,g3,y), i(x,g4,y)"""
    name_BSD: FloatArray
    """t(x): "a star"."""
    denial_BSD: FloatArray
    """t(not x): "no star"."""
    colour_BKD: FloatArray
    """t(a): "a red thing"."""


def concept_vectors(space: Space, rings: Sequence[Ring]) -> Concepts:
    """Ask the space for every picture and caption of the rings."""
    # All at once: a space encodes in batches.
    space.pictures([p for ring in rings for p in (*ring.alone(), *ring.pairs())])
    thing_BSKGRD = _pictures(space, rings, Ring.alone)
    pair_BSKGRD = _pictures(space, rings, Ring.pairs)
    return Concepts(
        tuple(rings),
        thing_BSD=_mean(thing_BSKGRD, over=(2, 3, 4)),
        coloured_BSKD=_mean(thing_BSKGRD, over=(3, 4)),
        placed_BSGD=_mean(thing_BSKGRD, over=(2, 4)),
        pair_BSD=_mean(pair_BSKGRD, over=(2, 3, 4)),
        bound_BSKD=_mean(pair_BSKGRD, over=(3, 4)),
        related_BSGD=_mean(pair_BSKGRD, over=(2, 4)),
        name_BSD=_captions(space, rings, lambda ring: map(Obj, ring.shapes)),
        denial_BSD=_captions(space, rings, lambda ring: (Not(Obj(s)) for s in ring.shapes)),
        colour_BKD=_captions(space, rings, lambda ring: (Obj(None, c) for c in ring.colours)),
    )


def _pictures(
    space: Space, rings: Sequence[Ring], shown: Callable[[Ring], Iterable[ScenePicture]]
) -> FloatArray:
    vector_ND = unit(space.pictures([picture for ring in rings for picture in shown(ring)]))
    ways = len(WAYS)
    return vector_ND.reshape(len(rings), THINGS, ways, ways, -1, vector_ND.shape[-1])


def _captions(
    space: Space, rings: Sequence[Ring], said: Callable[[Ring], Iterable[Ast]]
) -> FloatArray:
    vector_ND = unit(space.captions([realise(ast) for ring in rings for ast in said(ring)]))
    return vector_ND.reshape(len(rings), -1, vector_ND.shape[-1])


def _mean(vector_BSKGRD: FloatArray, *, over: tuple[int, ...]) -> FloatArray:
    return unit(np.mean(vector_BSKGRD, axis=over))
