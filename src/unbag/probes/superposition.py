"""Vectors of single things and of pairs come in; whether a pair is the sum of its parts goes out.

Claim (S1, section 3.2): the vector of a picture with two things that is closest to both and far
from all M others is the normalised sum of theirs. The exact optimum is the direction of
w = 2 (i(x1) + i(x2)) - sum of all M; the claim follows only if that sum is about 0, that is, if
M times `cone` is small. Real vectors lie in a cone, so everything is measured raw and around the
gallery's mean. Limits: vectors of single things must not be out of the model's experience.

Dimensions: N pairs, M gallery of single things, D space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from unbag.errors import UserError
from unbag.probes.vectors import centred, cosines, unit
from unbag.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Superposition:
    """Cosines of the vectors of pairs, each [N]; NaN where something has no direction."""

    sum_N: FloatArray
    """With the normalised sum of the two."""
    optimum_N: FloatArray
    """With the exact optimum."""
    first_N: FloatArray
    second_N: FloatArray
    other_N: FloatArray
    """With the sum of another pair, the baseline."""


def superposed(first_ND: FloatArray, second_ND: FloatArray) -> FloatArray:
    """The normalised sum; NaN for antipodal vectors, whose sum has no direction."""
    return unit(unit(first_ND) + unit(second_ND))


def optimum(first_ND: FloatArray, second_ND: FloatArray, gallery_MD: FloatArray) -> FloatArray:
    """Unit vectors nearest to both and farthest from the rest of the gallery, which has both."""
    both_ND = unit(first_ND) + unit(second_ND)
    return unit(2 * both_ND - unit(gallery_MD).sum(axis=0))


def cone(gallery_MD: FloatArray) -> float:
    """Length of the mean unit vector: 0 for a symmetric cloud, 1 for a single direction."""
    return float(np.linalg.norm(unit(gallery_MD).mean(axis=0)))


def superposition(
    pair_ND: FloatArray,
    first_ND: FloatArray,
    second_ND: FloatArray,
    gallery_MD: FloatArray,
    *,
    other_N: IntArray,
    is_centred: bool = False,
) -> Superposition:
    """Compare each pair with what its parts predict; `is_centred` takes the cone's axis away.

    `other_N` is the place of the pair whose sum is the baseline: best one that shares no thing, at
    random if it may (`others`).
    """
    if len(pair_ND) < 2:
        raise UserError(f"{len(pair_ND)} pairs", expected="at least two, to compare one by another")
    if is_centred:
        parts = (pair_ND, first_ND, second_ND, gallery_MD)
        pair_ND, first_ND, second_ND, gallery_MD = (
            centred(unit(one), unit(gallery_MD)) for one in parts
        )
    sum_ND = superposed(first_ND, second_ND)
    return Superposition(
        sum_N=cosines(pair_ND, sum_ND),
        optimum_N=cosines(pair_ND, optimum(first_ND, second_ND, gallery_MD)),
        first_N=cosines(pair_ND, first_ND),
        second_N=cosines(pair_ND, second_ND),
        other_N=cosines(pair_ND, sum_ND[other_N]),
    )


@dataclass(frozen=True)
class Additive:
    """The fit of i(x_a, y_b) = ((1 - shrink) (i(x) + i(y)) + first t(a) + second t(b)) / 2."""

    shrink: float
    first: float
    second: float
    explained: float
    """Share of the squared length, 1 for all."""


def fit_additive(
    pair_ND: FloatArray,
    things: tuple[FloatArray, FloatArray],
    attributes: tuple[FloatArray, FloatArray],
) -> Additive:
    """Least squares over all pairs and dimensions (S1, equation 9)."""
    columns = [things[0] + things[1], attributes[0], attributes[1]]
    design = np.stack([one.reshape(-1) for one in columns], axis=1) / 2
    wanted = pair_ND.reshape(-1)
    found, *_ = np.linalg.lstsq(design, wanted, rcond=None)
    rest = wanted - design @ found
    explained = 1 - float(rest @ rest) / float(wanted @ wanted)
    return Additive(1 - float(found[0]), float(found[1]), float(found[2]), explained)


def others(count: int, rng: Generator) -> IntArray:
    """For each place another one, at random."""
    return (np.arange(count) + rng.integers(1, count, size=count)) % count
