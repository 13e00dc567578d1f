"""Claim: conditions of an ideal space that are about single concepts mostly hold."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="ideal_concepts",
    source="Kang et al. 2025, section 3.1, conditions 1.1 and 1.2; our specification, E10",
    statement="A contrastive space represents single concepts: names fit their pictures, and a "
    "thing stays near itself in another colour or at another place.",
    experiment="probes",
    predictions=tuple(
        Prediction(
            f"condition {name} holds in more than 90 % of cases: {what}",
            Number("base", "conditions", name),
            0.9,
            "above",
        )
        for name, what in (
            ("1.1a", "a picture of a thing fits its name better than another name"),
            ("1.1b", "a picture of two things fits their names better than others"),
            ("1.2a", "a thing is nearer to itself in another colour than to another thing"),
            ("1.2b", "a thing is nearer to itself at another place than to another thing"),
        )
    ),
    beside=(Number("random", "conditions", "1.1a"),),
    controls="the untrained twin; half of all cases in a random space",
    knobs="pictures that are compared have the same sizes, textures, places and noise; a vector "
    "is the mean of at least eight renderings. The paper does not measure: 'mostly hold' is our "
    "specification's word",
    paper="ideal CLIP",
)
