"""Claim: each of CE-CLIP's terms helps, and all together are best."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="ce_clip_terms",
    source="Zhang et al. 2024 (CE-CLIP), table 4",
    statement="Contrast within captions and ranks each add to negatives in the denominator, and "
    "all three together are best.",
    experiment="default",
    predictions=(
        Prediction(
            "contrast within captions adds to NegCLIP's loss on relations",
            Number("ce_clip_fixed-intra", "world-relation", "original"),
            Number("neg_clip", "world-relation", "original"),
            "above",
        ),
        Prediction(
            "ranks do",
            Number("ce_clip_fixed-rank", "world-relation", "original"),
            Number("neg_clip", "world-relation", "original"),
            "above",
        ),
        Prediction(
            "all are better than without ranks",
            Number("ce_clip_fixed", "world-relation", "original"),
            Number("ce_clip_fixed-intra", "world-relation", "original"),
            "above",
        ),
        Prediction(
            "and than without contrast within captions",
            Number("ce_clip_fixed", "world-relation", "original"),
            Number("ce_clip_fixed-rank", "world-relation", "original"),
            "above",
        ),
    ),
    controls="the same negatives in every arm",
    knobs="weights 0.2 and 0.4 as in the paper, with its two mistakes mended",
    paper="CE-CLIP",
)
