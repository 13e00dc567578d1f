"""The probe `stability`: how little noise or rotation turns the preferences of a model.

A unit vector v prefers c to n by the margin m = v (c - n). The smallest rotation of v that reaches
the boundary between the two is exactly asin(m / |c - n|): v stands at that angle to the plane at
right angles to c - n. Gaussian noise on v, equal in all D directions and of expected squared length
(size |v|)^2, turns the preference with the chance Phi(-m sqrt(D) / (size |c - n|)); this is exact,
and renormalising v afterwards changes nothing, since no scale changes a sign. The formulas are
ours; the question is that of Li et al. 2024: vectors that nearly agree may still hold a difference.
Limits: noise of a real channel, such as compression, is not equal in all directions.

Dimensions: N comparisons, M some of them, D space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from unbag.probes.base import (
    ImagePair,
    Known,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Row,
    Scatter,
    ScatterPoint,
    Thresholds,
    Tone,
    Value,
    Verdict,
    fill,
    mean,
    statistic,
)
from unbag.probes.sampling import choose_pairs, choose_rows, cluster_of, hashed, is_swap, part_note
from unbag.probes.space import TIE, Space, cosines, unit
from unbag.runs.progress import Progress
from unbag.types import FloatArray, IntArray

NAME = "stability"
SAME_WORDS, IMAGES = ", same words", ", images"
SIZES = (0.05, 0.10)
"""Of noise, relative to the vector."""
LEAST_RANKED = 3
"""Numbers that a rank correlation needs."""
MOST_POINTS = 400
Rounding = Literal["bfloat16", "float16"]
ROUNDINGS: tuple[Rounding, ...] = ("bfloat16", "float16")
BETWEEN = {
    SAME_WORDS: "two captions of the same words",
    "": "two captions",
    IMAGES: "two images",
}


class StabilityThresholds(Thresholds):
    """Of the share that is right, then of the share of that which noise of 10 % turns."""

    CHANCE = 0.5, "preferences are right no more often than by chance if their interval reaches it"
    UNSURE = (
        0.75,
        "half way from chance to all: an interval from chance to above it decides nothing",
    )
    FIRM = 0.1, "much is needed if noise turns surely less than this share"
    FRAGILE = 0.25, "very little is needed if noise turns surely more than this share"


_TOLD = (
    "{right} of preferences between {between} are right; a rotation of {angle:degrees} takes the "
    "middle one of these away, and noise of 10 % turns {flipped} of them{against}."
)
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Not known: no preference between vectors that are numbers."),
    "none of few": (
        "mixed",
        "Not decided: none of {right:n} preferences between {between} is right, too few to say "
        "more.",
    ),
    "none": ("fails", "Nothing holds them: all preferences between {between} are {ties}{at}."),
    "undecided": ("mixed", f"Not decided: {_TOLD}"),
    "chance": ("fails", f"It decides no better than chance: {_TOLD}"),
    "fragile": ("fails", f"Very little: {_TOLD}"),
    "firm": ("holds", f"Much is needed: {_TOLD}"),
    "some": ("mixed", f"Some noise is enough: {_TOLD}"),
}
PHRASES = {
    "at": ", {angle:degrees}",
    "less": "; over all kinds, the more alike the two the less it takes ({correlation})",
    "more": "; over all kinds, the more alike the two the more it takes ({correlation})",
}
ABOUT = """\
An image v prefers its caption c to a false one n by the margin v (c - n), all of unit length. The
angle is the smallest rotation of v that takes this preference away, exactly asin(margin / |c - n|);
given in degrees of the preferences that are right, with a tie at 0 degrees. Flipped: the share
of right preferences that Gaussian noise on v would turn, equal in all D directions, with 5 or 10 %
of the length of v; the chance of each is exactly Phi(-sin(angle) sqrt(D) / size), whether v is
brought back to unit length or not. The same for a caption between two images. Against the cosine:
Spearman's rank correlation of the angle with the cosine of the two that are compared; below 0, the
more alike they are the less it takes. Changed by bfloat16 or float16: the share of all preferences
that differ when vectors are kept in that precision. The question follows Li et al. 2024, the
formulas are ours. Limits: noise of a real channel is not equal in all directions, and a model that
is surely wrong is stable too; look at the share that is right first."""


def _ask(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no vectors of images and captions")
    return stability(subject.space, material, options)


def say(finding: ProbeResult) -> Verdict:
    """Of the group of the headline: chance and ties fail, then what noise of 10 % turns decides."""
    suffix = finding.headline.removeprefix("angle")
    right, angle = finding[f"right{suffix}"].estimate, finding[f"angle{suffix}"].estimate
    flipped = finding[f"flipped at 10 %{suffix}"].estimate
    at = StabilityThresholds
    if not right.n:
        case = "unknown"
    elif not right.value:
        case = "none of few" if angle.value != 0 and right.high > at.UNSURE else "none"
    elif right.low <= at.CHANCE:
        case = "undecided" if right.high > at.UNSURE else "chance"
    elif flipped.low > at.FRAGILE:
        case = "fragile"
    else:
        case = "firm" if flipped.high < at.FIRM else "some"
    is_known = angle.n and angle.value == angle.value
    against = finding.get(f"angle against cosine{IMAGES if suffix == IMAGES else ''}")
    said = ""
    # Where the interval leaves 0 out.
    if against is not None and (against.estimate.low > 0 or against.estimate.high < 0):
        phrase = PHRASES["less" if against.estimate.high < 0 else "more"]
        said = fill(phrase, correlation=against.estimate)
    values: dict[str, Value] = {
        "right": right,
        "between": BETWEEN[suffix],
        "angle": angle,
        "flipped": flipped,
        "against": said,
        "ties": "ties" if angle.value == 0 else "ties or wrong",
        "at": fill(PHRASES["at"], angle=angle) if is_known else "",
    }
    return Verdict(*VERDICTS[case], values)


STABILITY = Probe(
    NAME, "How little turns its preferences?", ABOUT, _ask, say, tuple(StabilityThresholds)
)


def stability(space: Space, material: ProbeData, options: Options) -> ProbeResult:
    """How firm the preferences of any space of vectors are."""
    rows = [row for row in material.rows if row.negative is not None]
    pairs = [pair for pair in material.pairs if pair.captions is not None]
    if not rows and not pairs:
        needs = "captions with hard negatives, or pairs of images with a caption each"
        return ProbeResult(NAME, skipped=f"{material.about}: it needs {needs}")
    kept, kept_pairs = choose_rows(rows, options), choose_pairs(pairs, options)
    notes = (
        "A preference that is wrong does not count: see how many are right first.",
        *part_note(len(kept), len(rows), "rows"),
        *part_note(len(kept_pairs), len(pairs), "pairs of images"),
    )
    quantities: list[Quantity] = []
    plots: list[Scatter] = []
    if kept:
        asked = of_rows(space, kept)
        swap_M = np.flatnonzero([is_swap(row) for row in kept])
        if len(swap_M):
            # First, since the verdict is about captions that differ in order alone, if any do.
            quantities += firmness(asked.at(swap_M), SAME_WORDS, options, is_swap=True)
        quantities += firmness(asked, "", options) + by_cosine(asked, "", options)
        quantities += [
            asked.mean(options)(
                f"changed by {to}",
                asked.changed[to],
                about=f"Share of preferences that differ, or are lost, with vectors in {to}",
                better="lower",
                is_rate=True,
            )
            for to in ROUNDINGS
        ]
        plots.append(_scatter(asked, "captions", options))
    if kept_pairs:
        between = of_pairs(space, kept_pairs)
        quantities += firmness(between, IMAGES, options) + by_cosine(between, IMAGES, options)
        plots.append(_scatter(between, "pictures", options))
    headline = next(one.name for one in quantities if one.name.startswith("angle"))
    return ProbeResult(NAME, tuple(quantities), headline, tuple(plots), notes)


def _scatter(asked: Compared, what: str, options: Options) -> Scatter:
    every = [at for at in range(len(asked.units)) if np.isfinite(asked.found.angle_N[at])]
    chosen = sorted(every, key=lambda at: hashed(asked.units[at]))
    return Scatter(
        title=f"Firmness between two {what}",
        x=f"cosine of the two {what}",
        y="degrees to the boundary",
        points=tuple(
            ScatterPoint(
                float(asked.found.cosine_N[at]),
                float(asked.found.angle_N[at]),
                asked.kinds[at],
                asked.units[at],
            )
            for at in (chosen if options.is_full else chosen[:MOST_POINTS])
        ),
        lines=(("boundary", 0.0),),
        about="Below the boundary a preference is wrong. A tie stands on it.",
    )


def firmness(
    asked: Compared, suffix: str, options: Options, *, is_swap: bool = False
) -> list[Quantity]:
    """Share that is right, the angle of these, and what noise turns of them.

    Args:
        asked: Comparisons.
        suffix: What the name of each quantity ends with.
        options: How to resample.
        is_swap: Both captions have the same words, so that a bag of words ties.
    """
    right_N, held_N = asked.found.right, np.nan_to_num(asked.found.held)
    angle_N = np.nan_to_num(asked.found.angle_N)
    tie = 0.0 if is_swap else None
    over_all = asked.mean(options)
    right = over_all(
        f"right{suffix}",
        right_N,
        about="Share of preferences that are right; a tie is not",
        known=Known(bag=tie, perfect=1.0, chance=0.5),
        better="higher",
        is_rate=True,
    )

    def median(place_M: IntArray) -> float:
        kept_M = angle_N[place_M][held_N[place_M] > 0]
        return float(np.median(kept_M)) if len(kept_M) else float("nan")

    middle = statistic(
        f"angle{suffix}",
        median,
        len(angle_N),
        about="Median rotation, in degrees, that takes a right preference away; a tie is at 0",
        options=options,
        clusters=asked.clusters,
        known=Known(bag=tie),
        better="higher",
    )
    average = over_all(
        f"mean angle{suffix}",
        angle_N * held_N,
        about="The same, as a mean",
        weight_N=held_N,
        known=Known(bag=tie),
        better="higher",
    )
    is_right_N = np.nan_to_num(right_N)
    flips = [
        over_all(
            f"flipped at {size:.0%}{suffix}".replace("%", " %"),
            flip_chance(angle_N, width=asked.width, size=size) * is_right_N,
            about="Share of right preferences that noise of this relative size on the vector turns",
            weight_N=is_right_N,
            better="lower",
            is_rate=True,
        )
        for size in SIZES
    ]
    return [right, middle, average, *flips]


def by_cosine(asked: Compared, suffix: str, options: Options) -> list[Quantity]:
    """Rank correlation of the angle with the cosine of the two, over what is right."""
    is_right_N = asked.found.right == 1
    correlation = rank_correlation(asked.found.angle_N, asked.found.cosine_N)
    return [
        statistic(
            f"angle against cosine{suffix}",
            lambda place_M: correlation(place_M[is_right_N[place_M]]),
            len(is_right_N),
            about="Rank correlation of the angle with the cosine of the two that are compared",
            options=options,
            clusters=asked.clusters,
        )
    ]


@dataclass(frozen=True, eq=False)
class Compared:
    """Comparisons with what is known of each."""

    units: tuple[str, ...]
    clusters: tuple[str, ...]
    kinds: tuple[str, ...]
    found: Decisions
    changed: dict[Rounding, FloatArray]
    width: int

    def at(self, place_M: IntArray) -> Compared:
        """Some of them."""
        units, clusters, kinds = (
            tuple(one[at] for at in place_M) for one in (self.units, self.clusters, self.kinds)
        )
        every = (self.found.margin_N, self.found.angle_N, self.found.cosine_N)
        found = Decisions(*(one[place_M] for one in every))
        changed = {name: value_N[place_M] for name, value_N in self.changed.items()}
        return Compared(units, clusters, kinds, found, changed, self.width)

    def mean(self, options: Options) -> partial[Quantity]:
        """`unbag.probes.base.mean` over all, or over those with a weight."""
        tags = [{"kind": kind} for kind in self.kinds]
        return partial(mean, options=options, units=self.units, clusters=self.clusters, tags=tags)


def of_rows(space: Space, rows: Sequence[Row]) -> Compared:
    """An image between its caption and a false one."""
    there = [row for row in rows if row.negative is not None]
    return _compared(
        space.images([row.image for row in there]),
        space.captions([row.caption for row in there]),
        space.captions([row.negative or "" for row in there]),
        [(row.id, cluster_of(row), row.kind) for row in there],
    )


def of_pairs(space: Space, pairs: Sequence[ImagePair]) -> Compared:
    """A caption between the image it is true of and the other one, both captions of a pair."""
    every = [
        (caption, *images, (f"{pair.id}/{at}", pair.cluster or pair.id, pair.relation))
        for pair in pairs
        if pair.captions is not None
        for at, (caption, images) in enumerate(
            zip(pair.captions, ((pair.first, pair.second), (pair.second, pair.first)), strict=True)
        )
    ]
    return _compared(
        space.captions([one[0] for one in every]),
        space.images([one[1] for one in every]),
        space.images([one[2] for one in every]),
        [one[3] for one in every],
    )


def _compared(
    vector_ND: FloatArray,
    right_ND: FloatArray,
    wrong_ND: FloatArray,
    names: Sequence[tuple[str, str, str]],
) -> Compared:
    changed = {to: changed_by(to, vector_ND, right_ND, wrong_ND) for to in ROUNDINGS}
    units, clusters, kinds = zip(*names, strict=True) if names else ((), (), ())
    found = decide(vector_ND, right_ND, wrong_ND)
    return Compared(units, clusters, kinds, found, changed, vector_ND.shape[-1])


@dataclass(frozen=True, eq=False)
class Decisions:
    """Comparisons, one number each; NaN where a vector is missing."""

    margin_N: FloatArray
    """Above 0 where the right one is preferred; 0 where a difference is only rounding."""
    angle_N: FloatArray
    """Degrees to the boundary: below 0 on the wrong side, 0 for a tie."""
    cosine_N: FloatArray
    """Of the two that are compared."""

    @property
    def right(self) -> FloatArray:
        """1, 0 or NaN; a tie is not right."""
        return np.where(np.isnan(self.margin_N), np.nan, self.margin_N > 0)

    @property
    def held(self) -> FloatArray:
        """1 where it is right or tied: a tie is held at no angle at all."""
        return np.where(np.isnan(self.margin_N), np.nan, self.margin_N >= 0)


def decide(vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray) -> Decisions:
    """Row by row, the right one of two against the wrong one."""
    vector_ND, right_ND, wrong_ND = unit(vector_ND), unit(right_ND), unit(wrong_ND)
    way_ND = right_ND - wrong_ND
    margin_N: FloatArray = (vector_ND * way_ND).sum(axis=-1)
    margin_N = np.where(np.abs(margin_N) <= TIE, 0.0, margin_N)
    length_N = np.linalg.norm(way_ND, axis=-1)
    sine_N = margin_N / np.where(margin_N == 0, 1.0, length_N)
    angle_N = np.degrees(np.arcsin(np.clip(sine_N, -1, 1)))
    return Decisions(margin_N, angle_N, cosines(right_ND, wrong_ND))


def flip_chance(angle_N: FloatArray, *, width: int, size: float) -> FloatArray:
    """Chance that noise of this size, relative to the vector, turns each preference.

    Args:
        angle_N: Degrees to the boundary.
        width: D, the number of directions that the noise is spread over.
        size: Root of the expected squared length of the noise over that of the vector.
    """
    from scipy.special import ndtr

    sine_N = np.sin(np.radians(angle_N))
    return np.asarray(ndtr(-np.abs(sine_N) * np.sqrt(width) / size), dtype=float)


def changed_by(
    to: Rounding, vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray
) -> FloatArray:
    """1 where vectors kept in this precision prefer another one, or none, else 0; NaN unknown.

    Sums are exact: only what is kept is rounded.
    """
    before_N = _sides(vector_ND, right_ND, wrong_ND)
    after_N = _sides(*(rounded(one, to) for one in (vector_ND, right_ND, wrong_ND)))
    return np.where(np.isnan(before_N + after_N), np.nan, before_N != after_N)


def _sides(vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray) -> FloatArray:
    return np.sign(decide(vector_ND, right_ND, wrong_ND).margin_N)


def rounded(vector_ND: FloatArray, to: Rounding) -> FloatArray:
    """To the nearest number of this precision, the even one of two that are as near."""
    if to == "float16":
        return vector_ND.astype(np.float16).astype(float)
    bits = np.ascontiguousarray(vector_ND, dtype=np.float32).view(np.uint32)
    # bfloat16 is the upper half of single precision; NaN must not be carried over into infinity.
    even = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(vector_ND), np.nan, even.view(np.float32).astype(float))


def rank_correlation(first_N: FloatArray, second_N: FloatArray) -> Callable[[IntArray], float]:
    """Spearman's correlation of any units, by their places, equal values at their mean rank.

    Values are put in order once, so that thousands of resamples cost little. NaN for fewer than
    three units, and where one side is constant.
    """
    first_M, second_M = (np.unique(one, return_inverse=True)[1] for one in (first_N, second_N))

    def of(place_M: IntArray) -> float:
        if len(place_M) < LEAST_RANKED:
            return float("nan")
        one, other = _centred_ranks(first_M[place_M]), _centred_ranks(second_M[place_M])
        return float(cosines(one, other))

    return of


def _centred_ranks(code_M: IntArray) -> FloatArray:
    """Around their mean; equal codes share theirs."""
    count = np.bincount(code_M)
    rank = np.cumsum(count) - (count - 1) / 2
    found: FloatArray = rank[code_M] - (len(code_M) + 1) / 2
    return found
