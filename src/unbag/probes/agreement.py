"""The probe `agreement`: which different images an image encoder merges; mining of such pairs.

Erroneous agreement (Li et al. 2024, section 3.1): the share of pairs of different images with a
cosine strictly above 0.95. Pairs that one encoder merges and another distinguishes are mined as in
MMVP: above 0.95 for one, below 0.6 for the other. Limits: a threshold on a cosine means little
if all vectors lie in a narrow cone; compare `centred` vectors too.

Dimensions: N images, D and E spaces of two encoders, R and C rows and columns of a block, S and T
the rows and columns among them with a high cosine, P mined pairs. In the probe: N pairs, K pairs
whose pixels are compared, M images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from unbag.errors import UnbagError
from unbag.probes.base import (
    ImagePair,
    Known,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Scatter,
    ScatterPoint,
    Thresholds,
    Tone,
    Value,
    Verdict,
    estimate_with_interval,
    fill,
    mean,
    statistic,
)
from unbag.probes.data import NEAREST, near_pairs
from unbag.probes.reference_spaces import bag_of_words_space
from unbag.probes.sampling import hashed
from unbag.probes.space import Space, centred, cosines, spearman, unit
from unbag.runs.cache import Vectors
from unbag.runs.progress import Progress
from unbag.types import BoolArray, FloatArray, ImageSource, IntArray
from unbag.world.rendering import ImageArray, SceneImage, pixel_difference

NAME = "agreement"
ALL, SAME, OTHER = "all pairs", "same things", "other things"
"""Groups of pairs besides relations; same things: a bag of words cannot distinguish the two."""
RATE = "merged, "
WORDS = {
    "left/right": "which thing is left and which is right",
    "on/under": "what stands on what",
    "front/behind": "what is in front of what",
    "swap_attributes": "which thing has which colour",
    "replace_count": "how many there are",
    "replace_texture": "the texture of a thing",
    "negate": "one of the things",
}
"""Differences between images of the world, by relation; other relations are shown by name."""
CHANGED = {
    "left/right": "places",
    "on/under": "places",
    "front/behind": "places",
    "swap_attributes": "colours",
    "replace_count": "number",
}
"""Changes that a bag of words does not see, by relation."""


class AgreementThresholds(Thresholds):
    """Thresholds on cosines, and on the share of pairs that are merged."""

    ABOVE = 0.95, "two images with a cosine above this are merged"
    BELOW = (
        0.6,
        "the other encoder of a mined pair distinguishes images with a cosine below this",
    )
    SELDOM = 0.1, "images are distinguished if the interval of the share merged lies below this"
    MOSTLY = 0.5, "images are merged if the interval of the share merged lies above this"


ABOVE, BELOW = AgreementThresholds.ABOVE, AgreementThresholds.BELOW
SELDOM, MOSTLY = AgreementThresholds.SELDOM, AgreementThresholds.MOSTLY
_RATE = "{rate} of {rate:n} such pairs have a cosine above {above} ({known}).{further}"
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Not measured: no pair of images has two valid vectors."),
    "nearest": (
        "told",
        "Of the {rate:n} most similar pairs of these images, {count:,} {have} a cosine above "
        "{above}; the plot names them. Check whether they show the same thing.",
    ),
    "merged": ("fails", f"It merges {{which}}: {_RATE}"),
    "distinguished": ("holds", f"It distinguishes {{which}}: {_RATE}"),
    "some": ("mixed", f"It merges some {{which}}: {_RATE}"),
    "too few": (
        "told",
        f"There are too few pairs to decide whether it merges {{which}}: {_RATE}",
    ),
}
PHRASES = {
    "any": "different images",
    "one relation": "images that differ only in {relation}",
    "relations": "images of the same things",
    "changed": "images that differ only in the {what} of their things",
    "everything": (
        " It also merges images of other things ({rate}): it merges almost any two images."
    ),
    "ends": (
        " It merges images that differ in {most} most often ({most_rate}), and those that differ "
        "in {least} least often ({least_rate})."
    ),
    "besides": " It also merges images that a bag of words distinguishes: {relations}.",
}
POINTS = 400
PIXEL_PAIRS = 2_000
"""Maximum number of pairs whose pixels are compared: photographs are slow to open."""
SIDE = 64
"""Images are resized to this side before pixels are compared; those of the world have it."""
MAX_MINED = 1_000
BLOCK = 4_096
STRIP = 512
"""Rows of a block that are searched together, which bounds the memory."""


def ask(subject: ProbedModel, data: ProbeData, options: Options, progress: Progress) -> ProbeResult:
    """Measure rates of agreement, cosines and rank correlations by relation, and pixels."""
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no image vectors to compare")
    candidates = data.pairs
    if not candidates and data.images:
        candidates = near_pairs(subject.space, data.images)
    pairs = tuple(pair for pair in candidates if pair.first.key != pair.second.key)
    copies = len(candidates) - len(pairs)
    if not pairs:
        itself_note = f" except {copies} of an image with itself" if copies else ""
        needs = (
            "use the world's benchmarks, a benchmark whose items have two images, such as "
            "whatsup_a or winoground, or a folder of at least two images"
        )
        return ProbeResult(
            NAME, skipped=f"{data.about} has no pairs of images{itself_note}; {needs}"
        )
    measured = _measured(subject.space, pairs, data)
    place_K = drawn(pairs, PIXEL_PAIRS)
    pixel_K = pixel_differences([pairs[i] for i in place_K], progress)
    quantities = (
        *_quantities(measured, options),
        _against_pixels(measured, place_K, pixel_K, options),
    )
    if pairs[0].relation == NEAREST:
        # Each model has its own nearest pairs, so two models cannot be compared pair by pair.
        nan, interval = float("nan"), "no interval: chosen, not sampled"
        quantities = tuple(
            replace(
                quantity,
                estimate=replace(quantity.estimate, low=nan, high=nan, interval=interval),
                outcomes=None,
                draw_R=None,
            )
            for quantity in quantities
        )
    return ProbeResult(
        NAME,
        quantities,
        headline=merged(SAME if measured.bag_N is not None and measured.bag_N.any() else ALL),
        plots=(_scatter(measured, place_K, pixel_K),),
        notes=tuple(_notes(measured, copies, len(place_K))),
    )


def say(result: ProbeResult) -> Verdict:
    """Say whether it merges most pairs, which relations stand out, and if it merges everything."""
    head = result[result.headline]
    rate = head.estimate
    values: dict[str, Value] = {"rate": rate, "above": ABOVE}
    if not rate.n:
        return Verdict(*VERDICTS["unknown"])
    if result.get(merged(NEAREST)):
        # Nearest pairs are not a random sample, so the sentence has a count without an interval.
        count = round(rate.value * rate.n)
        values |= {"count": count, "have": "has" if count == 1 else "have"}
        return Verdict(*VERDICTS["nearest"], values)
    if rate.low > MOSTLY:
        case = "merged"
    elif rate.high < SELDOM:
        case = "distinguished"
    else:
        case = "too few" if rate.low < SELDOM and rate.high > MOSTLY else "some"
    both = ("a bag of words", head.known.bag), ("a perfect model", head.known.perfect)
    known_rates = [f"{name} {rate.show(value)} %" for name, value in both if value is not None]
    values |= {
        "which": _which(result),
        "known": ", ".join(known_rates),
        "further": _further(result),
    }
    return Verdict(*VERDICTS[case], values)


AGREEMENT = Probe(
    NAME,
    question="Does the image encoder merge different images?",
    about=(
        "Erroneous agreement (Li et al. 2024, section 3.1): the share of pairs of different "
        f"images whose vectors have a cosine strictly above {ABOVE}. Also by relation: the mean "
        "cosine, the mean cosine after subtracting the mean of all images, and Spearman's "
        "correlation of the numbers of the two vectors (section 3.2), which can be low where the "
        "cosine is high: then the difference is in the vectors, and a better reader could find it. "
        "The cosine is compared with the mean difference of pixels, since images that differ in "
        "few pixels are easily merged. Same things: pairs that a bag of words cannot distinguish. "
        "Limits: in a narrow cone every cosine is high, so read the centred one as well; captions "
        "need not distinguish the images of a pair that is not merged."
    ),
    ask=ask,
    say=say,
    thresholds=tuple(AgreementThresholds),
)


def _measured(space: Space, pairs: tuple[ImagePair, ...], data: ProbeData) -> _Measured:
    gallery_images = data.gallery.images if data.gallery else ()
    image_of = {p.key: p for images in (*_sides(pairs), gallery_images) for p in images}
    row_of = {key: row for row, key in enumerate(image_of)}
    vector_MD = space.images(tuple(image_of.values()))
    # A vector with an infinite number has no direction either.
    is_known_M = np.array([bool(np.isfinite(row_D).all()) for row_D in vector_MD])
    vector_MD = np.where(is_known_M[:, None], vector_MD, np.nan)
    gallery_MD = vector_MD[is_known_M]
    sides = [vector_MD[[row_of[p.key] for p in images]] for images in _sides(pairs)]
    centred_sides = (
        [centred(vector_ND, gallery_MD) for vector_ND in sides] if len(gallery_MD) else sides
    )
    return _Measured(
        pairs,
        merged_N=agree(*sides),
        cosine_N=cosines(*sides),
        centred_N=cosines(*centred_sides),
        rank_N=spearman(*sides),
        bag_N=_bag(pairs),
        gallery_MD=gallery_MD,
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    """Pairs with everything that is computed of each."""

    pairs: tuple[ImagePair, ...]
    merged_N: FloatArray
    cosine_N: FloatArray
    centred_N: FloatArray
    rank_N: FloatArray
    bag_N: FloatArray | None
    """1 where a bag of words merges the pair, 0 where not; None where that is not known."""
    gallery_MD: FloatArray
    """Images whose mean is subtracted."""


def _sides(pairs: Sequence[ImagePair]) -> tuple[list[ImageSource], list[ImageSource]]:
    return [pair.first for pair in pairs], [pair.second for pair in pairs]


def _bag(pairs: Sequence[ImagePair]) -> FloatArray | None:
    """Return which pairs a bag of words merges; None beyond the world, since it reads scenes."""
    sides = _sides(pairs)
    if not all(isinstance(image, SceneImage) for images in sides for image in images):
        return None
    return agree(*(bag_of_words_space().images(images) for images in sides))


def agree(first_ND: FloatArray, second_ND: FloatArray, *, above: float = ABOVE) -> FloatArray:
    """Return 1 for each pair of rows with a high cosine, else 0; NaN without a direction."""
    cosine_N = cosines(first_ND, second_ND)
    return np.where(np.isnan(cosine_N), np.nan, cosine_N > above)


def _quantities(measured: _Measured, options: Options) -> Iterator[Quantity]:
    for group, in_group_N in _groups(measured).items():
        pairs = [measured.pairs[i] for i in np.flatnonzero(in_group_N)]
        over_pairs = partial(
            mean,
            options=options,
            units=[pair.id for pair in pairs],
            clusters=[pair.cluster or pair.id for pair in pairs],
            better="lower",
        )
        bag = None if measured.bag_N is None else float(measured.bag_N[in_group_N].mean())
        yield over_pairs(
            merged(group),
            measured.merged_N[in_group_N],
            about=f"pairs of different images with a cosine above {ABOVE}",
            known=Known(bag=bag, perfect=None if pairs[0].relation == NEAREST else 0.0),
            is_rate=True,
            tags=[{"relation": pair.relation} for pair in pairs],
        )
        known = Known(bag=1.0 if bag == 1.0 else None)
        for name, about, value_N in (
            ("cosine", "mean cosine of the pairs", measured.cosine_N),
            (
                "centred cosine",
                "mean cosine after subtracting the mean of all images",
                measured.centred_N,
            ),
            (
                "rank correlation",
                "Spearman's correlation of the numbers of the two vectors",
                measured.rank_N,
            ),
        ):
            yield over_pairs(f"{name}, {group}", value_N[in_group_N], about=about, known=known)


def _groups(measured: _Measured) -> dict[str, BoolArray]:
    """Group all pairs, those that a bag of words merges, the others, and those of each relation."""
    relation_N = np.array([pair.relation for pair in measured.pairs])
    groups = {ALL: np.ones(len(relation_N), dtype=np.bool_)}
    if measured.bag_N is not None:
        groups |= {SAME: measured.bag_N == 1, OTHER: measured.bag_N == 0}
    groups |= {str(name): relation_N == name for name in dict.fromkeys(relation_N.tolist())}
    return {name: in_group_N for name, in_group_N in groups.items() if in_group_N.any()}


def merged(group: str) -> str:
    """Return the name of the rate of a group of pairs."""
    return f"{RATE}{group}"


def _against_pixels(
    measured: _Measured, place_K: IntArray, pixel_K: FloatArray, options: Options
) -> Quantity:
    """Correlate the cosine of pairs with the difference of their pixels."""
    cosine_K = measured.cosine_N[place_K]
    is_known_K = ~np.isnan(cosine_K + pixel_K)
    both_2K = np.stack([cosine_K, pixel_K])[:, is_known_K]
    clusters = [measured.pairs[i].cluster or measured.pairs[i].id for i in place_K[is_known_K]]

    def correlation(index: IntArray) -> float:
        return float(spearman(*both_2K[:, None, index])[0]) if len(index) else float("nan")

    return statistic(
        "cosine against pixels",
        correlation,
        len(clusters),
        about="Spearman's correlation of cosine and pixel difference over pairs; -1 "
        "if only pixels count",
        options=options,
        clusters=clusters,
    )


def pixel_differences(pairs: Sequence[ImagePair], progress: Progress) -> FloatArray:
    """Return mean absolute differences in grey levels of 255, [N]; NaN for unreadable images."""
    differences = np.full(len(pairs), np.nan)
    with progress.task("pixel differences", len(pairs)) as advance:
        for row, pair in enumerate(pairs):
            first, second = _small(pair.first), _small(pair.second)
            if first is not None and second is not None:
                differences[row] = pixel_difference(first, second)
            advance(1)
    return differences


def _small(source: ImageSource) -> ImageArray | None:
    try:
        image = source.open().convert("RGB")
    except (OSError, ValueError):
        return None
    return np.asarray(image if image.size == (SIDE, SIDE) else image.resize((SIDE, SIDE)))


def drawn(pairs: Sequence[ImagePair], max_pairs: int) -> IntArray:
    """Choose at most `max_pairs` pairs by a hash of their names; return their places in order."""
    hashes = [hashed(pair.id) for pair in pairs]
    return np.array(
        sorted(sorted(range(len(pairs)), key=hashes.__getitem__)[:max_pairs]), dtype=np.int64
    )


def _scatter(measured: _Measured, place_K: IntArray, pixel_K: FloatArray) -> Scatter:
    pixel_of: Mapping[int, float] = dict(zip(place_K.tolist(), pixel_K.tolist(), strict=True))
    points = []
    for i in drawn(measured.pairs, POINTS).tolist():
        pair, cosine = measured.pairs[i], float(measured.cosine_N[i])
        if np.isfinite(cosine) and np.isfinite(pixel_of[i]):
            name = pair.id
            if pair.relation == NEAREST:
                name = f"{pair.first.name} and {pair.second.name}"
            points.append(ScatterPoint(pixel_of[i], cosine, pair.relation, name))
    return Scatter(
        "Cosine of two images against the difference of their pixels",
        "mean difference of pixels, in grey levels",
        "cosine",
        tuple(points),
        lines=((f"merged above {ABOVE}", ABOVE),),
        about=f"{len(points):,} of {len(measured.pairs):,} pairs of different images.",
    )


def _notes(measured: _Measured, copies: int, pixels: int) -> Iterator[str]:
    count = len(measured.pairs)
    if copies:
        yield f"{copies:,} pairs of an image with itself are left out."
    unknown = int(np.isnan(measured.cosine_N).sum())
    if unknown:
        yield f"{unknown:,} of {count:,} pairs have an image without a valid vector; not counted."
    gallery_MD = measured.gallery_MD
    if len(gallery_MD) > 1 and np.allclose(gallery_MD, gallery_MD[0], rtol=0, atol=1e-9):
        yield "All images have the same vector: nothing is left after subtracting the mean."
    elif not np.isnan(measured.centred_N).all():
        raw, around = np.nanmean(measured.cosine_N), np.nanmean(measured.centred_N)
        yield (
            f"The mean cosine of the pairs is {raw:.3f}, and {around:.3f} after subtracting the "
            f"mean of all {len(gallery_MD):,} images, which removes what they share."
        )
    if pixels < count:
        yield f"Pixels are compared in {pixels:,} pairs, chosen by hash."


def _which(result: ProbeResult) -> str:
    if result.headline == merged(ALL):
        return PHRASES["any"]
    groups = [rate for rate in _relations(result) if rate.known.bag == 1.0]
    if len(groups) == 1:
        return fill(PHRASES["one relation"], relation=_words(groups[0]))
    names = [rate.name.removeprefix(RATE) for rate in groups]
    if not names or not all(name in CHANGED for name in names):
        return PHRASES["relations"]
    changed = list(dict.fromkeys(CHANGED[name] for name in names))
    what = " or ".join(filter(None, (", ".join(changed[:-1]), changed[-1])))
    return fill(PHRASES["changed"], what=what)


def _further(result: ProbeResult) -> str:
    """Say that it also merges other things, or how relations differ."""
    other = result.get(merged(OTHER))
    if other is not None and other.estimate.n and other.estimate.low > MOSTLY:
        return fill(PHRASES["everything"], rate=other.estimate)
    rates = [rate for rate in _relations(result) if rate.estimate.n]
    # The sentence is about relations that a bag of words cannot distinguish, or about all.
    relevant = [rate for rate in rates if result.headline == merged(ALL) or rate.known.bag == 1.0]
    other_relations = [
        f"{_words(rate)} ({estimate_with_interval(rate.estimate)})"
        for rate in rates
        # Even a bag of words distinguishes these.
        if rate not in relevant and rate.known.bag == 0.0 and rate.estimate.low > MOSTLY
    ]
    others_text = (
        fill(PHRASES["besides"], relations=" and ".join(other_relations)) if other_relations else ""
    )
    return _ends(relevant) + others_text


def _ends(rates: list[Quantity]) -> str:
    """Name the relations with the highest and the lowest rate, where their intervals are apart."""
    if len(rates) < 2:
        return ""
    highest = max(rates, key=lambda rate: rate.estimate.value)
    lowest = min(rates, key=lambda rate: rate.estimate.value)
    if highest.estimate.low <= lowest.estimate.high:
        return ""
    return fill(
        PHRASES["ends"],
        most=_words(highest),
        most_rate=highest.estimate,
        least=_words(lowest),
        least_rate=lowest.estimate,
    )


def _relations(result: ProbeResult) -> list[Quantity]:
    groups = [merged(group) for group in (ALL, SAME, OTHER)]
    rates = [rate for rate in result.quantities if rate.name.startswith(RATE)]
    return [rate for rate in rates if rate.name not in groups]


def _words(rate: Quantity) -> str:
    relation = rate.name.removeprefix(RATE)
    return WORDS.get(relation, relation)


def mine(
    merging: Encoder,
    parting: Encoder,
    images: Sequence[ImageSource],
    *,
    above: float = ABOVE,
    below: float = BELOW,
    max_pairs: int = MAX_MINED,
) -> list[MinedPair]:
    """Return the pairs of these images that the first encoder merges and the second distinguishes.

    Pairs hold indices into `images`. Copies of an image are not a pair.
    """
    if len(images) < 2:
        raise UnbagError(
            f"{len(images)} images to find pairs in",
            expected="at least two; thousands for pairs that matter",
        )
    vectors = merging.images(images), parting.images(images)
    keys = [image.key for image in images]
    return mine_pairs(*vectors, above=above, below=below, max_pairs=max_pairs, keys=keys)


def mine_pairs(
    merging_ND: FloatArray | Vectors,
    parting_NE: FloatArray | Vectors,
    *,
    above: float = ABOVE,
    below: float = BELOW,
    max_pairs: int = MAX_MINED,
    block: int = BLOCK,
    keys: Sequence[str] | None = None,
) -> list[MinedPair]:
    """Return the pairs with the highest cosine by the first encoder, the highest first.

    Memory is that of the first vectors in single precision, of a few blocks of cosines and of
    `max_pairs` pairs (0 for no limit). Images with equal keys (pixel hashes) are not a pair. An
    image without a valid vector is in no pair.
    """
    if len(merging_ND) != len(parting_NE):
        raise UnbagError(
            f"{len(merging_ND)} vectors of one encoder and {len(parting_NE)} of the other",
            expected="both encoders on the same images",
        )
    single_ND, is_known_N = _single(merging_ND)
    is_known_N &= _known(parting_NE)
    search = _NearPairs(single_ND, parting_NE, is_known_N, _numbers(keys, len(single_ND)), below)
    best = _BestPairs(max_pairs, above)
    for rows, columns, cosine_RC in block_cosines(single_ND, block):
        # Most blocks have no pair: one pass for the largest cosine of each row shows that.
        best_R = cosine_RC.max(axis=1, initial=-1.0)
        for strip in range(0, len(best_R), STRIP):
            row_S = strip + np.flatnonzero(best_R[strip : strip + STRIP] > best.threshold)
            if len(row_S):
                cosine_SC = cosine_RC[row_S]
                best.add(search.among(rows.start + row_S, columns.start, cosine_SC, best.threshold))
    return best.pairs()


@dataclass(frozen=True)
class MinedPair:
    """Two images that the first encoder merges and the second distinguishes."""

    first: int
    second: int
    merged: float
    """Cosine by the encoder that merges them."""
    apart: float
    """Cosine by the other."""


class Encoder(Protocol):
    """Any image encoder; mining needs no captions."""

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Return vectors [N, D]; NaN for an image that cannot be opened."""


def block_cosines(single_ND: Vectors, block: int = BLOCK) -> Iterator[tuple[slice, slice, Vectors]]:
    """Yield rows, columns and cosines of each block of the upper triangle, in one reused buffer."""
    count = len(single_ND)
    buffer = np.empty(min(block, count) ** 2, dtype=np.float32)
    for top in range(0, count, block):
        for left in range(top, count, block):
            rows = slice(top, min(top + block, count))
            columns = slice(left, min(left + block, count))
            shape = rows.stop - top, columns.stop - left
            cosine_RC = buffer[: shape[0] * shape[1]].reshape(shape)
            np.matmul(single_ND[rows], single_ND[columns].T, out=cosine_RC)
            if top == left:
                np.fill_diagonal(cosine_RC, -1.0)
            yield rows, columns, cosine_RC


@dataclass(frozen=True, eq=False)
class _NearPairs:
    """The data that decides whether two similar images are a pair."""

    merging_ND: Vectors
    parting_NE: FloatArray | Vectors
    is_known_N: BoolArray
    number_N: IntArray
    """Equal for copies of an image."""
    below: float

    def among(
        self, i_S: IntArray, left: int, cosine_SC: Vectors, threshold: float
    ) -> list[FloatArray]:
        """Return first, second, merged, apart of pairs of these rows with columns from `left`."""
        column_T = np.flatnonzero((cosine_SC > threshold).any(axis=0))
        j_T, cosine_ST = left + column_T, cosine_SC[:, column_T]
        is_pair_ST = (cosine_ST > threshold) & (i_S[:, None] < j_T)
        is_pair_ST &= self.is_known_N[i_S, None] & self.is_known_N[j_T]
        is_pair_ST &= self.number_N[i_S, None] != self.number_N[j_T]
        first_SE, second_TE = (_single(self.parting_NE[place])[0] for place in (i_S, j_T))
        apart_ST = first_SE @ second_TE.T
        s_P, t_P = np.nonzero(is_pair_ST & (apart_ST < self.below))
        columns_P = i_S[s_P], j_T[t_P], cosine_ST[s_P, t_P], apart_ST[s_P, t_P]
        return [np.asarray(column, dtype=float) for column in columns_P]


class _BestPairs:
    """The pairs with the highest cosines so far."""

    def __init__(self, max_pairs: int, threshold: float) -> None:
        self.max_pairs = max_pairs
        self.threshold = threshold
        """Pairs with a cosine at or below this are dropped; it rises once there are enough."""
        self.columns: list[FloatArray] = [np.empty(0) for _ in range(4)]

    def add(self, candidates: Sequence[FloatArray]) -> None:
        merged_columns = [
            np.concatenate([a, b]) for a, b in zip(self.columns, candidates, strict=True)
        ]
        if self.max_pairs and len(merged_columns[2]) > self.max_pairs:
            is_good = (
                merged_columns[2]
                >= np.partition(merged_columns[2], -self.max_pairs)[-self.max_pairs]
            )
            merged_columns = [column[is_good] for column in merged_columns]
        order = np.lexsort((merged_columns[1], merged_columns[0], -merged_columns[2]))[
            : self.max_pairs
        ]
        self.columns = [column[order] for column in merged_columns]
        if len(order) == self.max_pairs and self.max_pairs:
            self.threshold = max(self.threshold, float(self.columns[2][-1]))

    def pairs(self) -> list[MinedPair]:
        rows = zip(*self.columns, strict=True)
        return [MinedPair(int(i), int(j), float(m), float(a)) for i, j, m, a in rows]


def _single(vector_ND: FloatArray | Vectors) -> tuple[Vectors, BoolArray]:
    """Return unit vectors in single precision, 0 without a direction, and which have one."""
    single_ND = np.empty(vector_ND.shape, dtype=np.float32)
    is_known_N = np.empty(len(vector_ND), dtype=np.bool_)
    for start in range(0, len(vector_ND), BLOCK):
        rows = slice(start, start + BLOCK)
        unit_RD = unit(np.asarray(vector_ND[rows], dtype=float))
        is_known_N[rows] = ~np.isnan(unit_RD).any(axis=1)
        single_ND[rows] = np.where(is_known_N[rows, None], unit_RD, 0.0)
    return single_ND, is_known_N


def _known(vector_ND: FloatArray | Vectors) -> BoolArray:
    """Return which vectors have a direction."""
    parts = [
        _single(vector_ND[start : start + BLOCK])[1] for start in range(0, len(vector_ND), BLOCK)
    ]
    return np.concatenate([np.empty(0, dtype=np.bool_), *parts])


def _numbers(keys: Sequence[str] | None, count: int) -> IntArray:
    if keys is None:
        return np.arange(count)
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(key, len(number_of)) for key in keys], dtype=np.int64)
