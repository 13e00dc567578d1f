"""Claim: plain fine-tuning on the same captions changes nothing."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="plain_fine_tuning",
    source="Yuksekgonul et al. 2023 (CLIP-FT); Li et al. 2024, tables 9 and 10",
    statement="More steps on the same captions, without hard negatives, do not teach composition.",
    experiment="default",
    predictions=(
        Prediction(
            "relations move by less than 5 points",
            Number("clip_ft", "world-relation", "original"),
            Number("base", "world-relation", "original"),
            "within",
            0.05,
        ),
        Prediction(
            "pairs of pictures move by less than 5 points",
            Number("clip_ft", "world-pairs-a", "pair"),
            Number("base", "world-pairs-a", "pair"),
            "within",
            0.05,
        ),
    ),
    controls="the same base before training",
    knobs="1,250 steps of 512 at rate 3e-4; a third of all captions state a relation",
    paper="ARO",
)
