"""Claim: pictures whose parts are shuffled are found nearly as well."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="order_free_pictures",
    source="Yuksekgonul et al. 2023, section 3 and figure 2",
    statement="Retrieval needs no order in pictures: with rows, columns or patches of all "
    "pictures shuffled, a model keeps most of its recall.",
    experiment="probes",
    predictions=tuple(
        Prediction(
            f"captions find more than half as often with {what} shuffled",
            Number("base", "order-free", f"retention {kind}, text to image"),
            0.5,
            "above",
        )
        for kind, what in (
            ("rows_4", "four rows"),
            ("columns_4", "four columns"),
            ("patches_9", "nine patches"),
        )
    ),
    beside=(
        Number("random", "order-free", "recall, text to image"),
        Number("hard_negative", "order-free", "recall, text to image"),
        Number("ce_clip_fixed", "order-free", "recall, text to image"),
    ),
    controls="the untrained twin finds nothing; repaired models are asked the same",
    knobs="pictures have 64 pixels a side and things span 15 or 21 of them, so cuts go through "
    "things more often than in photographs. The paper gives bars without numbers: half is our "
    "reading of 'most'",
    paper="ARO",
)
