"""A seed comes in; pictures and captions with labels that no bag of words gives away go out.

Shapes are dealt into two hands, colours too; each picture or caption has one shape and one colour
of each hand. A label says how they belong together: is the shape of the first hand on the left,
has it the colour of the first hand. Both answers have exactly the same words, so a bag of words is
at chance, and a reader that has seen each shape with some partners can answer for the others.
Dimensions: N pictures or captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from unbag.metrics.resample import generator
from unbag.types import IntArray
from unbag.world.words import DEFAULT

Given = TypeVar("Given", covariant=True)
SHAPES = 4
COLOURS = 2
"""Of each hand."""


@dataclass(frozen=True, eq=False)
class Label:
    """What is to be read."""

    name: str
    """Short, for names of quantities: "left/right"."""
    class_N: IntArray
    bag: float
    """What a reader of a perfect bag of words would reach."""
    captions: tuple[tuple[str, ...], ...] = ()
    """For each picture a caption for each class, by which the model's own score decides."""


@dataclass(frozen=True, eq=False)
class Sheet(Generic[Given]):
    """Pictures or captions that share labels and groups."""

    given: tuple[Given, ...]
    groups: tuple[str, ...]
    """The things shown or named: never in both parts, and resampled together."""
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class Hands:
    """Shapes and colours, each in two hands."""

    shapes: tuple[tuple[str, ...], tuple[str, ...]]
    colours: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every shape of the first hand with every one of the second."""
        return tuple((a, b) for a in self.shapes[0] for b in self.shapes[1])


@dataclass(frozen=True)
class Deal:
    """Two shapes and two colours of different hands."""

    shapes: tuple[str, str]
    colours: tuple[str, str]

    @property
    def group(self) -> str:
        """The pair of things."""
        return " + ".join(self.shapes)


def hands(seed: int) -> Hands:
    """Dealt by the seed."""
    rng = generator(seed, "hands")
    return Hands(_dealt(DEFAULT.shapes, SHAPES, rng), _dealt(DEFAULT.colours, COLOURS, rng))


def deals(count: int, *, seed: int, use: str) -> tuple[Deal, ...]:
    """All pairs of shapes in turn, with colours by chance; number i is the same for any count."""
    found = hands(seed)
    pairs = found.pairs
    rows = []
    for i in range(count):
        at = generator(seed, use, str(i)).integers(COLOURS, size=2).tolist()
        colours = (found.colours[0][at[0]], found.colours[1][at[1]])
        rows.append(Deal(pairs[i % len(pairs)], colours))
    return tuple(rows)


def classes(row: Sequence[int], count: int) -> IntArray:
    """The same classes for each of `count` sets, one after the other."""
    return np.tile(np.array(row, dtype=np.int64), count)


def _dealt(
    values: Sequence[str], size: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    chosen = [values[at] for at in rng.permutation(len(values))[: 2 * size].tolist()]
    return tuple(chosen[:size]), tuple(chosen[size:])
