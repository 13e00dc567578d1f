"""Claim: positives of one form do not protect another form."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="positives_held_out",
    source="Kamath et al. 2024, table 3 (replace-only)",
    statement="Synonyms as positives do not teach that the other order may be true: invariance "
    "does not carry over.",
    experiment="held_out",
    predictions=(
        Prediction(
            "brittleness where things are exchanged is within 5 points of negatives alone",
            Number("hard_positive", "world-relation/exchanged", "brittleness"),
            Number(
                "hard_negative", "world-relation/exchanged", "brittleness", experiment="ordered"
            ),
            "within",
            0.05,
        ),
        Prediction(
            "and above positives that have the other order",
            Number("hard_positive", "world-relation/exchanged", "brittleness"),
            Number(
                "hard_positive", "world-relation/exchanged", "brittleness", experiment="ordered"
            ),
            "above",
        ),
    ),
    controls="the same captions and negatives; the arm with positives of both kinds",
    knobs="in the paper replace-only leaves brittleness on swaps at 26.5, negatives alone at 25.1, "
    "both kinds at 22.9",
    paper="hard positives",
)
