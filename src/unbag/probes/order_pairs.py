"""Captions beside the same words in another order come in; which is preferred, and how near, out.

Dimensions: N captions with another, A captions asked about, P pictures, S seeds, D space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.pictures.shuffled import GRIDS, ShuffledPicture
from unbag.probes.chosen import cluster_of, first_pictures, hashed, unite
from unbag.probes.finding import Known, Options, Quantity, mean
from unbag.probes.material import Gallery, Row
from unbag.probes.order import preferred
from unbag.probes.order_shuffles import Shuffled, is_still_true
from unbag.probes.order_verdict import OTHER, PRECISION, SIMILARITY, SWAPS
from unbag.probes.space import Space
from unbag.probes.vectors import cosines
from unbag.types import FloatArray, Picture


@dataclass(frozen=True)
class Asked:
    """A caption with a picture it is true of."""

    picture: Picture
    caption: str
    at: int
    """Place of the caption among all that are shuffled."""
    cluster: str


@dataclass(frozen=True)
class Beside:
    """A caption beside the same words in another order."""

    picture: Picture
    caption: str
    other: str
    id: str
    cluster: str
    kind: str


def of_gallery(gallery: Gallery) -> list[Asked]:
    """Every caption with its first picture; one without a picture only distracts."""
    first = first_pictures(gallery).tolist()
    return [
        Asked(gallery.pictures[place], caption, at, f"picture {place}")
        for at, (caption, place) in enumerate(zip(gallery.captions, first, strict=True))
        if place >= 0
    ]


def of_rows(rows: Sequence[Row], most: int | None) -> list[Asked]:
    """Every picture with its caption once, or so many of them, chosen by hash."""
    every = {(row.picture.key, row.caption): row for row in rows}
    chosen = sorted(every, key=lambda pair: hashed("\0".join(pair)))[:most]
    found = unite([every[pair] for pair in chosen])
    return [Asked(row.picture, row.caption, at, cluster_of(row)) for at, row in enumerate(found)]


def swapped_captions(space: Space, rows: Sequence[Row], options: Options) -> list[Quantity]:
    """Captions beside another sentence of the same words, false of the picture; by kind too."""
    pairs = [
        Beside(row.picture, row.caption, row.negative, row.id, cluster_of(row), row.kind)
        for row in rows
        if row.negative is not None
    ]
    picture_ND = space.pictures([pair.picture for pair in pairs])
    what = "another sentence of the same words"
    found = _beside(space, picture_ND, pairs, SWAPS, what, options)
    kinds = sorted({pair.kind for pair in pairs})
    for kind in kinds if len(kinds) > 1 else ():
        places = [at for at, pair in enumerate(pairs) if pair.kind == kind]
        some = [pairs[at] for at in places]
        found += _beside(space, picture_ND[places], some, f"{SWAPS}: {kind}", what, options)
    return found


def shuffled_captions(
    space: Space,
    picture_AD: FloatArray,
    asked: Sequence[Asked],
    drawn: Sequence[Shuffled],
    options: Options,
    *,
    is_world: bool,
) -> list[Quantity]:
    """Captions beside their shuffles of one kind, unless these say the same."""
    pairs, places = [], []
    for one in drawn:
        for place, ask in enumerate(asked):
            other = one.captions[ask.at]
            if other is None or (is_world and is_still_true(ask.picture, other)):
                continue
            id = f"{ask.at}/{one.seed - options.seed}"
            places.append(place)
            pairs.append(Beside(ask.picture, ask.caption, other, id, ask.cluster, one.name))
    picture_ND = picture_AD[np.array(places, dtype=np.int64)]
    return _beside(space, picture_ND, pairs, drawn[0].name, "the same words shuffled", options)


def _beside(
    space: Space,
    picture_ND: FloatArray,
    pairs: Sequence[Beside],
    label: str,
    what: str,
    options: Options,
) -> list[Quantity]:
    caption_ND = space.captions([pair.caption for pair in pairs])
    other_ND = space.captions([pair.other for pair in pairs])
    units, clusters = [pair.id for pair in pairs], [pair.cluster for pair in pairs]
    tags = [{"kind": pair.kind} for pair in pairs]
    precision = mean(
        f"{PRECISION}{label}",
        preferred(picture_ND, caption_ND, other_ND),
        about=f"Share of captions that their picture prefers to {what}; a tie is no preference",
        options=options,
        units=units,
        clusters=clusters,
        known=Known(bag=0.0, perfect=1.0, chance=0.5),
        better="higher",
        is_rate=True,
        tags=tags,
    )
    similarity = mean(
        f"{SIMILARITY}{label}",
        cosines(caption_ND, other_ND),
        about=f"Mean cosine of a caption and {what}, in the text tower alone; 1 is blind",
        options=options,
        units=units,
        clusters=clusters,
        known=Known(bag=1.0),
        better="lower",
        tags=tags,
    )
    return [precision, similarity]


def other_captions(space: Space, asked: Sequence[Asked], options: Options) -> list[Quantity]:
    """How near two captions of other words are: what the similarity to a shuffle is read by."""
    texts = sorted({one.caption for one in asked}, key=hashed)
    if len(texts) < 2:
        return []
    caption_ND = space.captions(texts)
    return [
        mean(
            f"{SIMILARITY}{OTHER}",
            cosines(caption_ND, np.roll(caption_ND, 1, axis=0)),
            about="Mean cosine of a caption and one drawn at random, to read the others by",
            options=options,
            units=texts,
        )
    ]


def shuffled_pictures(
    picture_PD: FloatArray, shuffled_SPD: Mapping[str, FloatArray], options: Options
) -> list[Quantity]:
    """How near a picture is to itself with its parts in another order, in the picture tower."""
    found = []
    names = [f"picture {at}" for at in range(len(picture_PD))]
    for kind, every_SPD in shuffled_SPD.items():
        quantity = mean(
            f"{SIMILARITY}{kind}",
            cosines(picture_PD, every_SPD).ravel(),
            about=f"Mean cosine of a picture and itself with {kind} shuffled",
            options=options,
            units=[f"{name}/{at}" for at in range(len(every_SPD)) for name in names],
            clusters=names * len(every_SPD),
            better="lower",
        )
        found.append(quantity)
    return found


def encode_shuffled(
    space: Space, pictures: Sequence[Picture], seeds: Sequence[int]
) -> dict[str, FloatArray]:
    """Vectors [S, P, D] of all pictures cut and put together anew, by kind of cut."""
    return {
        kind: np.array(
            [
                space.pictures([ShuffledPicture(one, kind, seed) for one in pictures])
                for seed in seeds
            ]
        )
        for kind in GRIDS
    }
