"""The probe `conditions`: how often each condition of an ideal joint space holds.

Conditions 1.1 to 4.2 of S1, section 3.1. i(.) is the vector of an image, t(.) of a caption; x, y,
z are things, a, b attributes, g locations or relations. "Less than 1" never fails by equality, so
it has a margin. Limits: 4.1 is arguably too strong, since a caption and its negation share a
topic; it is reported without effect on the verdict.

Where a condition says i(y), y replaces x in the second image: same colour, place, size, texture and
noise, another shape. Images are compared within a ring, names of things over all rings.

Dimensions: N samples of a condition, B rings, S things or pairs, K colour assignments, G
places, D space.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations, product
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from unbag.errors import UnbagError
from unbag.probes.base import (
    Bars,
    Known,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Thresholds,
    Tone,
    Verdict,
    bar,
    fill,
    mean,
)
from unbag.probes.concepts import SIDES, THINGS, Concepts, draw_concepts
from unbag.runs.progress import Progress
from unbag.types import FloatArray

NAME = "conditions"
HEADLINE = "beyond a bag"
DELTA = 0.05
"""Minimum distance of a cosine to 1; the complement of the threshold of the probe agreement."""
TIE = 1e-9
"""Cosines that differ by less are equal: this is rounding."""


class ConditionThresholds(Thresholds):
    """Thresholds on the rate at which one condition holds."""

    HOLDS = 0.9, "a condition holds at this rate or above"
    EVEN = (
        0.5,
        "and if its interval lies above this; it fails if not, and the interval lies below 0.9",
    )


_RATES = (
    "{held} of {known} conditions of an ideal space hold; those that no bag of words can meet hold "
    "in {rate} of cases."
)
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": (
        "told",
        "Not measured: no image or caption has a valid vector.",
    ),
    "none": ("fails", _RATES),
    "as a bag": ("fails", f"{_RATES}{{failing}}{{partial}}"),
    "some": ("mixed", f"{_RATES}{{failing}}{{partial}}"),
    "all": ("holds", _RATES),
}
PHRASES = {
    "fails": " Failed: {conditions}.",
    "in part": " Partly met: {conditions}.",
    "condition": "{name}, {plain}: {rate:value} %",
}
BEYOND = ("2.3", "3.1", "3.2", "3.3")
"""Conditions on images of the same words: no bag of words can meet them, a perfect space must."""
UNDECIDED = ("4.1",)
"""Reported without effect on the verdict: a caption and its negation share a topic."""
NEGATION = ("4.1", "4.2")
"""A bag of words must fail these too: for it, "no star" is "a star"."""
NO_VECTORS = "has no vectors of images and captions: the conditions are about cosines"


@dataclass(frozen=True)
class IdealCondition:
    """One row of the table."""

    requirement: str
    chance: float
    """Rate in a random space."""
    plain: str
    """The requirement in words."""
    asks_all: bool = False
    """Also measured for x against all y at once."""


CONDITIONS: Mapping[str, IdealCondition] = MappingProxyType(
    {
        "1.1a": IdealCondition(
            "i(x) t(x) > i(x) t(y)",
            0.5,
            "an image of a thing fits its name better than the name of another thing",
        ),
        "1.1b": IdealCondition(
            "i(x,y) t(x) > i(x,y) t(z) for z not in the image",
            0.5,
            "an image of two things fits the name of each better than that of a thing it lacks",
        ),
        "1.2a": IdealCondition(
            "i(x_a) i(x_b) > i(x_a) i(y)",
            0.5,
            "a thing is nearer to itself in another colour than to another thing",
        ),
        "1.2b": IdealCondition(
            "i(x,g1) i(x,g2) > i(x) i(y)",
            0.5,
            "a thing is nearer to itself at another place than to another thing",
        ),
        "2.1": IdealCondition(
            "i(x_a) i(x_b) < 1", 1.0, "the same thing in two colours is distinguished"
        ),
        "2.2": IdealCondition(
            "i(x_a) t(a) > i(x_b) t(a)",
            0.5,
            "the name of a colour fits the thing in that colour better than in another",
        ),
        "2.3": IdealCondition(
            "i(x_a,y_b) i(x_b,y_a) < 1",
            1.0,
            "images that differ only in which thing has which colour are distinguished",
        ),
        "3.1": IdealCondition(
            "i(x,g1) i(x,g2) < 1", 1.0, "the same thing at two places is distinguished"
        ),
        "3.2": IdealCondition(
            "i(x,g3,y) i(x,g4,y) < 1",
            1.0,
            "images that differ only in which thing is on which side are distinguished",
        ),
        "3.3": IdealCondition(
            "i(x,g1,y) i(x,g1,z) > i(x,g1,y) i(x,g2,z)",
            0.5,
            "x left of y is nearer to x left of z than to x right of z",
        ),
        "4.1": IdealCondition(
            "t(x) t(not x) < t(y) t(not x)",
            0.5,
            "'no star' is farther from 'a star' than from the name of another thing",
            asks_all=True,
        ),
        "4.2": IdealCondition(
            "i(x) t(not x) < i(x) t(y)",
            0.5,
            "an image of a star fits 'no star' less than the name of another thing",
            asks_all=True,
        ),
    }
)
ABOUT = f"""\
Twelve conditions of an ideal joint space of images and captions (methods.md 4.4; source S1,
section 3.1), each measured on many cases: the rate at which it holds and the mean margin. i(.) is
the normalised mean of the unit vectors of at least 8 images of a concept; compared images show the
same sizes, textures, places and noise, and i(y) in 1.2 is y in the place and the colour of x in the
second image. "Less than 1" means "at most {1 - DELTA:g}" here, and the mean cosine is reported too.
Chance is that of a random space, whose vectors point anywhere: it distinguishes everything, so
"less than 1" is informative only together with the comparisons. A tie does not count. Intervals
resample rings of four things that share no thing with another ring. Limits: colours are the only
attributes, and left/right and above/below the only places and relations; 4.1 is arguably too
strong, since a caption and its negation share a topic, and has no effect on the verdict; 4.2 ranks
two false captions, which truth alone does not do."""
State = Literal["holds", "in part", "fails", "unknown"]


def ask(subject: ProbedModel, data: ProbeData, options: Options, progress: Progress) -> ProbeResult:
    """Draw scenes, encode them and measure; skipped without vectors or without scenes."""
    concepts = draw_concepts(NAME, subject, data, options, no_vectors=NO_VECTORS)
    return concepts if isinstance(concepts, ProbeResult) else conditions(concepts, options)


def say(result: ProbeResult) -> Verdict:
    """Say how many conditions hold, and which do not."""
    rates = [result[name] for name in CONDITIONS if name not in UNDECIDED]
    by_state: dict[State, list[Quantity]] = {}
    for rate in rates:
        by_state.setdefault(state(rate), []).append(rate)
    unknown, held = (len(by_state.get(which, ())) for which in ("unknown", "holds"))
    known = len(rates) - unknown
    if not known:
        case = "unknown"
    elif len(by_state.get("fails", ())) == known:
        case = "none"
    elif held == known:
        case = "all"
    else:
        # Like a bag of words if none of the conditions holds that a bag cannot meet.
        beyond = any(rate.name in BEYOND for rate in by_state.get("holds", ()))
        case = "some" if beyond else "as a bag"
    return Verdict(
        *VERDICTS[case],
        {
            "held": held,
            "known": known,
            "rate": result[result.headline].estimate,
            "failing": _listed("fails", by_state),
            "partial": _listed("in part", by_state),
        },
    )


CONDITIONS_PROBE = Probe(
    NAME,
    "Which conditions of an ideal space does it meet?",
    ABOUT,
    ask,
    say,
    tuple(ConditionThresholds),
)


def state(rate: Quantity) -> State:
    """Return whether one condition holds."""
    estimate = rate.estimate
    if not estimate.n:
        return "unknown"
    at = ConditionThresholds
    if estimate.value >= at.HOLDS and estimate.low > at.EVEN:
        return "holds"
    return "fails" if estimate.low <= at.EVEN and estimate.high < at.HOLDS else "in part"


def _listed(state_name: State, by_state: Mapping[State, Sequence[Quantity]]) -> str:
    """List the conditions in this state, with their rates."""
    template = PHRASES["condition"]
    texts = [
        fill(template, name=rate.name, plain=CONDITIONS[rate.name].plain, rate=rate.estimate)
        for rate in by_state.get(state_name, ())
    ]
    return fill(PHRASES[state_name], conditions="; ".join(texts)) if texts else ""


def conditions(concepts: Concepts, options: Options) -> ProbeResult:
    """Measure all conditions on vectors of concepts."""
    samples = condition_samples(concepts)
    rates = [_rate(name, condition, options) for name, condition in samples.items()]
    quantities = [_beyond_a_bag(samples, options), *rates]
    for name, condition in samples.items():
        quantities += _details(name, condition, options)
    bars = Bars(
        "Conditions of an ideal space",
        tuple(replace(bar(rate, rate.name), note=CONDITIONS[rate.name].plain) for rate in rates),
        about=(
            "Share of cases in which each condition holds. A bag of words has "
            f"{', '.join(BEYOND + NEGATION)} at 0 and the rest at 100."
        ),
    )
    return ProbeResult(NAME, tuple(quantities), HEADLINE, (bars,))


def _rate(name: str, samples: Samples, options: Options) -> Quantity:
    condition = CONDITIONS[name]
    return mean(
        name,
        samples.held.holds_N,
        about=f"{condition.requirement}: {condition.plain}",
        options=options,
        units=samples.units,
        clusters=samples.clusters,
        known=Known(
            bag=0.0 if name in BEYOND + NEGATION else 1.0,
            perfect=None if name in UNDECIDED else 1.0,
            chance=condition.chance,
        ),
        better="higher",
        is_rate=True,
    )


def _beyond_a_bag(samples: Mapping[str, Samples], options: Options) -> Quantity:
    """Average with equal weights over conditions and rings."""
    values, units, clusters = [], [], []
    for name in BEYOND:
        condition = samples[name]
        for ring in dict.fromkeys(condition.clusters):
            holds_N = condition.held.holds_N[np.array(condition.clusters) == ring]
            known_N = holds_N[np.isfinite(holds_N)]
            values.append(float(known_N.mean()) if len(known_N) else np.nan)
            units.append(f"{name}/{ring}")
            clusters.append(ring)
    return mean(
        HEADLINE,
        np.array(values),
        about=f"mean rate of {', '.join(BEYOND)}, which no bag of words can meet",
        options=options,
        units=units,
        clusters=clusters,
        known=Known(0.0, 1.0, float(np.mean([CONDITIONS[name].chance for name in BEYOND]))),
        better="higher",
        is_rate=True,
    )


def _details(name: str, samples: Samples, options: Options) -> Iterator[Quantity]:
    """Yield the margin, the cosine and the rate of x against all y of a condition."""
    condition = CONDITIONS[name]
    is_below_one = condition.chance == 1.0
    over_cases = partial(mean, options=options, units=samples.units, clusters=samples.clusters)
    if is_below_one:
        about = f"mean of {condition.requirement.removesuffix(' < 1')}"
        known = Known(bag=1.0 if name in BEYOND else None)
        yield over_cases(f"{name} cosine", samples.first_N, about=about, known=known)
    side = f"{1 - DELTA:g} minus the cosine" if is_below_one else "the larger minus the smaller"
    margin_N = samples.held.margin_N
    yield over_cases(f"{name} margin", margin_N, about=f"mean of {side}", better="higher")
    if condition.asks_all:
        cluster_of = dict(zip(samples.things, samples.clusters, strict=True))
        count = len(samples.things) // len(cluster_of)
        yield mean(
            f"{name} for all",
            for_all(samples.held, samples.things),
            about=f"share of things x for which {name} holds against every one of {count} y",
            options=options,
            units=tuple(cluster_of),
            clusters=tuple(cluster_of.values()),
            # In a random space, each of count + 1 cosines is the lowest equally often.
            known=Known(bag=0.0, chance=1 / (count + 1)),
            better="higher",
            is_rate=True,
        )


def condition_samples(concepts: Concepts) -> Mapping[str, Samples]:
    """Collect the samples of all conditions, by name."""
    samples = {}
    for name, sample in _SAMPLES.items():
        rows = tuple(sample(concepts))
        first_N = np.array([row.first for row in rows])
        seconds = [row.second for row in rows if row.second is not None]
        samples[name] = Samples(
            larger(first_N, np.array(seconds)) if seconds else below_one(first_N),
            first_N,
            tuple(row.thing for row in rows),
            tuple(f"{row.thing}/{row.against}" for row in rows),
            tuple(concepts.rings[row.ring].name for row in rows),
        )
    return samples


@dataclass(frozen=True, eq=False)
class Samples:
    """A condition with all its samples."""

    held: Held
    first_N: FloatArray
    things: tuple[str, ...]
    units: tuple[str, ...]
    clusters: tuple[str, ...]


class ConditionSample(NamedTuple):
    """One sample of a condition."""

    ring: int
    thing: str
    """x"""
    against: str
    """Identifies the sample among those of this x."""
    first: float
    """The cosine that must be larger, or must not be 1."""
    second: float | None = None
    """The cosine that must be smaller; None where the first must not be 1."""


def _named(c: Concepts) -> Iterator[ConditionSample]:
    for (b, s, x), (d, t, y) in permutations(_each(c), 2):
        image_D = c.thing_BSD[b, s]
        yield ConditionSample(
            b, x, y, _dot(image_D, c.name_BSD[b, s]), _dot(image_D, c.name_BSD[d, t])
        )


def _named_in_pair(c: Concepts) -> Iterator[ConditionSample]:
    for (b, s, x), (d, t, z) in product(_each(c), repeat=2):
        for pair in (s, s - 1):
            neighbours = c.rings[b].neighbours(pair % THINGS)
            if z not in neighbours:
                image_D = c.pair_BSD[b, pair]
                right, wrong = c.name_BSD[b, s], c.name_BSD[d, t]
                against = f"{'+'.join(neighbours)}/{z}"
                yield ConditionSample(b, x, against, _dot(image_D, right), _dot(image_D, wrong))


def _nearer_than_another(vector_BSWD: FloatArray, c: Concepts) -> Iterator[ConditionSample]:
    """Compare a thing on one side with itself, and with another thing, on the other side."""
    for b, ring in enumerate(c.rings):
        for (s, x), (t, y) in permutations(enumerate(ring.shapes), 2):
            for w in SIDES:
                thing_D, itself_D = vector_BSWD[b, s, w], vector_BSWD[b, s, 1 - w]
                other_D = vector_BSWD[b, t, 1 - w]
                yield ConditionSample(
                    b, x, f"{y}/{w}", _dot(thing_D, itself_D), _dot(thing_D, other_D)
                )


def _coloured_word(c: Concepts) -> Iterator[ConditionSample]:
    for b, s, x in _each(c):
        for k in SIDES:
            word_D = c.colour_BKD[b, k]
            right, wrong = c.coloured_BSKD[b, s, k], c.coloured_BSKD[b, s, 1 - k]
            yield ConditionSample(
                b, x, c.rings[b].colours[k], _dot(right, word_D), _dot(wrong, word_D)
            )


def _two_sides(vector_BSWD: FloatArray, c: Concepts) -> Iterator[ConditionSample]:
    """Compare the two sides of a thing, or of the pair that begins with it."""
    for b, s, x in _each(c):
        yield ConditionSample(b, x, c.rings[b].neighbours(s)[1], _dot(*vector_BSWD[b, s]))


def _same_relation(c: Concepts) -> Iterator[ConditionSample]:
    """Compare x g y with x g z and x g' z, for both neighbours of x as y and z."""
    for b, s, x in _each(c):
        _, after = c.rings[b].neighbours(s)
        before, _ = c.rings[b].neighbours((s - 1) % THINGS)
        # x is the second thing of the previous pair, so place g of x is place 1 - g of that pair.
        to_next_GD, to_last_GD = c.related_BSGD[b, s], c.related_BSGD[b, s - 1][::-1]
        for y, z, y_GD, z_GD in (
            (after, before, to_next_GD, to_last_GD),
            (before, after, to_last_GD, to_next_GD),
        ):
            for g in SIDES:
                same, opposite = _dot(y_GD[g], z_GD[g]), _dot(y_GD[g], z_GD[1 - g])
                yield ConditionSample(b, x, f"{y}/{z}/{g}", same, opposite)


def _denied_in_words(c: Concepts) -> Iterator[ConditionSample]:
    for (b, s, x), (d, t, y) in permutations(_each(c), 2):
        no_D = c.denial_BSD[b, s]
        yield ConditionSample(b, x, y, _dot(c.name_BSD[d, t], no_D), _dot(c.name_BSD[b, s], no_D))


def _denied_in_image(c: Concepts) -> Iterator[ConditionSample]:
    for (b, s, x), (d, t, y) in permutations(_each(c), 2):
        image_D = c.thing_BSD[b, s]
        other, denial = c.name_BSD[d, t], c.denial_BSD[b, s]
        yield ConditionSample(b, x, y, _dot(image_D, other), _dot(image_D, denial))


_SAMPLES: Mapping[str, Callable[[Concepts], Iterator[ConditionSample]]] = MappingProxyType(
    {
        "1.1a": _named,
        "1.1b": _named_in_pair,
        "1.2a": lambda c: _nearer_than_another(c.coloured_BSKD, c),
        "1.2b": lambda c: _nearer_than_another(c.placed_BSGD, c),
        "2.1": lambda c: _two_sides(c.coloured_BSKD, c),
        "2.2": _coloured_word,
        "2.3": lambda c: _two_sides(c.bound_BSKD, c),
        "3.1": lambda c: _two_sides(c.placed_BSGD, c),
        "3.2": lambda c: _two_sides(c.related_BSGD, c),
        "3.3": _same_relation,
        "4.1": _denied_in_words,
        "4.2": _denied_in_image,
    }
)


def _each(concepts: Concepts) -> Iterator[tuple[int, int, str]]:
    """Yield every ring, thing and name of the thing."""
    for b, ring in enumerate(concepts.rings):
        for s, shape in enumerate(ring.shapes):
            yield b, s, shape


def _dot(first_D: FloatArray, second_D: FloatArray) -> float:
    return float(first_D @ second_D)


@dataclass(frozen=True, eq=False)
class Held:
    """Where a condition holds, and by how much."""

    holds_N: FloatArray
    """1 or 0 (also for a tie); NaN where a cosine is missing."""
    margin_N: FloatArray
    """Below 0 where the condition does not hold."""


def larger(first_N: FloatArray, second_N: FloatArray) -> Held:
    """The condition that the first cosine is above the second."""
    if len(first_N) != len(second_N):
        raise UnbagError(
            f"{len(first_N)} cosines against {len(second_N)}", expected="one of each per sample"
        )
    return _held(np.asarray(first_N, dtype=float) - np.asarray(second_N, dtype=float))


def below_one(cosine_N: FloatArray, *, delta: float = DELTA) -> Held:
    """The condition that the cosine is below 1 by more than `delta`."""
    return _held(1 - delta - np.asarray(cosine_N, dtype=float))


def for_all(held: Held, thing_N: Sequence[Hashable]) -> FloatArray:
    """Return 1 for each x, in order of appearance, if the condition holds against all y, else 0."""
    groups: dict[Hashable, list[float]] = {}
    for name, holds in zip(thing_N, held.holds_N.tolist(), strict=True):
        groups.setdefault(name, []).append(holds)
    return np.array(
        [min(values) if not np.isnan(values).any() else np.nan for values in groups.values()]
    )


def _held(margin_N: FloatArray) -> Held:
    return Held(np.where(np.isnan(margin_N), np.nan, margin_N > TIE), margin_N)
