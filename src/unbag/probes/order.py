"""Vectors with and without their order come in; what a model keeps of order goes out.

Order-free retrieval (methods.md 3.4; Yuksekgonul et al. 2023, section 2.3): recall at 1 when the
captions, or the pictures, are shuffled as queries and in the gallery alike, over that of the
original. Order precision (3.3): how often a picture prefers its caption to a shuffle of it; a tie
is no preference. Limits: a shuffle into nonsense can be told from a sentence by language alone, so
only swaps that make another sentence show that order is understood.

Dimensions: P pictures, C captions, B pictures of a block, N captions with a shuffle, D space.
"""

from __future__ import annotations

import numpy as np

from unbag.metrics.ranking import hits, rank_blocks
from unbag.metrics.retrieval import Direction
from unbag.probes.vectors import TIE, cosines
from unbag.types import FloatArray, Sparse


def found_first(
    picture_PD: FloatArray, caption_CD: FloatArray, truth: Sparse
) -> dict[Direction, FloatArray]:
    """1 where what belongs to a query comes first, else 0; a tie at the top is 0 as well.

    NaN for a query without anything true, and for one whose vector is missing.
    """
    if picture_PD.shape[1] != caption_CD.shape[1]:
        # A space that could open no picture does not know how wide their vectors are.
        picture_PD = np.full((len(picture_PD), caption_CD.shape[1]), np.nan)

    def block(start: int, stop: int) -> FloatArray:
        score_BC: FloatArray = picture_PD[start:stop] @ caption_CD.T
        return score_BC

    by_text, by_picture = rank_blocks(block, truth, keep=1, tie_eps=TIE)
    return {"text_to_image": hits(by_text, 1)[0], "image_to_text": hits(by_picture, 1)[0]}


def preferred(picture_ND: FloatArray, caption_ND: FloatArray, other_ND: FloatArray) -> FloatArray:
    """1 where the picture is nearer to its caption than to the other one, else 0; NaN unknown."""
    ahead_N = cosines(picture_ND, caption_ND) - cosines(picture_ND, other_ND)
    return np.where(np.isfinite(ahead_N), ahead_N > TIE, np.nan)
