"""Claim: CE-CLIP moves hard negatives farthest from captions, in words and for the picture."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="modality_gap",
    source="Zhang et al. 2024 (CE-CLIP), section 4.5 and figure 8",
    statement="CE-CLIP has the lowest similarity of captions to their hard negatives and the "
    "largest gap of their scores, against CLIP and NegCLIP.",
    experiment="probes",
    predictions=(
        Prediction(
            "captions and negatives are less alike than with NegCLIP's loss",
            Number("ce_clip_fixed", "intra", "negatives"),
            Number("neg_clip", "intra", "negatives"),
            "below",
        ),
        Prediction(
            "and less alike than before training",
            Number("ce_clip_fixed", "intra", "negatives"),
            Number("base", "intra", "negatives"),
            "below",
        ),
        Prediction(
            "a caption scores higher above its negative than with NegCLIP's loss",
            Number("ce_clip_fixed", "gap", "negatives"),
            Number("neg_clip", "gap", "negatives"),
            "above",
        ),
        Prediction(
            "and higher above it than before training",
            Number("ce_clip_fixed", "gap", "negatives"),
            Number("base", "gap", "negatives"),
            "above",
        ),
    ),
    beside=(Number("hard_positive", "intra", "negatives"),),
    controls="NegCLIP's loss on the same negatives; hard positives stand beside",
    knobs="ours is CE-CLIP with its two mistakes mended; mean cosines, not scaled, over swaps, "
    "relations and replacements. Contrast within captions asks for the first by its form",
    paper="CE-CLIP",
)
