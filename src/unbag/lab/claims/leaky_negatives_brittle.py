"""Claim: where edits can be told by reading, hard negatives alone make a model brittle."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="leaky_negatives_brittle",
    source="Kamath et al. 2024, tables 1 and 3; our specification, 12.10 (2)",
    statement="Where a true rewording looks like no caption of training, hard negatives alone "
    "teach a model to mistake it for a false one.",
    experiment="ordered",
    predictions=(
        Prediction(
            "a reader without pictures tells more than 65 % of exchanged things: the leak is there",
            Number("blind", "leak", "turned"),
            0.65,
            "above",
        ),
        Prediction(
            "brittleness on relations rises over plain fine-tuning",
            Number("hard_negative", "world-relation", "brittleness"),
            Number("clip_ft", "world-relation", "brittleness"),
            "above",
        ),
    ),
    beside=(
        Number("hard_negative", "world-relation", "brittleness", experiment="default"),
        Number("clip_ft", "world-relation", "brittleness", experiment="default"),
        Number("blind", "leak", "turned", experiment="default"),
        Number("hard_negative", "world-swap", "brittleness"),
        Number("hard_negative", "world-swap", "mean_original"),
    ),
    controls="plain fine-tuning on the same captions, which never sees the other order either; the "
    "same arms without the leak are the claim negatives_brittle",
    knobs="things are always named in the order of the vocabulary, so the forms of test positives "
    "are no captions; tests have captions of both orders. Not every published model did it: the "
    "paper's own HN model lowers brittleness on replaced words",
    paper="hard positives",
)
