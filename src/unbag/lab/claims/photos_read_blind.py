"""Claim: a reader that sees no photograph tells edits as well as a model that was repaired."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction
from unbag.lab.where import PHOTOGRAPHS

CLAIM = Claim(
    name="photos_read_blind",
    source="Hsieh et al. 2023 (SugarCrepe), for benchmarks before theirs",
    statement="Edits that rules make of captions of photographs can be told by reading alone, so "
    "that a gain on them is no evidence of sight.",
    experiment="photos",
    where=PHOTOGRAPHS,
    predictions=(
        Prediction(
            "on exchanged words a reader of captions alone is above the repaired model",
            Number("blind", "photos-swap", "original"),
            Number("hard_negative", "photos-swap", "original"),
            "above",
        ),
        Prediction(
            "on replaced words it is at most 5 points below",
            Number("blind", "photos-replace", "original"),
            Number("hard_negative", "photos-replace", "original"),
            "above",
            -0.05,
        ),
    ),
    controls="the reader is told of the same kinds of edits of training photographs, and asked "
    "about the same captions as the model",
    knobs="logistic regression on differences of MiniLM's frozen features, told of edits of 1,500 "
    "training photographs that the seed draws; its strength is chosen on a fifth of them. 5 points "
    "is our reading of as well. Not blind itself: one such reader and three seeds of the model "
    "were known (docs/photos.md), and pointed the same way",
    paper="SugarCrepe",
)
