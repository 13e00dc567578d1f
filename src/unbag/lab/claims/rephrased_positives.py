"""Claim: paraphrases as positives make a model more brittle, not less."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="rephrased_positives",
    source="Kamath et al. 2024, table 1 (SVLC+Pos) and section 4",
    statement="Positives that are mere paraphrases increase oversensitivity; it takes hard ones.",
    experiment="ordered",
    predictions=(
        Prediction(
            "brittleness on relations is above negatives alone",
            Number("rephrased", "world-relation", "brittleness"),
            Number("hard_negative", "world-relation", "brittleness"),
            "above",
        ),
        Prediction(
            "and above hard positives",
            Number("rephrased", "world-relation", "brittleness"),
            Number("hard_positive", "world-relation", "brittleness"),
            "above",
        ),
        Prediction(
            "augmented accuracy on relations is below negatives alone",
            Number("rephrased", "world-relation", "augmented"),
            Number("hard_negative", "world-relation", "augmented"),
            "below",
        ),
    ),
    controls="negatives alone, and hard positives, on the same captions and negatives",
    knobs="the paper is mixed: against SVLC, SVLC+Pos is worse on swaps (brittleness 20.8 to 22.8, "
    "augmented 61.6 to 45.4) and less brittle on replaced words (39.9 to 29.8). Paraphrases here "
    "are other articles, joints, long relations, there is: never an edit of a test",
    paper="hard positives",
)
