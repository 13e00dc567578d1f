"""Cosines come in; how often each condition of an ideal joint space holds goes out.

Conditions 1.1 to 4.2 of S1, section 3.1. i(.) is the vector of a picture, t(.) of a caption; x, y,
z are things, a, b attributes, g locations or relations. "Less than 1" never fails by equality, so
it is asked with a margin. Limits: 4.1 is arguably too strong, since a caption and its negation
share a topic; it is reported and decides nothing.

Dimensions: N samples of a condition.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from unbag.errors import UserError
from unbag.types import FloatArray

DELTA = 0.05
"""What a cosine must lack of 1; the complement of the threshold of agreement."""
TIE = 1e-9
"""Cosines nearer than this are equal: sums in another order differ by as little."""


@dataclass(frozen=True)
class Condition:
    """One row of the table."""

    requirement: str
    chance: float
    """For a random space."""
    plain: str
    """The same in words."""
    asks_all: bool = False
    """Also asked of x against every y at once."""


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "1.1a": Condition(
            "i(x) t(x) > i(x) t(y)",
            0.5,
            "a picture of a thing fits its name better than the name of another thing",
        ),
        "1.1b": Condition(
            "i(x,y) t(x) > i(x,y) t(z) for z not in the picture",
            0.5,
            "a picture of two things fits the name of each better than that of a thing it lacks",
        ),
        "1.2a": Condition(
            "i(x_a) i(x_b) > i(x_a) i(y)",
            0.5,
            "a thing is nearer to itself in another colour than to another thing",
        ),
        "1.2b": Condition(
            "i(x,g1) i(x,g2) > i(x) i(y)",
            0.5,
            "a thing is nearer to itself at another place than to another thing",
        ),
        "2.1": Condition("i(x_a) i(x_b) < 1", 1.0, "the same thing in two colours is told apart"),
        "2.2": Condition(
            "i(x_a) t(a) > i(x_b) t(a)",
            0.5,
            "the name of a colour fits the thing in that colour better than in another",
        ),
        "2.3": Condition(
            "i(x_a,y_b) i(x_b,y_a) < 1",
            1.0,
            "pictures that differ only in which thing has which colour are told apart",
        ),
        "3.1": Condition("i(x,g1) i(x,g2) < 1", 1.0, "the same thing at two places is told apart"),
        "3.2": Condition(
            "i(x,g3,y) i(x,g4,y) < 1",
            1.0,
            "pictures that differ only in which thing is on which side are told apart",
        ),
        "3.3": Condition(
            "i(x,g1,y) i(x,g1,z) > i(x,g1,y) i(x,g2,z)",
            0.5,
            "x left of y is nearer to x left of z than to x right of z",
        ),
        "4.1": Condition(
            "t(x) t(not x) < t(y) t(not x)",
            0.5,
            "'no star' is farther from 'a star' than from the name of another thing",
            asks_all=True,
        ),
        "4.2": Condition(
            "i(x) t(not x) < i(x) t(y)",
            0.5,
            "a picture of a star fits 'no star' less than the name of another thing",
            asks_all=True,
        ),
    }
)


@dataclass(frozen=True, eq=False)
class Held:
    """A condition on all its samples."""

    holds_N: FloatArray
    """1 or 0; NaN where a cosine is missing. A tie does not hold."""
    margin_N: FloatArray
    """By how much; below 0 where it does not hold."""


def larger(first_N: FloatArray, second_N: FloatArray) -> Held:
    """The first cosine above the second."""
    if len(first_N) != len(second_N):
        raise UserError(
            f"{len(first_N)} cosines against {len(second_N)}", expected="one of each a sample"
        )
    return _held(np.asarray(first_N, dtype=float) - np.asarray(second_N, dtype=float))


def below_one(cosine_N: FloatArray, *, delta: float = DELTA) -> Held:
    """The cosine below 1 by more than `delta`."""
    return _held(1 - delta - np.asarray(cosine_N, dtype=float))


def for_all(held: Held, of_N: Sequence[Hashable]) -> FloatArray:
    """For each x, in the order of first mention, 1 if the condition holds against every y."""
    groups: dict[Hashable, list[float]] = {}
    for name, holds in zip(of_N, held.holds_N.tolist(), strict=True):
        groups.setdefault(name, []).append(holds)
    return np.array(
        [min(found) if not np.isnan(found).any() else np.nan for found in groups.values()]
    )


def _held(margin_N: FloatArray) -> Held:
    return Held(np.where(np.isnan(margin_N), np.nan, margin_N > TIE), margin_N)
