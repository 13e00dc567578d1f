"""Claim: hard negatives teach what they are made of, with both towers open."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="negatives_open",
    source="Yuksekgonul et al. 2023; Doveh et al. 2023; Kamath et al. 2024",
    statement="Hard negatives raise accuracy on edits of the trained kinds by far.",
    experiment="default",
    predictions=(
        Prediction(
            "relations rise by more than 15 points over plain fine-tuning",
            Number("hard_negative", "world-relation", "original"),
            Number("clip_ft", "world-relation", "original"),
            "above",
            0.15,
        ),
    ),
    beside=(Number("blind", "leak", "all"),),
    controls="plain fine-tuning on the same captions for as many steps",
    knobs="things are named in random order, so that no caption can be told from its edit blindly",
    paper="ARO",
)
