"""The rule of verdicts does what it says, and its sentences are true of every verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.errors import UnbagError
from unbag.world.benchmarks import triple_items
from unbag_lab.claims import PHOTOGRAPHS, Claim, Number, Prediction, find_claim
from unbag_lab.results import ArmResult, shipped_results
from unbag_lab.verdict import (
    FAILED,
    QUADS,
    REPRODUCED,
    UNDECIDED,
    Verdict,
    Word,
    arms_at_chance,
    by_base,
    compute_verdicts,
    controls_at_chance,
    difference_text,
    effect_text,
    inequality,
    interpretation,
    measure_prediction,
    points,
    reading_notes,
    reason,
    tally,
)
from unbag_lab.verdict import Tested as Outcome

A, B = Number("a", "bench", "metric"), Number("b", "bench", "metric")
ABOVE = Prediction("a is above b", A, B, "above", 0.05)
WITHIN = Prediction("a is as b", A, B, "within", 0.05)
BELOW = Prediction("a is below b", A, B, "below", -0.05)
HIGH = [0.20, 0.22, 0.18, 0.21, 0.19]


def claim(*predictions: Prediction, name: str = "one") -> Claim:
    return Claim(name, "us", "it holds", "made", predictions)


def results(arm: str, values: list[float]) -> list[ArmResult]:
    return [
        ArmResult("made", f"base-{n}", "f", arm, 1, 1, 0, 1, "float32", None,
                  {"bench": {"metric": value}})
        for n, value in enumerate(values)
    ]  # fmt: skip


def compared(values: list[float]) -> list[ArmResult]:
    return results("a", values) + results("b", [0.0] * len(values))


def verdict_of(prediction: Prediction, values: list[float]) -> Word:
    return compute_verdicts([claim(prediction)], compared(values))[0].word


def effects_of(claim: Claim, results: list[ArmResult]) -> list[str]:
    return sorted(compute_verdicts([claim], results)[0].tested[0].effects)


@pytest.mark.parametrize(
    ("prediction", "values", "word"),
    [
        (ABOVE, HIGH, REPRODUCED),
        (ABOVE, [0.01, 0.00, 0.02, 0.01, 0.00], FAILED),
        (ABOVE, [0.20, -0.20, 0.10, 0.00, 0.15], UNDECIDED),
        (ABOVE, HIGH[:4], UNDECIDED),
        # Without spread.
        (ABOVE, [0.20] * 5, REPRODUCED),
        (ABOVE, [0.00] * 5, FAILED),
        (ABOVE, [0.05] * 5, UNDECIDED),
        (BELOW, [-value for value in HIGH], REPRODUCED),
        (BELOW, HIGH, FAILED),
        (WITHIN, [0.01, 0.00, -0.01, 0.00, 0.01], REPRODUCED),
        (WITHIN, HIGH, FAILED),
        (WITHIN, [-value for value in HIGH], FAILED),
        (WITHIN, [0.10, -0.10, 0.05, 0.00, 0.02], UNDECIDED),
        # Against a constant.
        (Prediction("chance", A, 0.5, "within", 0.05), [0.50, 0.51, 0.49, 0.5, 0.505], REPRODUCED),
    ],
)
def test_rule(prediction: Prediction, values: list[float], word: Word) -> None:
    assert verdict_of(prediction, values) == word


def test_interval_is_students() -> None:
    tested = measure_prediction(ABOVE, {"x": 0.1, "y": 0.2, "z": 0.3})
    half = 4.302653 * 0.1 / np.sqrt(3)
    assert (tested.low, tested.high) == pytest.approx((0.2 - half, 0.2 + half), abs=1e-6)


def test_effects_are_paired_within_bases() -> None:
    """Bases differ by far more than the arms; only the difference counts."""
    high = [0.9, 0.1, 0.5, 0.7, 0.3]
    paired = results("a", [value + 0.1 for value in high]) + results("b", high)
    verdict = compute_verdicts([claim(ABOVE)], paired)[0]
    assert verdict.word == REPRODUCED
    assert verdict.tested[0].mean == pytest.approx(0.1)


def test_bases_without_a_control_or_with_an_undefined_metric_do_not_count() -> None:
    values = [0.2, float("nan"), 0.2, float("inf"), 0.2, 0.2]
    incomplete = results("a", values) + results("b", [0.0] * 5)
    assert effects_of(claim(ABOVE), incomplete) == ["base-0", "base-2", "base-4"]
    assert compute_verdicts([claim(ABOVE)], incomplete)[0].word == UNDECIDED


def test_bases_on_which_a_reader_cannot_fit_do_not_count() -> None:
    both = compared([*HIGH, 0.2])
    needy = replace(claim(ABOVE), must_fit=("a",))
    assert compute_verdicts([needy], both)[0].why == "0 of 5 bases: 5 more are needed"
    fit = [
        replace(result, numbers={**result.numbers, "fit": {"few": share}})
        for result, share in zip(both[:6], [0.9, 0.86, 0.95, 0.85, 0.99, 0.84], strict=True)
    ]
    assert effects_of(needy, fit + both[6:]) == [f"base-{n}" for n in range(5)]
    assert compute_verdicts([needy], fit + both[6:])[0].word == REPRODUCED


def test_bases_seen_before_do_not_count_by_another_name_or_with_other_weights() -> None:
    late = replace(claim(ABOVE), seen={"base-0": "first"})
    prints = {"base-0": "first", "base-1": "second", "base-2": "third"}
    seen = [replace(one, fingerprint=prints[one.base]) for one in compared([0.2] * 3)]
    again = [replace(one, fingerprint="again") for one in seen if one.base == "base-0"]
    renamed = [replace(one, base="mine") for one in seen if one.base == "base-0"]
    elsewhere = [replace(one, experiment="other") for one in seen]
    others = seen[1:3] + seen[4:]
    for variant in (seen, elsewhere + others + again, others + renamed):
        assert effects_of(late, variant) == ["base-1", "base-2"]
    assert compute_verdicts([late], seen)[0].why == "2 of 5 bases: 3 more are needed"


def test_many_predictions_make_each_harder() -> None:
    """A p-value that passes alone does not pass among twenty."""
    values = [0.08, 0.10, 0.075, 0.12, 0.09]
    assert verdict_of(ABOVE, values) == REPRODUCED
    noise = np.random.default_rng(0).normal(0.05, 0.1, (20, 5))
    others = [
        claim(Prediction("noise", Number(f"n{k}", "bench", "metric"), B, "above", 0.05))
        for k in range(20)
    ]
    noisy = [result for k in range(20) for result in results(f"n{k}", noise[k].tolist())]
    among = compute_verdicts([claim(ABOVE), *others], noisy + compared(values))
    assert (among[0].word, among[0].why) == (UNDECIDED, "no clear answer after correction")


def test_false_alarms_are_rare() -> None:
    """Noise around the bound is called neither way in all but a few of many claims."""
    rng = np.random.default_rng(1)
    values = [rng.normal(0.05, 0.02, 5).tolist() for _ in range(200)]
    assert sum(verdict_of(ABOVE, noise) != UNDECIDED for noise in values) <= 20


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: claim(), "predicts nothing"),
        (lambda: Prediction("x", A, B, "within", 0.0), "within 0"),
        (lambda: find_claim("negatives_opn"), "negatives_opn"),
    ],
)
def test_bad_claims(make: object, words: str) -> None:
    with pytest.raises(UnbagError, match=words):
        make()  # type: ignore[operator]


def outcome(
    side: str,
    low: float | None,
    high: float | None,
    word: Word = UNDECIDED,
    *,
    says: str = "it is so",
    control: Number | float = 0.5,
) -> Outcome:
    """A prediction with this interval; with one base where it has no upper end, else with five."""
    prediction = Prediction(says, A, control, side, 0.05)  # type: ignore[arg-type]
    if low is None or high is None:
        effects = {} if low is None else {"base-0": low}
        return Outcome(prediction, effects, low, None, None, 1.0, 1.0)
    effects = {f"base-{n}": 0.1 for n in range(5)}
    return Outcome(prediction, effects, (low + high) / 2, low, high, 0.01, 0.99, word)


def verdict(*predictions: Outcome) -> Verdict:
    made = Claim("c", "us", "So.", "made", tuple(one.prediction for one in predictions))
    return Verdict(made, predictions)


def test_numbers_as_text() -> None:
    assert [points(value) for value in (0.123, -0.0001, 0.0)] == ["+12.3", "0.0", "0.0"]
    shown = {
        "constant": outcome("above", 0.1, 0.2),
        "difference": outcome("above", 0.1, 0.2, control=B),
        "one base": outcome("above", 0.1, None),
        "no base": outcome("above", None, None),
    }
    assert {name: (effect_text(one), difference_text(one)) for name, one in shown.items()} == {
        "constant": ("65.0 [60.0, 70.0]", "+15.0 [+10.0, +20.0]"),
        "difference": ("+15.0 [+10.0, +20.0]", "+15.0 [+10.0, +20.0]"),
        "one base": ("60.0", "+10.0"),
        "no base": ("no base counts", "no base counts"),
    }
    assert effect_text(shown["no base"], "not run yet") == "not run yet"


def test_predictions_are_counted_by_word() -> None:
    words = (REPRODUCED, UNDECIDED, REPRODUCED, FAILED)
    mixed = verdict(*(outcome("above", 0.1, 0.2, word) for word in words))
    assert tally(mixed) == "2 yes, 1 no, 1 undecided"
    assert tally(replace(mixed, is_small=True)) == "4 undecided"
    assert mixed.word == FAILED


@pytest.mark.parametrize(
    ("control", "side", "bound", "text"),
    [
        (Number("b", "bench", "metric", experiment="far"), "below", -0.1,
         "`bench` `metric`: `a` - `b` of `far` is below -10.0"),
        (Number("b", "bench", "another"), "above", 0.1,
         "`bench` `metric` of `a` - `bench` `another` of `b` is above +10.0"),
        (0.5, "within", 0.05, "`bench` `metric`: `a` is between 45.0 and 55.0"),
    ],
)  # fmt: skip
def test_inequality(control: Number | float, side: str, bound: float, text: str) -> None:
    prediction = Prediction("x", A, control, side, bound)  # type: ignore[arg-type]
    assert inequality(prediction, "near") == text


def test_reasons(snapshot: SnapshotAssertion) -> None:
    """Where an interval lies: inside, outside or across the bound of 0.05."""
    ends = {
        "above": [(0.06, 0.2), (0.0, 0.04), (0.0, 0.2)],
        "below": [(0.06, 0.2), (0.0, 0.04), (0.0, 0.2)],
        "within": [(-0.04, 0.04), (-0.2, -0.06), (-0.2, 0.2)],
    }
    lines = {
        f"{side} {pair}": reason(outcome(side, *pair), together=7)
        for side, pairs in ends.items()
        for pair in pairs
    }
    for word in (REPRODUCED, FAILED):
        lines[word] = reason(outcome("above", 0.1, 0.2, word), together=1)
    lines["one base"] = reason(outcome("above", 0.1, None), together=0)
    lines["no base"] = reason(outcome("above", None, None), together=0, why_none="not run yet")
    assert lines == snapshot


def test_interpretations(snapshot: SnapshotAssertion) -> None:
    rows: list[tuple[Word, ...]] = [
        (REPRODUCED, REPRODUCED), (REPRODUCED, FAILED, UNDECIDED), (FAILED, FAILED),
        (REPRODUCED, UNDECIDED), (UNDECIDED, REPRODUCED, UNDECIDED), (UNDECIDED,),
    ]  # fmt: skip
    texts = {
        ", ".join(words): interpretation(
            verdict(*(outcome("above", 0, 1, word, says=f"p{k}") for k, word in enumerate(words)))
        )
        for words in rows
    }
    null = outcome("within", 0.01, 0.02, REPRODUCED)
    texts["null"] = interpretation(verdict(null))
    texts["null and order"] = interpretation(verdict(null, outcome("above", 0.1, 0.2, REPRODUCED)))
    texts["one base"] = interpretation(verdict(outcome("above", 0.1, None)))
    photos = verdict(outcome("above", 0.1, 0.2, REPRODUCED))
    photos = replace(photos, claim=replace(photos.claim, where=PHOTOGRAPHS))
    texts["photographs"] = interpretation(photos)
    assert texts == snapshot
    assert photos.text == "reproduced on these photographs"
    assert photos.about(UNDECIDED) == "undecided"


def result(base: int, numbers: Mapping[str, Mapping[str, float]]) -> ArmResult:
    return ArmResult("made", f"tiny-{base}", f"{base}", "a", 1, 1, 0, 3, "float32", None, numbers)


def reader(base: int, swap: float, relation: float, few: float = 0.99) -> ArmResult:
    numbers = {
        "world-swap": {"original": swap},
        "world-relation": {"original": relation},
        "fit": {"few": few},
    }
    return result(base, numbers)


def test_warning_about_readers_at_chance(snapshot: SnapshotAssertion) -> None:
    """With 300 and 360 quads, 95 % of coins lie within 5.66 and 5.16 points of a half."""
    needy = replace(claim(ABOVE), must_fit=("a",))
    readers = [
        reader(10, 0.556, 0.449),
        reader(1, 0.557, 0.50),
        reader(2, 0.50, 0.448),
        reader(3, 0.444, 0.551),
        reader(4, 0.5, 0.5, few=0.6),
        replace(reader(5, 0.5, 0.5), size="small"),
        # One benchmark is missing.
        result(6, {"world-swap": {"original": 0.5}, "fit": {"few": 1.0}}),
    ]
    assert arms_at_chance(needy, readers) == {"a": ["tiny-3", "tiny-10"]}
    assert reading_notes(needy, readers) == snapshot
    assert reading_notes(claim(ABOVE), readers) == reading_notes(needy, readers[1:3]) == []
    shipped = arms_at_chance(find_claim("decoder_against_cosine"), shipped_results())
    assert shipped == {"decoder": ["tiny-6", "tiny-8"]}


def test_warning_about_brittleness_that_can_only_fall(snapshot: SnapshotAssertion) -> None:
    shipped = shipped_results()
    brittle = find_claim("negatives_brittle")
    (control,) = controls_at_chance(brittle, shipped)
    assert (control.arm, control.benchmark) == ("clip_ft", "world-relation")
    assert reading_notes(brittle, shipped) == snapshot
    # That it falls can come out against a coin, and other claims compare with what was repaired.
    assert reading_notes(find_claim("positives_only"), shipped) == []
    assert reading_notes(find_claim("rephrased_positives"), shipped) == []
    above_chance = [
        replace(one, numbers={**one.numbers, "world-relation": {"original": 0.7}})
        for one in shipped
        if one.arm == "clip_ft"
    ]
    assert reading_notes(brittle, above_chance) == reading_notes(brittle, []) == []


def test_quads_are_those_of_the_registered_benchmarks() -> None:
    groups = {
        "world-swap": triple_items(["swap"], n=100),
        "world-relation": triple_items(["relation", "replace_relation"], n=60),
    }
    assert {name: len({one.group for one in items}) for name, items in groups.items()} == QUADS


@pytest.mark.parametrize(
    ("arms", "names"),
    [
        # Two collections of photographs: their fingerprints begin alike.
        (
            [("made", "tiny-06f89e"), ("made", "photos-0-91"), ("made", "photos-0-aa")],
            ["tiny-3", "tiny-3 (photos-0)", "tiny-3 (photos-0-aa)"],
        ),
        # Where no weights are read, the number of a base is a seed.
        (
            [("default", "tiny-06"), ("pretraining", "pretraining-3"), ("photos", "photos-3-91"),
             ("photos", "photos-3-aa")],
            ["tiny-3", "seed 3 (pretraining)", "seed 3 (photos)", "seed 3 (photos-3-aa)"],
        ),
    ],
)  # fmt: skip
def test_arms_on_other_weights_are_of_other_bases(
    arms: list[tuple[str, str]], names: list[str]
) -> None:
    found = [
        replace(result(3, {}), experiment=experiment, fingerprint=fingerprint, arm=f"arm {n}")
        for n, (experiment, fingerprint) in enumerate(arms)
    ]
    again = replace(found[1], arm="again")
    by_name = {name: [arm for _, arm in arms] for name, arms in by_base([*found, again]).items()}
    expected = {name: [f"arm {n}"] for n, name in enumerate(names)}
    expected[names[1]].append("again")
    assert by_name == expected
