"""Claim: the vector of two things is the sum of theirs."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="superposition",
    source="Kang et al. 2025, section 3.2",
    statement="The vector of a picture with two things is the normalised sum of their vectors.",
    experiment="probes",
    predictions=(
        Prediction(
            "around the mean, a pair is nearer to its own sum than to another pair's by over 0.1",
            Number("base", "superposition", "sum, centred"),
            Number("base", "superposition", "other pair, centred"),
            "above",
            0.1,
        ),
        Prediction(
            "around the mean, it is nearer to the sum than to the first of its parts",
            Number("base", "superposition", "sum, centred"),
            Number("base", "superposition", "first, centred"),
            "above",
        ),
        Prediction(
            "around the mean, it is nearer to the sum than to the second of its parts",
            Number("base", "superposition", "sum, centred"),
            Number("base", "superposition", "second, centred"),
            "above",
        ),
    ),
    beside=(Number("random", "superposition", "sum, centred"),),
    controls="the sum of a pair of the same colours and places that shares no thing; the untrained "
    "twin, which may be additive too",
    knobs="all 48 things; the paper derives this and does not measure it. That a sum is near does "
    "not show that nothing else is in the vector",
    paper="ideal CLIP",
)
