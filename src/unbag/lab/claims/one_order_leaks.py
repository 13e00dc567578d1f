"""Claim: where things are named in one order, an edit that changes it can be told by reading."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="one_order_leaks",
    source="our specification, 12.10 (2); Hsieh et al. 2023 on negatives that read oddly",
    statement="If captions name things in one order, those with things exchanged can be told by "
    "reading alone; if in random order, they cannot.",
    experiment="probes",
    predictions=(
        Prediction(
            "named in one order, a reader of captions tells more than 65 % of exchanged things",
            Number("blind-ordered", "caption-only edits", "swap_arguments"),
            0.65,
            "above",
        ),
        Prediction(
            "named in random order, it is within 5 points of chance",
            Number("blind", "caption-only edits", "swap_arguments"),
            0.5,
            "within",
            0.05,
        ),
    ),
    controls="the same reader on the same number of captions with their edits, of other scenes",
    knobs="presets `ordered` and `default` of the captions that repairs are trained on; edits as "
    "in training, not benchmarks, which have no leak in either",
    paper="SugarCrepe",
)
