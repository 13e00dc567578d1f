"""Claim: pictures that differ in a relation have nearly the same vector."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="erroneous_agreement",
    source="Li et al. 2024, section 3.1 and table 1",
    statement="Pictures that differ only in which thing is left and which is right have a cosine "
    "above 0.95, and strict pairs are far below chance.",
    experiment="probes",
    predictions=(
        Prediction(
            "more than half of left/right pairs have a cosine above 0.95",
            Number("base", "agreement", "merged, left/right"),
            0.5,
            "above",
        ),
        Prediction(
            "both pictures are right in less than 25 % of pairs",
            Number("base", "world-pairs-a", "pair"),
            0.25,
            "below",
        ),
        Prediction(
            "single pictures are within 5 points of chance",
            Number("base", "world-pairs-a", "individual"),
            0.5,
            "within",
            0.05,
        ),
    ),
    beside=(
        Number("random", "agreement", "merged, left/right"),
        Number("base", "agreement", "centred cosine, left/right"),
    ),
    controls="the untrained twin merges pictures too, so strict pairs below 25 % show vectors that "
    "are alike and not a lack of skill; cosines around the mean stand beside",
    knobs="in the paper the mean cosine of left/right is 0.995 in one set and 0.955 in the other",
    paper="chat models",
)
