"""Vectors and what they are compared with come in; how little would turn the comparison, out.

A unit vector v prefers c to n by the margin m = v (c - n). The smallest rotation of v that reaches
the boundary between the two is exactly asin(m / |c - n|): v stands at that angle to the plane at
right angles to c - n. Gaussian noise on v, equal in all D directions and of expected squared length
(size |v|)^2, turns the preference with the chance Phi(-m sqrt(D) / (size |c - n|)); this is exact,
and renormalising v afterwards changes nothing, since no scale changes a sign. The formulas are
ours; the question is that of Li et al. 2024: vectors that nearly agree may still hold a difference.
Limits: noise of a real channel, such as compression, is not equal in all directions.

Dimensions: N comparisons, D space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unbag.probes.vectors import TIE, cosines, unit
from unbag.types import FloatArray, IntArray

LEAST = 3
"""Numbers that a rank correlation needs."""
Rounding = Literal["bfloat16", "float16"]


@dataclass(frozen=True, eq=False)
class Decisions:
    """Comparisons, one number each; NaN where a vector is missing."""

    margin_N: FloatArray
    """Above 0 where the right one is preferred; 0 where a difference is only rounding."""
    angle_N: FloatArray
    """Degrees to the boundary: below 0 on the wrong side, 0 for a tie."""
    cosine_N: FloatArray
    """Of the two that are compared."""

    @property
    def right(self) -> FloatArray:
        """1, 0 or NaN; a tie is not right."""
        return np.where(np.isnan(self.margin_N), np.nan, self.margin_N > 0)

    @property
    def held(self) -> FloatArray:
        """1 where it is right or tied: a tie is held at no angle at all."""
        return np.where(np.isnan(self.margin_N), np.nan, self.margin_N >= 0)


def decide(vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray) -> Decisions:
    """Row by row, the right one of two against the wrong one."""
    vector_ND, right_ND, wrong_ND = unit(vector_ND), unit(right_ND), unit(wrong_ND)
    way_ND = right_ND - wrong_ND
    margin_N: FloatArray = (vector_ND * way_ND).sum(axis=-1)
    margin_N = np.where(np.abs(margin_N) <= TIE, 0.0, margin_N)
    length_N = np.linalg.norm(way_ND, axis=-1)
    sine_N = margin_N / np.where(margin_N == 0, 1.0, length_N)
    angle_N = np.degrees(np.arcsin(np.clip(sine_N, -1, 1)))
    return Decisions(margin_N, angle_N, cosines(right_ND, wrong_ND))


def flip_chance(angle_N: FloatArray, *, width: int, size: float) -> FloatArray:
    """Chance that noise of this size, relative to the vector, turns each preference.

    Args:
        angle_N: Degrees to the boundary.
        width: D, the number of directions that the noise is spread over.
        size: Root of the expected squared length of the noise over that of the vector.
    """
    from scipy.special import ndtr

    sine_N = np.sin(np.radians(angle_N))
    return np.asarray(ndtr(-np.abs(sine_N) * np.sqrt(width) / size), dtype=float)


def changed_by(
    to: Rounding, vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray
) -> FloatArray:
    """1 where vectors kept in this precision prefer another one, or none, else 0; NaN unknown.

    Sums are exact: only what is kept is rounded.
    """
    before_N = _sides(vector_ND, right_ND, wrong_ND)
    after_N = _sides(*(rounded(one, to) for one in (vector_ND, right_ND, wrong_ND)))
    return np.where(np.isnan(before_N + after_N), np.nan, before_N != after_N)


def rounded(vector_ND: FloatArray, to: Rounding) -> FloatArray:
    """To the nearest number of this precision, the even one of two that are as near."""
    if to == "float16":
        return vector_ND.astype(np.float16).astype(float)
    bits = np.ascontiguousarray(vector_ND, dtype=np.float32).view(np.uint32)
    # bfloat16 is the upper half of single precision; NaN must not be carried over into infinity.
    even = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(vector_ND), np.nan, even.view(np.float32).astype(float))


def rank_correlation(first_N: FloatArray, second_N: FloatArray) -> Callable[[IntArray], float]:
    """Spearman's correlation of any units, by their places, equal values at their mean rank.

    Values are put in order once, so that thousands of resamples cost little. NaN for fewer than
    three units, and where one side is constant.
    """
    first_M, second_M = (np.unique(one, return_inverse=True)[1] for one in (first_N, second_N))

    def of(place_M: IntArray) -> float:
        if len(place_M) < LEAST:
            return float("nan")
        one, other = _centred_ranks(first_M[place_M]), _centred_ranks(second_M[place_M])
        return float(cosines(one, other))

    return of


def _centred_ranks(code_M: IntArray) -> FloatArray:
    """Around their mean; equal codes share theirs."""
    count = np.bincount(code_M)
    rank = np.cumsum(count) - (count - 1) / 2
    found: FloatArray = rank[code_M] - (len(code_M) + 1) / 2
    return found


def _sides(vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray) -> FloatArray:
    return np.sign(decide(vector_ND, right_ND, wrong_ND).margin_N)
