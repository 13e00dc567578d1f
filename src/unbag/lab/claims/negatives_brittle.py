"""Claim: hard negatives alone make a model brittle."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="negatives_brittle",
    source="Kamath et al. 2024, tables 1 and 3",
    statement="Hard negatives alone teach a model to mistake true rewordings for false captions.",
    experiment="default",
    predictions=(
        Prediction(
            "brittleness on relations rises over plain fine-tuning",
            Number("hard_negative", "world-relation", "brittleness"),
            Number("clip_ft", "world-relation", "brittleness"),
            "above",
        ),
        Prediction(
            "the mean score of captions falls",
            Number("hard_negative", "world-relation", "mean_original"),
            Number("clip_ft", "world-relation", "mean_original"),
            "below",
        ),
    ),
    beside=(
        Number("blind", "leak", "positive"),
        Number("hard_negative", "world-swap", "brittleness"),
    ),
    controls="plain fine-tuning on the same captions",
    knobs="without a text leak: positives look like originals. With a leak (preset ordered) it is "
    "another claim",
    paper="hard positives",
)
