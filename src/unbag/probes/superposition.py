"""The probe `superposition`: whether the vector of a pair is the sum of the vectors of its parts.

Claim (S1, section 3.2): the best vector for an image of two things, close to both and far from all
M others, is their normalised sum. The exact optimum is the direction of
w = 2 (i(x1) + i(x2)) - sum of all M; the claim follows only if that sum is about 0, that is, if
M times `cone` is small. Real vectors lie in a cone, so everything is measured raw and centred on
the gallery's mean. Limits: images of single things must not be unusual for the model.

Dimensions: N pairs, B rings, S things or pairs of a ring, K colour assignments, M gallery
of single things, D space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.intervals import generator
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
    Value,
    Verdict,
    bar,
    mean,
    statistic,
)
from unbag.probes.concepts import THINGS, Concepts, draw_concepts
from unbag.probes.space import centred, cosines, unit
from unbag.runs.progress import Progress
from unbag.types import FloatArray, IntArray

NAME = "superposition"
HEADLINE = "sum, centred"


class SuperpositionThresholds(Thresholds):
    """Thresholds on cosines."""

    MARGIN = (
        0.1,
        "a pair is a sum if its own sum is nearer than another pair's by surely more than this",
    )
    MERGED = 0.95, "images with a cosine above this are merged, as in the probe agreement"


MARGIN = SuperpositionThresholds.MARGIN
_COSINES = (
    "The vector of an image of two things is {how} the sum of the vectors of both: its centred "
    "cosine is {own} with this sum, and {other} with the sum of two other things in the same "
    "colours. Images with exchanged colours have cosine {exchanged}"
)
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": (
        "told",
        "Not measured: after subtracting the mean, the vectors have no direction.",
    ),
    "no sum": ("told", f"{_COSINES}."),
    "merged": ("fails", f"{_COSINES}: a sum does not encode which thing has which colour."),
    "undecided": ("mixed", f"{_COSINES}: whether the model merges these is not decided."),
    "encoded": (
        "told",
        f"{_COSINES}: which thing has which colour is encoded in addition to the sum.",
    ),
}
_SHOWN = (
    "sum, centred",
    "other pair, centred",
    "pair elsewhere, centred",
    "sum",
    "other pair",
    "pair elsewhere",
    "colours exchanged",
)
NO_VECTORS = "has no image vectors to add up"
ABOUT = f"""\
Claim (methods.md 4.5; source S1, section 3.2): i(x,y) is the normalised sum of i(x) and i(y).
Cosines of i(x,y) with that sum, with the exact optimum 2 (i(x) + i(y)) - sum of all M things, with
each part, with the sum of another pair in the same colours and at the same places, and with that of
a pair of another ring; raw, and centred on the mean of the M single things, since vectors lie in a
cone. Supported if the centred cosine with its own sum exceeds that with the other pair's in the
same colours, with an interval above {MARGIN:g}. The cone is the length of the mean unit vector of
the M things; the derivation needs M times the cone to be small against the length of the sum. If
attributes add up too, i(x_a,y_b) is i(x_b,y_a): their cosine is reported, and the fit of i(x_a,y_b)
= ((1 - shrink) (i(x) + i(y)) + p t(a) + q t(b)) / 2 with the share of squared length it explains
(which a cone makes large by itself). Each i(.) is the mean over 8 or 16 images. Limits: images of
single things must not be unusual for the model; vectors add up whatever is drawn, colours included,
hence the baseline in the same colours."""
_PARTS = (
    ("sum", "cosine of i(x,y) with the normalised sum of i(x) and i(y)"),
    ("optimum", "cosine of i(x,y) with the exact optimum for a gallery of all single things"),
    ("first part", "cosine of i(x,y) with i(x)"),
    ("second part", "cosine of i(x,y) with i(y)"),
    ("other pair", "cosine of i(x,y) with the sum of two other things, same colours and places"),
)


def ask(subject: ProbedModel, data: ProbeData, options: Options, progress: Progress) -> ProbeResult:
    """Draw scenes, encode them and measure; skipped without vectors or without scenes."""
    concepts = draw_concepts(NAME, subject, data, options, no_vectors=NO_VECTORS)
    return concepts if isinstance(concepts, ProbeResult) else superposed_pairs(concepts, options)


def say(result: ProbeResult) -> Verdict:
    """Say whether pairs are sums, and how near images with exchanged colours are."""
    margin = result["sum above other pair, centred"].estimate
    if not margin.n:
        return Verdict(*VERDICTS["unknown"])
    own, other, exchanged = (
        result[name].estimate
        for name in ("sum, centred", "other pair, centred", "colours exchanged")
    )
    thresholds = SuperpositionThresholds
    if not margin.low > MARGIN:
        case, closeness = "no sum", "perhaps close to" if margin.high > MARGIN else "not close to"
    elif exchanged.low > thresholds.MERGED:
        case, closeness = "merged", "close to"
    else:
        case, closeness = (
            "undecided" if exchanged.high > thresholds.MERGED else "encoded",
            "close to",
        )
    values: dict[str, Value] = {
        "how": closeness,
        "own": own,
        "other": other,
        "exchanged": exchanged,
    }
    return Verdict(*VERDICTS[case], values)


SUPERPOSITION = Probe(
    NAME,
    "Is the vector of two things the sum of their vectors?",
    ABOUT,
    ask,
    say,
    tuple(SuperpositionThresholds),
)


def superposed_pairs(concepts: Concepts, options: Options) -> ProbeResult:
    """Measure all quantities on vectors of concepts."""
    quantities = [
        *_sums(concepts, options, is_centred=True),
        *_sums(concepts, options, is_centred=False),
        *_exchanged_and_cone(concepts, options),
        *_fit(concepts, options),
    ]
    return ProbeResult(NAME, tuple(quantities), HEADLINE, (bars(quantities),))


def bars(quantities: Sequence[Quantity]) -> Bars:
    """Draw the cosines of the claim."""
    by_name = {quantity.name: quantity for quantity in quantities}
    chosen = [by_name[name] for name in _SHOWN if name in by_name]
    return Bars(
        "An image of two things and sums of single things",
        tuple(replace(bar(quantity, quantity.name), note=quantity.about) for quantity in chosen),
        is_rate=False,
        about="Cosines, centred on the mean of all single things, and raw.",
    )


def _sums(concepts: Concepts, options: Options, *, is_centred: bool) -> list[Quantity]:
    count = len(concepts.rings) * THINGS
    place_N = np.arange(count)
    ring_N, pair_N = np.divmod(place_N, THINGS)
    opposite_N = ring_N * THINGS + (pair_N + THINGS // 2) % THINGS
    compared = _compared(concepts, opposite_N, is_centred)
    values = [
        compared.sum_N,
        compared.optimum_N,
        compared.first_N,
        compared.second_N,
        compared.other_N,
    ]
    rows = [(name, about, value_N) for (name, about), value_N in zip(_PARTS, values, strict=True)]
    about = "the first of these cosines minus that with the other pair"
    rows.append(("sum above other pair", about, compared.sum_N - compared.other_N))
    if len(concepts.rings) > 1:
        rng = generator(options.seed, NAME, str(count))
        step_N = rng.integers(1, len(concepts.rings), size=count)
        elsewhere_N = (place_N + THINGS * step_N) % count
        about = "cosine of i(x,y) with the sum of a pair of another ring"
        rows.append(("pair elsewhere", about, _compared(concepts, elsewhere_N, is_centred).other_N))
    suffix = ", centred" if is_centred else ""
    over_pairs = _over_pairs(concepts, options)
    return [over_pairs(f"{name}{suffix}", value_N, about=about) for name, about, value_N in rows]


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


def _exchanged_and_cone(concepts: Concepts, options: Options) -> Iterator[Quantity]:
    """Measure images with exchanged colours (one vector, if all were sums), and the cone."""
    over_pairs, gallery_MD = _over_pairs(concepts, options), _gallery(concepts)
    first_ND, second_ND = (_flat(concepts.bound_BSKD[:, :, k]) for k in (0, 1))
    centred_N = cosines(centred(first_ND, gallery_MD), centred(second_ND, gallery_MD))
    about, known = "cosine of i(x_a,y_b) with i(x_b,y_a)", Known(bag=1.0)
    yield over_pairs("colours exchanged", cosines(first_ND, second_ND), about=about, known=known)
    yield over_pairs("colours exchanged, centred", centred_N, about=about, known=known)
    # The length of a mean is the mean of the projections on its axis: so it has an interval.
    thing_BSD = concepts.thing_BSD
    along_axis_N = cosines(_flat(thing_BSD), gallery_MD.mean(axis=0))
    if cone(gallery_MD) < 1e-12:
        along_axis_N = np.zeros(len(along_axis_N))
    length_N = np.linalg.norm(_flat(thing_BSD + np.roll(thing_BSD, -1, axis=1)), axis=-1)
    size = int(np.isfinite(along_axis_N).sum())
    yield over_pairs("cone", along_axis_N, about="length of the mean vector of single things")
    about = f"the same times the number M = {size}; the claim needs it far below the next"
    yield over_pairs("cone times M", size * along_axis_N, about=about)
    yield over_pairs("length of the sum", length_N, about="mean length of i(x) + i(y)")


def _fit(concepts: Concepts, options: Options) -> list[Quantity]:
    reduced_B44 = _reduced(concepts)

    def statistic_of(part: Callable[[Additive], float]) -> Callable[[IntArray], float]:
        def compute(ring_B: IntArray) -> float:
            row_B44 = reduced_B44[ring_B]
            if not row_B44.any():
                return np.nan
            sum_BN, a, b, pair_BN = (row_B44[..., column] for column in range(4))
            return part(fit_additive(pair_BN, (sum_BN, np.zeros_like(sum_BN)), (a, b)))

        return compute

    coefficients: tuple[tuple[str, Callable[[Additive], float], str], ...] = (
        (
            "fit: shrink",
            lambda fit: fit.shrink,
            "decrease of the weight of i(x) + i(y) in i(x_a,y_b)",
        ),
        ("fit: p", lambda fit: fit.first, "weight of t(a), the colour of x, in i(x_a,y_b)"),
        ("fit: q", lambda fit: fit.second, "weight of t(b), the colour of y, in i(x_a,y_b)"),
        (
            "fit: explained",
            lambda fit: fit.explained,
            "share of squared length that the fit explains",
        ),
    )
    count = len(concepts.rings)
    return [
        statistic(name, statistic_of(part), count, about=about, options=options)
        for name, part, about in coefficients
    ]


def _reduced(concepts: Concepts) -> FloatArray:
    """Reduce the rows of each ring to four by a QR decomposition: least squares stay the same."""
    thing_BSD, colour_BKD = concepts.thing_BSD, concepts.colour_BKD
    both_BSKD = np.repeat((thing_BSD + np.roll(thing_BSD, -1, axis=1))[:, :, None], 2, axis=2)
    a_BSKD = np.broadcast_to(colour_BKD[:, None], both_BSKD.shape)
    row_BSKD4 = np.stack([both_BSKD, a_BSKD, a_BSKD[:, :, ::-1], concepts.bound_BSKD], axis=-1)
    # Vectors without a direction become rows of zeros, which do not count.
    is_known_BSK11 = np.isfinite(row_BSKD4).all(axis=(3, 4), keepdims=True)
    row_BSKD4 = np.where(is_known_BSK11, row_BSKD4, 0.0)
    rows = [np.linalg.qr(ring.reshape(-1, 4), mode="r") for ring in row_BSKD4]
    return np.array([np.pad(row, ((0, 4 - len(row)), (0, 0))) for row in rows])


def _gallery(concepts: Concepts) -> FloatArray:
    """Return all single things with a valid vector, since NaN would spoil the mean; NaN if none."""
    vector_ND = _flat(concepts.thing_BSD)
    known_ND = vector_ND[np.isfinite(vector_ND).all(axis=-1)]
    return known_ND if len(known_ND) else vector_ND[:1]


def _flat(vector_BSD: FloatArray) -> FloatArray:
    return vector_BSD.reshape(-1, vector_BSD.shape[-1])


def _over_pairs(concepts: Concepts, options: Options) -> partial[Quantity]:
    """Return `unbag.probes.base.mean` over all pairs of neighbours."""
    rings = concepts.rings
    return partial(
        mean,
        options=options,
        units=["+".join(ring.neighbours(pair)) for ring in rings for pair in range(THINGS)],
        clusters=[ring.name for ring in rings for _ in range(THINGS)],
    )


@dataclass(frozen=True, eq=False)
class Superposition:
    """Cosines of the vectors of pairs, each [N]; NaN where something has no direction."""

    sum_N: FloatArray
    """Cosine with the normalised sum of the two."""
    optimum_N: FloatArray
    """Cosine with the exact optimum."""
    first_N: FloatArray
    second_N: FloatArray
    other_N: FloatArray
    """Cosine with the sum of another pair, the baseline."""


def superposition(
    pair_ND: FloatArray,
    first_ND: FloatArray,
    second_ND: FloatArray,
    gallery_MD: FloatArray,
    *,
    other_N: IntArray,
    is_centred: bool = False,
) -> Superposition:
    """Compare each pair with the prediction from its parts; `is_centred` subtracts the cone's axis.

    `other_N` is the index of the pair whose sum is the baseline, preferably without common things.
    """
    if len(pair_ND) < 2:
        raise UnbagError(f"{len(pair_ND)} pairs", expected="at least two, since pairs are compared")
    if is_centred:
        parts = (pair_ND, first_ND, second_ND, gallery_MD)
        pair_ND, first_ND, second_ND, gallery_MD = (
            centred(unit(vector_ND), unit(gallery_MD)) for vector_ND in parts
        )
    sum_ND = superposed(first_ND, second_ND)
    return Superposition(
        sum_N=cosines(pair_ND, sum_ND),
        optimum_N=cosines(pair_ND, optimum(first_ND, second_ND, gallery_MD)),
        first_N=cosines(pair_ND, first_ND),
        second_N=cosines(pair_ND, second_ND),
        other_N=cosines(pair_ND, sum_ND[other_N]),
    )


def superposed(first_ND: FloatArray, second_ND: FloatArray) -> FloatArray:
    """Return the normalised sum; NaN for antipodal vectors, whose sum has no direction."""
    return unit(unit(first_ND) + unit(second_ND))


def optimum(first_ND: FloatArray, second_ND: FloatArray, gallery_MD: FloatArray) -> FloatArray:
    """Return the unit vectors nearest to both and farthest from the rest of the gallery."""
    both_ND = unit(first_ND) + unit(second_ND)
    return unit(2 * both_ND - unit(gallery_MD).sum(axis=0))


def cone(gallery_MD: FloatArray) -> float:
    """Return the length of the mean unit vector: 0 for a symmetric cloud, 1 for one direction."""
    return float(np.linalg.norm(unit(gallery_MD).mean(axis=0)))


@dataclass(frozen=True)
class Additive:
    """The fit of i(x_a, y_b) = ((1 - shrink) (i(x) + i(y)) + first t(a) + second t(b)) / 2."""

    shrink: float
    first: float
    second: float
    explained: float
    """Share of the squared length, from 0 to 1."""


def fit_additive(
    pair_ND: FloatArray,
    things: tuple[FloatArray, FloatArray],
    attributes: tuple[FloatArray, FloatArray],
) -> Additive:
    """Fit by least squares over all pairs and dimensions (S1, equation 9)."""
    columns = [things[0] + things[1], attributes[0], attributes[1]]
    design = np.stack([column.reshape(-1) for column in columns], axis=1) / 2
    target = pair_ND.reshape(-1)
    coefficients, *_ = np.linalg.lstsq(design, target, rcond=None)
    residual = target - design @ coefficients
    explained = 1 - float(residual @ residual) / float(target @ target)
    return Additive(
        1 - float(coefficients[0]), float(coefficients[1]), float(coefficients[2]), explained
    )
