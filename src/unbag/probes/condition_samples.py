"""Vectors of concepts come in; every condition of an ideal space, put to all its samples, goes out.

Where a condition says i(y), y takes the place of x in the second picture: same colour, place, size,
texture and noise, another shape. Things of one ring are compared in pictures; names of things are
compared over all rings.

Dimensions: N samples of a condition, B rings, S things or pairs, K colourings, G places, D space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unbag.probes.concept_vectors import Concepts
from unbag.probes.concepts import THINGS, WAYS
from unbag.probes.conditions import Held, below_one, larger
from unbag.types import FloatArray


class Sample(NamedTuple):
    """One case of a condition."""

    ring: int
    thing: str
    """x"""
    against: str
    """What tells it from other samples of this x."""
    first: float
    """The cosine that must be larger, or must not be 1."""
    second: float | None = None
    """The cosine that must be smaller; None where the first must not be 1."""


@dataclass(frozen=True, eq=False)
class Samples:
    """A condition on all its cases."""

    held: Held
    first_N: FloatArray
    things: tuple[str, ...]
    units: tuple[str, ...]
    clusters: tuple[str, ...]


def condition_samples(concepts: Concepts) -> Mapping[str, Samples]:
    """All conditions, by name."""
    return {name: _samples(concepts, put(concepts)) for name, put in _ASKED.items()}


def _samples(concepts: Concepts, samples: Iterator[Sample]) -> Samples:
    found = tuple(samples)
    first_N = np.array([one.first for one in found])
    seconds = [one.second for one in found if one.second is not None]
    return Samples(
        larger(first_N, np.array(seconds)) if seconds else below_one(first_N),
        first_N,
        tuple(one.thing for one in found),
        tuple(f"{one.thing}/{one.against}" for one in found),
        tuple(concepts.rings[one.ring].name for one in found),
    )


def _each(concepts: Concepts) -> Iterator[tuple[int, int, str]]:
    """Every ring, thing and the thing's name."""
    for b, ring in enumerate(concepts.rings):
        for s, shape in enumerate(ring.shapes):
            yield b, s, shape


def _named(c: Concepts) -> Iterator[Sample]:
    for (b, s, x), (d, t, y) in permutations(_each(c), 2):
        picture_D = c.thing_BSD[b, s]
        yield Sample(b, x, y, _dot(picture_D, c.name_BSD[b, s]), _dot(picture_D, c.name_BSD[d, t]))


def _named_in_pair(c: Concepts) -> Iterator[Sample]:
    for (b, s, x), (d, t, z) in product(_each(c), repeat=2):
        for pair in (s, s - 1):
            shown = c.rings[b].neighbours(pair % THINGS)
            if z not in shown:
                picture_D = c.pair_BSD[b, pair]
                right, wrong = c.name_BSD[b, s], c.name_BSD[d, t]
                against = f"{'+'.join(shown)}/{z}"
                yield Sample(b, x, against, _dot(picture_D, right), _dot(picture_D, wrong))


def _beyond(vector_BSWD: FloatArray, c: Concepts) -> Iterator[Sample]:
    """A thing x one way is nearer to x the other way than to y the other way."""
    for b, ring in enumerate(c.rings):
        for (s, x), (t, y) in permutations(enumerate(ring.shapes), 2):
            for w in WAYS:
                one_D, itself_D = vector_BSWD[b, s, w], vector_BSWD[b, s, 1 - w]
                other_D = vector_BSWD[b, t, 1 - w]
                yield Sample(b, x, f"{y}/{w}", _dot(one_D, itself_D), _dot(one_D, other_D))


def _coloured_word(c: Concepts) -> Iterator[Sample]:
    for b, s, x in _each(c):
        for k in WAYS:
            word_D = c.colour_BKD[b, k]
            right, wrong = c.coloured_BSKD[b, s, k], c.coloured_BSKD[b, s, 1 - k]
            yield Sample(b, x, c.rings[b].colours[k], _dot(right, word_D), _dot(wrong, word_D))


def _apart(vector_BSWD: FloatArray, c: Concepts) -> Iterator[Sample]:
    """The two ways of a thing, or of the pair that begins with it, are told apart."""
    for b, s, x in _each(c):
        yield Sample(b, x, c.rings[b].neighbours(s)[1], _dot(*vector_BSWD[b, s]))


def _same_relation(c: Concepts) -> Iterator[Sample]:
    """Each thing has two neighbours: x g y against x g z and x g' z, and with y and z exchanged."""
    for b, s, x in _each(c):
        _, after = c.rings[b].neighbours(s)
        before, _ = c.rings[b].neighbours((s - 1) % THINGS)
        # x comes second in the pair before it, so that place g of x is place 1 - g of that pair.
        to_next_GD, to_last_GD = c.related_BSGD[b, s], c.related_BSGD[b, s - 1][::-1]
        for y, z, y_GD, z_GD in (
            (after, before, to_next_GD, to_last_GD),
            (before, after, to_last_GD, to_next_GD),
        ):
            for g in WAYS:
                same, opposite = _dot(y_GD[g], z_GD[g]), _dot(y_GD[g], z_GD[1 - g])
                yield Sample(b, x, f"{y}/{z}/{g}", same, opposite)


def _denied_in_words(c: Concepts) -> Iterator[Sample]:
    for (b, s, x), (d, t, y) in permutations(_each(c), 2):
        no_D = c.denial_BSD[b, s]
        yield Sample(b, x, y, _dot(c.name_BSD[d, t], no_D), _dot(c.name_BSD[b, s], no_D))


def _denied_in_picture(c: Concepts) -> Iterator[Sample]:
    for (b, s, x), (d, t, y) in permutations(_each(c), 2):
        picture_D = c.thing_BSD[b, s]
        other, no = c.name_BSD[d, t], c.denial_BSD[b, s]
        yield Sample(b, x, y, _dot(picture_D, other), _dot(picture_D, no))


def _dot(first_D: FloatArray, second_D: FloatArray) -> float:
    return float(first_D @ second_D)


_ASKED: Mapping[str, Callable[[Concepts], Iterator[Sample]]] = MappingProxyType(
    {
        "1.1a": _named,
        "1.1b": _named_in_pair,
        "1.2a": lambda c: _beyond(c.coloured_BSKD, c),
        "1.2b": lambda c: _beyond(c.placed_BSGD, c),
        "2.1": lambda c: _apart(c.coloured_BSKD, c),
        "2.2": _coloured_word,
        "2.3": lambda c: _apart(c.bound_BSKD, c),
        "3.1": lambda c: _apart(c.placed_BSGD, c),
        "3.2": lambda c: _apart(c.related_BSGD, c),
        "3.3": _same_relation,
        "4.1": _denied_in_words,
        "4.2": _denied_in_picture,
    }
)
