"""Claim: CE-CLIP's terms beat NegCLIP's loss on the same negatives."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="ce_clip_beats_neg_clip",
    source="Zhang et al. 2024, tables 1 to 3",
    statement="Contrast within captions and adaptive ranks beat NegCLIP on the same negatives.",
    experiment="default",
    predictions=(
        Prediction(
            "relations are higher than with NegCLIP's loss",
            Number("ce_clip_fixed", "world-relation", "original"),
            Number("neg_clip", "world-relation", "original"),
            "above",
        ),
    ),
    controls="NegCLIP's loss on the same negatives",
    knobs="ours is CE-CLIP with its two mistakes mended",
    paper="CE-CLIP",
)
