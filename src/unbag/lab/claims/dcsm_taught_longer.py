"""Claim: a network over cosines of patches with words reads relations, if taught for long enough.

Written after five bases were seen, on which the reader of `dcsm_reads_maps` was given 20,000 steps
instead of 3,000; its control with shuffled patches had not been run for as many.
"""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="dcsm_taught_longer",
    source="Kang et al. 2025 (DCSM)",
    statement="Taught for long, a small network over the map of cosines finds relations that the "
    "cosine misses, by where the patches lie.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are more than 2 points above cosine",
            Number("dcsm_fixed-long", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "above",
            0.02,
        ),
        Prediction(
            "strict pairs are more than 10 points above cosine",
            Number("dcsm_fixed-long", "world-pairs-a", "pair"),
            Number("base", "world-pairs-a", "pair"),
            "above",
            0.10,
        ),
        Prediction(
            "relations are more than 2 points above the same reader with shuffled patches",
            Number("dcsm_fixed-long", "world-relation", "original"),
            Number("dcsm_fixed-shuffled-long", "world-relation", "original"),
            "above",
            0.02,
        ),
    ),
    must_fit=("dcsm_fixed-long", "dcsm_fixed-shuffled-long"),
    seen={
        "tiny-0": "tiny-06f89ea32348deb1f3817c58",
        "tiny-5": "tiny-26a26a7b7fd4c4afd03dccee",
        "tiny-6": "tiny-feb94e3a8917ba62d094090b",
        "tiny-7": "tiny-11ddf2e3afd3cb841b6f1fad",
        "tiny-8": "tiny-26da6e88d26c9d5ab7685556",
    },
    beside=(
        Number("dcsm_fixed-long", "fit", "learned relation"),
        Number("dcsm_fixed-long", "fit", "held relation"),
        Number("dcsm_fixed-cls_eos-long", "world-relation", "original"),
    ),
    controls="shuffled patches; CLS row and end column only; relations of rows that were taught "
    "and of others, since the reader learns much by heart",
    knobs="20,000 steps instead of the 3,000 of `dcsm_reads_maps`, everything else as there; "
    "60,000 scenes, each drawn about 85 times",
    paper="DCSM",
)
