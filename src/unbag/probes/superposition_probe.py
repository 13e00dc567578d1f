"""A model comes in; whether its vector of two things is the sum of their vectors goes out.

Dimensions: N pairs, B rings, S things or pairs of a ring, K colourings, M gallery, D space.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unbag.engine.progress import Progress
from unbag.metrics.resample import generator
from unbag.probes.concept_vectors import Concepts
from unbag.probes.concepts import THINGS
from unbag.probes.conditions_probe import draw_concepts
from unbag.probes.finding import Finding, Known, Options, Quantity, mean, statistic
from unbag.probes.material import Material
from unbag.probes.probe import Probe, Subject
from unbag.probes.superposition import (
    Additive,
    Superposition,
    cone,
    fit_additive,
    superposition,
)
from unbag.probes.superposition_verdict import MARGIN, bars, say
from unbag.probes.vectors import centred, cosines
from unbag.types import FloatArray, IntArray

NAME = "superposition"
HEADLINE = "sum, centred"
NO_VECTORS = "has no vectors of pictures: there is nothing to add up"
ABOUT = f"""\
Claim (methods.md 4.5; source S1, section 3.2): i(x,y) is the normalised sum of i(x) and i(y).
Cosines of i(x,y) with that sum, with the exact optimum 2 (i(x) + i(y)) - sum of all M things, with
each part, with the sum of another pair in the same colours and at the same places, and with that of
a pair of another ring; raw, and around the mean of the M single things, since vectors lie in a
cone. Supported if, around the mean, the own sum is nearer than the other pair's in the same colours
by surely more than {MARGIN:g}. The cone is the length of the mean unit vector of the M things; the
derivation needs M times the cone to be small against the length of the sum. If attributes add up
too, i(x_a,y_b) is i(x_b,y_a): their cosine is reported, and the fit of i(x_a,y_b) =
((1 - shrink) (i(x) + i(y)) + p t(a) + q t(b)) / 2 with the share of squared length it explains
(which a cone makes large by itself). Each i(.) is the mean over 8 or 16 pictures. Limits: single
things must not be strange to the model; a sum of vectors is a sum of whatever is drawn, colours
included, hence the baseline in the same colours."""
_PARTS = {
    "sum": "cosine of i(x,y) with the normalised sum of i(x) and i(y)",
    "optimum": "cosine of i(x,y) with the exact optimum for a gallery of all single things",
    "first part": "cosine of i(x,y) with i(x)",
    "second part": "cosine of i(x,y) with i(y)",
    "other pair": "cosine of i(x,y) with the sum of two other things, same colours and places",
}


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Draw the scenes, encode them and measure; skipped without vectors or without scenes."""
    found = draw_concepts(NAME, subject, material, options, no_vectors=NO_VECTORS)
    return found if isinstance(found, Finding) else superposed_pairs(found, options)


def superposed_pairs(concepts: Concepts, options: Options) -> Finding:
    """Everything that is asked about sums, on vectors of concepts."""
    quantities = [
        *_sums(concepts, options, is_centred=True),
        *_sums(concepts, options, is_centred=False),
        *_exchanged(concepts, options),
        *_cone(concepts, options),
        *_fit(concepts, options),
    ]
    return Finding(NAME, tuple(quantities), HEADLINE, (bars(quantities),))


def _sums(concepts: Concepts, options: Options, *, is_centred: bool) -> list[Quantity]:
    count = len(concepts.rings) * THINGS
    place_N = np.arange(count)
    ring_N, pair_N = np.divmod(place_N, THINGS)
    opposite_N = ring_N * THINGS + (pair_N + THINGS // 2) % THINGS
    found = _compared(concepts, opposite_N, is_centred)
    value = dict(
        zip(
            _PARTS,
            (found.sum_N, found.optimum_N, found.first_N, found.second_N, found.other_N),
            strict=True,
        )
    )
    about = dict(_PARTS)
    value["sum above other pair"] = found.sum_N - found.other_N
    about["sum above other pair"] = "the first of these cosines minus that with the other pair"
    if len(concepts.rings) > 1:
        rng = generator(options.seed, NAME, str(count))
        step_N = rng.integers(1, len(concepts.rings), size=count)
        elsewhere_N = (place_N + THINGS * step_N) % count
        value["pair elsewhere"] = _compared(concepts, elsewhere_N, is_centred).other_N
        about["pair elsewhere"] = "cosine of i(x,y) with the sum of a pair of another ring"
    tail = ", centred" if is_centred else ""
    return [
        _mean(f"{name}{tail}", value_N, about[name], concepts, options)
        for name, value_N in value.items()
    ]


def _compared(concepts: Concepts, other_N: IntArray, is_centred: bool) -> Superposition:
    thing_BSD = concepts.thing_BSD
    return superposition(
        _flat(concepts.pair_BSD),
        _flat(thing_BSD),
        _flat(np.roll(thing_BSD, -1, axis=1)),
        _gallery(concepts),
        other_N=other_N,
        is_centred=is_centred,
    )


def _exchanged(concepts: Concepts, options: Options) -> list[Quantity]:
    """Pictures whose things have exchanged their colours: one vector, if all were sums."""
    first_ND, second_ND = (_flat(concepts.bound_BSKD[:, :, k]) for k in (0, 1))
    about = "cosine of i(x_a,y_b) with i(x_b,y_a)"
    known = Known(bag=1.0)
    raw = _mean("colours exchanged", cosines(first_ND, second_ND), about, concepts, options, known)
    gallery_MD = _gallery(concepts)
    around_N = cosines(centred(first_ND, gallery_MD), centred(second_ND, gallery_MD))
    around = _mean("colours exchanged, centred", around_N, about, concepts, options, known)
    return [raw, around]


def _cone(concepts: Concepts, options: Options) -> list[Quantity]:
    """The length of a mean is the mean of its parts along the axis: so it has an interval."""
    thing_BSD = concepts.thing_BSD
    gallery_MD = _gallery(concepts)
    along_N = cosines(_flat(thing_BSD), gallery_MD.mean(axis=0))
    if cone(gallery_MD) < 1e-12:
        along_N = np.zeros(len(along_N))
    length_N = np.linalg.norm(_flat(thing_BSD + np.roll(thing_BSD, -1, axis=1)), axis=-1)
    size = int(np.isfinite(along_N).sum())
    about = f"the same times the number M = {size}; the claim needs it far below the next"
    return [
        _mean("cone", along_N, "length of the mean vector of single things", concepts, options),
        _mean("cone times M", size * along_N, about, concepts, options),
        _mean("length of the sum", length_N, "mean length of i(x) + i(y)", concepts, options),
    ]


def _fit(concepts: Concepts, options: Options) -> list[Quantity]:
    reduced_B44 = _reduced(concepts)

    def read(part: Callable[[Additive], float]) -> Callable[[IntArray], float]:
        def of(ring_B: IntArray) -> float:
            row_B44 = reduced_B44[ring_B]
            if not row_B44.any():
                return np.nan
            both, a, b, pair = (row_B44[..., column] for column in range(4))
            return part(fit_additive(pair, (both, np.zeros_like(both)), (a, b)))

        return of

    told: tuple[tuple[str, Callable[[Additive], float], str], ...] = (
        ("fit: shrink", lambda fit: fit.shrink, "what i(x) + i(y) loses in i(x_a,y_b)"),
        ("fit: p", lambda fit: fit.first, "weight of t(a), the colour of x, in i(x_a,y_b)"),
        ("fit: q", lambda fit: fit.second, "weight of t(b), the colour of y, in i(x_a,y_b)"),
        (
            "fit: explained",
            lambda fit: fit.explained,
            "share of squared length that the fit explains",
        ),
    )
    return [_statistic(name, read(part), about, concepts, options) for name, part, about in told]


def _reduced(concepts: Concepts) -> FloatArray:
    """Rows of each ring for the fit, turned so that four are left: least squares stay the same."""
    thing_BSD, colour_BKD = concepts.thing_BSD, concepts.colour_BKD
    both_BSKD = np.repeat((thing_BSD + np.roll(thing_BSD, -1, axis=1))[:, :, None], 2, axis=2)
    a_BSKD = np.broadcast_to(colour_BKD[:, None], both_BSKD.shape)
    row_BSKD4 = np.stack([both_BSKD, a_BSKD, a_BSKD[:, :, ::-1], concepts.bound_BSKD], axis=-1)
    # A row of zeros has no say: vectors without a direction are left out.
    is_known_BSK11 = np.isfinite(row_BSKD4).all(axis=(3, 4), keepdims=True)
    row_BSKD4 = np.where(is_known_BSK11, row_BSKD4, 0.0)
    rows = [np.linalg.qr(ring.reshape(-1, 4), mode="r") for ring in row_BSKD4]
    return np.array([np.pad(row, ((0, 4 - len(row)), (0, 0))) for row in rows])


def _gallery(concepts: Concepts) -> FloatArray:
    """All single things."""
    return _known(concepts.thing_BSD)


def _known(vector_BSD: FloatArray) -> FloatArray:
    """Those with a vector, since one without would make every mean unknown; NaN if none has."""
    vector_ND = _flat(vector_BSD)
    known_ND = vector_ND[np.isfinite(vector_ND).all(axis=-1)]
    return known_ND if len(known_ND) else vector_ND[:1]


def _flat(vector_BSD: FloatArray) -> FloatArray:
    return vector_BSD.reshape(-1, vector_BSD.shape[-1])


def _mean(
    name: str,
    value_N: FloatArray,
    about: str,
    concepts: Concepts,
    options: Options,
    known: Known | None = None,
) -> Quantity:
    return mean(
        name,
        value_N,
        about=about,
        options=options,
        units=[
            "+".join(ring.neighbours(pair)) for ring in concepts.rings for pair in range(THINGS)
        ],
        clusters=[ring.name for ring in concepts.rings for _ in range(THINGS)],
        known=known,
    )


def _statistic(
    name: str,
    of: Callable[[IntArray], float],
    about: str,
    concepts: Concepts,
    options: Options,
) -> Quantity:
    return statistic(name, of, len(concepts.rings), about=about, options=options)


SUPERPOSITION = Probe(
    NAME,
    "Is the vector of two things the sum of their vectors?",
    ABOUT,
    ask,
    say,
)
