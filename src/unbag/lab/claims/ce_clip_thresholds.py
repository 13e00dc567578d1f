"""Claim: adaptive thresholds beat fixed ones."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="ce_clip_thresholds",
    source="Zhang et al. 2024 (CE-CLIP), ablation of thresholds",
    statement="Thresholds of the rank loss that follow the model beat fixed ones.",
    experiment="default",
    predictions=(
        Prediction(
            "relations are higher than with a fixed threshold of 2",
            Number("ce_clip_fixed", "world-relation", "original"),
            Number("ce_clip_fixed-margin2", "world-relation", "original"),
            "above",
        ),
        Prediction(
            "and than with one of 10",
            Number("ce_clip_fixed", "world-relation", "original"),
            Number("ce_clip_fixed-margin10", "world-relation", "original"),
            "above",
        ),
    ),
    controls="the same losses and negatives",
    knobs="2 and 10 of the paper's 2, 5 and 10, in scaled similarity",
    paper="CE-CLIP",
)
