"""Claim: pairs that are judged as a whole are solved more often than picture by picture."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

ARMS = ("base", "random", "clip_ft", "hard_negative", "ce_clip_fixed")

CLAIM = Claim(
    name="relaxed_pairs",
    source="Li et al. 2024, section 5.2 (MMVP: CLIP 14.0 strict and 64.0 relaxed)",
    statement="Asked for the better of the two assignments, every model solves at least as many "
    "pairs as picture by picture, and CLIP far more.",
    experiment="probes",
    predictions=(
        *(
            Prediction(
                f"relaxed pairs are not below strict ones ({arm})",
                Number(arm, "world-pairs-a", "relaxed"),
                Number(arm, "world-pairs-a", "pair"),
                "above",
                -0.001,
            )
            for arm in ARMS
        ),
        Prediction(
            "the base gains more than 25 points, which chance alone would give",
            Number("base", "world-pairs-a", "relaxed"),
            Number("base", "world-pairs-a", "pair"),
            "above",
            0.25,
        ),
        Prediction(
            "and solves more than half, which is chance",
            Number("base", "world-pairs-a", "relaxed"),
            0.5,
            "above",
        ),
    ),
    controls="the untrained twin",
    knobs="the additive form, for cosines; with it the first is true of any scores whatever, so it "
    "only checks the arithmetic. Chance is 50 for relaxed pairs and 25 for strict ones",
    paper="chat models",
)
