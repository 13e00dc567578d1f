"""Claim: a language model on frozen patches finds relations, if it is taught for long enough.

Written after three bases were seen, on which the decoder of `decoder_against_cosine` was given
20,000 steps instead of 6,000, as many as the specification asks for before a null is believed.
"""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="decoder_taught_longer",
    source="Li et al. 2024, tables 1 and 12, and [CLS]-LLaVA",
    statement="Taught for long, a chat model on the same frozen encoder tells relations that the "
    "encoder's cosine does not, by its patches and not by its pooled vector.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are more than 15 points above cosine",
            Number("decoder-long", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "above",
            0.15,
        ),
        Prediction(
            "strict pairs are more than 15 points above cosine",
            Number("decoder-long", "world-pairs-a", "pair"),
            Number("base", "world-pairs-a", "pair"),
            "above",
            0.15,
        ),
        Prediction(
            "relations are more than 15 points above a reader of pooled vectors that was taught "
            "for as many steps",
            Number("decoder-long", "world-relation", "original"),
            Number("pooled-long", "world-relation", "original"),
            "above",
            0.15,
        ),
        Prediction(
            "and above the same decoder with the pooled vector in place of the patches",
            Number("decoder-long", "world-relation", "original"),
            Number("decoder-cls-long", "world-relation", "original"),
            "above",
            0.15,
        ),
        Prediction(
            "colours stay bound: exchanged ones are told within 5 points of cosine",
            Number("decoder-long", "world-swap", "original"),
            Number("base", "world-swap", "original"),
            "within",
            0.05,
        ),
    ),
    must_fit=("decoder-long", "decoder-cls-long"),
    seen={
        "tiny-0": "tiny-06f89ea32348deb1f3817c58",
        "tiny-5": "tiny-26a26a7b7fd4c4afd03dccee",
        "tiny-6": "tiny-feb94e3a8917ba62d094090b",
    },
    controls="the same decoder on the pooled vector; a reader of pooled vectors; all with 20,000 "
    "steps",
    knobs="20,000 steps instead of the 6,000 of `decoder_against_cosine`, everything else as "
    "there; a decoder of 2 million weights that was trained from nothing is no LLaVA",
    paper="chat models",
)
