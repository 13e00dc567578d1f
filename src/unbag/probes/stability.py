"""The probe `stability`: how little noise or rotation flips the preferences of a model.

A unit vector v prefers c to n by the margin m = v (c - n). The smallest rotation of v that reaches
the boundary between the two is exactly asin(m / |c - n|), the angle between v and the plane
orthogonal to c - n. Isotropic Gaussian noise on v, with expected squared length (size |v|)^2, flips
the preference with probability Phi(-m sqrt(D) / (size |c - n|)); this is exact, and renormalising v
afterwards changes nothing, since scaling does not change a sign. The formulas are ours; the
question is that of Li et al. 2024: nearly equal vectors may still encode a difference. Limits:
real noise, such as compression, is not isotropic.

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
"""Sizes of the noise, relative to the vector."""
MIN_RANKED = 3
"""Minimum number of values for a rank correlation."""
MAX_POINTS = 400
Rounding = Literal["bfloat16", "float16"]
ROUNDINGS: tuple[Rounding, ...] = ("bfloat16", "float16")
BETWEEN = {
    SAME_WORDS: "two captions of the same words",
    "": "two captions",
    IMAGES: "two images",
}


class StabilityThresholds(Thresholds):
    """Thresholds on the share that is right, and on the share of these that noise of 10 % flips."""

    CHANCE = 0.5, "preferences are at chance if the interval of the share that is right reaches it"
    UNSURE = (
        0.75,
        "half way from chance to 1: an interval from chance to above it does not decide",
    )
    FIRM = 0.1, "much noise is needed if the interval of the share flipped lies below this"
    FRAGILE = (
        0.25,
        "very little noise is enough if the interval of the share flipped lies above this",
    )


_MEASURED = (
    "{right} of preferences between {between} are right; the median rotation that flips one of "
    "these is {angle:degrees}, and noise of 10 % flips {flipped} of them{against}."
)
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Not measured: no vectors to compare are finite."),
    "none of few": (
        "mixed",
        "Not decided: none of {right:n} preferences between {between} is right, too few to decide.",
    ),
    "none": ("fails", "All preferences between {between} are {ties}{at}."),
    "undecided": ("mixed", f"Not decided: {_MEASURED}"),
    "chance": ("fails", f"Its preferences are at chance: {_MEASURED}"),
    "fragile": ("fails", f"Very little noise is enough: {_MEASURED}"),
    "firm": ("holds", f"Much noise is needed: {_MEASURED}"),
    "some": ("mixed", f"Some noise is enough: {_MEASURED}"),
}
PHRASES = {
    "at": " (median angle {angle:degrees})",
    "less": "; over all kinds, more similar candidates need less rotation ({correlation})",
    "more": "; over all kinds, more similar candidates need more rotation ({correlation})",
}
ABOUT = """\
An image v prefers its caption c to a false one n by the margin v (c - n), all of unit length. The
angle is the smallest rotation of v that flips this preference, exactly asin(margin / |c - n|); it
is reported in degrees for right preferences, with ties at 0 degrees. Flipped: the share of right
preferences that isotropic Gaussian noise on v flips, with 5 or 10 % of the length of v; the
probability of each is exactly Phi(-sin(angle) sqrt(D) / size), whether v is normalised again or
not. The same for a caption between two images. Against the cosine: Spearman's rank correlation of
the angle with the cosine of the two candidates; below 0, more similar candidates need less
rotation. Changed by bfloat16 or float16: the share of all preferences that differ when vectors are
stored in that precision. The question follows Li et al. 2024, the formulas are ours. Limits: real
noise is not isotropic, and a model that is confidently wrong is stable too; look at the share that
is right first."""


def _ask(
    subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no image and caption vectors")
    return stability(subject.space, data, options)


def say(result: ProbeResult) -> Verdict:
    """Judge the headline group: chance and ties fail, else the share that noise of 10 % flips."""
    suffix = result.headline.removeprefix("angle")
    right, angle = result[f"right{suffix}"].estimate, result[f"angle{suffix}"].estimate
    flipped = result[f"flipped at 10 %{suffix}"].estimate
    thresholds = StabilityThresholds
    if not right.n:
        case = "unknown"
    elif not right.value:
        case = "none of few" if angle.value != 0 and right.high > thresholds.UNSURE else "none"
    elif right.low <= thresholds.CHANCE:
        case = "undecided" if right.high > thresholds.UNSURE else "chance"
    elif flipped.low > thresholds.FRAGILE:
        case = "fragile"
    else:
        case = "firm" if flipped.high < thresholds.FIRM else "some"
    is_known = angle.n and angle.value == angle.value
    correlation = result.get(f"angle against cosine{IMAGES if suffix == IMAGES else ''}")
    correlation_text = ""
    # Only if the interval excludes 0.
    if correlation is not None and (correlation.estimate.low > 0 or correlation.estimate.high < 0):
        phrase = PHRASES["less" if correlation.estimate.high < 0 else "more"]
        correlation_text = fill(phrase, correlation=correlation.estimate)
    values: dict[str, Value] = {
        "right": right,
        "between": BETWEEN[suffix],
        "angle": angle,
        "flipped": flipped,
        "against": correlation_text,
        "ties": "ties" if angle.value == 0 else "ties or wrong",
        "at": fill(PHRASES["at"], angle=angle) if is_known else "",
    }
    return Verdict(*VERDICTS[case], values)


STABILITY = Probe(
    NAME, "How little noise flips its preferences?", ABOUT, _ask, say, tuple(StabilityThresholds)
)


def stability(space: Space, data: ProbeData, options: Options) -> ProbeResult:
    """Measure how stable the preferences of any space of vectors are."""
    rows = [row for row in data.rows if row.negative is not None]
    pairs = [pair for pair in data.pairs if pair.captions is not None]
    if not rows and not pairs:
        needs = "captions with hard negatives, or pairs of images with a caption each"
        return ProbeResult(NAME, skipped=f"{data.about}: it needs {needs}")
    chosen_rows, chosen_pairs = choose_rows(rows, options), choose_pairs(pairs, options)
    notes = (
        "Wrong preferences do not count: look at the share that is right first.",
        *part_note(len(chosen_rows), len(rows), "rows"),
        *part_note(len(chosen_pairs), len(pairs), "pairs of images"),
    )
    quantities: list[Quantity] = []
    plots: list[Scatter] = []
    if chosen_rows:
        by_captions = compare_captions(space, chosen_rows)
        swap_M = np.flatnonzero([is_swap(row) for row in chosen_rows])
        if len(swap_M):
            # First, since the verdict is about captions that differ only in order, if any.
            quantities += firmness(by_captions.at(swap_M), SAME_WORDS, options, is_swap=True)
        quantities += firmness(by_captions, "", options) + by_cosine(by_captions, "", options)
        quantities += [
            by_captions.mean(options)(
                f"changed by {precision}",
                by_captions.changed[precision],
                about=f"Share of preferences that flip or become ties with vectors in {precision}",
                better="lower",
                is_rate=True,
            )
            for precision in ROUNDINGS
        ]
        plots.append(_scatter(by_captions, "captions", options))
    if chosen_pairs:
        by_images = compare_images(space, chosen_pairs)
        quantities += firmness(by_images, IMAGES, options) + by_cosine(by_images, IMAGES, options)
        plots.append(_scatter(by_images, "images", options))
    headline = next(quantity.name for quantity in quantities if quantity.name.startswith("angle"))
    return ProbeResult(NAME, tuple(quantities), headline, tuple(plots), notes)


def _scatter(compared: Compared, candidates: str, options: Options) -> Scatter:
    valid = [
        place
        for place in range(len(compared.units))
        if np.isfinite(compared.decisions.angle_N[place])
    ]
    chosen = sorted(valid, key=lambda place: hashed(compared.units[place]))
    return Scatter(
        title=f"Firmness between two {candidates}",
        x=f"cosine of the two {candidates}",
        y="degrees to the boundary",
        points=tuple(
            ScatterPoint(
                float(compared.decisions.cosine_N[place]),
                float(compared.decisions.angle_N[place]),
                compared.kinds[place],
                compared.units[place],
            )
            for place in (chosen if options.is_full else chosen[:MAX_POINTS])
        ),
        lines=(("boundary", 0.0),),
        about="Below the boundary a preference is wrong; on it, a tie.",
    )


def firmness(
    compared: Compared, suffix: str, options: Options, *, is_swap: bool = False
) -> list[Quantity]:
    """Return the share that is right, the angle of these, and the share of them that noise flips.

    Args:
        compared: Comparisons.
        suffix: Suffix of the name of each quantity.
        options: Settings of the intervals.
        is_swap: Both captions have the same words, so a bag of words ties.
    """
    right_N, not_wrong_N = compared.decisions.right, np.nan_to_num(compared.decisions.is_not_wrong)
    angle_N = np.nan_to_num(compared.decisions.angle_N)
    tie = 0.0 if is_swap else None
    over_comparisons = compared.mean(options)
    right = over_comparisons(
        f"right{suffix}",
        right_N,
        about="Share of preferences that are right; a tie is not",
        known=Known(bag=tie, perfect=1.0, chance=0.5),
        better="higher",
        is_rate=True,
    )

    def median(place_M: IntArray) -> float:
        kept_M = angle_N[place_M][not_wrong_N[place_M] > 0]
        return float(np.median(kept_M)) if len(kept_M) else float("nan")

    median_angle = statistic(
        f"angle{suffix}",
        median,
        len(angle_N),
        about="Median rotation, in degrees, that flips a right preference; a tie is at 0",
        options=options,
        clusters=compared.clusters,
        known=Known(bag=tie),
        better="higher",
    )
    mean_angle = over_comparisons(
        f"mean angle{suffix}",
        angle_N * not_wrong_N,
        about="Mean rotation, in degrees, that flips a right preference; a tie is at 0",
        weight_N=not_wrong_N,
        known=Known(bag=tie),
        better="higher",
    )
    is_right_N = np.nan_to_num(right_N)
    flips = [
        over_comparisons(
            f"flipped at {size:.0%}{suffix}".replace("%", " %"),
            flip_chance(angle_N, width=compared.width, size=size) * is_right_N,
            about="Share of right preferences that noise of this relative size on the vector flips",
            weight_N=is_right_N,
            better="lower",
            is_rate=True,
        )
        for size in SIZES
    ]
    return [right, median_angle, mean_angle, *flips]


def by_cosine(compared: Compared, suffix: str, options: Options) -> list[Quantity]:
    """Return the rank correlation of angle and cosine over right preferences."""
    is_right_N = compared.decisions.right == 1
    correlation = rank_correlation(compared.decisions.angle_N, compared.decisions.cosine_N)
    return [
        statistic(
            f"angle against cosine{suffix}",
            lambda place_M: correlation(place_M[is_right_N[place_M]]),
            len(is_right_N),
            about="Rank correlation of the angle with the cosine of the two candidates",
            options=options,
            clusters=compared.clusters,
        )
    ]


@dataclass(frozen=True, eq=False)
class Compared:
    """Comparisons of two candidates, with names."""

    units: tuple[str, ...]
    clusters: tuple[str, ...]
    kinds: tuple[str, ...]
    decisions: Decisions
    changed: dict[Rounding, FloatArray]
    width: int

    def at(self, place_M: IntArray) -> Compared:
        """Return the comparisons at these places."""
        units, clusters, kinds = (
            tuple(array[place] for place in place_M)
            for array in (self.units, self.clusters, self.kinds)
        )
        arrays = (self.decisions.margin_N, self.decisions.angle_N, self.decisions.cosine_N)
        decisions = Decisions(*(array[place_M] for array in arrays))
        changed = {name: value_N[place_M] for name, value_N in self.changed.items()}
        return Compared(units, clusters, kinds, decisions, changed, self.width)

    def mean(self, options: Options) -> partial[Quantity]:
        """Return `unbag.probes.base.mean` over all comparisons."""
        tags = [{"kind": kind} for kind in self.kinds]
        return partial(mean, options=options, units=self.units, clusters=self.clusters, tags=tags)


def compare_captions(space: Space, rows: Sequence[Row]) -> Compared:
    """Compare the caption of each image with a false one."""
    rows_with_negative = [row for row in rows if row.negative is not None]
    return _compared(
        space.images([row.image for row in rows_with_negative]),
        space.captions([row.caption for row in rows_with_negative]),
        space.captions([row.negative or "" for row in rows_with_negative]),
        [(row.id, cluster_of(row), row.kind) for row in rows_with_negative],
    )


def compare_images(space: Space, pairs: Sequence[ImagePair]) -> Compared:
    """Compare for both captions of a pair the image it is true of with the other one."""
    comparisons = [
        (caption, *images, (f"{pair.id}/{number}", pair.cluster or pair.id, pair.relation))
        for pair in pairs
        if pair.captions is not None
        for number, (caption, images) in enumerate(
            zip(pair.captions, ((pair.first, pair.second), (pair.second, pair.first)), strict=True)
        )
    ]
    return _compared(
        space.captions([comparison[0] for comparison in comparisons]),
        space.images([comparison[1] for comparison in comparisons]),
        space.images([comparison[2] for comparison in comparisons]),
        [comparison[3] for comparison in comparisons],
    )


def _compared(
    vector_ND: FloatArray,
    right_ND: FloatArray,
    wrong_ND: FloatArray,
    names: Sequence[tuple[str, str, str]],
) -> Compared:
    changed = {
        precision: changed_by(precision, vector_ND, right_ND, wrong_ND) for precision in ROUNDINGS
    }
    units, clusters, kinds = zip(*names, strict=True) if names else ((), (), ())
    decisions = decide(vector_ND, right_ND, wrong_ND)
    return Compared(units, clusters, kinds, decisions, changed, vector_ND.shape[-1])


@dataclass(frozen=True, eq=False)
class Decisions:
    """Values per comparison; NaN where a vector is missing."""

    margin_N: FloatArray
    """Above 0 where the right candidate is preferred; 0 where the difference is only rounding."""
    angle_N: FloatArray
    """Degrees to the boundary: below 0 on the wrong side, 0 for a tie."""
    cosine_N: FloatArray
    """Cosine of the two candidates."""

    @property
    def right(self) -> FloatArray:
        """1, 0 or NaN; a tie is not right."""
        return np.where(np.isnan(self.margin_N), np.nan, self.margin_N > 0)

    @property
    def is_not_wrong(self) -> FloatArray:
        """1 where it is right or tied, else 0; NaN if unknown."""
        return np.where(np.isnan(self.margin_N), np.nan, self.margin_N >= 0)


def decide(vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray) -> Decisions:
    """Compare the right with the wrong candidate, row by row."""
    vector_ND, right_ND, wrong_ND = unit(vector_ND), unit(right_ND), unit(wrong_ND)
    difference_ND = right_ND - wrong_ND
    margin_N: FloatArray = (vector_ND * difference_ND).sum(axis=-1)
    margin_N = np.where(np.abs(margin_N) <= TIE, 0.0, margin_N)
    length_N = np.linalg.norm(difference_ND, axis=-1)
    sine_N = margin_N / np.where(margin_N == 0, 1.0, length_N)
    angle_N = np.degrees(np.arcsin(np.clip(sine_N, -1, 1)))
    return Decisions(margin_N, angle_N, cosines(right_ND, wrong_ND))


def flip_chance(angle_N: FloatArray, *, width: int, size: float) -> FloatArray:
    """Return the probability that noise of this relative size flips each preference.

    Args:
        angle_N: Degrees to the boundary.
        width: D, the number of directions that the noise is spread over.
        size: Root of the expected squared length of the noise over that of the vector.
    """
    from scipy.special import ndtr

    sine_N = np.sin(np.radians(angle_N))
    return np.asarray(ndtr(-np.abs(sine_N) * np.sqrt(width) / size), dtype=float)


def changed_by(
    precision: Rounding, vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray
) -> FloatArray:
    """Return 1 where vectors in this precision prefer the other candidate or none, else 0.

    Only the stored vectors are rounded, not the sums. NaN if unknown.
    """
    before_N = _sides(vector_ND, right_ND, wrong_ND)
    after_N = _sides(*(rounded(vectors, precision) for vectors in (vector_ND, right_ND, wrong_ND)))
    return np.where(np.isnan(before_N + after_N), np.nan, before_N != after_N)


def _sides(vector_ND: FloatArray, right_ND: FloatArray, wrong_ND: FloatArray) -> FloatArray:
    return np.sign(decide(vector_ND, right_ND, wrong_ND).margin_N)


def rounded(vector_ND: FloatArray, precision: Rounding) -> FloatArray:
    """Round to this precision, half to even."""
    if precision == "float16":
        return vector_ND.astype(np.float16).astype(float)
    bits = np.ascontiguousarray(vector_ND, dtype=np.float32).view(np.uint32)
    # bfloat16 is the upper half of single precision; the carry must not turn NaN into infinity.
    even = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(vector_ND), np.nan, even.view(np.float32).astype(float))


def rank_correlation(first_N: FloatArray, second_N: FloatArray) -> Callable[[IntArray], float]:
    """Return a function that computes Spearman's correlation of the units at some places.

    Equal values have their mean rank. Values are sorted once, so thousands of resamples are cheap.
    NaN for fewer than three units, and where one side is constant.
    """
    first_M, second_M = (
        np.unique(values_N, return_inverse=True)[1] for values_N in (first_N, second_N)
    )

    def of(place_M: IntArray) -> float:
        if len(place_M) < MIN_RANKED:
            return float("nan")
        values_N, second_rank = _centred_ranks(first_M[place_M]), _centred_ranks(second_M[place_M])
        return float(cosines(values_N, second_rank))

    return of


def _centred_ranks(code_M: IntArray) -> FloatArray:
    """Return ranks minus their mean; equal codes share their mean rank."""
    count = np.bincount(code_M)
    rank = np.cumsum(count) - (count - 1) / 2
    centred_M: FloatArray = rank[code_M] - (len(code_M) + 1) / 2
    return centred_M
