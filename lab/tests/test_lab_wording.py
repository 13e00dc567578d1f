"""What is said of a verdict is true of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unbag_lab.claims import PHOTOGRAPHS, WORLD, Claim, Number, Prediction
from unbag_lab.verdict import (
    FAILED,
    REPRODUCED,
    UNDECIDED,
    Verdict,
    Word,
    difference_text,
    effect_text,
    inequality,
    points,
    reason,
    sense,
    tally,
)
from unbag_lab.verdict import Tested as Found

A = Number("a", "bench", "metric")
FIVE = {f"base-{n}": 0.1 for n in range(5)}


def found_over(
    side: str, low: float, high: float, word: Word = UNDECIDED, *, says: str = "so it is"
) -> Found:
    prediction = Prediction(says, A, 0.5, side, 0.05)  # type: ignore[arg-type]
    return Found(prediction, FIVE, (low + high) / 2, low, high, 0.01, 0.99, word)


def test_points_have_no_sign_before_a_zero() -> None:
    assert [points(value) for value in (0.123, -0.0001, 0.0)] == ["+12.3", "0.0", "0.0"]


def test_an_effect_is_written_with_its_interval() -> None:
    held = found_over("above", 0.1, 0.2)
    between = replace(held, prediction=replace(held.prediction, control=Number("b", "x", "y")))
    assert effect_text(between) == difference_text(between) == "+15.0 [+10.0, +20.0]"
    none = Found(Prediction("x", A, 0.5, "above"), {}, None, None, None, 1.0, 1.0)
    assert effect_text(none) == "no base counts"
    assert effect_text(none, "not run yet") == "not run yet"
    one = Found(Prediction("x", A, 0.5, "above"), {"b": 0.1}, 0.1, None, None, 1.0, 1.0)
    assert (effect_text(one), difference_text(one)) == ("60.0", "+10.0")


def test_a_number_that_is_held_against_a_level_is_written_as_it_is() -> None:
    held = found_over("above", 0.1, 0.2)
    assert effect_text(held) == "65.0 [60.0, 70.0]"
    assert difference_text(held) == "+15.0 [+10.0, +20.0]"


def test_predictions_are_counted_by_how_they_stand() -> None:
    words = (REPRODUCED, UNDECIDED, REPRODUCED, FAILED)
    tested = tuple(found_over("above", 0.1, 0.2, word) for word in words)
    claim = Claim("c", "us", "it holds.", "made", tuple(one.prediction for one in tested))
    assert tally(Verdict(claim, tested)) == "2 yes, 1 no, 1 undecided"
    assert tally(Verdict(claim, tested[:1])) == "1 yes"
    assert tally(Verdict(claim, tested, is_small=True)) == "4 undecided"


def test_inequalities() -> None:
    other = Number("b", "bench", "metric", experiment="far")
    assert (
        inequality(Prediction("x", A, other, "below", -0.1), "near")
        == "`bench` `metric`: `a` - `b` of `far` is below -10.0"
    )
    apart = Number("b", "bench", "another")
    assert (
        inequality(Prediction("x", A, apart, "above", 0.1), "near")
        == "`bench` `metric` of `a` - `bench` `another` of `b` is above +10.0"
    )
    assert (
        inequality(Prediction("x", A, 0.5, "within", 0.05), "near")
        == "`bench` `metric`: `a` is between 45.0 and 55.0"
    )


@pytest.mark.parametrize(
    ("side", "low", "high", "says"),
    [
        ("above", 0.06, 0.2, "lies where it was predicted, but"),
        ("above", 0.0, 0.04, "lies where the prediction rules it out, but"),
        ("above", 0.0, 0.2, "does not keep to one side"),
        ("below", 0.06, 0.2, "lies where the prediction rules it out, but"),
        ("below", 0.0, 0.04, "lies where it was predicted, but"),
        ("within", -0.04, 0.04, "lies where it was predicted, but"),
        ("within", -0.2, -0.06, "lies where the prediction rules it out, but"),
        ("within", -0.2, 0.2, "does not keep to one side"),
    ],
)
def test_an_undecided_prediction_says_where_its_interval_lies(
    side: str, low: float, high: float, says: str
) -> None:
    said = reason(found_over(side, low, high), together=7)
    assert says in said
    assert "p = 0.020 before correction for 7 predictions" in said


def test_decided_predictions_say_which_way() -> None:
    assert "lies where it was predicted (" in reason(
        found_over("above", 0.1, 0.2, REPRODUCED), together=1
    )
    assert "rules it out (" in reason(found_over("above", 0.1, 0.2, FAILED), together=1)


def test_too_few_bases_are_counted() -> None:
    few = Found(Prediction("x", A, 0.5, "above"), {"b": 0.1}, 0.1, None, None, 1.0, 1.0)
    assert reason(few, together=0) == "1 of 5 bases: 4 more are needed."
    claim = Claim("c", "us", "it holds.", "made", (few.prediction,))
    said = sense(Verdict(claim, (few,)))
    assert said.startswith("Nothing is decided yet (1 of 5 bases: 4 more are needed). Effects")
    none = Found(Prediction("x", A, 0.5, "above"), {}, None, None, None, 1.0, 1.0)
    assert reason(none, together=0, why_none="not run yet") == "Not run yet."


def sense_of(*words: Word) -> str:
    some = tuple(found_over("above", 0, 1, word, says=f"p{k}") for k, word in enumerate(words))
    claim = Claim("c", "us", "it holds.", "made", tuple(one.prediction for one in some))
    return sense(Verdict(claim, some))


def test_what_to_make_of_each_verdict() -> None:
    assert "every prediction came out" in sense_of(REPRODUCED, REPRODUCED)
    assert "“p1” does not hold (of the others, 1 came out and 1 undecided)" in sense_of(
        REPRODUCED, FAILED, UNDECIDED
    )
    assert "“p0”, “p1” do not hold. This does not show the source wrong" in sense_of(FAILED, FAILED)
    some = sense_of(REPRODUCED, UNDECIDED)
    assert some.startswith("Undecided as a whole: 1 of 2 predictions came out, “p1” is open. ")
    assert "1 of 3 predictions came out, the rest are open. " in sense_of(
        UNDECIDED, REPRODUCED, UNDECIDED
    )
    assert "Nothing is decided. Effects" in sense_of(UNDECIDED)


def test_a_null_is_not_told_as_an_order_of_arms() -> None:
    null, order = (found_over(side, 0.01, 0.02, REPRODUCED) for side in ("within", "above"))
    claim = Claim("c", "us", "it holds.", "made", (null.prediction,))
    assert "that the numbers lie so close is what was claimed" in sense(Verdict(claim, (null,)))
    both = replace(claim, predictions=(null.prediction, order.prediction))
    assert "which arm is above which" in sense(Verdict(both, (null, order)))


def test_a_verdict_names_what_it_is_about() -> None:
    tested = (found_over("above", 0.1, 0.2, REPRODUCED),)
    claim = Claim("c", "s", "So.", "photos", (tested[0].prediction,), where=PHOTOGRAPHS)
    verdict = Verdict(claim, tested)
    assert verdict.said == "reproduced on these photographs"
    assert verdict.about(FAILED) == "not reproduced on these photographs"
    assert verdict.about(UNDECIDED) == "undecided"
    assert sense(verdict).startswith("On these photographs, with these bases and settings, what ")
    assert "small heads on two frozen parts" in sense(verdict)
    drawn = Verdict(replace(claim, where=WORLD), tested)
    assert drawn.said == "reproduced on the world"
    assert "small models on drawn scenes" in sense(drawn)
