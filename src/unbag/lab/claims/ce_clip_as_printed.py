"""Claim: CE-CLIP in its printed form beats NegCLIP's loss."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="ce_clip_as_printed",
    source="Zhang et al. 2024 (CE-CLIP), tables 1 to 4",
    statement="CE-CLIP as its equations print it beats NegCLIP on the same negatives.",
    experiment="default",
    predictions=(
        Prediction(
            "relations are higher than with NegCLIP's loss",
            Number("ce_clip", "world-relation", "original"),
            Number("neg_clip", "world-relation", "original"),
            "above",
        ),
    ),
    beside=(Number("ce_clip_fixed", "world-relation", "original"),),
    controls="NegCLIP's loss on the same negatives; the mended form is the claim "
    "ce_clip_beats_neg_clip",
    knobs="the intra-modal loss without the pair in its denominator, means over all cells; bounded "
    "only by the largest scale of 100",
    paper="CE-CLIP",
)
