"""Claim: the threshold of relations rises fastest and reaches the bound."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="threshold_curves",
    source="Zhang et al. 2024 (CE-CLIP), figure 5",
    statement="The threshold of relation negatives rises fastest and reaches the upper bound.",
    experiment="default",
    predictions=(
        Prediction(
            "that of swaps reaches the bound",
            Number("ce_clip", "threshold-swap", "largest"),
            0.99,
            "above",
        ),
        Prediction(
            "it is at half the bound earlier than that of attributes",
            Number("ce_clip", "threshold-swap", "waited"),
            Number("ce_clip", "threshold-attribute", "waited"),
            "below",
        ),
        Prediction(
            "and earlier than that of objects",
            Number("ce_clip", "threshold-swap", "waited"),
            Number("ce_clip", "threshold-object", "waited"),
            "below",
        ),
    ),
    controls="all thresholds begin at 0 and follow the same batches",
    knobs="CE-CLIP as printed. Its relation negatives exchange two nouns, which are swaps here. "
    "Share of the steps until half of the bound of 10; 1 where it is never reached",
    paper="CE-CLIP",
)
