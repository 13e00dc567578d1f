"""Effects by base come in; the verdict goes out, by a rule that was fixed before any was seen.

Each prediction is tested over bases by Student's t. P-values of all predictions that are read
together are corrected by Holm's method. Fewer than five bases decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from unbag.lab.arm_result import ArmResult
from unbag.lab.base_names import number
from unbag.lab.claim import FEWEST_BASES, ArmKey, ArmsOfBase, Claim, Prediction
from unbag.lab.over_bases import interval, standard_error

Word = Literal["reproduced", "not reproduced", "undecided"]
REPRODUCED: Word = "reproduced"
FAILED: Word = "not reproduced"
UNDECIDED: Word = "undecided"
LEVEL = 0.05


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


def too_few(missing: int) -> str:
    """How many bases there are, and how many more it takes."""
    have, verb = FEWEST_BASES - missing, "is" if missing == 1 else "are"
    return f"{have} of {FEWEST_BASES} bases: {missing} more {verb} needed"


def judge_claims(claims: Sequence[Claim], results: Sequence[ArmResult]) -> list[Verdict]:
    """All claims together, since all are read together."""
    bases = by_base(results)
    tested = [(claim, _weighed(claim, bases)) for claim in claims]
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


def _weighed(claim: Claim, bases: Mapping[str, ArmsOfBase]) -> list[Tested]:
    """On bases that were not seen before, where every reader could learn what it was shown."""
    counting = {base: arms for base, arms in bases.items() if claim.counts(arms)}
    return [weigh(one, one.effects(counting, claim.experiment)) for one in claim.predictions]


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
    order = sorted(enough, key=lambda place: _least(tested[place]))
    words: list[Word] = [UNDECIDED] * len(tested)
    for rank, place in enumerate(order):
        one = tested[place]
        if 2 * _least(one) * (len(enough) - rank) >= LEVEL:
            break
        words[place] = REPRODUCED if one.p_right <= one.p_wrong else FAILED
    return words


def _least(one: Tested) -> float:
    return min(one.p_right, one.p_wrong)


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
