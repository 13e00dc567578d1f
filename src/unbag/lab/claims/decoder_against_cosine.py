"""Claim: a language model finds in a frozen encoder's patches what its cosine does not."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="decoder_against_cosine",
    source="Li et al. 2024, tables 1 and 12 (CLIP and LLaVA on the same encoder)",
    statement="A chat model on the same frozen encoder tells relations that the encoder's cosine "
    "does not.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are more than 15 points above cosine",
            Number("decoder", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "above",
            0.15,
        ),
        Prediction(
            "strict pairs are more than 15 points above cosine",
            Number("decoder", "world-pairs-a", "pair"),
            Number("base", "world-pairs-a", "pair"),
            "above",
            0.15,
        ),
        Prediction(
            "and relations are more than 15 points above a reader of pooled vectors that was "
            "taught the same statements",
            Number("decoder", "world-relation", "original"),
            Number("pooled", "world-relation", "original"),
            "above",
            0.15,
        ),
        Prediction(
            "while a decoder that sees nothing is within 5 points of chance",
            Number("decoder-nothing", "world-relation", "original"),
            0.5,
            "within",
            0.05,
        ),
    ),
    must_fit=("decoder",),
    beside=(Number("pooled", "fit", "few"),),
    controls="a reader of pooled vectors on the same statements; a decoder without a picture",
    knobs="whether the reader of pooled vectors could learn by heart stands beside it; not every "
    "chat model of the paper does it: InstructBLIP and Otter are near 0 on left and right pairs; a "
    "decoder of 2 million weights that was trained from nothing is no LLaVA",
    paper="chat models",
)
