"""Predictions and what was found come in; sentences that are true for any verdict go out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from unbag.lab.arm_result import ArmResult
from unbag.lab.claim import FEWEST_BASES, Claim, Number, Prediction
from unbag.lab.verdict import FAILED, REPRODUCED, UNDECIDED, Tested, Verdict, too_few


def points(value: float, *, signed: bool = True) -> str:
    """A fraction in points, with one digit; no sign before a zero."""
    shown = f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"
    return "0.0" if shown in ("-0.0", "+0.0") else shown


HOLDS = {REPRODUCED: "yes", FAILED: "no", UNDECIDED: "undecided"}
"""Of a prediction."""
NOT_RUN = "not run yet"
NONE_COUNTS = "no base counts"


def absent(prediction: Prediction, claim: Claim, results: Sequence[ArmResult]) -> str:
    """Why a prediction without effects has none."""
    wanted = [number.key(claim.experiment) for number in prediction.numbers]
    wanted += [(claim.experiment, name) for name in claim.must_fit]
    have = {(one.experiment, one.arm) for one in results}
    return NONE_COUNTS if have.issuperset(wanted) else NOT_RUN


def all_absent(verdict: Verdict, results: Sequence[ArmResult]) -> str:
    """Why no prediction of a claim has an effect; empty if one has."""
    if any(one.effects for one in verdict.tested):
        return ""
    whys = {absent(one.prediction, verdict.claim, results) for one in verdict.tested}
    return NOT_RUN if NOT_RUN in whys else min(whys)


def tally(verdict: Verdict) -> str:
    """How many predictions hold, do not, and are undecided."""
    words = [verdict.word_of(one) for one in verdict.tested]
    return ", ".join(f"{words.count(word)} {said}" for word, said in HOLDS.items() if word in words)


def seen_text(claim: Claim) -> str:
    """Which bases gave rise to its predictions, and so cannot test them; empty without such."""
    if not claim.seen:
        return ""
    return (
        "Its predictions were written down when results of its arms on "
        f"{', '.join(claim.seen)} had been seen. These bases decide nothing."
    )


def effect_text(one: Tested, why_none: str = NONE_COUNTS) -> str:
    """Mean and interval in points, or why there is none.

    Of a difference between arms with its sign; where a number is held against a level, the number.
    """
    return _interval_text(one, why_none, partial(found_text, one.prediction))


def difference_text(one: Tested, why_none: str = NONE_COUNTS) -> str:
    """Likewise, and where a number is held against a level, how far it is from that."""
    return _interval_text(one, why_none, points)


def found_text(prediction: Prediction, effect: float) -> str:
    """One effect as `effect_text` shows it."""
    level = prediction.level
    return points(effect) if level is None else points(level + effect, signed=False)


def _interval_text(one: Tested, why_none: str, text: Callable[[float], str]) -> str:
    if one.mean is None:
        return why_none
    if one.low is None or one.high is None:
        return text(one.mean)
    return f"{text(one.mean)} [{text(one.low)}, {text(one.high)}]"


def arm_text(number: Number, experiment: str) -> str:
    """Which arm it is of, in a claim of this experiment."""
    away = number.experiment not in ("", experiment)
    return f"`{number.arm}` of `{number.experiment}`" if away else f"`{number.arm}`"


def metric_text(number: Number) -> str:
    """Which metric of which benchmark."""
    return f"`{number.benchmark}` `{number.metric}`"


def sides(prediction: Prediction, experiment: str) -> tuple[str, str, str]:
    """What both sides share, and what each is: arms of one number, or numbers of their own."""
    number, control = prediction.number, prediction.control
    arm = arm_text(number, experiment)
    if not isinstance(control, Number):
        return metric_text(number), arm, points(control, signed=False)
    other = arm_text(control, experiment)
    if metric_text(number) == metric_text(control):
        return metric_text(number), arm, other
    return "", f"{metric_text(number)} of {arm}", f"{metric_text(control)} of {other}"


def inequality(prediction: Prediction, experiment: str) -> str:
    """A prediction as it is tested: a number, or one minus another, against a bound in points."""
    shared, one, other = sides(prediction, experiment)
    left = one if prediction.level is not None else f"{one} - {other}"
    left = f"{shared}: {left}" if shared else left
    bound = prediction.bound
    if prediction.side == "within":
        low, high = (found_text(prediction, end) for end in (-bound, bound))
        return f"{left} is between {low} and {high}"
    return f"{left} is {prediction.side} {found_text(prediction, bound)}"


def reason(one: Tested, *, together: int, why_none: str = NONE_COUNTS) -> str:
    """Why a prediction has its word; `together` predictions are corrected together."""
    if not one.effects:
        return f"{why_none.capitalize()}."
    if one.missing:
        return f"{too_few(one.missing)}."
    p = min(1.0, 2 * min(one.p_right, one.p_wrong))  # doubled, since there are two directions
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    corrected = f"{shown} before correction for {together} predictions"
    if one.word == REPRODUCED:
        return f"The effect lies where it was predicted ({corrected})."
    if one.word == FAILED:
        return f"The effect lies where the prediction rules it out ({corrected})."
    side = _side_of_interval(one)
    if side == "across":
        return f"The 95 % interval does not keep to one side of the bound ({corrected})."
    where = "where it was predicted" if side == "right" else "where the prediction rules it out"
    return f"The 95 % interval lies {where}, but not clearly enough ({corrected})."


def _side_of_interval(one: Tested) -> str:
    """Right, wrong, or across the bound."""
    assert one.low is not None
    assert one.high is not None
    bound = one.prediction.bound
    low, high = (one.low, one.high) if one.prediction.side != "below" else (-one.high, -one.low)
    if one.prediction.side == "within":
        if -bound < low and high < bound:
            return "right"
        return "wrong" if low > bound or high < -bound else "across"
    edge = bound if one.prediction.side == "above" else -bound
    if low > edge:
        return "right"
    return "wrong" if high < edge else "across"


def sense(verdict: Verdict) -> str:
    """What to make of a verdict, whichever it is."""
    if not any(one.effects for one in verdict.tested):
        return "Nothing yet: there is no base that says anything about it."
    where = verdict.claim.where
    if verdict.word == REPRODUCED:
        is_null = all(one.prediction.side == "within" for one in verdict.tested)
        claimed = (
            "that the numbers lie so close is what was claimed, which says nothing of another "
            "model, reader or training"
            if is_null
            else "which arm is above which is what was claimed"
        )
        return (
            f"On {where.name}, with these bases and settings, what the source reports appears: "
            f"every prediction came out. The sizes are those of {where.small} and mean little "
            f"elsewhere; {claimed}."
        )
    if verdict.word == FAILED:
        return (
            f"On {where.name}, with these bases and settings, the claim does not come out as it "
            f"was predicted: {_failed(verdict)}. This does not show the source wrong: models, "
            "data, steps and edits differ, and the prediction may ask for more than the source "
            "says."
        )
    return (
        f"{_so_far(verdict)} Effects may lean one way; the rule, fixed beforehand, asks for "
        f"{FEWEST_BASES} bases and a clear answer after correction."
    )


def _so_far(verdict: Verdict) -> str:
    """How many predictions of an undecided claim came out, and which did not, if one did not."""
    left = [one.prediction.says for one in verdict.tested if one.word != REPRODUCED]
    if len(left) == len(verdict.tested):
        few = all(one.missing for one in verdict.tested)
        return f"Nothing is decided{f' yet ({verdict.why})' if few else ''}."
    rest = f"“{left[0]}” is open" if len(left) == 1 else "the rest are open"
    return f"Undecided as a whole: {verdict.came_out}, {rest}."


def _failed(verdict: Verdict) -> str:
    said = [f"“{one.prediction.says}”" for one in verdict.tested if one.word == FAILED]
    text = f"{', '.join(said)} {'does' if len(said) == 1 else 'do'} not hold"
    others = [
        f"{count} {name}"
        for name, word in (("came out", REPRODUCED), ("undecided", UNDECIDED))
        if (count := sum(one.word == word for one in verdict.tested))
    ]
    return f"{text} (of the others, {' and '.join(others)})" if others else text
