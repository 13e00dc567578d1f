"""Computes the verdict on a claim, by a rule fixed before any result was seen, and words it.

Each prediction is tested over bases with Student's t-test. The p-values of all predictions are
corrected together by Holm's method. Fewer than five bases decide nothing. The sentences are true
for any verdict; warnings explain where a verdict means less than it seems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan, sqrt
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Literal

from unbag.reports.formatting import count_text, number_text, p_text, with_interval
from unbag_lab.claims import FEWEST_BASES, ArmKey, ArmsOfBase, Claim, Number, Prediction
from unbag_lab.results import ArmResult, in_order, number

Word = Literal["reproduced", "not reproduced", "undecided"]
REPRODUCED: Word = "reproduced"
FAILED: Word = "not reproduced"
UNDECIDED: Word = "undecided"
LEVEL = 0.05
METRIC, CHANCE = "original", 0.5
QUADS: Mapping[str, int] = MappingProxyType({"world-swap": 100, "world-relation": 120})
"""Quads of the registered benchmarks; the eight items of a quad share images and words."""
BRITTLENESS = "brittleness"
HOLDS = {REPRODUCED: "yes", FAILED: "no", UNDECIDED: "undecided"}
"""Words for the verdict on a prediction."""
NOT_RUN = "not run yet"
NONE_COUNTS = "no base counts"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim: that of its weakest prediction."""

    claim: Claim
    tested: tuple[Tested, ...]
    is_small: bool = False
    """Whether its results are of a small run, which decides nothing."""

    @property
    def word(self) -> Word:
        """Reproduced if every prediction is, not reproduced if one is not."""
        if self.is_small:
            return UNDECIDED
        words = {tested.word for tested in self.tested}
        if FAILED in words:
            return FAILED
        return REPRODUCED if words == {REPRODUCED} else UNDECIDED

    def word_of(self, tested: Tested) -> Word:
        """Return the word for one of its predictions; a small run decides none."""
        return UNDECIDED if self.is_small else tested.word

    @property
    def came_out(self) -> str:
        """How many of its predictions are reproduced."""
        held = sum(tested.word == REPRODUCED for tested in self.tested)
        return f"{held} of {len(self.tested)} predictions came out"

    @property
    def missing(self) -> int:
        """Bases that are still needed for a verdict."""
        return max(tested.missing for tested in self.tested)

    @property
    def text(self) -> str:
        """The word with the images it is about, as it must always be shown."""
        return self.about(self.word)

    def about(self, word: Word) -> str:
        """Return a word with the images that the claim is about."""
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
    """A prediction with its effects and tests."""

    prediction: Prediction
    effects: Mapping[str, float]
    """By base, as fractions."""
    mean: float | None
    low: float | None
    high: float | None
    """95 % interval over bases; None with fewer than two."""
    p_right: float
    """P-value of the test that would show the prediction right, uncorrected; 1 without a test."""
    p_wrong: float
    """P-value of the test that would show it wrong, uncorrected."""
    word: Word = UNDECIDED

    @property
    def missing(self) -> int:
        """Bases that are still needed for a verdict."""
        return max(0, FEWEST_BASES - len(self.effects))


def compute_verdicts(claims: Sequence[Claim], results: Sequence[ArmResult]) -> list[Verdict]:
    """Compute the verdicts; p-values are corrected over all of these claims."""
    bases = by_base(results)
    tested = []
    for claim in claims:
        # Bases that were not seen before, on which every reader could fit the fixed examples.
        counting = {base: arms for base, arms in bases.items() if claim.counts(arms)}
        weighed = [
            measure_prediction(prediction, prediction.effects(counting, claim.experiment))
            for prediction in claim.predictions
        ]
        tested.append((claim, weighed))
    all_tested = [tested for _, claim_tested in tested for tested in claim_tested]
    words = iter(_words(all_tested))
    small_arms = {(result.experiment, result.arm) for result in results if result.size == "small"}
    return [
        Verdict(
            claim,
            tuple(replace(tested, word=next(words)) for tested in claim_tested),
            is_small=not small_arms.isdisjoint(claim.arms),
        )
        for claim, claim_tested in tested
    ]


def measure_prediction(prediction: Prediction, effects: Mapping[str, float]) -> Tested:
    """Test one prediction, without its word, which depends on all predictions."""
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
    """Apply Holm's correction to the smaller p-value of each, doubled for two directions."""
    decidable = [place for place, prediction in enumerate(tested) if not prediction.missing]
    smallest_p = {place: min(tested[place].p_right, tested[place].p_wrong) for place in decidable}
    words: list[Word] = [UNDECIDED] * len(tested)
    for rank, place in enumerate(sorted(decidable, key=lambda place: smallest_p[place])):
        prediction = tested[place]
        if 2 * smallest_p[place] * (len(decidable) - rank) >= LEVEL:
            break
        words[place] = REPRODUCED if prediction.p_right <= prediction.p_wrong else FAILED
    return words


def _above(values: Sequence[float], bound: float) -> float:
    """Return the one-sided p-value of the mean being above the bound."""
    # Not scipy.stats, which takes a second and a half longer to import.
    from scipy.special import stdtr

    mean, error = fmean(values), standard_error(values)
    if error == 0:
        return 0.0 if mean > bound else 1.0
    return float(stdtr(len(values) - 1, (bound - mean) / error))


def _below(values: Sequence[float], bound: float) -> float:
    return _above([-value for value in values], -bound)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the half width of its 95 % t-interval, NaN for one value."""
    if len(values) == 1:
        return values[0], nan
    # Not scipy.stats, which takes a second and a half longer to import.
    from scipy.special import stdtrit

    return fmean(values), float(stdtrit(len(values) - 1, 0.975)) * standard_error(values)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(values) / sqrt(len(values))


def by_base(results: Sequence[ArmResult]) -> dict[str, ArmsOfBase]:
    """Group results by base; bases of one name with different weights are different bases."""
    arms_by_base: dict[str, dict[ArmKey, ArmResult]] = {}
    names: dict[tuple[str, str], str] = {}
    for result in results:
        key = (result.base, result.fingerprint)
        if key not in names:
            names[key] = next(name for name in _names(result) if name not in names.values())
        arms_by_base.setdefault(names[key], {})[result.experiment, result.arm] = result
    return dict(arms_by_base)


def _names(result: ArmResult) -> tuple[str, ...]:
    """Return possible names of its base; the last one is unique."""
    name, fingerprints = result.base, (result.fingerprint[:8], result.fingerprint)
    if result.fingerprint.startswith(f"{result.experiment}-"):
        # No weights were read: the number of the base is the seed.
        return tuple(
            f"seed {number(name)} ({origin})" for origin in (result.experiment, result.fingerprint)
        )
    return name, *(f"{name} ({text})" for text in fingerprints)


def too_few(missing: int) -> str:
    """Return how many bases there are, and how many more are needed."""
    have, verb = FEWEST_BASES - missing, "is" if missing == 1 else "are"
    return f"{have} of {FEWEST_BASES} bases: {missing} more {verb} needed"


def absent(prediction: Prediction, claim: Claim, results: Sequence[ArmResult]) -> str:
    """Return why a prediction has no effects."""
    needed = [number.key(claim.experiment) for number in prediction.numbers]
    needed += [(claim.experiment, name) for name in claim.must_fit]
    available = {(result.experiment, result.arm) for result in results}
    return NONE_COUNTS if available.issuperset(needed) else NOT_RUN


def all_absent(verdict: Verdict, results: Sequence[ArmResult]) -> str:
    """Return why no prediction of a claim has effects; empty if one has."""
    if any(tested.effects for tested in verdict.tested):
        return ""
    reasons = {absent(tested.prediction, verdict.claim, results) for tested in verdict.tested}
    return NOT_RUN if NOT_RUN in reasons else min(reasons)


def tally(verdict: Verdict) -> str:
    """Return how many predictions hold, do not hold, and are undecided."""
    words = [verdict.word_of(tested) for tested in verdict.tested]
    return ", ".join(
        f"{words.count(word)} {label}" for word, label in HOLDS.items() if word in words
    )


def reading_notes(claim: Claim, results: Sequence[ArmResult]) -> list[str]:
    """Return warnings for readers of a verdict."""
    texts = []
    if at_chance := arms_at_chance(claim, results):
        places = "; ".join(f"`{arm}` on {', '.join(bases)}" for arm, bases in at_chance.items())
        names = " and ".join(f"`{name}`" for name in QUADS)
        texts.append(
            "Mind: some readers fit the fixed examples, but after training they are within "
            f"sampling noise of chance on both {names}: {places}. A reader at chance shows little "
            "about the features it reads, and so does an effect averaged over such bases."
        )
    if coin_numbers := controls_at_chance(claim, results):
        places = ", ".join(f"`{number.arm}` on `{number.benchmark}`" for number in coin_numbers)
        texts.append(
            f"Mind: brittleness is compared with that of a coin ({places}, within sampling noise "
            "of chance on every base), and a coin is as brittle as can be. Any training on the "
            "benchmark lowers brittleness, so a rise could hardly come out there. The accuracy "
            "before the repair is listed beside it."
        )
    return texts


def arms_at_chance(claim: Claim, results: Sequence[ArmResult]) -> dict[str, list[str]]:
    """Return, by arm, the bases that count although the arm is at chance on both benchmarks."""
    bases_by_arm: dict[str, list[str]] = {}
    bases = by_base(results)
    for base in in_order(bases):
        arms = bases[base]
        for name in claim.must_fit if claim.counts(arms) else ():
            if all(is_at_chance(arms[claim.experiment, name], benchmark) for benchmark in QUADS):
                bases_by_arm.setdefault(name, []).append(base)
    return bases_by_arm


def controls_at_chance(claim: Claim, results: Sequence[ArmResult]) -> tuple[Number, ...]:
    """Return controls at chance on every base, of predictions that brittleness rises."""
    bases = [arms for arms in by_base(results).values() if claim.counts(arms)]
    coin_numbers: dict[Number, None] = {}
    for prediction in claim.predictions:
        control = prediction.control
        if (
            not isinstance(control, Number)
            or control.metric != BRITTLENESS
            or prediction.side != "above"
        ):
            continue
        key = control.key(claim.experiment)
        results_of_control = [arms[key] for arms in bases if key in arms]
        if results_of_control and all(
            is_at_chance(result, control.benchmark) for result in results_of_control
        ):
            coin_numbers[control] = None
    return tuple(coin_numbers)


def is_at_chance(result: ArmResult, benchmark: str) -> bool:
    """Return whether an arm is within the 95 % range of coin tosses; False for small runs."""
    share = result.numbers.get(benchmark, {}).get(METRIC)
    if result.size == "small" or share is None or benchmark not in QUADS:
        return False
    return abs(share - CHANCE) <= 1.96 * sqrt(0.25 / (QUADS[benchmark] * result.times))


def interpretation(verdict: Verdict) -> str:
    """Return how to interpret a verdict."""
    if not any(tested.effects for tested in verdict.tested):
        return "Nothing yet: there is no base that says anything about it."
    where = verdict.claim.where
    if verdict.word == REPRODUCED:
        is_null = all(tested.prediction.side == "within" for tested in verdict.tested)
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
    undecided = [tested.prediction.says for tested in verdict.tested if tested.word != REPRODUCED]
    if len(undecided) == len(verdict.tested):
        all_too_few = all(tested.missing for tested in verdict.tested)
        so_far = f"Nothing is decided{f' yet ({verdict.why})' if all_too_few else ''}."
    else:
        open_text = f"“{undecided[0]}” is open" if len(undecided) == 1 else "the rest are open"
        so_far = f"Undecided as a whole: {verdict.came_out}, {open_text}."
    return (
        f"{so_far} Effects may lean one way; the rule, fixed beforehand, asks for "
        f"{FEWEST_BASES} bases and a clear answer after correction."
    )


def _failed(verdict: Verdict) -> str:
    quotes = [f"“{tested.prediction.says}”" for tested in verdict.tested if tested.word == FAILED]
    text = f"{', '.join(quotes)} {'does' if len(quotes) == 1 else 'do'} not hold"
    other_counts = [
        f"{count} {name}"
        for name, word in (("came out", REPRODUCED), ("undecided", UNDECIDED))
        if (count := sum(tested.word == word for tested in verdict.tested))
    ]
    return f"{text} (of the others, {' and '.join(other_counts)})" if other_counts else text


def reason(tested: Tested, *, together: int, why_none: str = NONE_COUNTS) -> str:
    """Return why a prediction has its word; `together` predictions are corrected together."""
    if not tested.effects:
        return f"{why_none.capitalize()}."
    if tested.missing:
        return f"{too_few(tested.missing)}."
    p = min(1.0, 2 * min(tested.p_right, tested.p_wrong))  # doubled, since there are two directions
    p_value = f"p {p_text(p)}" if p < 0.001 else f"p = {p_text(p)}"
    corrected = f"{p_value} before correction for {count_text(together, 'prediction')}"
    if tested.word == REPRODUCED:
        return f"The effect lies where it was predicted ({corrected})."
    if tested.word == FAILED:
        return f"The effect lies where the prediction rules it out ({corrected})."
    side = _side_of_interval(tested)
    if side == "across":
        return f"The 95 % interval does not keep to one side of the bound ({corrected})."
    where = "where it was predicted" if side == "right" else "where the prediction rules it out"
    return f"The 95 % interval lies {where}, but not clearly enough ({corrected})."


def _side_of_interval(tested: Tested) -> str:
    """Return the side of the bound with the whole interval: right, wrong, or across."""
    assert tested.low is not None
    assert tested.high is not None
    bound = tested.prediction.bound
    low, high = (
        (tested.low, tested.high)
        if tested.prediction.side != "below"
        else (-tested.high, -tested.low)
    )
    if tested.prediction.side == "within":
        if -bound < low and high < bound:
            return "right"
        return "wrong" if low > bound or high < -bound else "across"
    edge = bound if tested.prediction.side == "above" else -bound
    if low > edge:
        return "right"
    return "wrong" if high < edge else "across"


def inequality(prediction: Prediction, experiment: str) -> str:
    """Return the tested inequality: a number, or a difference, against a bound in points."""
    shared, one, other = sides(prediction, experiment)
    left = one if prediction.level is not None else f"{one} - {other}"
    left = f"{shared}: {left}" if shared else left
    bound = prediction.bound
    if prediction.side == "within":
        low, high = (found_text(prediction, end) for end in (-bound, bound))
        return f"{left} is between {low} and {high}"
    return f"{left} is {prediction.side} {found_text(prediction, bound)}"


def sides(prediction: Prediction, experiment: str) -> tuple[str, str, str]:
    """Return the part that both sides of a prediction share, and the names of the two sides."""
    number, control = prediction.number, prediction.control
    arm = arm_text(number, experiment)
    if not isinstance(control, Number):
        return metric_text(number), arm, number_text(control)
    other = arm_text(control, experiment)
    if metric_text(number) == metric_text(control):
        return metric_text(number), arm, other
    return "", f"{metric_text(number)} of {arm}", f"{metric_text(control)} of {other}"


def arm_text(number: Number, experiment: str) -> str:
    """Return the name of its arm, for a claim of this experiment."""
    away = number.experiment not in ("", experiment)
    return f"`{number.arm}` of `{number.experiment}`" if away else f"`{number.arm}`"


def metric_text(number: Number) -> str:
    """Return the names of its benchmark and metric."""
    return f"`{number.benchmark}` `{number.metric}`"


def effect_text(one: Tested, why_none: str = NONE_COUNTS) -> str:
    """Return the mean and interval in points, or why there is none.

    A difference between arms has a sign; a number compared with a constant is shown itself.
    """
    return _interval_text(one, why_none, lambda value: found_text(one.prediction, value))


def difference_text(one: Tested, why_none: str = NONE_COUNTS) -> str:
    """Return the same, but for a number compared with a constant its difference from it."""
    return _interval_text(one, why_none, points)


def _interval_text(one: Tested, why_none: str, text: Callable[[float], str]) -> str:
    if one.mean is None:
        return why_none
    if one.low is None or one.high is None:
        return text(one.mean)
    return with_interval(one.mean, one.low, one.high, text)


def found_text(prediction: Prediction, effect: float) -> str:
    """Format one effect as `effect_text` does."""
    level = prediction.level
    return points(effect) if level is None else number_text(level + effect)


def points(value: float) -> str:
    """Format a difference in points, with one digit and no sign before zero."""
    shown = number_text(value, signed=True)
    return "0.0" if shown in ("-0.0", "+0.0") else shown


def seen_text(claim: Claim) -> str:
    """Return which bases cannot test a claim, as it was written after them; empty without any."""
    if not claim.seen:
        return ""
    return (
        "Its predictions were written down when results of its arms on "
        f"{', '.join(claim.seen)} had been seen. These bases decide nothing."
    )
