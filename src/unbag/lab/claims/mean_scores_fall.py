"""Claim: hard negatives lower the scores of true captions, hard positives keep them."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="mean_scores_fall",
    source="Kamath et al. 2024, tables 2 and 9",
    statement="Hard negatives push the mean score of true captions down; hard positives beside "
    "them keep it.",
    experiment="default",
    predictions=(
        Prediction(
            "with hard negatives captions of swaps score lower than after plain fine-tuning",
            Number("hard_negative", "world-swap", "mean_original"),
            Number("clip_ft", "world-swap", "mean_original"),
            "below",
        ),
        Prediction(
            "and captions of replaced words too",
            Number("hard_negative", "world-replace", "mean_original"),
            Number("clip_ft", "world-replace", "mean_original"),
            "below",
        ),
        Prediction(
            "with hard positives captions of replaced words score higher than with negatives alone",
            Number("hard_positive", "world-replace", "mean_original"),
            Number("hard_negative", "world-replace", "mean_original"),
            "above",
        ),
    ),
    beside=(
        Number("hard_negative", "world-swap", "mean_original", experiment="ordered"),
        Number("clip_ft", "world-swap", "mean_original", experiment="ordered"),
    ),
    controls="plain fine-tuning on the same captions",
    knobs="mean cosines; in the paper .234 for CLIP, .157 to .233 after hard negatives, .231 with "
    "positives beside them",
    paper="hard positives",
)
