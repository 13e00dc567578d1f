"""Claim: hard positives without negatives lower brittleness and teach no composition."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="positives_only",
    source="Kamath et al. 2024, table 3 and the sweep of weights",
    statement="Hard positives alone teach that edits never matter: brittleness falls and accuracy "
    "on the edits does not rise.",
    experiment="default",
    predictions=(
        Prediction(
            "brittleness on replaced words falls below plain fine-tuning",
            Number("positives_only", "world-replace", "brittleness"),
            Number("clip_ft", "world-replace", "brittleness"),
            "below",
        ),
        Prediction(
            "relations move by less than 5 points",
            Number("positives_only", "world-relation", "original"),
            Number("clip_ft", "world-relation", "original"),
            "within",
            0.05,
        ),
        Prediction(
            "where things are named in one order, brittleness on relations falls",
            Number("positives_only", "world-relation", "brittleness", experiment="ordered"),
            Number("clip_ft", "world-relation", "brittleness", experiment="ordered"),
            "below",
        ),
    ),
    controls="plain fine-tuning on the same captions",
    knobs="the paper is mixed: on replaced words so (61.6 to 58.5, brittleness 23.2 to 15.8), on "
    "swaps accuracy and brittleness both rose, which is not predicted here",
    paper="hard positives",
)
