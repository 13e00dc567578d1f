"""Claim: vectors lie in a narrow cone, so what superposition was derived from does not hold."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="cone",
    source="objection to Kang et al. 2025, section 3.2 (the slides of our specification, 4.5)",
    statement="Vectors of things do not sum to about zero, as the derivation of superposition "
    "assumes: they lie in a cone.",
    experiment="probes",
    predictions=(
        Prediction(
            "the mean vector of single things has a length of more than 0.3",
            Number("base", "cone", "pictures"),
            0.3,
            "above",
        ),
        Prediction(
            "the sum of two is shorter than that of all, which should be small against it",
            Number("base", "cone", "two over all"),
            1.0,
            "below",
        ),
    ),
    beside=(Number("random", "cone", "pictures"),),
    controls="the untrained twin; 48 vectors at random would have a mean of length 0.14",
    knobs="48 things; the cone may be weaker here than in models of the web",
    paper="ideal CLIP",
)
