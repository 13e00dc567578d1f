"""Claim: thresholds need an upper bound."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="ce_clip_upper_bound",
    source="Zhang et al. 2024 (CE-CLIP), ablation of the upper bound",
    statement="An upper bound of 10 on the thresholds is better than none, without which they "
    "grow.",
    experiment="default",
    predictions=(
        Prediction(
            "relations are higher with the bound than without",
            Number("ce_clip_fixed", "world-relation", "original"),
            Number("ce_clip_fixed-unbounded", "world-relation", "original"),
            "above",
        ),
        Prediction(
            "without it the threshold of swaps passes the bound",
            Number("ce_clip_fixed-unbounded", "threshold-swap", "largest"),
            1.0,
            "above",
        ),
    ),
    controls="the same losses and negatives",
    knobs="thresholds are in units of the bound of 10",
    paper="CE-CLIP",
)
