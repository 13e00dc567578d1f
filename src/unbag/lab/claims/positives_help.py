"""Claim: hard positives beside hard negatives keep what negatives break."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="positives_help",
    source="Kamath et al. 2024, tables 3 and 9",
    statement="Hard positives beside hard negatives give better augmented accuracy and less "
    "brittleness than negatives alone.",
    experiment="default",
    predictions=(
        Prediction(
            "augmented accuracy on relations is higher than with negatives alone",
            Number("hard_positive", "world-relation", "augmented"),
            Number("hard_negative", "world-relation", "augmented"),
            "above",
        ),
        Prediction(
            "brittleness on relations is lower",
            Number("hard_positive", "world-relation", "brittleness"),
            Number("hard_negative", "world-relation", "brittleness"),
            "below",
        ),
    ),
    beside=(
        Number("clip_ft", "world-swap", "augmented"),
        Number("clip_ft", "world-swap", "brittleness"),
    ),
    controls="the same captions and negatives",
    paper="hard positives",
)
