"""Claim: a stronger text model beside patches with places raises pairs of subset B."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="stronger_text",
    source="Li et al. 2024, table 10 of the later version (PT + RoPE + stronger text encoder)",
    statement="A stronger text model beside patches with places raises pairs of front and behind. "
    "Their left and right pairs fall with it, so that what they report is mixed.",
    experiment="readouts",
    predictions=(
        Prediction(
            "strict pairs of subset B are higher with the stronger text model",
            Number("pacl_fixed-rotary-2d-text", "world-pairs-b", "pair"),
            Number("pacl_fixed-rotary-2d", "world-pairs-b", "pair"),
            "above",
        ),
    ),
    must_fit=("pacl_fixed-rotary-2d", "pacl_fixed-rotary-2d-text"),
    controls="the same reader on captions of the base's own text tower",
    knobs="MiniLM in place of a language model of 7 billion weights, which is no stronger on the "
    "world's hundred words, and a reader with places in two dimensions; subset B has as many pairs "
    "of left and right as of front and behind",
    paper="chat models",
)
