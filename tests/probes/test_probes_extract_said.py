"""Sentences on extractability: every way in which an answer can be kept or lost."""

from __future__ import annotations

import numpy as np
import pytest

from unbag.probes.base import Known, Options, ProbeResult, Quantity, mean
from unbag.probes.extract import CAPTION_SIDE, IMAGE_SIDE, say_of

QUICK = Options(resamples=500)


def _rates(name: str, share: float, *, beyond: float = 0.3) -> list[Quantity]:
    """A reading of 400 units, and its selectivity."""
    value_N = (np.arange(400) < round(400 * share)).astype(float)
    known = Known(chance=0.5)
    selectivity_N = np.random.default_rng(0).normal(beyond, 0.1, 400)
    return [
        mean(name, value_N, about="", options=QUICK, known=known, is_rate=True),
        mean(f"{name}, selectivity", selectivity_N, about="", options=QUICK),
    ]


@pytest.mark.parametrize(
    ("projected", "unprojected", "patches", "own", "words", "tone"),
    [
        (0.95, 0.95, 0.95, 0.97, "and its score uses it (97.0 %", "holds"),
        (0.95, 0.95, 0.95, 0.52, "but its score does not use it (52.0 %", "mixed"),
        (0.65, 0.95, 0.95, 0.65, "can in part be read from the vector that is compared", "mixed"),
        (0.65, 0.65, 0.95, 0.98, "is in the vector that is compared, for its score uses", "holds"),
        (0.51, 0.51, 0.95, 0.98, "though readers find it in 51.0 % [", "holds"),
        (0.54, 0.50, 0.95, 0.50, "but not from the vector that is compared (54.0 %", "fails"),
        (0.51, 0.95, 0.95, 0.50, "the projection loses it", "fails"),
        (0.51, 0.50, 0.95, 0.50, "it is there, and the read-out loses it", "fails"),
        (0.51, 0.50, 0.52, 0.50, "can be read neither from the vector that is", "fails"),
    ],
)
def test_sentences(
    projected: float, unprojected: float, patches: float, own: float, words: str, tone: str
) -> None:
    made = [
        *_rates("left/right, projected, linear", projected),
        *_rates("left/right, unprojected, linear", unprojected),
        *_rates("left/right, all patches, attentive", patches),
        _rates("left/right, own score", own)[0],
    ]
    verdict = say_of(ProbeResult("extract", tuple(made)), ["left/right"], IMAGE_SIDE)
    assert words in verdict.sentence
    assert verdict.tone == tone


def test_what_a_control_reads_as_well_is_not_read() -> None:
    made = _rates("left/right, projected, linear", 0.9, beyond=0.0)
    verdict = say_of(ProbeResult("extract", tuple(made)), ["left/right"], IMAGE_SIDE)
    assert verdict.tone == "fails"


@pytest.mark.parametrize(
    ("trained", "random", "words", "tone"),
    [
        (0.65, 1.0, "can in part be read from the vector that is compared (65.0 % [", "mixed"),
        (0.65, 1.0, "less than with random weights (100.0 % [", "mixed"),
        (0.95, 0.95, "no more than with random weights (95.0 % [", "told"),
        (0.95, 0.6, "more than with random weights (60.0 % [", "holds"),
    ],
)
def test_what_random_weights_give_too_is_no_merit(
    trained: float, random: float, words: str, tone: str
) -> None:
    made = _rates("order, projected, linear", trained)
    made.append(_rates("order, projected, linear, random encoder", random)[0])
    verdict = say_of(ProbeResult("extract_text", tuple(made)), ["order"], CAPTION_SIDE)
    assert words in verdict.sentence
    assert verdict.tone == tone
