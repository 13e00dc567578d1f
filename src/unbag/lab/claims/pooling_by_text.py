"""Claim: patches pooled by the caption change little."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="pooling_by_text",
    source="Li et al. 2024, table 10 of the later version (CLIP + patch tokens); Mukhoti et al. "
    "2023 (PACL)",
    statement="Patches of a frozen tower, pooled by their likeness to the caption, change "
    "relations little against the cosine of pooled vectors.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are within 5 points of cosine",
            Number("pacl", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "within",
            0.05,
        ),
        Prediction(
            "and within 5 points of the same reader with all patches weighted alike",
            Number("pacl", "world-relation", "original"),
            Number("pacl_uniform", "world-relation", "original"),
            "within",
            0.05,
        ),
    ),
    must_fit=("pacl",),
    controls="the same weights with uniform pooling, as the released code scores",
    knobs="strict pairs are no part of it: they rise from 2 to 10 on one subset and not on the "
    "other, and vectors that are less alike raise them without any skill",
    paper="chat models",
)
