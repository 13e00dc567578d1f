"""Vectors of captions, hard negatives and hard positives come in; whether edits are understood out.

Intra-modal similarity and cross-modal gap: CE-CLIP, section 4.5 and figure 8; the same for hard
positives and the test for a perturbation detector are ours, after the hard-positive paper, section
4.3. A model that only notices that something was edited has no selectivity, as large a gap for
positives as for negatives (`detector_ratio` 1) and cannot tell the two (`detector_auc` 0.5).

Dimensions: N captions with one negative and one positive each, D space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbag.probes.vectors import cosines
from unbag.types import FloatArray


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """One number a caption; means and intervals are for whoever shows them."""

    intra_negative_N: FloatArray
    """Cosine of caption and negative; lower is better."""
    intra_positive_N: FloatArray
    """Cosine of caption and positive; higher is better."""
    gap_negative_N: FloatArray
    """Score of the caption minus that of its negative; higher is better."""
    gap_positive_N: FloatArray
    """Score of the caption minus that of its positive; should be 0."""

    @property
    def selectivity(self) -> FloatArray:
        """How much nearer a positive is than a negative."""
        return self.intra_positive_N - self.intra_negative_N

    @property
    def detector_ratio(self) -> float:
        """Mean drop for a positive in units of that for a negative; 1 for a mere detector."""
        return detector_ratio(self.gap_negative_N, self.gap_positive_N)

    @property
    def detector_auc(self) -> float:
        """Chance that a negative costs more than a positive; 0.5 for a mere detector."""
        return detector_auc(self.gap_negative_N, self.gap_positive_N)


def sensitivity(
    picture_ND: FloatArray,
    caption_ND: FloatArray,
    negative_ND: FloatArray,
    positive_ND: FloatArray,
) -> Sensitivity:
    """Row by row."""
    score_N = cosines(picture_ND, caption_ND)
    return Sensitivity(
        intra_negative_N=cosines(caption_ND, negative_ND),
        intra_positive_N=cosines(caption_ND, positive_ND),
        gap_negative_N=score_N - cosines(picture_ND, negative_ND),
        gap_positive_N=score_N - cosines(picture_ND, positive_ND),
    )


def detector_ratio(gap_negative_N: FloatArray, gap_positive_N: FloatArray) -> float:
    """Mean gap of positives over mean gap of negatives; NaN if negatives cost nothing."""
    negative, positive = float(np.mean(gap_negative_N)), float(np.mean(gap_positive_N))
    return positive / negative if negative else float("nan")


def detector_auc(gap_negative_N: FloatArray, gap_positive_N: FloatArray) -> float:
    """Area under the curve of telling negatives from positives by their gaps; ties count half."""
    n, p = len(gap_negative_N), len(gap_positive_N)
    if not n or not p or np.isnan(gap_negative_N).any() or np.isnan(gap_positive_N).any():
        return float("nan")
    ordered_N = np.sort(gap_positive_N)
    below = np.searchsorted(ordered_N, gap_negative_N).sum()
    not_above = np.searchsorted(ordered_N, gap_negative_N, side="right").sum()
    return float((below + not_above) / (2 * n * p))
