"""Scores or perplexities of two pictures and two captions come in; the relaxed verdict goes out.

A pair counts as solved if the right assignment beats the crossed one as a whole, even when a prior
makes both pictures prefer the same caption. Every function returns a margin: above 0 is solved,
0 a tie, NaN invalid.

Dimensions: N pairs, 2 pictures, 2 captions; picture k belongs to caption k.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from unbag.types import BoolArray, FloatArray

Form = Literal["additive", "ratio"]


def additive_margin(score_N22: FloatArray) -> FloatArray:
    """s11 + s22 - s12 - s21: for cosines and log-probabilities.

    Summed as two differences, so that rounding can never undo a pair that is solved strictly.
    """
    own_N = score_N22[:, 0, 0] - score_N22[:, 0, 1]
    other_N: FloatArray = score_N22[:, 1, 1] - score_N22[:, 1, 0]
    return own_N + other_N


def ratio_margin(score_N22: FloatArray) -> FloatArray:
    """s11/(s11+s12) - s21/(s21+s22): for positive scores, larger is better; NaN for others."""
    positive_N: BoolArray = np.all(score_N22 > 0, axis=(1, 2))
    score_N22 = np.where(positive_N[:, None, None], score_N22, 1.0)
    share_N2 = score_N22[:, :, 0] / score_N22.sum(axis=2)
    return np.where(positive_N, share_N2[:, 0] - share_N2[:, 1], np.nan)


def perplexity_margin(perplexity_N22: FloatArray) -> FloatArray:
    """The ratio form with its sign turned round, because a smaller perplexity is better."""
    return -ratio_margin(perplexity_N22)


def printed_perplexity_margin(perplexity_N22: FloatArray) -> FloatArray:
    """The rule as printed in "On Erroneous Agreements", sec. 5.2, with the sign of a score.

    Kept to show that it is wrong: it calls a pair solved when the crossed assignment is likelier.
    """
    return ratio_margin(perplexity_N22)


def relaxed_margin(score_N22: FloatArray, form: Form) -> FloatArray:
    """The margin in the form asked for."""
    return additive_margin(score_N22) if form == "additive" else ratio_margin(score_N22)
