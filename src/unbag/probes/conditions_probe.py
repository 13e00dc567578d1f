"""A model comes in; how often each condition of an ideal joint space holds for it goes out.

Dimensions: N samples of a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unbag.engine.progress import Progress
from unbag.probes.concept_vectors import Concepts, concept_vectors
from unbag.probes.concepts import rings
from unbag.probes.condition_samples import Samples, condition_samples
from unbag.probes.conditions import CONDITIONS, DELTA, for_all
from unbag.probes.conditions_verdict import BEYOND, UNDECIDED, say
from unbag.probes.finding import Finding, Known, Options, Quantity, mean
from unbag.probes.material import Material
from unbag.probes.plots import Bar, Bars
from unbag.probes.probe import Probe, Subject

NAME = "conditions"
HEADLINE = "beyond a bag"
RINGS, ALL_RINGS = 8, 12
"""By default; and with every thing of the world."""
NEGATION = ("4.1", "4.2")
"""A bag of words must fail these too: it takes "no star" for "a star"."""
NO_SCENES = (
    "needs drawn scenes, the same but for one thing: diagnose on the world's pictures as well"
)
NO_VECTORS = "has no vectors of pictures and captions: the conditions are about cosines"
ABOUT = f"""\
Twelve conditions of an ideal joint space of pictures and captions (methods.md 4.4; source S1,
section 3.1), each asked of many cases: the rate at which it holds and the mean margin. i(.) is the
mean of the unit vectors of at least 8 pictures of a concept, at unit length again; pictures that
are compared show the same sizes, textures, places and noise, and i(y) in 1.2 is y put in the place
of x in the second picture, in its colour. "Less than 1" is asked as "at most
{1 - DELTA:g}" and the mean cosine is reported beside it. Chance is that of a random space, in which
all vectors point anywhere: it tells everything apart, so "less than 1" says something only
together with the comparisons. A tie does not hold. Intervals resample rings of four things that
share no thing with another ring. Limits: colours are the only attributes, and left/right and
above/below the only places and relations; 4.1 is arguably too strong, since a caption and its
negation share a topic, and decides nothing; 4.2 ranks two false captions, which truth alone does
not do."""


def draw_concepts(
    name: str, subject: Subject, material: Material, options: Options, *, no_vectors: str
) -> Concepts | Finding:
    """Draw the scenes and encode them; a finding of that name where this cannot be done."""
    if not material.is_world:
        return Finding(name, skipped=f"{material.about}: {NO_SCENES}")
    if subject.space is None:
        return Finding(name, skipped=f"{subject.name} {no_vectors}")
    drawn = rings(ALL_RINGS if options.is_full else RINGS, seed=options.seed)
    return concept_vectors(subject.space, drawn)


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Draw the scenes, encode them and measure; skipped without vectors or without scenes."""
    found = draw_concepts(NAME, subject, material, options, no_vectors=NO_VECTORS)
    return found if isinstance(found, Finding) else conditions(found, options)


def conditions(concepts: Concepts, options: Options) -> Finding:
    """All conditions on vectors of concepts."""
    samples = condition_samples(concepts)
    rates = [_rate(name, found, options) for name, found in samples.items()]
    quantities = [_beyond(samples, options), *rates]
    for name, found in samples.items():
        quantities += _beside(name, found, options)
    return Finding(NAME, tuple(quantities), HEADLINE, (_bars(rates),))


def _rate(name: str, found: Samples, options: Options) -> Quantity:
    condition = CONDITIONS[name]
    return mean(
        name,
        found.held.holds_N,
        about=f"{condition.requirement}: {condition.plain}",
        options=options,
        units=found.units,
        clusters=found.clusters,
        known=Known(
            bag=0.0 if name in BEYOND + NEGATION else 1.0,
            perfect=None if name in UNDECIDED else 1.0,
            chance=condition.chance,
        ),
        better="higher",
        is_rate=True,
    )


def _beyond(samples: Mapping[str, Samples], options: Options) -> Quantity:
    """Each condition counts alike, each ring counts alike."""
    values, units, clusters = [], [], []
    for name in BEYOND:
        found = samples[name]
        for ring in dict.fromkeys(found.clusters):
            holds_N = found.held.holds_N[np.array(found.clusters) == ring]
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


def _beside(name: str, found: Samples, options: Options) -> list[Quantity]:
    """What else is reported of a condition: its margin, its cosine, and x against all y."""
    condition = CONDITIONS[name]
    is_below_one = condition.chance == 1.0
    quantities = []
    if is_below_one:
        quantities.append(
            mean(
                f"{name} cosine",
                found.first_N,
                about=f"mean of {condition.requirement.removesuffix(' < 1')}",
                options=options,
                units=found.units,
                clusters=found.clusters,
                known=Known(bag=1.0 if name in BEYOND else None),
            )
        )
    side = f"{1 - DELTA:g} minus the cosine" if is_below_one else "the larger minus the smaller"
    quantities.append(
        mean(
            f"{name} margin",
            found.held.margin_N,
            about=f"mean of {side}",
            options=options,
            units=found.units,
            clusters=found.clusters,
            better="higher",
        )
    )
    if condition.asks_all:
        quantities.append(_all(name, found, options))
    return quantities


def _all(name: str, found: Samples, options: Options) -> Quantity:
    cluster_of = dict(zip(found.things, found.clusters, strict=True))
    others = len(found.things) // len(cluster_of)
    return mean(
        f"{name} for all",
        for_all(found.held, found.things),
        about=f"share of things x for which {name} holds against every one of {others} y",
        options=options,
        units=tuple(cluster_of),
        clusters=tuple(cluster_of.values()),
        # In a random space the cosine with "no x" is the lowest of others + 1 equally often.
        known=Known(bag=0.0, chance=1 / (others + 1)),
        better="higher",
        is_rate=True,
    )


def _bars(rates: Sequence[Quantity]) -> Bars:
    return Bars(
        "Conditions of an ideal space",
        tuple(
            Bar(
                one.name,
                one.estimate.value,
                one.estimate.low,
                one.estimate.high,
                chance=one.known.chance,
                note=CONDITIONS[one.name].plain,
            )
            for one in rates
        ),
        about=(
            "Share of cases in which each condition holds. A bag of words has "
            f"{', '.join(BEYOND + NEGATION)} at 0 and the rest at 100."
        ),
    )


CONDITIONS_PROBE = Probe(
    NAME,
    "Which conditions of an ideal space does it meet?",
    ABOUT,
    ask,
    say,
)
