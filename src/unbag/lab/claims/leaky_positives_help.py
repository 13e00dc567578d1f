"""Claim: where edits can be told by reading, hard positives mend what negatives break."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="leaky_positives_help",
    source="Kamath et al. 2024, table 3",
    statement="Where rewordings look like no caption of training, hard positives beside hard "
    "negatives raise augmented accuracy and lower brittleness.",
    experiment="ordered",
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
        Number("blind", "leak", "turned"),
        Number("blind", "leak", "positive"),
        Number("clip_ft", "world-swap", "augmented"),
        Number("clip_ft", "world-swap", "brittleness"),
    ),
    controls="the same captions and negatives",
    knobs="as leaky_negatives_brittle; positives have the forms of the test positives, as in the "
    "paper",
    paper="hard positives",
)
