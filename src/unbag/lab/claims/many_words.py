"""Claim: several text tokens do not help."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="many_words",
    source="Li et al. 2024, table 10 of the later version (SPARC with several text tokens)",
    statement="Reading patches by several text tokens does not help on relations.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are within 5 points of cosine",
            Number("sparc_fixed", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "within",
            0.05,
        ),
    ),
    must_fit=("sparc_fixed",),
    controls="whether the reader can fit fixed examples stands beside it",
    paper="chat models",
)
