"""Claim: with the picture tower locked, a stronger text model teaches no relations."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="stronger_text_locked",
    source="Li et al. 2024, tables 5, 9 and 10 (llm2vec with a locked picture tower)",
    statement="A stronger text model on pooled vectors of a locked picture tower teaches no "
    "relations, with hard negatives and without.",
    experiment="readouts",
    predictions=(
        Prediction(
            "relations are within 5 points of the same reader with the base's own text tower",
            Number("pooled-text", "world-relation", "original"),
            Number("pooled", "world-relation", "original"),
            "within",
            0.05,
        ),
        Prediction(
            "and within 5 points of chance",
            Number("pooled-text", "world-relation", "original"),
            0.5,
            "within",
            0.05,
        ),
    ),
    must_fit=("pooled", "pooled-text"),
    controls="the same reader, rows and steps on the base's own text tower",
    knobs="both towers are locked and a connector is trained, with hard negatives; their open "
    "tower with a language model and negatives is the one that moved (26 of 100 pairs), and is "
    "not here",
    paper="chat models",
)
