"""Claim: benchmarks of edited captions can be solved without looking; those of the world cannot."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

BENCHMARKS = (
    ("world-swap", 0.5),
    ("world-replace", 0.5),
    ("world-relation", 0.5),
    ("world-order", 0.25),
    ("world-pairs-a", 0.5),
    ("world-pairs-b", 0.5),
    ("world-binding", 0.5),
    ("world-count", 0.5),
    ("world-texture", 0.5),
    ("world-negation", 0.5),
)
"""With the chance of a single picture."""

CLAIM = Claim(
    name="caption_only_solvable",
    source="Hsieh et al. 2023 (SugarCrepe), for benchmarks before theirs; our specification, 12.3 "
    "and 12.10",
    statement="Hard negatives can often be told by reading alone; where every caption is true of "
    "one picture and false of another, as on the world, they cannot.",
    experiment="probes",
    predictions=(
        *(
            Prediction(
                f"taught by edits, a reader of captions is within 2 points of chance on {name}",
                Number("blind", "caption-only", name),
                chance,
                "within",
                0.02,
            )
            for name, chance in BENCHMARKS
        ),
        *(
            Prediction(
                f"taught by other items of {name}, it is within 2 points of chance there",
                Number("blind", "caption-only own", name),
                chance,
                "within",
                0.02,
            )
            for name, chance in BENCHMARKS
        ),
    ),
    beside=(Number("blind-ordered", "caption-only edits", "swap_arguments"),),
    controls="the same reader where captions name things in one order, in which it must succeed: "
    "`one_order_leaks`",
    knobs="logistic regression over runs of one to three words with marks of beginning and end; a "
    "reader that has no preference tosses a coin. On the world every caption has a mirror, so the "
    "predictions hold by construction and check it",
    paper="SugarCrepe",
)
