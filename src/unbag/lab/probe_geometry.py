"""A space comes in; where captions, edits, pictures and concepts lie in it goes out as numbers.

`intra`: mean cosine of a caption and its hard negatives, of it and its hard positives, and how
much nearer positives are (selectivity). `gap`: how much higher a picture scores its caption than
these edits; `ratio` is that of positives over that of negatives (1 for a mere detector of edits),
`auc` how often a negative costs more than a positive (0.5 for such a one). Means of the means of
swaps, relations and replacements; after a comma of one benchmark alone.

`conditions`: how often each condition of an ideal space holds; "for all" where x is put against
every other thing at once; "cosine" where two pictures must not be one.

`superposition`: cosines of the vector of two things with the sum of theirs, with the best possible
vector, with each part and with the sum of another pair, raw and around the mean of single things;
"colours exchanged" is that of two pictures which would be one if all were sums; "explained" the
share that things and names of colours explain.

`cone`: length of the mean vector of single things and of captions (0 for a cloud, 1 for a single
direction), the first times their number M, which is the length of their sum, the mean length of the
sum of two, against which it should be small, the latter over the former, and the distance of the
mean picture from the mean caption.

`agreement`: of pictures that differ in one way, the share with a cosine above 0.95 (merged), mean
cosines, those around the mean of all pictures, rank correlations of the numbers of their vectors.

Dimensions: N rows, M gallery, D space.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unbag.lab.probe_material import Asked, Triple
from unbag.probes.agreement import agree
from unbag.probes.concepts import THINGS, Concepts, concept_vectors
from unbag.probes.conditions import CONDITIONS, condition_samples, for_all
from unbag.probes.sensitivity import Sensitivity, sensitivity
from unbag.probes.space import Space, centred, cosines, spearman
from unbag.probes.superposition import cone, fit_additive, superposition
from unbag.types import FloatArray

Numbers = dict[str, dict[str, float]]
"""By kind and metric."""


def geometry(space: Space, asked: Asked) -> Numbers:
    """All of it."""
    concepts = concept_vectors(space, asked.rings)
    caption_MD = space.captions(asked.gallery.captions)
    return {
        **edits(space, asked),
        "conditions": conditions(concepts),
        "superposition": sums(concepts),
        "cone": cones(concepts, space.pictures(asked.gallery.pictures), caption_MD),
        "agreement": agreement(space, asked),
    }


def edits(space: Space, asked: Asked) -> Numbers:
    """`intra` and `gap`."""
    each = {name: _sensitivity(space, rows) for name, rows in asked.triples.items()}
    intra: dict[str, float] = {}
    gap: dict[str, float] = {}
    for name, found in each.items():
        intra[f"negatives, {name}"] = float(found.intra_negative_N.mean())
        intra[f"positives, {name}"] = float(found.intra_positive_N.mean())
        intra[f"selectivity, {name}"] = float(found.selectivity.mean())
        gap[f"negatives, {name}"] = float(found.gap_negative_N.mean())
        gap[f"positives, {name}"] = float(found.gap_positive_N.mean())
        gap[f"auc, {name}"] = found.detector_auc
    for numbers, metrics in (
        (intra, ("negatives", "positives", "selectivity")),
        (gap, ("negatives", "positives", "auc")),
    ):
        for metric in metrics:
            numbers[metric] = float(np.mean([numbers[f"{metric}, {name}"] for name in each]))
    if gap["negatives"]:
        gap["ratio"] = gap["positives"] / gap["negatives"]
    return {"intra": intra, "gap": gap}


def _sensitivity(space: Space, rows: Sequence[Triple]) -> Sensitivity:
    return sensitivity(
        space.pictures([row.picture for row in rows]),
        space.captions([row.caption for row in rows]),
        space.captions([row.negative for row in rows]),
        space.captions([row.positive for row in rows]),
    )


def conditions(concepts: Concepts) -> dict[str, float]:
    """Rates at which they hold."""
    found = {}
    for name, samples in condition_samples(concepts).items():
        found[name] = float(np.nanmean(samples.held.holds_N))
        if CONDITIONS[name].asks_all:
            found[f"{name} for all"] = float(np.nanmean(for_all(samples.held, samples.things)))
        if CONDITIONS[name].chance == 1.0:
            found[f"{name} cosine"] = float(np.nanmean(samples.first_N))
    return found


def sums(concepts: Concepts) -> dict[str, float]:
    """Whether the vector of two things is the sum of theirs."""
    thing_BSD, gallery_MD = concepts.thing_BSD, _flat(concepts.thing_BSD)
    place_N = np.arange(len(gallery_MD))
    # Across the ring: the same colours and places, and no thing in common.
    opposite_N = place_N // THINGS * THINGS + (place_N + THINGS // 2) % THINGS
    numbers = {}
    for tail in ("", ", centred"):
        found = superposition(
            _flat(concepts.pair_BSD),
            gallery_MD,
            _flat(np.roll(thing_BSD, -1, axis=1)),
            gallery_MD,
            other_N=opposite_N,
            is_centred=bool(tail),
        )
        numbers[f"sum{tail}"] = float(np.nanmean(found.sum_N))
        numbers[f"optimum{tail}"] = float(np.nanmean(found.optimum_N))
        numbers[f"first{tail}"] = float(np.nanmean(found.first_N))
        numbers[f"second{tail}"] = float(np.nanmean(found.second_N))
        numbers[f"other pair{tail}"] = float(np.nanmean(found.other_N))
    one_ND, other_ND = (_flat(concepts.bound_BSKD[:, :, k]) for k in (0, 1))
    around = [centred(vector_ND, gallery_MD) for vector_ND in (one_ND, other_ND)]
    numbers["colours exchanged"] = float(np.nanmean(cosines(one_ND, other_ND)))
    numbers["colours exchanged, centred"] = float(np.nanmean(cosines(*around)))
    return {**numbers, "explained": _explained(concepts)}


def _explained(concepts: Concepts) -> float:
    """The fit of i(x_a,y_b) by both things and the names of both colours."""
    thing_BSD, bound_BSKD = concepts.thing_BSD, concepts.bound_BSKD
    first_BSKD = np.broadcast_to(thing_BSD[:, :, None], bound_BSKD.shape)
    second_BSKD = np.roll(first_BSKD, -1, axis=1)
    colour_BSKD = np.broadcast_to(concepts.colour_BKD[:, None], bound_BSKD.shape)
    return fit_additive(
        bound_BSKD, (first_BSKD, second_BSKD), (colour_BSKD, colour_BSKD[:, :, ::-1])
    ).explained


def cones(concepts: Concepts, picture_MD: FloatArray, caption_MD: FloatArray) -> dict[str, float]:
    """How narrow it is, and how far pictures lie from captions."""
    thing_BSD = concepts.thing_BSD
    single = cone(_flat(thing_BSD))
    both_ND = _flat(thing_BSD + np.roll(thing_BSD, -1, axis=1))
    between_D = picture_MD.mean(axis=0) - caption_MD.mean(axis=0)
    of_all = single * thing_BSD.shape[0] * thing_BSD.shape[1]
    of_two = float(np.linalg.norm(both_ND, axis=-1).mean())
    return {
        "pictures": single,
        "captions": cone(caption_MD),
        "times M": of_all,
        "length of the sum": of_two,
        "two over all": of_two / of_all,
        "between means": float(np.linalg.norm(between_D)),
    }


def agreement(space: Space, asked: Asked) -> dict[str, float]:
    """How near pictures are that differ in one way."""
    sides = {
        name: tuple(space.pictures([pair[k] for pair in pairs]) for k in (0, 1))
        for name, pairs in asked.pairs.items()
    }
    gallery_MD = np.concatenate([vector_ND for both in sides.values() for vector_ND in both])
    numbers = {}
    for name, (first_ND, second_ND) in sides.items():
        around = centred(first_ND, gallery_MD), centred(second_ND, gallery_MD)
        numbers[f"merged, {name}"] = float(agree(first_ND, second_ND).mean())
        numbers[f"cosine, {name}"] = float(cosines(first_ND, second_ND).mean())
        numbers[f"centred cosine, {name}"] = float(cosines(*around).mean())
        numbers[f"rank correlation, {name}"] = float(spearman(first_ND, second_ND).mean())
    return numbers


def _flat(vector_BSD: FloatArray) -> FloatArray:
    return vector_BSD.reshape(-1, vector_BSD.shape[-1])
