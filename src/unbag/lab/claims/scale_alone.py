"""Claim: larger models are better, and no less a bag of words."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="scale_alone",
    source="Zhang et al. 2024 (CE-CLIP), section 4.7 and figure 7; Kamath et al. 2024, appendix B",
    statement="Scale alone does not repair composition: no larger model passes a small one that "
    "was repaired.",
    experiment="pretraining",
    predictions=(
        Prediction(
            "relations move by less than 5 points from the smallest to the largest model",
            Number("large", "world-relation", "original"),
            Number("small", "world-relation", "original"),
            "within",
            0.05,
        ),
        Prediction(
            "pairs of pictures move by less than 5 points",
            Number("large", "world-pairs-a", "pair"),
            Number("small", "world-pairs-a", "pair"),
            "within",
            0.05,
        ),
        Prediction(
            "while retrieval rises",
            Number("large", "world-retrieval", "text_to_image@1"),
            Number("small", "world-retrieval", "text_to_image@1"),
            "above",
        ),
    ),
    beside=(Number("base", "world-relation", "original"),),
    controls="the same batches in the same order, the same rate and steps; retrieval shows that "
    "the larger model is the better one",
    knobs="1.5 and 8 million weights, a factor of five; the papers compare factors of ten and "
    "more, with more data for the larger. One rate for all sizes",
    paper="CE-CLIP",
)
