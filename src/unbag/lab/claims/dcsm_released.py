"""Claim: what is wrong in the released form of DCSM costs it little."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="dcsm_released",
    source="Kang et al. 2025 (DCSM), released code against its description",
    statement="Words that mark the column of their number and not of their tokens, and maps that "
    "are standardised together, are the same in training and at test, and so cost little.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations of the released form are within 5 points of the mended one",
            Number("dcsm", "world-relation", "original"),
            Number("dcsm_fixed", "world-relation", "original"),
            "within",
            0.05,
        ),
    ),
    must_fit=("dcsm", "dcsm_fixed"),
    controls="the same network, rows and steps",
    knobs="every word of the world is one token, so that the number of a word is off by one and "
    "never by more",
    paper="DCSM",
)
