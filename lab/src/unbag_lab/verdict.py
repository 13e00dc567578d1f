"""The verdict on a claim, by a rule fixed before any result was seen, and its wording.

Each prediction is tested over bases by Student's t. P-values of all predictions that are read
together are corrected by Holm's method. Fewer than five bases decide nothing. Sentences are true
for any verdict; warnings stand beside one that says less than it seems to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan, sqrt
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Literal

from unbag.reports.formatting import number_text, p_text, with_interval
from unbag_lab.claims import FEWEST_BASES, ArmKey, ArmsOfBase, Claim, Number, Prediction
from unbag_lab.results import ArmResult, in_order, number

Word = Literal["reproduced", "not reproduced", "undecided"]
REPRODUCED: Word = "reproduced"
FAILED: Word = "not reproduced"
UNDECIDED: Word = "undecided"
LEVEL = 0.05
METRIC, CHANCE = "original", 0.5
QUADS: Mapping[str, int] = MappingProxyType({"world-swap": 100, "world-relation": 120})
"""Of the registered benchmarks; the eight items of one share images and words, and count as one.
"""
BRITTLENESS = "brittleness"
HOLDS = {REPRODUCED: "yes", FAILED: "no", UNDECIDED: "undecided"}
"""Of a prediction."""
NOT_RUN = "not run yet"
NONE_COUNTS = "no base counts"


@dataclass(frozen=True)
class Verdict:
    """Of a claim: that of its weakest prediction."""

    claim: Claim
    tested: tuple[Tested, ...]
    is_small: bool = False
    """Whether a small run stands behind it, which decides nothing."""

    @property
    def word(self) -> Word:
        """Reproduced if every prediction is, not reproduced if one is not."""
        if self.is_small:
            return UNDECIDED
        words = {one.word for one in self.tested}
        if FAILED in words:
            return FAILED
        return REPRODUCED if words == {REPRODUCED} else UNDECIDED

    def word_of(self, one: Tested) -> Word:
        """Of one of its predictions; a small run decides none."""
        return UNDECIDED if self.is_small else one.word

    @property
    def came_out(self) -> str:
        """How many of its predictions did."""
        held = sum(one.word == REPRODUCED for one in self.tested)
        return f"{held} of {len(self.tested)} predictions came out"

    @property
    def missing(self) -> int:
        """Bases that the prediction with the fewest still needs."""
        return max(one.missing for one in self.tested)

    @property
    def said(self) -> str:
        """The word with what it is about, without which it must not stand."""
        return self.about(self.word)

    def about(self, word: Word) -> str:
        """Any word, of the claim or of one of its predictions, with what it is about."""
        return word if word == UNDECIDED else f"{word} on {self.claim.where.name}"

    @property
    def why(self) -> str:
        """Why it is undecided; empty if it is not."""
        if self.word != UNDECIDED:
            return ""
        if self.is_small:
            return "a small run decides nothing"
        if self.missing:
            return too_few(self.missing)
        return "no clear answer after correction"


@dataclass(frozen=True)
class Tested:
    """A prediction and what was found."""

    prediction: Prediction
    effects: Mapping[str, float]
    """By base, as fractions."""
    mean: float | None
    low: float | None
    high: float | None
    """95 % interval over bases; None with fewer than two."""
    p_right: float
    """Of the test that would show the prediction right, before correction; 1 where none is."""
    p_wrong: float
    """Of the test that would show it wrong."""
    word: Word = UNDECIDED

    @property
    def missing(self) -> int:
        """Bases that are still needed for a verdict."""
        return max(0, FEWEST_BASES - len(self.effects))


def judge_claims(claims: Sequence[Claim], results: Sequence[ArmResult]) -> list[Verdict]:
    """All claims together, since all are read together."""
    bases = by_base(results)
    tested = []
    for claim in claims:
        # On bases that were not seen before, where every reader could learn what it was shown.
        counting = {base: arms for base, arms in bases.items() if claim.counts(arms)}
        weighed = [weigh(one, one.effects(counting, claim.experiment)) for one in claim.predictions]
        tested.append((claim, weighed))
    every = [one for _, some in tested for one in some]
    words = iter(_words(every))
    small = {(one.experiment, one.arm) for one in results if one.size == "small"}
    return [
        Verdict(
            claim,
            tuple(replace(one, word=next(words)) for one in some),
            is_small=not small.isdisjoint(claim.arms),
        )
        for claim, some in tested
    ]


def weigh(prediction: Prediction, effects: Mapping[str, float]) -> Tested:
    """One prediction by itself; its word comes later, from all that are read together."""
    values = list(effects.values())
    if len(values) < 2:
        mean = values[0] if values else None
        return Tested(prediction, effects, mean, None, None, 1.0, 1.0)
    mean, half = interval(values)
    bound = prediction.bound
    if prediction.side == "within":
        # Two tests that both must succeed: above the lower bound, and below the upper.
        right = max(_above(values, -bound), _below(values, bound))
        wrong = min(_above(values, bound), _below(values, -bound))
    elif prediction.side == "above":
        right, wrong = _above(values, bound), _below(values, bound)
    else:
        right, wrong = _below(values, bound), _above(values, bound)
    return Tested(prediction, effects, mean, mean - half, mean + half, right, wrong)


def _words(tested: Sequence[Tested]) -> list[Word]:
    """Holm's correction over the likelier direction of each, doubled since there are two."""
    enough = [place for place, one in enumerate(tested) if not one.missing]
    least = {place: min(tested[place].p_right, tested[place].p_wrong) for place in enough}
    words: list[Word] = [UNDECIDED] * len(tested)
    for rank, place in enumerate(sorted(enough, key=lambda place: least[place])):
        one = tested[place]
        if 2 * least[place] * (len(enough) - rank) >= LEVEL:
            break
        words[place] = REPRODUCED if one.p_right <= one.p_wrong else FAILED
    return words


def _above(values: Sequence[float], bound: float) -> float:
    """One-sided p of the mean being above the bound."""
    # Not scipy.stats, which takes a second and a half longer to import.
    from scipy.special import stdtr

    mean, error = fmean(values), standard_error(values)
    if error == 0:
        return 0.0 if mean > bound else 1.0
    return float(stdtr(len(values) - 1, (bound - mean) / error))


def _below(values: Sequence[float], bound: float) -> float:
    return _above([-value for value in values], -bound)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of its 95 % interval by Student's t; NaN for one value."""
    if len(values) == 1:
        return values[0], nan
    # Not scipy.stats, which takes a second and a half longer to import.
    from scipy.special import stdtrit

    return fmean(values), float(stdtrit(len(values) - 1, 0.975)) * standard_error(values)


def standard_error(values: Sequence[float]) -> float:
    """Of the mean."""
    return stdev(values) / sqrt(len(values))


def by_base(results: Sequence[ArmResult]) -> dict[str, ArmsOfBase]:
    """Arms of one name on bases of other weights are of two bases, whatever they are called."""
    found: dict[str, dict[ArmKey, ArmResult]] = {}
    names: dict[tuple[str, str], str] = {}
    for one in results:
        key = (one.base, one.fingerprint)
        if key not in names:
            names[key] = next(name for name in _names(one) if name not in names.values())
        found.setdefault(names[key], {})[one.experiment, one.arm] = one
    return dict(found)


def _names(one: ArmResult) -> tuple[str, ...]:
    """What its base may be called, the last one of certainty."""
    name, prints = one.base, (one.fingerprint[:8], one.fingerprint)
    if one.fingerprint.startswith(f"{one.experiment}-"):
        # No weights were read: the experiment took the number of a base for its seed.
        return tuple(f"seed {number(name)} ({of})" for of in (one.experiment, one.fingerprint))
    return name, *(f"{name} ({text})" for text in prints)


def too_few(missing: int) -> str:
    """How many bases there are, and how many more it takes."""
    have, verb = FEWEST_BASES - missing, "is" if missing == 1 else "are"
    return f"{have} of {FEWEST_BASES} bases: {missing} more {verb} needed"


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


def minds(claim: Claim, results: Sequence[ArmResult]) -> list[str]:
    """All that a reader of a verdict must mind, a text each."""
    found = []
    if nothing := told_nothing(claim, results):
        where = "; ".join(f"`{arm}` on {', '.join(bases)}" for arm, bases in nothing.items())
        names = " and ".join(f"`{name}`" for name in QUADS)
        found.append(
            "Mind: some readers learned fixed examples by heart and yet, trained, are within "
            f"sampling noise of chance on both {names}: {where}. A reader that tells nothing "
            "apart says little of what it reads, and so does an effect averaged over such bases."
        )
    if coins := coin_controls(claim, results):
        where = ", ".join(f"`{one.arm}` on `{one.benchmark}`" for one in coins)
        found.append(
            f"Mind: what brittleness is compared with is a coin ({where}, within sampling noise of "
            "chance on every base), and a coin is as brittle as can be. Whatever teaches the "
            "benchmark lowers brittleness, so that it rises could hardly come out there. What is "
            "told apart before the repair stands beside."
        )
    return found


def told_nothing(claim: Claim, results: Sequence[ArmResult]) -> dict[str, list[str]]:
    """By arm, the bases that count though it is at chance on all of these benchmarks there."""
    found: dict[str, list[str]] = {}
    bases = by_base(results)
    for base in in_order(bases):
        arms = bases[base]
        for name in claim.must_fit if claim.counts(arms) else ():
            if all(is_coin(arms[claim.experiment, name], benchmark) for benchmark in QUADS):
                found.setdefault(name, []).append(base)
    return found


def coin_controls(claim: Claim, results: Sequence[ArmResult]) -> tuple[Number, ...]:
    """Of predictions that brittleness rises, controls that are coins on every base that counts."""
    bases = [arms for arms in by_base(results).values() if claim.counts(arms)]
    found: dict[Number, None] = {}
    for one in claim.predictions:
        control = one.control
        if not isinstance(control, Number) or control.metric != BRITTLENESS or one.side != "above":
            continue
        key = control.key(claim.experiment)
        asked = [arms[key] for arms in bases if key in arms]
        if asked and all(is_coin(result, control.benchmark) for result in asked):
            found[control] = None
    return tuple(found)


def is_coin(one: ArmResult, benchmark: str) -> bool:
    """Within 95 % of what tossing a coin gives; small runs ask fewer items and decide nothing."""
    share = one.numbers.get(benchmark, {}).get(METRIC)
    if one.size == "small" or share is None or benchmark not in QUADS:
        return False
    return abs(share - CHANCE) <= 1.96 * sqrt(0.25 / (QUADS[benchmark] * one.times))


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
    left = [one.prediction.says for one in verdict.tested if one.word != REPRODUCED]
    if len(left) == len(verdict.tested):
        few = all(one.missing for one in verdict.tested)
        so_far = f"Nothing is decided{f' yet ({verdict.why})' if few else ''}."
    else:
        rest = f"“{left[0]}” is open" if len(left) == 1 else "the rest are open"
        so_far = f"Undecided as a whole: {verdict.came_out}, {rest}."
    return (
        f"{so_far} Effects may lean one way; the rule, fixed beforehand, asks for "
        f"{FEWEST_BASES} bases and a clear answer after correction."
    )


def _failed(verdict: Verdict) -> str:
    said = [f"“{one.prediction.says}”" for one in verdict.tested if one.word == FAILED]
    text = f"{', '.join(said)} {'does' if len(said) == 1 else 'do'} not hold"
    others = [
        f"{count} {name}"
        for name, word in (("came out", REPRODUCED), ("undecided", UNDECIDED))
        if (count := sum(one.word == word for one in verdict.tested))
    ]
    return f"{text} (of the others, {' and '.join(others)})" if others else text


def reason(one: Tested, *, together: int, why_none: str = NONE_COUNTS) -> str:
    """Why a prediction has its word; `together` predictions are corrected together."""
    if not one.effects:
        return f"{why_none.capitalize()}."
    if one.missing:
        return f"{too_few(one.missing)}."
    p = min(1.0, 2 * min(one.p_right, one.p_wrong))  # doubled, since there are two directions
    shown = f"p {p_text(p)}" if p < 0.001 else f"p = {p_text(p)}"
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


def sides(prediction: Prediction, experiment: str) -> tuple[str, str, str]:
    """What both sides share, and what each is: arms of one number, or numbers of their own."""
    number, control = prediction.number, prediction.control
    arm = arm_text(number, experiment)
    if not isinstance(control, Number):
        return metric_text(number), arm, number_text(control)
    other = arm_text(control, experiment)
    if metric_text(number) == metric_text(control):
        return metric_text(number), arm, other
    return "", f"{metric_text(number)} of {arm}", f"{metric_text(control)} of {other}"


def arm_text(number: Number, experiment: str) -> str:
    """Which arm it is of, in a claim of this experiment."""
    away = number.experiment not in ("", experiment)
    return f"`{number.arm}` of `{number.experiment}`" if away else f"`{number.arm}`"


def metric_text(number: Number) -> str:
    """Which metric of which benchmark."""
    return f"`{number.benchmark}` `{number.metric}`"


def effect_text(one: Tested, why_none: str = NONE_COUNTS) -> str:
    """Mean and interval in points, or why there is none.

    Of a difference between arms with its sign; where a number is held against a level, the number.
    """
    return _interval_text(one, why_none, lambda value: found_text(one.prediction, value))


def difference_text(one: Tested, why_none: str = NONE_COUNTS) -> str:
    """Likewise, and where a number is held against a level, how far it is from that."""
    return _interval_text(one, why_none, points)


def _interval_text(one: Tested, why_none: str, text: Callable[[float], str]) -> str:
    if one.mean is None:
        return why_none
    if one.low is None or one.high is None:
        return text(one.mean)
    return with_interval(one.mean, one.low, one.high, text)


def found_text(prediction: Prediction, effect: float) -> str:
    """One effect as `effect_text` shows it."""
    level = prediction.level
    return points(effect) if level is None else number_text(level + effect)


def points(value: float) -> str:
    """A difference in points, with one digit; no sign before a zero."""
    shown = number_text(value, signed=True)
    return "0.0" if shown in ("-0.0", "+0.0") else shown


def seen_text(claim: Claim) -> str:
    """Which bases gave rise to its predictions, and so cannot test them; empty without such."""
    if not claim.seen:
        return ""
    return (
        "Its predictions were written down when results of its arms on "
        f"{', '.join(claim.seen)} had been seen. These bases decide nothing."
    )
