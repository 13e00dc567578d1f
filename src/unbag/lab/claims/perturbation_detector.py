"""Claim: hard negatives alone teach to notice edits, hard positives beside them what they mean."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="perturbation_detector",
    source="Kamath et al. 2024, section 4.3 and table 2",
    statement="After hard negatives a true rewording costs nearly as much as a false edit; hard "
    "positives beside them undo that.",
    experiment="probes",
    predictions=(
        Prediction(
            "what a positive costs, in units of a negative, rises over plain fine-tuning",
            Number("hard_negative", "gap", "ratio"),
            Number("clip_ft", "gap", "ratio"),
            "above",
        ),
        Prediction(
            "and is lower with hard positives beside the negatives",
            Number("hard_positive", "gap", "ratio"),
            Number("hard_negative", "gap", "ratio"),
            "below",
        ),
    ),
    controls="plain fine-tuning on the same captions",
    knobs="in their table the ratio is 0.63 for CLIP, 1.12 for DAC-LLM and 0.08 with positives. "
    "Here things are named in random order, so captions of training look like positives, which "
    "speaks against the claim: another order is another experiment",
    paper="hard positives",
)
