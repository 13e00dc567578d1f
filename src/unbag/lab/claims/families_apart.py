"""Claim: training on one family of edits does not carry over to the other."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="families_apart",
    source="Kamath et al. 2024, table 3 (swap-only, replace-only)",
    statement="Positives and negatives of one family of edits help on that family only.",
    experiment="default",
    predictions=(
        Prediction(
            "where things are exchanged, swaps teach more than replaced words: augmented accuracy",
            Number("swap_only", "world-relation/exchanged", "augmented"),
            Number("replace_only", "world-relation/exchanged", "augmented"),
            "above",
        ),
        Prediction(
            "where relations are replaced, replaced words teach more than swaps",
            Number("replace_only", "world-relation/replaced", "augmented"),
            Number("swap_only", "world-relation/replaced", "augmented"),
            "above",
        ),
        Prediction(
            "on colours, shapes, sizes and textures too",
            Number("replace_only", "world-replace", "augmented"),
            Number("swap_only", "world-replace", "augmented"),
            "above",
        ),
    ),
    controls="each is the other's control: the same pictures, captions and steps, with the edits "
    "of the other family masked",
    knobs="in the paper 61.9 against 55.6 on swaps and 59.0 against 51.6 on replaced words, though "
    "replace-only raises originals of swaps too. The opposite relation is a replaced word here",
    paper="hard positives",
)
