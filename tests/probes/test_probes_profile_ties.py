"""The profile of a space whose ties are broken by rounding, and of one without any vector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbag.probes.base import Grid, Options, ProbeData
from unbag.probes.profile import PROFILE
from unbag.probes.reference_spaces import bag_of_words_space, constructed_subject, signs

from .putting import put

WORLD = ProbeData("the world", is_world=True)
QUICK = Options(resamples=300)


def test_rounding_breaks_no_tie() -> None:
    bag = bag_of_words_space()
    width = bag.captions(["a star"]).shape[1]
    rounded = replace(bag, of_caption=lambda t: bag.captions([t])[0] + 1e-8 * signs(t, width))
    found = put(PROFILE, constructed_subject(rounded), WORLD, QUICK)
    assert (found["relations"].estimate.value, found["binding"].estimate.value) == (0, 0)
    grid = found.plots[1]
    assert isinstance(grid, Grid)
    assert grid.columns[-1] == "tie"
    assert {row[-1] for row in grid.values} == {1.0}


def test_nothing_is_not_called_chance() -> None:
    bag = bag_of_words_space()
    width = bag.captions(["a star"]).shape[1]
    nothing = replace(bag, of_image=lambda _: np.full(width, np.nan))
    verdict = PROFILE.say(put(PROFILE, constructed_subject(nothing), WORLD, QUICK))
    told = "Nothing could be measured: no image and caption have a score."
    assert (verdict.sentence, verdict.tone) == (told, "told")
