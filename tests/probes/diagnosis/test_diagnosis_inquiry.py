"""All questions to all models: encoded once, none stops another, kept after each, paired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import unbag as ub
from unbag.api.measuring import _probes
from unbag.data.images import PixelImage
from unbag.errors import UnbagError
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
    registered_probes,
)
from unbag.probes.diagnosis.text import to_json
from unbag.registry import names
from unbag.types import FloatArray, ImageSource, IntArray

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
    assert first.finding.skipped.startswith("it broke: ValueError: 17 is no shape (test_diagnosis_")
    assert second.finding.skipped.startswith("it broke: KeyError: 'merged' (test_diagnosis_inquiry")
    assert second.finding["right"].estimate.n == 6
    assert "it broke: KeyError" in to_json(found)


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
    assert "no map of words over patches: plain shows no vectors of patches and words" in (
        found.notes
    )


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
