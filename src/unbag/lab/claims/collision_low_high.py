"""Claim: a bag of words is what batches ask for, and order is learned once they ask for it."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="collision_low_high",
    source="Yuksekgonul et al. 2023, section 3, give the reason: neither retrieval nor contrastive "
    "training needs order; batches with collisions, which test it, are not theirs",
    statement="Contrastive training ends in a bag of words because batches can be told apart by "
    "words alone; where they cannot, binding and relations are learned.",
    experiment="pretraining",
    predictions=(
        Prediction(
            "without collisions, relations are told more than 15 points worse than replaced words",
            Number("base", "world-relation", "original"),
            Number("base", "world-replace", "original"),
            "below",
            -0.15,
        ),
        Prediction(
            "collisions raise exchanged attributes by more than 5 points",
            Number("collide", "world-swap", "original"),
            Number("base", "world-swap", "original"),
            "above",
            0.05,
        ),
        Prediction(
            "collisions raise relations by more than 10 points over as many captions of the same "
            "kinds without them",
            Number("collide", "world-relation", "original"),
            Number("mixed", "world-relation", "original"),
            "above",
            0.10,
        ),
        Prediction(
            "and by more than 10 points where most captions state a relation",
            Number("relations_collide", "world-relation", "original"),
            Number("relations", "world-relation", "original"),
            "above",
            0.10,
        ),
    ),
    beside=(
        Number("collide", "batch", "collision"),
        Number("collide", "batch", "incentive"),
        Number("collide", "batch", "relations"),
    ),
    controls="`mixed` and `relations` have as many captions of each kind as the arms with "
    "collisions, drawn alone; the same steps, initial weights and test items",
    knobs="q = .5 (two of three captions meet their own words in the batch) against 0; 48 shapes "
    "in 12 colours; relations in 2 or 40 of 100 captions of two things; 2,000 steps of 512. "
    "Collision, incentive and the share of all captions that state a relation are measured and "
    "stand with the results. Steps could matter: an arm "
    "that has not learned by then may learn later",
    paper="ARO",
)
