"""Claim: a decoder that is given one token of a picture falls to chance."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="one_token",
    source="Li et al. 2024, [CLS]-LLaVA",
    statement="A decoder that is given only the pooled vector of a picture falls to chance.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are within 5 points of chance",
            Number("decoder-cls", "world-relation", "original"),
            0.5,
            "within",
            0.05,
        ),
        Prediction(
            "and below the decoder on patches",
            Number("decoder-cls", "world-relation", "original"),
            Number("decoder", "world-relation", "original"),
            "below",
        ),
    ),
    must_fit=("decoder", "decoder-cls"),
    beside=(Number("decoder-nothing", "world-relation", "original"),),
    controls="the decoder on patches; a decoder without a picture",
    paper="chat models",
)
