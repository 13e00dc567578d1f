"""Vectors come in; their cosines, raw or around the mean of a gallery, go out.

Dimensions: N rows, M gallery, D space.
"""

from __future__ import annotations

import numpy as np

from unbag.types import FloatArray

TIE = 1e-6
"""Cosines of vectors in single precision that differ by less are equal but for rounding."""


def unit(vector_ND: FloatArray) -> FloatArray:
    """At length 1; NaN where there is no direction."""
    length_N1 = np.linalg.norm(vector_ND, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        # What cancels out to rounding errors has no direction either.
        return np.where(length_N1 > 1e-12, vector_ND / length_N1, np.nan)


def cosines(first_ND: FloatArray, second_ND: FloatArray) -> FloatArray:
    """Row with row, [N]."""
    found: FloatArray = (unit(first_ND) * unit(second_ND)).sum(axis=-1)
    return found


def centred(vector_ND: FloatArray, gallery_MD: FloatArray) -> FloatArray:
    """Around the mean of the gallery: vectors of one model lie in a cone, and share its axis."""
    axis_D: FloatArray = gallery_MD.mean(axis=0)
    return vector_ND - axis_D


def spearman(first_ND: FloatArray, second_ND: FloatArray) -> FloatArray:
    """Rank correlation of the D numbers, row with row, [N]; NaN for a constant vector.

    Source: Li et al. 2024, section 3.2. A high cosine does not mean that vectors hold no
    difference: (10, 11, 12) and (12, 11, 10) have cosine 0.989 and correlation -1.
    """
    from scipy.stats import rankdata

    rank = [np.asarray(rankdata(one, axis=-1), dtype=float) for one in (first_ND, second_ND)]
    first, second = (one - one.mean(axis=-1, keepdims=True) for one in rank)
    return cosines(first, second)
