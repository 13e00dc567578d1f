"""Claim: places on patches raise pairs of pictures over pooling by the caption alone."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="rotary_patches",
    source="Li et al. 2024, table 10 of the later version",
    statement="Rotary places on patches raise left/right pairs over pooling by the caption alone.",
    experiment="readouts",
    predictions=(
        Prediction(
            "strict pairs are higher with places than without",
            Number("pacl_rotary", "world-pairs-a", "pair"),
            Number("pacl", "world-pairs-a", "pair"),
            "above",
        ),
    ),
    must_fit=("pacl", "pacl_rotary"),
    controls="PACL without places, trained likewise",
    paper="chat models",
)
