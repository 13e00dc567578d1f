"""Claim: conditions of an ideal space that no bag of words can meet fail."""

from __future__ import annotations

from unbag.lab.claim import Claim, Number, Prediction

CLAIM = Claim(
    name="ideal_conditions",
    source="Kang et al. 2025, section 3.1, conditions 2.3, 3.2, 3.3 and 4.2; our specification, "
    "E10",
    statement="A contrastive space represents neither binding nor relations nor negation: the "
    "conditions that ask for them fail.",
    experiment="probes",
    predictions=(
        Prediction(
            "pictures with exchanged colours are told apart in less than half of cases (2.3)",
            Number("base", "conditions", "2.3"),
            0.5,
            "below",
        ),
        Prediction(
            "pictures with exchanged places are told apart in less than half of cases (3.2)",
            Number("base", "conditions", "3.2"),
            0.5,
            "below",
        ),
        Prediction(
            "the same relation brings pictures nearer in less than 75 % of cases (3.3; chance 50)",
            Number("base", "conditions", "3.3"),
            0.75,
            "below",
        ),
        Prediction(
            "'no star' fits a star less than another name in less than half of cases (4.2)",
            Number("base", "conditions", "4.2"),
            0.5,
            "below",
        ),
    ),
    beside=(
        Number("random", "conditions", "1.1a"),
        Number("hard_negative", "conditions", "1.1a"),
        Number("ce_clip_fixed", "conditions", "1.1a"),
        Number("base", "conditions", "4.1"),
    ),
    controls="conditions on single concepts; repaired models are asked the same; an untrained twin",
    knobs="told apart is a cosine of at most 0.95. 4.1 is arguably too strong and decides nothing",
    paper="ideal CLIP",
)
