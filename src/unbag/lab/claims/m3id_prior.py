"""Claim: M3ID helps where a language prior is at work, and not otherwise."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="m3id_prior",
    source="Li et al. 2024, sec. 5.1 and table 6 (MMVP: 25 to 31 of 100 pairs); Favero et al. 2024",
    statement="Decoding that weighs what the picture adds to the language prior solves more pairs; "
    "on the world only a decoder that was taught a prior should gain.",
    experiment="priors",
    predictions=(
        Prediction(
            "answers at 70 to 30 in training make a decoder give both pictures of a pair the same "
            "answer more often",
            Number("prior", "world-pairs-a", "same_answer"),
            Number("even", "world-pairs-a", "same_answer"),
            "above",
        ),
        Prediction(
            "M3ID solves more strict pairs with that prior",
            Number("prior-m3id", "world-pairs-a", "pair"),
            Number("prior", "world-pairs-a", "pair"),
            "above",
        ),
        Prediction(
            "and changes strict pairs by less than 2 points without it",
            Number("even-m3id", "world-pairs-a", "pair"),
            Number("even", "world-pairs-a", "pair"),
            "within",
            0.02,
        ),
    ),
    must_fit=("even", "prior"),
    controls="the same decoder, steps and number of lessons with answers at 50 to 50",
    knobs="alpha 0.6, lambda 0.15, the first token is step 1; options are scored by the words of "
    "their answer, and none is decoded freely",
    paper="chat models",
)
