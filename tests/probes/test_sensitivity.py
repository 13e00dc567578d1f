"""The probe sensitivity: types of edits, known spaces and worked numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from unbag.probes.base import Options, ProbeData, ProbeResult, Row
from unbag.probes.data import world_probe_data
from unbag.probes.reference_spaces import (
    ConstructedSpace,
    bag_of_words_space,
    collapsed_space,
    constructed_subject,
    detector_space,
    perfect_space,
    unmixed,
)
from unbag.probes.sampling import (
    choose_rows,
)
from unbag.probes.sensitivity import (
    OTHER_WORDS,
    SAME_WORDS,
    SENSITIVITY,
    VERDICTS,
    detector_auc,
    detector_ratio,
    drop_reversed,
    edit_sensitivity,
    edit_type,
    sensitivity,
    state,
    words_changed,
)
from unbag.registry import find
from unbag.types import FloatArray, ImageSource

from .asking import case_of, run_probe
from .named_images import Named

QUICK = Options(resamples=300)


@dataclass(frozen=True, eq=False)
class Given:
    """Every image is (1, 0); a text has the cosine with it that is written down."""

    cosine: Mapping[str, float]
    name: str = "given"
    fingerprint: str = "given"
    damaged: Mapping[str, str] = field(default_factory=dict)
    layers: None = None
    tokens: None = None

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return np.array([(1.0, 0.0)] * len(images)).reshape(-1, 2)

    def captions(self, captions: Sequence[str]) -> FloatArray:
        along = np.array([self.cosine[caption] for caption in captions], dtype=float)
        return np.stack([along, np.sqrt(1 - along**2)], axis=1)


@pytest.fixture(scope="module")
def world() -> ProbeData:
    result = world_probe_data()
    rows = [row for row in result.rows if row.positive is not None]
    return replace(result, rows=tuple(choose_rows(rows, Options())), gallery=None)


def measure(space: ConstructedSpace, data: ProbeData) -> ProbeResult:
    return run_probe(SENSITIVITY, constructed_subject(space), data, QUICK)


def test_a_bag_of_words_is_blind_to_exchanged_words(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    result = measure(bag_of_words_space(), world)
    verdict = SENSITIVITY.say(result)
    assert case_of(verdict, VERDICTS) == "some words"
    assert verdict.sentence == snapshot
    assert result["gap, same words"].estimate.value == pytest.approx(0, abs=1e-12)
    assert result["intra_hn, same words"].estimate.value == pytest.approx(1)
    assert result["auc, same words"].estimate.value == 0.5
    assert result.get("rho, same words") is None
    assert result["selectivity, same words"].known.bag == 0


def test_a_perfect_space_knows_the_meaning(world: ProbeData, snapshot: SnapshotAssertion) -> None:
    result = measure(perfect_space(), world)
    verdict = SENSITIVITY.say(result)
    assert case_of(verdict, VERDICTS) == "semantic"
    assert verdict.sentence == snapshot
    assert result["auc"].estimate.value == pytest.approx(1, abs=1e-3)
    assert result["rho"].estimate.value == pytest.approx(0, abs=1e-3)
    assert result.headline == "auc, same words"


@pytest.mark.parametrize("noise", [0.05, 0])
def test_a_collapsed_space_learned_neither(
    world: ProbeData, noise: float, snapshot: SnapshotAssertion
) -> None:
    result = measure(collapsed_space(noise=noise), world)
    verdict = SENSITIVITY.say(result)
    assert case_of(verdict, VERDICTS) == "blind"
    assert verdict.sentence == snapshot
    if not noise:
        assert result["gap"].estimate.value == 0
        assert result.get("rho") is None


def test_a_detector_only_notices_edits(world: ProbeData, snapshot: SnapshotAssertion) -> None:
    rows = unmixed(world.rows)
    result = measure(detector_space(rows), replace(world, rows=rows))
    verdict = SENSITIVITY.say(result)
    assert case_of(verdict, VERDICTS) == "detector"
    assert verdict.sentence == snapshot
    assert result["rho, same words"].estimate.value == pytest.approx(1)
    assert result["selectivity, same words"].estimate.value == pytest.approx(0, abs=1e-6)
    assert result["gap, same words"].estimate.low > 0


ROWS = (
    Row("1", Named("p"), "a b", "a c", "a d", kind="replace", cluster="x"),
    Row("2", Named("p"), "e f", "e g", "e h", kind="replace", cluster="y"),
)


COSINE = {"a b": 0.8, "a c": 0.6, "a d": 0.7, "e f": 0.6, "e g": 0.0, "e h": 0.5}


def test_worked_numbers() -> None:
    result = edit_sensitivity(Given(COSINE), ProbeData("two", rows=ROWS), QUICK)
    assert result["gap"].estimate.value == pytest.approx((0.2 + 0.6) / 2)
    assert result["gap_hp"].estimate.value == pytest.approx(0.1)
    assert result["rho"].estimate.value == pytest.approx(0.1 / 0.4)
    assert result["auc"].estimate.value == 1
    intra = (0.8 * 0.6 + 0.6 * 0.8, 0.6 * 0.0 + 0.8 * 1.0)
    assert result["intra_hn"].estimate.value == pytest.approx(np.mean(intra))
    assert result["score c"].estimate.value == pytest.approx(0.7)
    assert result["score n"].estimate.value == pytest.approx(0.3)
    assert result["score p"].estimate.value == pytest.approx(0.6)
    assert result["words changed, negative"].estimate.value == 1
    assert result["auc, same distance"].estimate.n == 2
    assert result["gap, replace"].estimate.value == result["gap"].estimate.value
    assert "in 2 rows both numbers are equal" in result.notes[1]
    # Two clusters decide nothing, however narrow their interval is.
    assert SENSITIVITY.say(result).tone == "told"


def test_scores_are_set_against_a_base_model() -> None:
    base = Given({text: value / 2 for text, value in COSINE.items()})
    result = edit_sensitivity(Given(COSINE), ProbeData("two", rows=ROWS), QUICK, base=base)
    assert result["score c minus base"].estimate.value == pytest.approx(0.35)
    assert result["score n minus base"].estimate.value == pytest.approx(0.15)
    assert result["score p minus base"].estimate.value == pytest.approx(0.3)


def test_the_base_is_the_rival_of_the_subject(world: ProbeData) -> None:
    few = replace(world, rows=world.rows[:8])
    other = constructed_subject(collapsed_space())
    subject = constructed_subject(bag_of_words_space(), other=other)
    assert run_probe(SENSITIVITY, subject, few, QUICK).get("score c minus base") is not None
    alone = constructed_subject(bag_of_words_space())
    assert run_probe(SENSITIVITY, alone, few, QUICK).get("score c minus base") is None


def test_intervals_are_of_99_percent(snapshot: SnapshotAssertion) -> None:
    values = np.random.default_rng(0).normal(0.5, 0.1, size=200).clip(0, 1)
    rows = tuple(Row(f"{i}", Named(f"{i}"), f"c{i} x", f"c{i} y") for i in range(200))
    cosine = {f"c{i} x": 0.9 for i in range(200)} | {f"c{i} y": v for i, v in enumerate(values)}
    result = edit_sensitivity(Given(cosine), ProbeData("many", rows=rows), Options(is_full=True))
    gap = result["gap"].estimate
    half = 2.5758 * values.std() / np.sqrt(200)
    assert (gap.high - gap.low) / 2 == pytest.approx(half, rel=0.06)
    verdict = SENSITIVITY.say(result)
    assert case_of(verdict, VERDICTS) == "noticed"
    assert (verdict.sentence, *result.notes) == snapshot


def test_states_are_decided_by_intervals(snapshot: SnapshotAssertion) -> None:
    def edited(
        drop_n: float, drop_p: float, spread: float = 0.001, count: int = 100
    ) -> ProbeResult:
        noise = spread * np.random.default_rng(1).normal(size=(2, 100))
        rows = [Row(f"{i}", Named(f"{i}"), f"{i} c", f"{i} n", f"{i} p") for i in range(count)]
        cosine = {f"{i} c": 0.5 for i in range(100)}
        cosine |= {f"{i} n": 0.5 - drop_n + noise[0, i] for i in range(100)}
        cosine |= {f"{i} p": 0.5 - drop_p + noise[1, i] for i in range(100)}
        options = Options(is_full=True, resamples=300)
        return edit_sensitivity(Given(cosine), ProbeData("m", rows=tuple(rows)), options)

    for drops, spread, expected in (
        ((0.1, 0.0), 0.001, "semantic"),
        ((0.1, 0.1), 0.001, "detector"),
        ((0.1, 0.05), 0.001, "partly"),
        ((0.1, 0.0), 0.1, "partly"),
        ((0.0, 0.0), 0.001, "blind"),
        ((-0.1, 0.0), 0.001, "blind"),
    ):
        assert state(edited(*drops, spread), f", {OTHER_WORDS}") == expected
    assert SENSITIVITY.say(edited(0.1, 0.05)).sentence == snapshot(name="partly")
    # Six rows leave both open, wherever the middle of the interval is.
    few = edited(0.1, 0.1, count=6)
    auc = few["auc, other words"].estimate
    assert auc.low <= 0.5
    assert auc.high > 0.75
    verdict = SENSITIVITY.say(few)
    assert case_of(verdict, VERDICTS) == "unsure"
    assert verdict.sentence == snapshot(name="unsure")


def test_missing_vectors_are_left_out() -> None:
    missing = COSINE | {"e g": float("nan")}
    result = edit_sensitivity(Given(missing), ProbeData("two", rows=ROWS), QUICK)
    assert result["gap"].estimate.invalid == 1
    assert result["gap"].estimate.value == pytest.approx(0.2)
    assert result["auc"].estimate.n == 1
    nothing = Given(dict.fromkeys(COSINE, float("nan")))
    verdict = SENSITIVITY.say(edit_sensitivity(nothing, ProbeData("two", rows=ROWS), QUICK))
    assert case_of(verdict, VERDICTS) == "unknown"


def test_only_positives_leave_the_question_open() -> None:
    rows = tuple(replace(row, negative=None) for row in ROWS)
    result = edit_sensitivity(Given(COSINE), ProbeData("two", rows=rows), QUICK)
    assert result["gap_hp"].estimate.value == pytest.approx(0.1)
    assert result.headline == "gap_hp"
    assert SENSITIVITY.say(result).tone == "told"


def test_it_is_skipped_without_edits_or_vectors(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    assert find("probe", "sensitivity") is SENSITIVITY
    subject = constructed_subject(bag_of_words_space())
    rows = (Row("1", Named("p"), "a b"),)
    results = [
        run_probe(SENSITIVITY, subject, ProbeData("my pairs", rows=rows)),
        run_probe(SENSITIVITY, replace(subject, name="chat", space=None), world),
    ]
    assert [result.skipped for result in results] == snapshot


numbers = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


@settings(deadline=None)
@given(negative=numbers, positive=numbers)
def test_auc_is_the_share_of_pairs(negative: list[float], positive: list[float]) -> None:
    plain = np.mean([(n > p) + 0.5 * (n == p) for n in negative for p in positive])
    assert detector_auc(np.array(negative), np.array(positive)) == pytest.approx(plain)


def test_rows_that_turn_a_positive_round_count_once() -> None:
    first = Row("1", Named("p"), "a b", "n", "b a")
    turned = Row("2", Named("p"), "b a", "n", "a b")
    elsewhere = Row("3", Named("q"), "b a", "n", "a b")
    alone = Row("4", Named("p"), "b a", "n")
    assert drop_reversed([first, turned, elsewhere, alone, first]) == [
        first,
        elsewhere,
        alone,
        first,
    ]


def test_edits_of_one_type_are_matched() -> None:
    def kind(negative: str | None, positive: str | None) -> str:
        return edit_type(Row("1", Named("p"), "a cup on a star", negative, positive))

    assert kind("a star on a cup", "on a star a cup") == SAME_WORDS
    assert kind("a cup on a bell", "a mug on a star") == OTHER_WORDS
    assert kind("a star on a cup", "a mug on a star") == ""
    assert kind("a star on a cup", None) == SAME_WORDS


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("a red star", "a red star", 0),
        ("A red star.", "a red star.", 0),
        ("a red star", "a blue star", 1),
        ("a red star", "a star", 1),
        ("a cup on a star", "a star on a cup", 2),
        ("a red star and a blue cup", "a blue cup and a red star", 4),
        ("", "two words", 2),
    ],
)
def test_words_changed(first: str, second: str, distance: int) -> None:
    assert words_changed(first, second) == words_changed(second, first) == distance


E = np.eye(4)


@pytest.mark.parametrize(
    ("c", "n", "p", "ratio"),
    [(0.234, 0.226, 0.229, 0.625), (0.160, 0.134, 0.131, 1.115), (0.232, 0.220, 0.231, 0.083)],
)
def test_published_ratios_of_the_detector_test(c: float, n: float, p: float, ratio: float) -> None:
    assert detector_ratio(np.array([c - n]), np.array([c - p])) == pytest.approx(ratio, abs=5e-4)


def test_a_detector_and_a_model_that_understands() -> None:
    images = np.repeat(E[:1], 6, axis=0)
    true, other = images + 0.1 * E[1], E[2] + 0.5 * images
    detector = sensitivity(images, true, other, other)
    assert detector.detector_ratio == pytest.approx(1.0)
    assert detector.detector_auc == 0.5
    assert detector.selectivity == pytest.approx(0.0)
    knows = sensitivity(images, true, other, true)
    assert knows.detector_ratio == 0.0
    assert knows.detector_auc == 1.0
    assert knows.selectivity.min() > 0
    assert np.isnan(detector_ratio(np.zeros(2), np.ones(2)))
    assert np.isnan(detector_auc(np.array([]), np.ones(2)))
    assert detector_auc(np.array([2.0, 0.0]), np.array([1.0, 0.0])) == pytest.approx(0.625)
