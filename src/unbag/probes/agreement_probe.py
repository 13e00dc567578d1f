"""Pairs of different pictures come in; how often a model takes them for the same goes out.

Dimensions: N pairs, K pairs whose pixels were compared, M pictures, D joint space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbag.engine.progress import Progress
from unbag.probes.agreement import ABOVE, agree
from unbag.probes.agreement_pixels import drawn, pixel_differences
from unbag.probes.agreement_said import ALL, OTHER, SAME, merged, say
from unbag.probes.constructed import bag_of_words_space
from unbag.probes.finding import Finding, Known, Options, Quantity, mean, statistic
from unbag.probes.material import Material, PicturePair
from unbag.probes.material_pairs import NEAREST, near_pairs
from unbag.probes.plots import Point, Scatter
from unbag.probes.probe import Probe, Subject
from unbag.probes.space import Space
from unbag.probes.vectors import centred, cosines, spearman
from unbag.types import BoolArray, FloatArray, IntArray, Picture
from unbag.world.draw import ScenePicture

NAME = "agreement"
POINTS = 400
PIXEL_PAIRS = 2_000
"""Photographs are slow to open; more of them tell no more."""


@dataclass(frozen=True, eq=False)
class _Measured:
    """Pairs, and all that is computed of each."""

    pairs: tuple[PicturePair, ...]
    merged_N: FloatArray
    cosine_N: FloatArray
    centred_N: FloatArray
    rank_N: FloatArray
    bag_N: FloatArray | None
    """1 where a bag of words merges the pair, 0 where not; None where that is not known."""
    gallery_MD: FloatArray
    """Pictures that the mean was taken of."""


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Rates of agreement, cosines and rank correlations by relation, and pixels beside them."""
    if subject.space is None:
        return Finding(NAME, skipped=f"{subject.name} has no vectors of pictures to compare")
    given = material.pairs
    if not given and material.pictures:
        given = near_pairs(subject.space, material.pictures)
    pairs = tuple(pair for pair in given if pair.first.key != pair.second.key)
    same = len(given) - len(pairs)
    if not pairs:
        return Finding(NAME, skipped=_no_pairs(material, same))
    found = _measured(subject.space, pairs, material)
    place_K = drawn(pairs, PIXEL_PAIRS)
    pixel_K = pixel_differences([pairs[i] for i in place_K], progress)
    quantities = (*_quantities(found, options), _against_pixels(found, place_K, pixel_K, options))
    if pairs[0].relation == NEAREST:
        # Every model has nearest pairs of its own: two models cannot be compared pair by pair.
        quantities = tuple(_without_interval(one) for one in quantities)
    return Finding(
        NAME,
        quantities,
        headline=merged(SAME if found.bag_N is not None and found.bag_N.any() else ALL),
        plots=(_scatter(found, place_K, pixel_K),),
        notes=tuple(_notes(found, same, len(place_K))),
    )


def _without_interval(one: Quantity) -> Quantity:
    nan = float("nan")
    told = replace(one.estimate, low=nan, high=nan, interval="no interval: chosen, not sampled")
    return replace(one, estimate=told, outcomes=None, draw_R=None)


def _no_pairs(material: Material, same: int) -> str:
    only = f" but {same} of a picture with itself" if same else ""
    return (
        f"{material.about} has no pairs of pictures{only}; the world's benchmarks would serve, "
        "one whose items have two pictures, such as whatsup_a or winoground, or a folder of two or "
        "more pictures"
    )


def _measured(space: Space, pairs: tuple[PicturePair, ...], material: Material) -> _Measured:
    beside = material.gallery.pictures if material.gallery else ()
    every = {p.key: p for some in (*_sides(pairs), beside) for p in some}
    place = {key: at for at, key in enumerate(every)}
    vector_MD = space.pictures(tuple(every.values()))
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


def _sides(pairs: Sequence[PicturePair]) -> tuple[list[Picture], list[Picture]]:
    return [pair.first for pair in pairs], [pair.second for pair in pairs]


def _bag(pairs: Sequence[PicturePair]) -> FloatArray | None:
    """What a bag of words does with them; it reads scenes, so it is known on the world only."""
    sides = _sides(pairs)
    if not all(isinstance(picture, ScenePicture) for some in sides for picture in some):
        return None
    return agree(*(bag_of_words_space().pictures(some) for some in sides))


def _groups(found: _Measured) -> dict[str, BoolArray]:
    """All pairs, those a bag of words cannot tell apart and the others, and each relation."""
    relation_N = np.array([pair.relation for pair in found.pairs])
    groups = {ALL: np.ones(len(relation_N), dtype=np.bool_)}
    if found.bag_N is not None:
        groups |= {SAME: found.bag_N == 1, OTHER: found.bag_N == 0}
    groups |= {str(name): relation_N == name for name in dict.fromkeys(relation_N.tolist())}
    return {name: is_in_N for name, is_in_N in groups.items() if is_in_N.any()}


def _quantities(found: _Measured, options: Options) -> Iterator[Quantity]:
    for group, is_in_N in _groups(found).items():
        pairs = [found.pairs[i] for i in np.flatnonzero(is_in_N)]
        units = [pair.id for pair in pairs]
        clusters = [pair.cluster or pair.id for pair in pairs]
        bag = None if found.bag_N is None else float(found.bag_N[is_in_N].mean())
        yield mean(
            merged(group),
            found.merged_N[is_in_N],
            about=f"pairs of different pictures with a cosine above {ABOVE}",
            options=options,
            units=units,
            clusters=clusters,
            known=Known(bag=bag, perfect=None if pairs[0].relation == NEAREST else 0.0),
            better="lower",
            is_rate=True,
            tags=[{"relation": pair.relation} for pair in pairs],
        )
        alike = Known(bag=1.0 if bag == 1.0 else None)
        for name, about, value_N in (
            ("cosine", "mean cosine of the pairs", found.cosine_N),
            ("centred cosine", "the same around the mean of all pictures", found.centred_N),
            ("rank correlation", "Spearman's, of the numbers of the two vectors", found.rank_N),
        ):
            yield mean(
                f"{name}, {group}",
                value_N[is_in_N],
                about=about,
                options=options,
                units=units,
                clusters=clusters,
                known=alike,
                better="lower",
            )


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


def _scatter(found: _Measured, place_K: IntArray, pixel_K: FloatArray) -> Scatter:
    pixel_of: Mapping[int, float] = dict(zip(place_K.tolist(), pixel_K.tolist(), strict=True))
    points = []
    for i in drawn(found.pairs, POINTS).tolist():
        pair, cosine = found.pairs[i], float(found.cosine_N[i])
        if np.isfinite(cosine) and np.isfinite(pixel_of[i]):
            name = pair.id
            if pair.relation == NEAREST:
                name = f"{pair.first.name} and {pair.second.name}"
            points.append(Point(pixel_of[i], cosine, pair.relation, name))
    return Scatter(
        "Cosine of two pictures against the difference of their pixels",
        "mean difference of pixels, in grey levels",
        "cosine",
        tuple(points),
        lines=((f"taken for the same above {ABOVE}", ABOVE),),
        about=f"{len(points):,} of {len(found.pairs):,} pairs of different pictures.",
    )


def _notes(found: _Measured, same: int, pixels: int) -> Iterator[str]:
    count = len(found.pairs)
    if same:
        yield f"{same:,} pairs of a picture with itself were left out."
    unknown = int(np.isnan(found.cosine_N).sum())
    if unknown:
        yield f"{unknown:,} of {count:,} pairs have a picture without a direction; not counted."
    gallery_MD = found.gallery_MD
    if len(gallery_MD) > 1 and np.allclose(gallery_MD, gallery_MD[0], rtol=0, atol=1e-9):
        yield "Every picture has the same vector: around the mean nothing is left of them."
    elif not np.isnan(found.centred_N).all():
        raw, around = np.nanmean(found.cosine_N), np.nanmean(found.centred_N)
        yield (
            f"The mean cosine of the pairs is {raw:.3f}, and {around:.3f} around the mean of all "
            f"{len(gallery_MD):,} pictures, which takes away what they all share."
        )
    if pixels < count:
        yield f"Pixels were compared in {pixels:,} pairs, drawn by a hash."


AGREEMENT = Probe(
    NAME,
    question="Does the picture tower merge different pictures?",
    about=(
        "Erroneous agreement (Li et al. 2024, section 3.1): the share of pairs of different "
        f"pictures whose vectors have a cosine strictly above {ABOVE}. Beside it, by relation: the "
        "mean cosine, the same around the mean of all pictures, and Spearman's correlation of the "
        "numbers of the two vectors (section 3.2), which can be low where the cosine is high: then "
        "the difference is in the vectors, and a better reader could find it. The cosine is set "
        "against the mean difference of pixels, since pictures that differ in few pixels are "
        "easily merged. Same things: pairs that a bag of words cannot tell apart. Limits: in a "
        "narrow cone every cosine is high, so read the centred one as well; a pair that is not "
        "merged need not be told apart by captions."
    ),
    ask=ask,
    say=say,
)
