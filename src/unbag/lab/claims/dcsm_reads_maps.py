"""Claim: a network over cosines of patches with words reads what cosine does not."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="dcsm_reads_maps",
    source="Kang et al. 2025 (DCSM)",
    statement="A small network over the map of cosines finds relations that the cosine misses, on "
    "frozen encoders.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are more than 5 points above cosine",
            Number("dcsm_fixed", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "above",
            0.05,
        ),
        Prediction(
            "and above the same reader with shuffled patches",
            Number("dcsm_fixed", "world-relation", "original"),
            Number("dcsm_fixed-shuffled", "world-relation", "original"),
            "above",
        ),
    ),
    must_fit=("dcsm_fixed", "dcsm_fixed-shuffled"),
    beside=(
        Number("dcsm_fixed-cls_eos", "world-relation", "original"),
        Number("dcsm_fixed-random", "world-relation", "original"),
    ),
    controls="shuffled patches; CLS row and end column only; an untrained encoder",
    paper="DCSM",
)
