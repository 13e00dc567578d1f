"""The probe `agreement`: which different images a model takes for the same; mining of such pairs.

Erroneous agreement (Li et al. 2024, section 3.1): the share of pairs of different images with a
cosine strictly above 0.95. Pairs that one encoder merges and another keeps apart are mined as MMVP
was: above 0.95 for one, below 0.6 for the other. Limits: a threshold on a cosine means little where
all vectors lie in a narrow cone; look at `centred` vectors too.

Dimensions: N images, D and E spaces of two encoders, R and C rows and columns of a block, S and T
those of them that are looked into, P pairs that are mined. Of the probe: N pairs, K of them whose
pixels were compared, M images.
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
    fill,
    mean,
    shown,
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
"""Groups of pairs besides relations; same things: a bag of words cannot tell the two apart."""
RATE = "merged, "
WORDS = {
    "left/right": "who is left and who is right",
    "on/under": "what stands on what",
    "front/behind": "what is in front of what",
    "swap_attributes": "which thing has which colour",
    "replace_count": "how many there are",
    "replace_texture": "the texture of a thing",
    "negate": "one of the things",
}
"""What images of a relation differ in, on the world; other relations are said as they are."""
CHANGED = {
    "left/right": "places",
    "on/under": "places",
    "front/behind": "places",
    "swap_attributes": "colours",
    "replace_count": "number",
}
"""What things have changed that a bag of words does not see."""


class AgreementThresholds(Thresholds):
    """Of cosines, and of the share of pairs that are merged."""

    ABOVE = 0.95, "cosine above which two images are taken for the same"
    BELOW = 0.6, "cosine below which the other encoder of mined pairs keeps them apart"
    SELDOM = 0.1, "pairs are kept apart if surely less than this share of them is merged"
    MOSTLY = 0.5, "pairs are taken for the same if surely more than this share of them is merged"


ABOVE, BELOW = AgreementThresholds.ABOVE, AgreementThresholds.BELOW
SELDOM, MOSTLY = AgreementThresholds.SELDOM, AgreementThresholds.MOSTLY
_RATE = "{rate} of {rate:n} such pairs have a cosine above {above} ({known}).{further}"
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Nothing could be measured: no pair of images has two directions."),
    "nearest": (
        "told",
        "Of the {rate:n} pairs of these images that lie nearest to each other, {count:,} {have} "
        "a cosine above {above}; the plot names them, and whether they show the same is for you "
        "to say.",
    ),
    "merged": ("fails", f"It takes {{which}} for the same: {_RATE}"),
    "kept apart": ("holds", f"It keeps {{which}} apart: {_RATE}"),
    "some": ("mixed", f"It takes some {{which}} for the same: {_RATE}"),
    "too few": (
        "told",
        f"There are too few pairs to say whether it takes {{which}} for the same: {_RATE}",
    ),
}
PHRASES = {
    "any": "different images",
    "one relation": "images that differ only in {relation}",
    "relations": "images of the same things",
    "changed": "images whose things have only changed {what}",
    "everything": (
        " It does so with images of other things too ({rate}): it merges whatever it sees."
    ),
    "ends": (
        " Most often those that differ in {most} ({most_rate}), least often in {least} "
        "({least_rate})."
    ),
    "besides": " It also merges what a bag of words tells apart: {relations}.",
}
POINTS = 400
PIXEL_PAIRS = 2_000
"""Photographs are slow to open; more of them tell no more."""
SIDE = 64
"""Pixels; images of the world have this size, others are brought to it."""
MOST = 1_000
BLOCK = 4_096
STRIP = 512
"""Rows of a block that are looked into at a time, should all of them be near."""


def ask(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Rates of agreement, cosines and rank correlations by relation, and pixels beside them."""
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no vectors of images to compare")
    given = material.pairs
    if not given and material.images:
        given = near_pairs(subject.space, material.images)
    pairs = tuple(pair for pair in given if pair.first.key != pair.second.key)
    same = len(given) - len(pairs)
    if not pairs:
        only = f" but {same} of an image with itself" if same else ""
        needs = (
            "the world's benchmarks would serve, one whose items have two images, such as "
            "whatsup_a or winoground, or a folder of two or more images"
        )
        return ProbeResult(NAME, skipped=f"{material.about} has no pairs of images{only}; {needs}")
    found = _measured(subject.space, pairs, material)
    place_K = drawn(pairs, PIXEL_PAIRS)
    pixel_K = pixel_differences([pairs[i] for i in place_K], progress)
    quantities = (*_quantities(found, options), _against_pixels(found, place_K, pixel_K, options))
    if pairs[0].relation == NEAREST:
        # Every model has nearest pairs of its own: two models cannot be compared pair by pair.
        nan, how = float("nan"), "no interval: chosen, not sampled"
        quantities = tuple(
            replace(
                one,
                estimate=replace(one.estimate, low=nan, high=nan, interval=how),
                outcomes=None,
                draw_R=None,
            )
            for one in quantities
        )
    return ProbeResult(
        NAME,
        quantities,
        headline=merged(SAME if found.bag_N is not None and found.bag_N.any() else ALL),
        plots=(_scatter(found, place_K, pixel_K),),
        notes=tuple(_notes(found, same, len(place_K))),
    )


def say(finding: ProbeResult) -> Verdict:
    """What it does with most pairs; which relations stand out; whether it merges everything."""
    head = finding[finding.headline]
    rate = head.estimate
    values: dict[str, Value] = {"rate": rate, "above": ABOVE}
    if not rate.n:
        return Verdict(*VERDICTS["unknown"])
    if finding.get(merged(NEAREST)):
        # Chosen as the nearest, they are no sample of others: a count, without an interval.
        count = round(rate.value * rate.n)
        values |= {"count": count, "have": "has" if count == 1 else "have"}
        return Verdict(*VERDICTS["nearest"], values)
    if rate.low > MOSTLY:
        case = "merged"
    elif rate.high < SELDOM:
        case = "kept apart"
    else:
        case = "too few" if rate.low < SELDOM and rate.high > MOSTLY else "some"
    both = ("a bag of words", head.known.bag), ("a perfect model", head.known.perfect)
    beside = [f"{name} {rate.show(value)} %" for name, value in both if value is not None]
    values |= {"which": _which(finding), "known": ", ".join(beside), "further": _further(finding)}
    return Verdict(*VERDICTS[case], values)


AGREEMENT = Probe(
    NAME,
    question="Does the image encoder merge different images?",
    about=(
        "Erroneous agreement (Li et al. 2024, section 3.1): the share of pairs of different "
        f"images whose vectors have a cosine strictly above {ABOVE}. Beside it, by relation: the "
        "mean cosine, the same around the mean of all images, and Spearman's correlation of the "
        "numbers of the two vectors (section 3.2), which can be low where the cosine is high: then "
        "the difference is in the vectors, and a better reader could find it. The cosine is set "
        "against the mean difference of pixels, since images that differ in few pixels are "
        "easily merged. Same things: pairs that a bag of words cannot tell apart. Limits: in a "
        "narrow cone every cosine is high, so read the centred one as well; a pair that is not "
        "merged need not be told apart by captions."
    ),
    ask=ask,
    say=say,
    thresholds=tuple(AgreementThresholds),
)


def _measured(space: Space, pairs: tuple[ImagePair, ...], material: ProbeData) -> _Measured:
    beside = material.gallery.images if material.gallery else ()
    every = {p.key: p for some in (*_sides(pairs), beside) for p in some}
    place = {key: at for at, key in enumerate(every)}
    vector_MD = space.images(tuple(every.values()))
    # A vector with an infinite number has no direction either.
    is_known_M = np.array([bool(np.isfinite(row_D).all()) for row_D in vector_MD])
    vector_MD = np.where(is_known_M[:, None], vector_MD, np.nan)
    gallery_MD = vector_MD[is_known_M]
    both = [vector_MD[[place[p.key] for p in some]] for some in _sides(pairs)]
    around = [centred(one, gallery_MD) for one in both] if len(gallery_MD) else both
    return _Measured(
        pairs,
        merged_N=agree(*both),
        cosine_N=cosines(*both),
        centred_N=cosines(*around),
        rank_N=spearman(*both),
        bag_N=_bag(pairs),
        gallery_MD=gallery_MD,
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    """Pairs, and all that is computed of each."""

    pairs: tuple[ImagePair, ...]
    merged_N: FloatArray
    cosine_N: FloatArray
    centred_N: FloatArray
    rank_N: FloatArray
    bag_N: FloatArray | None
    """1 where a bag of words merges the pair, 0 where not; None where that is not known."""
    gallery_MD: FloatArray
    """Images that the mean was taken of."""


def _sides(pairs: Sequence[ImagePair]) -> tuple[list[ImageSource], list[ImageSource]]:
    return [pair.first for pair in pairs], [pair.second for pair in pairs]


def _bag(pairs: Sequence[ImagePair]) -> FloatArray | None:
    """What a bag of words does with them; it reads scenes, so it is known on the world only."""
    sides = _sides(pairs)
    if not all(isinstance(image, SceneImage) for some in sides for image in some):
        return None
    return agree(*(bag_of_words_space().images(some) for some in sides))


def agree(first_ND: FloatArray, second_ND: FloatArray, *, above: float = ABOVE) -> FloatArray:
    """For each pair of rows 1 if it agrees, 0 if not, NaN where a vector has no direction."""
    cosine_N = cosines(first_ND, second_ND)
    return np.where(np.isnan(cosine_N), np.nan, cosine_N > above)


def _quantities(found: _Measured, options: Options) -> Iterator[Quantity]:
    for group, is_in_N in _groups(found).items():
        pairs = [found.pairs[i] for i in np.flatnonzero(is_in_N)]
        over_pairs = partial(
            mean,
            options=options,
            units=[pair.id for pair in pairs],
            clusters=[pair.cluster or pair.id for pair in pairs],
            better="lower",
        )
        bag = None if found.bag_N is None else float(found.bag_N[is_in_N].mean())
        yield over_pairs(
            merged(group),
            found.merged_N[is_in_N],
            about=f"pairs of different images with a cosine above {ABOVE}",
            known=Known(bag=bag, perfect=None if pairs[0].relation == NEAREST else 0.0),
            is_rate=True,
            tags=[{"relation": pair.relation} for pair in pairs],
        )
        alike = Known(bag=1.0 if bag == 1.0 else None)
        for name, about, value_N in (
            ("cosine", "mean cosine of the pairs", found.cosine_N),
            ("centred cosine", "the same around the mean of all images", found.centred_N),
            ("rank correlation", "Spearman's, of the numbers of the two vectors", found.rank_N),
        ):
            yield over_pairs(f"{name}, {group}", value_N[is_in_N], about=about, known=alike)


def _groups(found: _Measured) -> dict[str, BoolArray]:
    """All pairs, those a bag of words cannot tell apart and the others, and each relation."""
    relation_N = np.array([pair.relation for pair in found.pairs])
    groups = {ALL: np.ones(len(relation_N), dtype=np.bool_)}
    if found.bag_N is not None:
        groups |= {SAME: found.bag_N == 1, OTHER: found.bag_N == 0}
    groups |= {str(name): relation_N == name for name in dict.fromkeys(relation_N.tolist())}
    return {name: is_in_N for name, is_in_N in groups.items() if is_in_N.any()}


def merged(group: str) -> str:
    """Name of the rate of a group of pairs."""
    return f"{RATE}{group}"


def _against_pixels(
    found: _Measured, place_K: IntArray, pixel_K: FloatArray, options: Options
) -> Quantity:
    """Whether pairs that differ in fewer pixels are the ones that lie near."""
    cosine_K = found.cosine_N[place_K]
    is_known_K = ~np.isnan(cosine_K + pixel_K)
    both_2K = np.stack([cosine_K, pixel_K])[:, is_known_K]
    clusters = [found.pairs[i].cluster or found.pairs[i].id for i in place_K[is_known_K]]

    def of(index: IntArray) -> float:
        return float(spearman(*both_2K[:, None, index])[0]) if len(index) else float("nan")

    return statistic(
        "cosine against pixels",
        of,
        len(clusters),
        about="Spearman's correlation of cosine and pixel difference over pairs; -1: only pixels "
        "count",
        options=options,
        clusters=clusters,
    )


def pixel_differences(pairs: Sequence[ImagePair], progress: Progress) -> FloatArray:
    """[N]: mean absolute difference in grey levels of 255; NaN where one cannot be opened."""
    found = np.full(len(pairs), np.nan)
    with progress.task("pixel differences", len(pairs)) as advance:
        for at, pair in enumerate(pairs):
            first, second = _small(pair.first), _small(pair.second)
            if first is not None and second is not None:
                found[at] = pixel_difference(first, second)
            advance(1)
    return found


def _small(source: ImageSource) -> ImageArray | None:
    try:
        image = source.open().convert("RGB")
    except (OSError, ValueError):
        return None
    return np.asarray(image if image.size == (SIDE, SIDE) else image.resize((SIDE, SIDE)))


def drawn(pairs: Sequence[ImagePair], most: int) -> IntArray:
    """Places of at most so many pairs, chosen by a hash of their names, in their order."""
    mark = [hashed(pair.id) for pair in pairs]
    return np.array(sorted(sorted(range(len(pairs)), key=mark.__getitem__)[:most]), dtype=np.int64)


def _scatter(found: _Measured, place_K: IntArray, pixel_K: FloatArray) -> Scatter:
    pixel_of: Mapping[int, float] = dict(zip(place_K.tolist(), pixel_K.tolist(), strict=True))
    points = []
    for i in drawn(found.pairs, POINTS).tolist():
        pair, cosine = found.pairs[i], float(found.cosine_N[i])
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
        lines=((f"taken for the same above {ABOVE}", ABOVE),),
        about=f"{len(points):,} of {len(found.pairs):,} pairs of different images.",
    )


def _notes(found: _Measured, same: int, pixels: int) -> Iterator[str]:
    count = len(found.pairs)
    if same:
        yield f"{same:,} pairs of an image with itself were left out."
    unknown = int(np.isnan(found.cosine_N).sum())
    if unknown:
        yield f"{unknown:,} of {count:,} pairs have an image without a direction; not counted."
    gallery_MD = found.gallery_MD
    if len(gallery_MD) > 1 and np.allclose(gallery_MD, gallery_MD[0], rtol=0, atol=1e-9):
        yield "Every image has the same vector: around the mean nothing is left of them."
    elif not np.isnan(found.centred_N).all():
        raw, around = np.nanmean(found.cosine_N), np.nanmean(found.centred_N)
        yield (
            f"The mean cosine of the pairs is {raw:.3f}, and {around:.3f} around the mean of all "
            f"{len(gallery_MD):,} images, which takes away what they all share."
        )
    if pixels < count:
        yield f"Pixels were compared in {pixels:,} pairs, drawn by a hash."


def _which(finding: ProbeResult) -> str:
    if finding.headline == merged(ALL):
        return PHRASES["any"]
    groups = [one for one in _relations(finding) if one.known.bag == 1.0]
    if len(groups) == 1:
        return fill(PHRASES["one relation"], relation=_words(groups[0]))
    names = [one.name.removeprefix(RATE) for one in groups]
    if not names or not all(name in CHANGED for name in names):
        return PHRASES["relations"]
    changed = list(dict.fromkeys(CHANGED[name] for name in names))
    what = " or ".join(filter(None, (", ".join(changed[:-1]), changed[-1])))
    return fill(PHRASES["changed"], what=what)


def _further(finding: ProbeResult) -> str:
    """What must be known with it: other things are merged too, or relations fare differently."""
    other = finding.get(merged(OTHER))
    if other is not None and other.estimate.n and other.estimate.low > MOSTLY:
        return fill(PHRASES["everything"], rate=other.estimate)
    rates = [one for one in _relations(finding) if one.estimate.n]
    # The sentence is about relations that a bag of words cannot tell, or about all.
    about = [one for one in rates if finding.headline == merged(ALL) or one.known.bag == 1.0]
    besides = [
        f"{_words(one)} ({shown(one.estimate)})"
        for one in rates
        # What even a bag of words could tell.
        if one not in about and one.known.bag == 0.0 and one.estimate.low > MOSTLY
    ]
    also = fill(PHRASES["besides"], relations=" and ".join(besides)) if besides else ""
    return _ends(about) + also


def _ends(rates: list[Quantity]) -> str:
    """The two ends, where their intervals are apart."""
    if len(rates) < 2:
        return ""
    most = max(rates, key=lambda one: one.estimate.value)
    least = min(rates, key=lambda one: one.estimate.value)
    if most.estimate.low <= least.estimate.high:
        return ""
    return fill(
        PHRASES["ends"],
        most=_words(most),
        most_rate=most.estimate,
        least=_words(least),
        least_rate=least.estimate,
    )


def _relations(finding: ProbeResult) -> list[Quantity]:
    groups = [merged(group) for group in (ALL, SAME, OTHER)]
    rates = [one for one in finding.quantities if one.name.startswith(RATE)]
    return [one for one in rates if one.name not in groups]


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
    most: int = MOST,
) -> list[MinedPair]:
    """The pairs among these images that the first encoder merges and the second keeps apart.

    Places are those of the images given. Copies of an image are no pair.
    """
    if len(images) < 2:
        raise UnbagError(
            f"{len(images)} images to find pairs among",
            expected="at least two; thousands, to find some that matter",
        )
    both = merging.images(images), parting.images(images)
    keys = [image.key for image in images]
    return mine_pairs(*both, above=above, below=below, most=most, keys=keys)


def mine_pairs(
    merging_ND: FloatArray | Vectors,
    parting_NE: FloatArray | Vectors,
    *,
    above: float = ABOVE,
    below: float = BELOW,
    most: int = MOST,
    block: int = BLOCK,
    keys: Sequence[str] | None = None,
) -> list[MinedPair]:
    """The pairs with the highest cosine by the first encoder, best first.

    Memory is that of the first vectors in single precision, of a few blocks of cosines and of
    `most` pairs. Pairs with equal keys (pixel hashes) are the same image and no pair. An image
    without a direction is in no pair.
    """
    if len(merging_ND) != len(parting_NE):
        raise UnbagError(
            f"{len(merging_ND)} vectors of one encoder and {len(parting_NE)} of the other",
            expected="both encoders on the same images",
        )
    single_ND, is_known_N = _single(merging_ND)
    is_known_N &= _known(parting_NE)
    search = _NearPairs(single_ND, parting_NE, is_known_N, _numbers(keys, len(single_ND)), below)
    kept = _BestPairs(most, above)
    for rows, columns, cosine_RC in block_cosines(single_ND, block):
        # Most blocks hold nothing: one pass that finds the largest of each row settles that.
        best_R = cosine_RC.max(axis=1, initial=-1.0)
        for strip in range(0, len(best_R), STRIP):
            row_S = strip + np.flatnonzero(best_R[strip : strip + STRIP] > kept.least)
            if len(row_S):
                near_SC = cosine_RC[row_S]
                kept.add(search.among(rows.start + row_S, columns.start, near_SC, kept.least))
    return kept.pairs()


@dataclass(frozen=True)
class MinedPair:
    """Two images that are one to the first encoder and two to the second."""

    first: int
    second: int
    merged: float
    """Cosine by the encoder that merges them."""
    apart: float
    """Cosine by the other."""


class Encoder(Protocol):
    """Any encoder of images; captions are not needed to mine."""

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Vectors [N, D]; NaN for an image that cannot be opened."""


def block_cosines(single_ND: Vectors, block: int = BLOCK) -> Iterator[tuple[slice, slice, Vectors]]:
    """Rows, columns and products of each block of the upper triangle, all in the same memory."""
    count = len(single_ND)
    space = np.empty(min(block, count) ** 2, dtype=np.float32)
    for top in range(0, count, block):
        for left in range(top, count, block):
            rows = slice(top, min(top + block, count))
            columns = slice(left, min(left + block, count))
            shape = rows.stop - top, columns.stop - left
            cosine_RC = space[: shape[0] * shape[1]].reshape(shape)
            np.matmul(single_ND[rows], single_ND[columns].T, out=cosine_RC)
            if top == left:
                np.fill_diagonal(cosine_RC, -1.0)
            yield rows, columns, cosine_RC


@dataclass(frozen=True, eq=False)
class _NearPairs:
    """What tells whether two images that lie near are a pair."""

    merging_ND: Vectors
    parting_NE: FloatArray | Vectors
    is_known_N: BoolArray
    number_N: IntArray
    """Equal for copies of an image."""
    below: float

    def among(self, i_S: IntArray, left: int, cosine_SC: Vectors, least: float) -> list[FloatArray]:
        """Pairs of these rows with columns from `left` on: first, second, merged, apart."""
        column_T = np.flatnonzero((cosine_SC > least).any(axis=0))
        j_T, cosine_ST = left + column_T, cosine_SC[:, column_T]
        is_pair_ST = (cosine_ST > least) & (i_S[:, None] < j_T)
        is_pair_ST &= self.is_known_N[i_S, None] & self.is_known_N[j_T]
        is_pair_ST &= self.number_N[i_S, None] != self.number_N[j_T]
        first, second = (_single(self.parting_NE[at])[0] for at in (i_S, j_T))
        apart_ST = first @ second.T
        s_P, t_P = np.nonzero(is_pair_ST & (apart_ST < self.below))
        found = i_S[s_P], j_T[t_P], cosine_ST[s_P, t_P], apart_ST[s_P, t_P]
        return [np.asarray(one, dtype=float) for one in found]


class _BestPairs:
    """The best pairs so far."""

    def __init__(self, most: int, above: float) -> None:
        self.most = most
        self.least = above
        """A pair must be above this to be kept; rises once there are enough."""
        self.found: list[FloatArray] = [np.empty(0) for _ in range(4)]

    def add(self, more: Sequence[FloatArray]) -> None:
        both = [np.concatenate([a, b]) for a, b in zip(self.found, more, strict=True)]
        if self.most and len(both[2]) > self.most:
            is_good = both[2] >= np.partition(both[2], -self.most)[-self.most]
            both = [one[is_good] for one in both]
        order = np.lexsort((both[1], both[0], -both[2]))[: self.most]
        self.found = [one[order] for one in both]
        if len(order) == self.most and self.most:
            self.least = max(self.least, float(self.found[2][-1]))

    def pairs(self) -> list[MinedPair]:
        rows = zip(*self.found, strict=True)
        return [MinedPair(int(i), int(j), float(m), float(a)) for i, j, m, a in rows]


def _single(vector_ND: FloatArray | Vectors) -> tuple[Vectors, BoolArray]:
    """Unit vectors in single precision, and which have a direction; the others are zero."""
    found_ND = np.empty(vector_ND.shape, dtype=np.float32)
    is_known_N = np.empty(len(vector_ND), dtype=np.bool_)
    for at in range(0, len(vector_ND), BLOCK):
        part = slice(at, at + BLOCK)
        unit_RD = unit(np.asarray(vector_ND[part], dtype=float))
        is_known_N[part] = ~np.isnan(unit_RD).any(axis=1)
        found_ND[part] = np.where(is_known_N[part, None], unit_RD, 0.0)
    return found_ND, is_known_N


def _known(vector_ND: FloatArray | Vectors) -> BoolArray:
    """Which have a direction."""
    parts = [_single(vector_ND[at : at + BLOCK])[1] for at in range(0, len(vector_ND), BLOCK)]
    return np.concatenate([np.empty(0, dtype=np.bool_), *parts])


def _numbers(keys: Sequence[str] | None, count: int) -> IntArray:
    if keys is None:
        return np.arange(count)
    number: dict[str, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
