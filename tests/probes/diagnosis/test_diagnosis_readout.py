"""A read-out under examination: its scores, its maps beside the model's, and what it says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import unbag as ub
from unbag.probes.diagnosis.diagnose import DiagnosisConfig, examine, make_subject
from unbag.probes.diagnosis.page import render_diagnosis
from unbag.probes.profile import profile_items, score_items
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Sizes
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.sparc import SPARC_FIXED, SparcSettings
from unbag.runs.progress import Silent
from unbag.scorers.cosine import Cosine

from .small_probes import OPTIONS, SHARE, Counted, small_material

NOTE = (
    "counted+sparc_fixed scores only the probe profile; all other probes look at vectors of "
    "counted, which a read-out leaves as they are"
)


def sparc(model: Counted) -> ReaderScorer:
    config = model.config
    sizes = Sizes((config.pixels // config.patch) ** 2, config.picture_width, config.caption_width)
    settings = SparcSettings(padding=False, fallback=True)
    return ReaderScorer(model, SPARC_FIXED.fresh(settings, sizes, seed=0))


def config(model: Counted, **changes: object) -> DiagnosisConfig:
    asked = DiagnosisConfig(
        model, scorer=sparc(model), material=small_material(), probes=(SHARE,), options=OPTIONS,
        has_random_init=False,
    )  # fmt: skip
    return replace(asked, **changes)  # type: ignore[arg-type]


def test_maps_of_the_reader_stand_beside_those_of_the_model() -> None:
    found = examine(config(Counted()))
    assert found.model.name == "counted+sparc_fixed"
    assert [one.title for one in found.maps] == ["counted"] * 3 + ["counted+sparc_fixed"] * 3
    before, after = found.maps[0], found.maps[3]
    assert (before.caption, before.image) == (after.caption, after.image)
    assert [one.word for one in before.maps] == [one.word for one in after.maps]
    assert np.allclose([np.sum(one.values) for one in after.maps], 1, atol=0.01)
    assert NOTE in found.notes
    page = render_diagnosis(found)
    assert "<b>counted</b>: Cosine of the vector of each word" in page
    assert "<b>counted+sparc_fixed</b>: The share of each patch" in page


def test_a_read_out_can_be_set_against_its_own_model() -> None:
    model = Counted()
    found = examine(config(model, against=model))
    assert found.other is not None
    assert (found.model.name, found.other.name) == ("counted+sparc_fixed", "counted")
    assert [one.title for one in found.maps] == ["counted"] * 3 + ["counted+sparc_fixed"] * 3
    (difference, *_) = found.answers[0].differences
    assert difference.difference == 0


def test_the_twin_is_said_to_be_scored_by_cosine() -> None:
    model = Counted()
    found = examine(config(model, has_random_init=True, probes=()))
    assert f"{NOTE}; random weights are scored by cosine" in found.notes


def test_a_read_out_without_maps_says_so_and_keeps_those_of_the_model() -> None:
    model = Counted()
    sizes = Sizes(0, model.config.picture_width, model.config.caption_width)
    pooled = ReaderScorer(model, Pooled(PooledSettings(width=8), sizes))
    found = examine(config(model, scorer=pooled))
    assert [one.title for one in found.maps] == ["counted"] * 3
    said = "no map of words over patches: counted+pooled scores without a map of words over patches"
    assert said in found.notes


def test_scenes_are_scored_by_the_read_out() -> None:
    model = Counted()
    scorer = sparc(model)
    items = profile_items(n=2, seed=0)[:3]
    subject = make_subject(model, scorer=scorer)
    assert (subject.name, subject.has_readout) == (scorer.name, True)
    expected = [scorer.score_matrix(item.images, item.captions)[0] for item in items]
    for mine, theirs in zip(score_items(subject, items, Silent()), expected, strict=True):
        assert torch.allclose(torch.from_numpy(mine), theirs, atol=1e-6)


def test_a_cosine_brings_its_vectors() -> None:
    subject = make_subject(Counted("one"), scorer=Cosine(Counted("two")))
    assert subject.space is not None
    assert (subject.name, subject.space.name, subject.has_readout) == ("two", "two", False)


def test_from_python_by_name(tmp_path: Path) -> None:
    with pytest.raises(ub.UnbagError, match="is not a reader"):
        ub.diagnose("tiny:base", scorer=f"sparc_fixed@{tmp_path}", data=small_material())
