"""Claim: with the picture tower locked, hard negatives teach nothing."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="negatives_locked",
    source="Li et al. 2024, appendix B.1 and table 9",
    statement="With the picture tower locked, hard negatives teach a text tower no relations.",
    experiment="default",
    predictions=(
        Prediction(
            "relations move by less than 5 points against plain fine-tuning, both locked",
            Number("hard_negative-locked", "world-relation", "original"),
            Number("clip_ft-locked", "world-relation", "original"),
            "within",
            0.05,
        ),
    ),
    beside=(
        Number("hard_negative-locked", "world-pairs-a", "individual"),
        Number("hard_negative-locked", "world-pairs-a", "pair"),
        Number("hard_negative-locked", "world-pairs-b", "individual"),
        Number("hard_negative-locked", "world-pairs-b", "pair"),
    ),
    controls="plain fine-tuning with the same lock",
    knobs="locked is all of the tower, its projection too",
    paper="chat models",
)
