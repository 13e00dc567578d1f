"""Claim: what the score does not know can be read from the patches."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="readable_patches",
    source="Li et al. 2024, sections 3.2 and 4; our specification, 4.3 and 12.7",
    statement="Left and right are in the features of the frozen picture tower even where the score "
    "is at chance: a better reader finds them.",
    experiment="probes",
    predictions=(
        Prediction(
            "a linear reader of all patches is right on more than 90 % of unseen pairs of things",
            Number("base", "extract", "left/right, all patches"),
            0.9,
            "above",
        ),
        Prediction(
            "the score itself is within 5 points of chance on the same pictures",
            Number("base", "extract", "left/right, own score"),
            0.5,
            "within",
            0.05,
        ),
        Prediction(
            "the reader of patches is above one of the projected vector",
            Number("base", "extract", "left/right, all patches"),
            Number("base", "extract", "left/right, projected"),
            "above",
        ),
        Prediction(
            "of pairs with a cosine above 0.95 it reads both pictures rightly more often than "
            "chance (25 %)",
            Number("base", "extract", "left/right of merged pairs, all patches"),
            0.25,
            "above",
        ),
    ),
    beside=(
        Number("random", "extract", "left/right, all patches"),
        Number("base", "extract", "left/right, control"),
        Number("base", "extract", "left/right, unprojected"),
    ),
    controls="the same reader fitted to shuffled labels; the untrained twin, whose patches know "
    "where they are too; raw vectors before the projection",
    knobs="2,048 pictures of 16 pairs of things; logistic regression, its strength chosen without "
    "the test pairs. A reader that fails does not show that nothing is there",
    paper="chat models",
)
