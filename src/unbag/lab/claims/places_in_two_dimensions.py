"""Claim: places by row and column raise pairs over places by number."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="places_in_two_dimensions",
    source="our question about Li et al. 2024, table 10 of the later version, where places by "
    "number raise left and right pairs and lower on and under",
    statement="Rotary places by row and column raise pairs over places by the number of a patch.",
    experiment="readouts",
    predictions=(
        Prediction(
            "strict pairs are higher with two dimensions than with one",
            Number("pacl_fixed-rotary-2d", "world-pairs-a", "pair"),
            Number("pacl_fixed-rotary", "world-pairs-a", "pair"),
            "above",
        ),
        Prediction(
            "and higher than without places",
            Number("pacl_fixed-rotary-2d", "world-pairs-a", "pair"),
            Number("pacl_fixed", "world-pairs-a", "pair"),
            "above",
        ),
    ),
    must_fit=("pacl_fixed", "pacl_fixed-rotary", "pacl_fixed-rotary-2d"),
    controls="the same reader with one dimension, and without places",
    knobs="no paper claims it; patches of the tower hold some of their place without any of this",
    paper="chat models",
)
