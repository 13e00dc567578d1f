"""What random scores would earn: by formula, and by running a metric on random scores.

Dimensions: P pictures, C captions, Q queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from unbag.types import Case, FloatArray, IntArray, Item, Metric, Scores, TieRule

CHANCE: Mapping[str, float] = MappingProxyType(
    {
        "original": 1 / 2,
        "augmented": 1 / 3,
        "brittleness": 1 / 3,
        "share_augmented": 1 / 3,
        "share_neg_like_hp": 1 / 6,
        "share_hp_over_orig": 1 / 6,
        "share_both_below": 1 / 3,
        "share_tie": 0.0,
        "individual": 1 / 2,
        "pair": 1 / 4,
        "same_answer": 1 / 2,
        "relaxed": 1 / 2,
        "individual4": 1 / 4,
        "pair4": 1 / 16,
        "set": 1 / 256,
        "text": 1 / 4,
        "image": 1 / 4,
        "group": 1 / 6,
        "question_pair": 1 / 4,
        "image_pair": 1 / 4,
        "all_four": 1 / 16,
        "auc": 1 / 2,
        "threshold_accuracy": 1 / 2,
        "text_only": 1 / 3,
    }
)
"""Levels that hold for every unit: independent continuous scores, so every order of the options
is equally likely and ties never happen."""

CHANCE_INDEPENDENT: Mapping[str, float] = MappingProxyType(
    {"augmented": 1 / 4, "brittleness": 1 / 2}
)
"""The other sensible null of triples: c against c_n and c_p against c_n are two fair coins. A bag
of words sits here, because only tiny order effects separate its scores."""


def hit_chance(gallery: int, true_Q: IntArray, k: int) -> FloatArray:
    """Probability that at least one of the true candidates is among k drawn at random.

    1 - C(n - m, k) / C(n, k) for m true ones among n, which is k/n for m = 1.
    """
    missed_Q = np.ones(len(true_Q))
    for drawn in range(min(k, gallery)):
        missed_Q *= np.clip(gallery - true_Q - drawn, 0, None) / (gallery - drawn)
    return 1.0 - missed_Q


def simulate(
    metric: Metric,
    item: Item,
    *,
    cases: int,
    rng: np.random.Generator,
    ties: TieRule = "wrong",
) -> Mapping[str, float]:
    """Mean of every outcome of the real metric over copies of an item with random scores."""
    rows, columns = item.truth.shape
    score_NPC = rng.standard_normal((cases, rows, columns))
    made = [Case(item, Scores(item.id, score_PC)) for score_PC in score_NPC]
    judged = metric(made, ties=ties, tie_eps=0.0)
    return {found.metric: float(np.nanmean(found.value_U)) for found in judged}
