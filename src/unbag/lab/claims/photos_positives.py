"""Claim: on photographs, hard positives beside hard negatives keep what negatives break."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction
from unbag.lab.where import PHOTOGRAPHS

CLAIM = Claim(
    name="photos_positives",
    source="Kamath et al. 2024, tables 3 and 9",
    statement="On photographs, hard positives beside hard negatives give better augmented accuracy "
    "and less brittleness than negatives alone.",
    experiment="photos",
    where=PHOTOGRAPHS,
    predictions=(
        Prediction(
            "augmented accuracy on trained kinds is higher than with negatives alone",
            Number("hard_positive", "photos-seen", "augmented"),
            Number("hard_negative", "photos-seen", "augmented"),
            "above",
        ),
        Prediction(
            "brittleness on trained kinds is lower",
            Number("hard_positive", "photos-seen", "brittleness"),
            Number("hard_negative", "photos-seen", "brittleness"),
            "below",
        ),
    ),
    controls="the same captions and negatives",
    knobs="positives are synonyms and exchanged conjuncts, by rule. Not blind: three seeds of "
    "these arms were known (docs/photos.md), and pointed the other way; the directions here are "
    "the paper's, as in `positives_help`. Heads only, on frozen parts",
    paper="hard positives",
)
