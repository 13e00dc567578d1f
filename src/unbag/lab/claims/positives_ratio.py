"""Claim: beside hard positives, the weight of the negatives decides accuracy alone."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="positives_ratio",
    source="Kamath et al. 2024, sweep of the negatives' weight",
    statement="Beside hard positives, more weight on the negatives raises accuracy on originals "
    "and hardly moves brittleness.",
    experiment="default",
    predictions=(
        Prediction(
            "relations are higher at full weight than at a quarter",
            Number("hard_positive", "world-relation", "original"),
            Number("hard_positive-n25", "world-relation", "original"),
            "above",
        ),
        Prediction(
            "and higher at a half than at none",
            Number("hard_positive-n50", "world-relation", "original"),
            Number("positives_only", "world-relation", "original"),
            "above",
        ),
        Prediction(
            "brittleness moves by less than 5 points between a quarter and full weight",
            Number("hard_positive-n25", "world-relation", "brittleness"),
            Number("hard_positive", "world-relation", "brittleness"),
            "within",
            0.05,
        ),
    ),
    controls="weights 0, 0.25, 0.5 and 1 on the same batches",
    knobs="only the loss of a caption against its own edits is weighted; in the denominator "
    "negatives count in full, as in the released code, but for weight 0",
    paper="hard positives",
)
