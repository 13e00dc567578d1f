"""Claim: weights half-way to a repaired model keep most of the gain at little cost."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="weight_mixing",
    source="Wortsman et al. 2022 (WiSE-FT)",
    statement="Weights between a model and its fine-tuned self keep most of what was gained and "
    "most of what the model could do before.",
    experiment="probes",
    predictions=(
        Prediction(
            "half-way, relations are more than 15 points above the base",
            Number("mix-0.5", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "above",
            0.15,
        ),
        Prediction(
            "and less than 10 points below the repaired model",
            Number("mix-0.5", "world-relation", "original"),
            Number("hard_negative", "world-relation", "original"),
            "above",
            -0.10,
        ),
        Prediction(
            "retrieval falls by less than 3 points below the base",
            Number("mix-0.5", "world-retrieval", "text_to_image@1"),
            Number("base", "world-retrieval", "text_to_image@1"),
            "above",
            -0.03,
        ),
    ),
    beside=(
        Number("mix-0.25", "world-relation", "original"),
        Number("mix-0.75", "world-relation", "original"),
    ),
    controls="the base and the repaired model themselves; a quarter and three quarters of the way",
    knobs="the repair is `hard_negative`, 1,250 steps at rate 3e-4, which is far for a mix. They "
    "mix classifiers of photographs and speak of robustness; composition is our reading",
    paper="WiSE-FT",
)
