"""A diagnosis: probes, models, read-outs, maps, notes and paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor

import unbag as ub
from unbag.api.measuring import _probes
from unbag.data.images import PixelImage
from unbag.errors import UnbagError
from unbag.models.loading import Model
from unbag.models.tiny import Tiny, untrained
from unbag.models.tiny import load as load_tiny
from unbag.probes.base import (
    Maps,
    Options,
    Probe,
    ProbedModel,
    ProbeResult,
    Verdict,
    mean,
    statistic,
)
from unbag.probes.diagnosis.diagnose import (
    ORDER,
    Diagnosis,
    DiagnosisConfig,
    differences,
    examine,
    make_subject,
    registered_probes,
)
from unbag.probes.diagnosis.page import render_diagnosis
from unbag.probes.diagnosis.text import to_json
from unbag.probes.profile import profile_items, score_items
from unbag.readouts.decoder.model import PatchDecoder
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Sizes
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.sparc import SPARC_FIXED, SparcSettings
from unbag.readouts.vlm2vec.model import Vlm2Vec
from unbag.readouts.vlm2vec.readout import AskedCosine
from unbag.registry import names
from unbag.runs.progress import Silent
from unbag.scorers.chat import YES
from unbag.scorers.cosine import Cosine
from unbag.types import FloatArray, ImageSource, IntArray, Scorer

from ...readouts.decoder_made import SMALL, decoder  # noqa: TID252
from .small_probes import AGAIN, BROKEN, OPTIONS, SHARE, SKIPS, Counted, Plain, small_material


def config(*probes: Probe) -> DiagnosisConfig:
    return DiagnosisConfig(
        Counted(), material=small_material(), probes=probes, options=OPTIONS, has_random_init=False
    )


def test_every_image_and_caption_is_encoded_once_over_all_probes() -> None:
    asked = config(SHARE, AGAIN, SHARE)
    examine(asked)
    model = asked.model
    assert isinstance(model, Counted)
    rows = small_material().rows
    assert model.images_seen == len({row.image.key for row in rows})
    texts = {text for row in rows for text in (row.caption, row.negative)}
    assert sorted(model.captions_seen) == sorted(map(str, texts))


def test_a_question_that_fails_or_is_skipped_stops_no_other() -> None:
    found = examine(config(BROKEN, SKIPS, SHARE))
    assert [one.probe for one in found.answers] == ["broken", "skips", "share"]
    assert "no such scene" in found.answers[0].finding.skipped
    assert [one.probe for one in found.skipped] == ["broken", "skips"]
    assert [one.probe for one in found.answered] == ["share"]
    assert found.answers[0].verdict is None
    assert found.answers[2].verdict is not None
    assert found.answers[2].verdict.sentence.startswith("share gives ")


def test_a_probe_that_breaks_stops_no_other() -> None:
    def ask(*_: object) -> ProbeResult:
        raise ValueError("17 is no shape")

    def say(_: ProbeResult) -> Verdict:
        raise KeyError("merged")

    asks, says = replace(SHARE, name="asks", ask=ask), replace(SHARE, name="says", say=say)
    found = examine(config(SHARE, asks, says, AGAIN))
    assert [one.probe for one in found.answered] == ["share", "again"]
    first, second = found.skipped
    assert first.finding.skipped.startswith("it failed: ValueError: 17 is no shape (test_diagnose")
    assert second.finding.skipped.startswith("it failed: KeyError: 'merged' (test_diagnose")
    assert second.finding["right"].estimate.n == 6
    assert "it failed: KeyError" in to_json(found)


def test_a_probe_without_a_result_or_a_value_of_its_sentence_is_skipped() -> None:
    def no_result(*_: object) -> ProbeResult:
        return cast(ProbeResult, None)

    def no_value(_: ProbeResult) -> Verdict:
        return Verdict("told", "The {missing} is not there.", {})

    asks, says = (
        replace(SHARE, name="asks", ask=no_result),
        replace(SHARE, name="says", say=no_value),
    )
    first, second = examine(config(SHARE, asks, says)).skipped
    assert "returned NoneType" in first.finding.skipped
    assert "KeyError: 'missing'" in second.finding.skipped
    assert second.finding["right"].estimate.n == 6


def test_a_map_that_breaks_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Maps:
        raise RuntimeError("no patches here")

    monkeypatch.setattr("unbag.probes.maps.word_maps", broken)
    found = examine(config(SHARE))
    assert found.is_whole
    assert "no map of words over patches: RuntimeError: no patches here" in found.notes


def test_both_models_have_a_twin_and_those_of_one_build_share_it() -> None:
    seen: list[ProbedModel] = []

    def ask(subject: ProbedModel, *_: object) -> ProbeResult:
        seen.append(subject)
        return ProbeResult("seen")

    probe = Probe("seen", "Who?", "Nobody.", ask, lambda _: Verdict("told", "Seen."))
    asked = replace(config(probe), model=load_tiny("base"), against=Counted(), has_random_init=True)
    examine(asked)
    model, random_model, other = seen
    assert model.random_init is random_model
    assert other.random_init is random_model
    seen.clear()
    examine(replace(asked, has_random_init=False))
    assert [one.random_init for one in seen] == [None, None]


def test_the_twin_and_the_other_are_asked_too() -> None:
    base = load_tiny("base")
    asked = replace(config(SHARE), model=base, against=Counted(), has_random_init=True)
    found = examine(asked)
    answer = found.answers[0]
    assert answer.random_init is not None
    assert answer.other is not None
    assert found.random_init is not None
    assert found.other is not None
    assert (found.random_init.name, found.other.name) == ("tiny:base, random weights", "counted")
    assert answer.other["right"].estimate.n == answer.finding["right"].estimate.n == 6
    assert answer.other_verdict is not None
    made = {one.metric: one for one in answer.differences}
    assert set(made) == {"right", "gap"}
    mine, theirs = (one["right"].estimate.value for one in (answer.finding, answer.other))
    assert made["right"].difference == pytest.approx(mine - theirs)
    assert (made["right"].second, made["right"].first) == ("tiny:base", "counted")
    mine, theirs = (one["gap"].estimate.value for one in (answer.finding, answer.other))
    assert made["gap"].difference == pytest.approx(mine - theirs)


def test_a_model_without_a_twin_is_asked_alone() -> None:
    found = examine(replace(config(SHARE), model=Plain(), has_random_init=True))
    assert found.random_init is None
    assert found.answers[0].random_init is None
    assert found.maps == ()
    assert f"{NOTE}: plain has no vectors of patches and words" in found.notes


def test_what_there_is_is_kept_before_and_after_every_question() -> None:
    kept: list[Diagnosis] = []
    found = examine(config(SHARE, BROKEN), save=kept.append)
    assert [len(one.answers) for one in kept] == [0, 1, 2, 2]
    assert [one.is_whole for one in kept] == [False, False, False, True]
    assert kept[-1] is found
    assert kept[0].notes == ("a note",)


def test_a_stop_leaves_what_was_kept() -> None:
    kept: list[Diagnosis] = []

    def stop(*_: object) -> ProbeResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        examine(config(SHARE, replace(BROKEN, ask=stop)), save=kept.append)
    assert [one.probe for one in kept[-1].answers] == ["share"]


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(UnbagError, match="both models are called 'counted'") as error:
        examine(replace(config(SHARE), against=Counted()))
    assert "rename a file" in error.value.hint


def test_no_questions_are_no_questions() -> None:
    assert examine(config()).answers == ()


class _Torn(PixelImage):
    def open(self) -> object:  # type: ignore[override]
        raise OSError("torn")


def test_images_that_cannot_be_opened_are_named() -> None:
    material = small_material()
    torn: ImageSource = _Torn(np.zeros((8, 8, 3), dtype=np.uint8))  # type: ignore[assignment]
    rows = (replace(material.rows[0], image=torn), *material.rows[1:])
    found = examine(replace(config(SHARE), material=replace(material, rows=rows)))
    assert any("cannot be used" in note and "torn" in note for note in found.notes)


def test_holm_is_over_all_questions() -> None:
    asked = replace(config(SHARE, AGAIN), model=load_tiny("base"), against=Counted())
    rates = [one for a in examine(asked).answers for one in a.differences if one.metric == "right"]
    assert len(rates) == 2
    p = rates[0].p_value
    assert p is not None
    # Two equal tests: each is doubled.
    assert [one.p_holm for one in rates] == [min(1.0, 2 * p)] * 2


def quantity_of(value_N: FloatArray, *, units: list[str] | None = None) -> ProbeResult:
    units = units or [str(i) for i in range(len(value_N))]

    def highest(index: IntArray) -> float:
        return float(value_N[index].max())

    options = Options(resamples=500)
    made = mean("rate", value_N, about="", options=options, units=units, is_rate=True)
    top = statistic("top", highest, len(value_N), about="", options=options)
    return ProbeResult("p", (made, top), headline="rate")


def test_outcomes_are_paired_unit_by_unit() -> None:
    # Both are right in half of all, always on the same units: the difference is exactly 0.
    value_N = np.array([1.0, 0.0] * 20)
    both = quantity_of(value_N), quantity_of(value_N)
    rate, top = differences(*both, names=("a", "b"), options=Options(resamples=500))
    assert (rate.difference, rate.low, rate.high, rate.n) == (0, 0, 0, 40)
    assert (top.difference, top.low, top.high) == (0, 0, 0)


def test_draws_of_other_numbers_of_units_are_not_paired() -> None:
    both = quantity_of(np.arange(5.0) / 5), quantity_of(np.arange(4.0) / 4)
    found = differences(*both, names=("a", "b"), options=Options(resamples=500))
    assert [one.metric for one in found] == ["rate"]
    assert found[0].n == 4


def test_units_that_are_not_shared_give_no_difference() -> None:
    other = quantity_of(np.ones(3), units=["x", "y", "z"])
    found = differences(
        quantity_of(np.ones(3)), other, names=("a", "b"), options=Options(resamples=50)
    )
    assert [one.metric for one in found] == ["top"]
    assert (
        differences(other, ProbeResult("p", skipped="no"), names=("a", "b"), options=OPTIONS) == ()
    )


def test_all_registered_probes_are_asked_in_the_order_of_a_reader() -> None:
    found = [one.name for one in registered_probes()]
    assert sorted(found) == sorted(names("probe"))
    known = [name for name in ORDER if name in found]
    assert found[: len(known)] == known
    assert [one.name for one in registered_probes(["superposition", "agreement"])] == [
        "superposition",
        "agreement",
    ]
    with pytest.raises(UnbagError, match="unknown probe 'agremeent'"):
        registered_probes(["agremeent"])
    with pytest.raises(UnbagError, match="the probe 'math:pi' is a float"):
        registered_probes(["math:pi"])


def test_the_friendly_way_takes_names_and_things(capsys: pytest.CaptureFixture[str]) -> None:
    found = ub.diagnose(
        "tiny:base", against=Counted(), data=small_material(), probes=[SHARE], random_init=False
    )
    assert (found.model.name, found.material) == ("tiny:base", "a few drawings")
    assert [one.name for one in _probes("agreement")] == ["agreement"]
    found.print()
    said = capsys.readouterr().out
    assert "How often does the true" in said
    assert "share gives" in said
    assert "≈ mixed" in said
    assert "note: a note" in said
    assert len(found.maps) == 6


READERS = ("extract", "extract_text")


"""They read layers, which are too large to be remembered; and training readers takes long."""


class Remembering(Tiny):
    """A small encoder that counts how often it was given the same input."""

    def __init__(self) -> None:
        small = replace(
            load_tiny("base").config, pixels=32, patch=16, picture_width=8, picture_depth=1,
            caption_width=8, caption_depth=1, joint=8, heads=2,
        )  # fmt: skip
        super().__init__(untrained(small, seed=0), name="small", device="cpu")
        self.seen: Counter[bytes | str] = Counter()

    def encode_images(self, pixels: Tensor) -> Tensor:
        self.seen.update(one.numpy().tobytes() for one in pixels)
        return super().encode_images(pixels)

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        self.seen.update(captions)
        return super().encode_texts(captions)


def test_nothing_is_encoded_twice() -> None:
    model = Remembering()
    probes = tuple(one for one in registered_probes() if one.name not in READERS)
    found = examine(
        DiagnosisConfig(
            model,
            material=small_material(rows=40),
            probes=probes,
            options=replace(OPTIONS, resamples=50),
            has_random_init=False,
        )
    )
    assert {one.probe for one in found.answered} >= {"order", "agreement", "conditions"}
    assert set(model.seen.values()) == {1}
    assert len(model.seen) > 1_000


READOUT_NOTE = (
    "counted+sparc_fixed scores only the probe profile; all other probes use the vectors of "
    "counted, which a read-out does not change"
)


def sparc(model: Counted) -> ReaderScorer:
    config = model.config
    sizes = Sizes((config.pixels // config.patch) ** 2, config.picture_width, config.caption_width)
    settings = SparcSettings(padding=False, fallback=True)
    return ReaderScorer(model, SPARC_FIXED.fresh(settings, sizes, seed=0))


def readout_config(model: Counted, **changes: object) -> DiagnosisConfig:
    asked = DiagnosisConfig(
        model, scorer=sparc(model), material=small_material(), probes=(SHARE,), options=OPTIONS,
        has_random_init=False,
    )  # fmt: skip
    return replace(asked, **changes)  # type: ignore[arg-type]


def test_maps_of_the_reader_stand_beside_those_of_the_model() -> None:
    found = examine(readout_config(Counted()))
    assert found.model.name == "counted+sparc_fixed"
    assert [one.title for one in found.maps] == ["counted"] * 3 + ["counted+sparc_fixed"] * 3
    before, after = found.maps[0], found.maps[3]
    assert (before.caption, before.image) == (after.caption, after.image)
    assert [one.word for one in before.maps] == [one.word for one in after.maps]
    assert np.allclose([np.sum(one.values) for one in after.maps], 1, atol=0.01)
    assert READOUT_NOTE in found.notes
    page = render_diagnosis(found)
    assert "<b>counted</b>: Cosine of the vector of each word" in page
    assert "<b>counted+sparc_fixed</b>: The share of each patch" in page


def test_a_read_out_can_be_set_against_its_own_model() -> None:
    model = Counted()
    found = examine(readout_config(model, against=model))
    assert found.other is not None
    assert (found.model.name, found.other.name) == ("counted+sparc_fixed", "counted")
    assert [one.title for one in found.maps] == ["counted"] * 3 + ["counted+sparc_fixed"] * 3
    (difference, *_) = found.answers[0].differences
    assert difference.difference == 0


def test_the_twin_is_said_to_be_scored_by_cosine() -> None:
    model = Counted()
    found = examine(readout_config(model, has_random_init=True, probes=()))
    assert f"{READOUT_NOTE}; the randomly initialized model is scored by cosine" in found.notes


def test_a_read_out_without_maps_says_so_and_keeps_those_of_the_model() -> None:
    model = Counted()
    sizes = Sizes(0, model.config.picture_width, model.config.caption_width)
    pooled = ReaderScorer(model, Pooled(PooledSettings(width=8), sizes))
    found = examine(readout_config(model, scorer=pooled))
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


NOTE = "no map of words over patches"


def maps_of(model: Model, scorer: Scorer | None = None) -> Diagnosis:
    return examine(
        DiagnosisConfig(
            model, scorer=scorer, material=small_material(), probes=(), options=OPTIONS,
            has_random_init=False,
        )
    )  # fmt: skip


def test_a_decoder_stands_beside_the_encoder_it_sees_through() -> None:
    found = maps_of(decoder())
    assert [one.title for one in found.maps] == ["small"] * 3 + ["decoder"] * 3
    assert [one.when for one in found.maps] == ["before training"] * 3 + ["after training"] * 3
    before, after = found.maps[0], found.maps[3]
    assert (before.caption, before.image) == (after.caption, after.image)
    assert [one.word for one in after.maps] == after.caption.split()
    assert (before.is_signed, after.is_signed) == (False, True)
    page = render_diagnosis(found)
    assert "small, before training</p>" in page
    assert "decoder, after training</p>" in page
    assert page.count("asked: “Describe the picture in one sentence.”") == 3
    # Two colours are told apart over a grey image; those of one over the image as it is.
    assert [page.count(f'<ul class="tiles{kind}">') for kind in ("", " signed")] == [3, 3]
    assert not found.notes[1:]


def of_yes(model: PatchDecoder) -> Scorer:
    return YES(model)


def of_vectors(model: PatchDecoder) -> Scorer:
    return Cosine(Vlm2Vec(model))


@pytest.mark.parametrize("make", [of_yes, of_vectors, AskedCosine])
def test_a_read_out_of_an_encoder_stands_beside_the_encoder(
    make: type[AskedCosine],
) -> None:
    model = decoder()
    scorer = make(model)
    found = maps_of(model.image_encoder, scorer)
    assert [one.title for one in found.maps] == ["small"] * 3 + [scorer.name] * 3
    assert [one.when for one in found.maps] == ["before training"] * 3 + ["after training"] * 3


@pytest.mark.parametrize(("sees", "what"), [("cls", "one vector"), ("nothing", "nothing")])
def test_a_decoder_without_patches_has_no_map_and_says_so(
    sees: Literal["cls", "nothing"], what: str
) -> None:
    model = decoder(replace(SMALL, sees=sees))
    said = f"{NOTE}: decoder sees {what} of an image, and no patches that could be removed"
    alone = maps_of(model)
    assert (alone.maps, alone.notes[1:]) == ((), (said,))
    beside = maps_of(model.image_encoder, YES(model))
    assert [one.title for one in beside.maps] == ["small"] * 3
    assert beside.notes[-1] == said


def test_a_model_without_read_out_is_neither_before_nor_after() -> None:
    found = maps_of(decoder().image_encoder)
    assert [one.when for one in found.maps] == [""] * 3
    assert "before training" not in render_diagnosis(found)
