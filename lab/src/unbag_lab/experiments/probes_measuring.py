"""Measures the models of the experiment `probes`.

The numbers of a model are the metrics of every benchmark of the world, and these:

`intra`: mean cosine of a caption with its hard negatives, with its hard positives, and their
difference (selectivity). `gap`: how much higher an image scores its caption than these edits;
`ratio` is the gap of positives over that of negatives (1 for a mere detector of edits), `auc` how
often a negative has a larger gap than a positive (0.5 for such a detector). Both are means of the
means of swaps, relations and replacements; a metric "NAME, BENCHMARK" is of one benchmark.

`conditions`: how often each condition of an ideal space holds; "for all" if x is compared with
every other thing at once; "cosine" if two images must not have the same vector.

`superposition`: cosines of the vector of two things with the sum of their vectors, with the best
possible vector, with each part and with the sum of another pair, raw and around the mean of single
things; "colours exchanged" is the cosine of two images that would be equal if all vectors were
sums; "explained" is the share of variance that things and names of colours explain.

`cone`: length of the mean vector of single things and of captions (0 for a cloud, 1 for a single
direction); the first times the number M of things, which is the length of their sum; the mean
length of the sum of two, which should be small compared with it; the latter over the former; and
the distance of the mean image from the mean caption.

`agreement`: for images that differ in one way, the share with a cosine above 0.95 (merged), mean
cosines, cosines around the mean of all images, and rank correlations of their vectors.

`order-free`: "recall" is R@1; "retention SHUFFLE" is R@1 with the words of all captions, or the
parts of all images, in another order, over R@1 of the same queries as they are (methods.md 3.4).
Retention means little where recall is low, as in an untrained model.

`extract`, for "left/right" (is the first thing on the left) and "binding" (does it have the first
colour): accuracy of linear readers on unseen pairs of things, from "projected" (the vector that is
compared), "unprojected", "mean patch" and "all patches" of the last layer; "control" is the reader
of all patches fitted to shuffled labels; "own score" chooses the caption with the higher cosine.
"merged pairs" is the share of pairs of images that differ only in that label and have a cosine
above 0.95; "of merged pairs" is how often both images of such a pair are right (chance 25 %), left
out if there is none.

Dimensions: N images, captions or rows, B a batch, M gallery, D joint space, L patches, W width of
the last layer, S draws, Q queries, P images of a gallery or pairs of images, F features, R rank;
T and S (of readers) images to fit to and to test on.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unbag.data.images import GRIDS, ShuffledImage, rearranged
from unbag.metrics.retrieval import DIRECTIONS
from unbag.models.tiny import Tiny
from unbag.probes.agreement import agree
from unbag.probes.base import Gallery
from unbag.probes.classifiers import Effort, Feature, ReaderFit, reader_fits, scale_of
from unbag.probes.concepts import THINGS, Concepts, Ring, concept_vectors, rings
from unbag.probes.conditions import CONDITIONS, condition_samples, for_all
from unbag.probes.extract import credits
from unbag.probes.extract_data import Label, ProbeSheet, orbit_sheet
from unbag.probes.order import (
    Shuffled,
    WorldTagger,
    encode_shuffled,
    search,
    search_captions,
    search_images,
    shuffle_captions,
)
from unbag.probes.sensitivity import sensitivity
from unbag.probes.space import Space, centred, cosines, spearman
from unbag.probes.superposition import cone, fit_additive, superposition
from unbag.runs.cache import Vectors
from unbag.scorers.linear_probe import Logistic, fit_logistic
from unbag.training.data.world import drawn
from unbag.types import FloatArray, ImageSource, IntArray, Item, Sparse
from unbag.world.benchmarks import pair_items, retrieval_items, set_items, triple_items
from unbag_lab.questions import Questions, scene_of

Numbers = dict[str, dict[str, float]]
"""By kind and metric."""


def ask(space: TinySpace, bench: ProbeQuestions) -> Numbers:
    """Return all numbers of one model, without undefined ones."""
    numbers = {
        **benchmarks(space, bench.questions),
        **geometry(space, bench),
        "order-free": order_free(space, bench),
        "extract": readings(space, bench),
    }
    return {
        name: {metric: value for metric, value in row.items() if isfinite(value)}
        for name, row in numbers.items()
    }


def benchmarks(space: Space, questions: Questions) -> Numbers:
    """Return metrics by benchmark, scored by the cosine."""

    def cosine(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        space.images([image for item in items for image in item.images])
        space.captions([str(caption) for item in items for caption in item.captions])
        parts = [
            space.images(item.images) @ space.captions(list(map(str, item.captions))).T
            for item in items
        ]
        return np.concatenate([part.ravel() for part in parts])

    return questions.measured(cosine)


@dataclass(frozen=True)
class Amount:
    """Amount of measuring."""

    times: int
    """Multiplies the number of items of the registered benchmarks."""
    gallery: int
    """Images to search among."""
    draws: int
    """Draws of each shuffle of captions; images are shuffled once, as encoding them is slow."""
    rings: int
    """Rings of four things each."""
    sets: int
    """Sets of four images for linear readers, for each of 16 pairs of things."""
    edited: int
    """Captions with edits for the blind reader; a third of them test it."""
    quads: int
    """Quads of each benchmark of edits for `intra` and `gap`, and sets of images of each kind for
    `agreement`. They are among the items of benchmarks, so little is encoded for them."""
    effort: Effort
    """Effort of linear readers; strengths are those of standardised features."""
    penalties: tuple[float, ...]
    """Penalties among which the blind reader chooses."""
    benchmarks: tuple[str, ...] | None = None
    """Benchmarks for models; all of them if None."""
    every: int = 1
    """Models are measured on each n-th item."""


@dataclass(frozen=True, eq=False)
class ProbeQuestions:
    """The questions for every model of a base."""

    questions: Questions
    triples: Mapping[str, tuple[EditedImage, ...]]
    """Edited images by benchmark."""
    pairs: Mapping[str, tuple[tuple[ImageSource, ImageSource], ...]]
    """Pairs of images of the same things, by the difference."""
    gallery: Gallery
    shuffled: tuple[Shuffled, ...]
    """All draws of all shuffles of the gallery's captions."""
    rings: tuple[Ring, ...]
    sheet: ProbeSheet[ImageSource]
    effort: Effort
    seed: int


@dataclass(frozen=True)
class EditedImage:
    """An image, its caption, a hard negative and a hard positive."""

    image: ImageSource
    caption: str
    negative: str
    positive: str


def make_probe_questions(questions: Questions, amount: Amount, *, seed: int) -> ProbeQuestions:
    """Make the questions; benchmarks, edits and pairs are the same for all bases."""
    searched = retrieval_items(n=amount.gallery)[0]
    assert isinstance(searched.truth, Sparse)
    captions = tuple(map(str, searched.captions))
    truth = searched.truth
    gallery = Gallery(tuple(searched.images), captions, truth.row_T, truth.column_T)
    seeds = range(seed, seed + amount.draws)
    return ProbeQuestions(
        questions,
        {name: _triples(kinds, amount.quads) for name, kinds in _FAMILIES.items()},
        _pairs(amount.quads),
        gallery,
        tuple(shuffle_captions(gallery.captions, seeds=seeds, tagger=WorldTagger())),
        rings(amount.rings, seed=seed),
        orbit_sheet("left of", amount.sets, seed=seed),
        amount.effort,
        seed,
    )


_FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "world-swap": ("swap",),
        "world-relation": ("relation", "replace_relation"),
        "world-replace": ("replace_colour", "replace_shape", "replace_size", "replace_texture"),
    }
)


def _triples(families: Sequence[str], quads: int) -> tuple[EditedImage, ...]:
    """Return edited images, without repetitions with caption and positive exchanged."""
    items_each = -(-quads // len(families))
    seen: set[tuple[object, str, str]] = set()
    triples = []
    for item in triple_items(families, n=items_each):
        (image,), (caption, negative, positive) = item.images, item.captions
        triple = EditedImage(image, str(caption), str(negative), str(positive))
        if (image.key, triple.positive, triple.caption) not in seen:
            seen.add((image.key, triple.caption, triple.positive))
            triples.append(triple)
    return tuple(triples)


def _pairs(sets: int) -> dict[str, tuple[tuple[ImageSource, ImageSource], ...]]:
    a, b = set_items("a", n=sets), set_items("b", n=sets)
    chosen = {
        "left/right": (a, 0),
        "on/under": (a, 2),
        "left/right of set b": (b, 0),
        "front/behind": (b, 2),
        "colours": (pair_items("swap", n=sets), 0),
    }
    return {
        name: tuple((item.images[at], item.images[at + 1]) for item in items)
        for name, (items, at) in chosen.items()
    }


def geometry(space: Space, bench: ProbeQuestions) -> Numbers:
    """Return the numbers about the geometry of captions, edits, images and concepts."""
    concepts = concept_vectors(space, bench.rings)
    caption_MD = space.captions(bench.gallery.captions)
    return {
        **edits(space, bench),
        "conditions": conditions(concepts),
        "superposition": sums(concepts),
        "cone": cones(concepts, space.images(bench.gallery.images), caption_MD),
        "agreement": agreement(space, bench),
    }


def edits(space: Space, bench: ProbeQuestions) -> Numbers:
    """Return `intra` and `gap`."""
    intra: dict[str, float] = {}
    gap: dict[str, float] = {}
    for name, rows in bench.triples.items():
        result = sensitivity(
            space.images([row.image for row in rows]),
            space.captions([row.caption for row in rows]),
            space.captions([row.negative for row in rows]),
            space.captions([row.positive for row in rows]),
        )
        intra[f"negatives, {name}"] = float(result.intra_negative_N.mean())
        intra[f"positives, {name}"] = float(result.intra_positive_N.mean())
        intra[f"selectivity, {name}"] = float(result.selectivity.mean())
        gap[f"negatives, {name}"] = float(result.gap_negative_N.mean())
        gap[f"positives, {name}"] = float(result.gap_positive_N.mean())
        gap[f"auc, {name}"] = result.detector_auc
    for numbers, metrics in (
        (intra, ("negatives", "positives", "selectivity")),
        (gap, ("negatives", "positives", "auc")),
    ):
        for metric in metrics:
            numbers[metric] = float(
                np.mean([numbers[f"{metric}, {name}"] for name in bench.triples])
            )
    if gap["negatives"]:
        gap["ratio"] = gap["positives"] / gap["negatives"]
    return {"intra": intra, "gap": gap}


def conditions(concepts: Concepts) -> dict[str, float]:
    """Return how often each condition holds."""
    rates = {}
    for name, samples in condition_samples(concepts).items():
        rates[name] = float(np.nanmean(samples.held.holds_N))
        if CONDITIONS[name].asks_all:
            rates[f"{name} for all"] = float(np.nanmean(for_all(samples.held, samples.things)))
        if CONDITIONS[name].chance == 1.0:
            rates[f"{name} cosine"] = float(np.nanmean(samples.first_N))
    return rates


def sums(concepts: Concepts) -> dict[str, float]:
    """Return how well the vector of two things equals the sum of their vectors."""
    thing_BSD, gallery_MD = concepts.thing_BSD, _flat(concepts.thing_BSD)
    place_N = np.arange(len(gallery_MD))
    # The opposite pair in the ring: the same colours and places, but no common thing.
    opposite_N = place_N // THINGS * THINGS + (place_N + THINGS // 2) % THINGS
    numbers = {}
    for tail in ("", ", centred"):
        result = superposition(
            _flat(concepts.pair_BSD),
            gallery_MD,
            _flat(np.roll(thing_BSD, -1, axis=1)),
            gallery_MD,
            other_N=opposite_N,
            is_centred=bool(tail),
        )
        numbers[f"sum{tail}"] = float(np.nanmean(result.sum_N))
        numbers[f"optimum{tail}"] = float(np.nanmean(result.optimum_N))
        numbers[f"first{tail}"] = float(np.nanmean(result.first_N))
        numbers[f"second{tail}"] = float(np.nanmean(result.second_N))
        numbers[f"other pair{tail}"] = float(np.nanmean(result.other_N))
    one_ND, other_ND = (_flat(concepts.bound_BSKD[:, :, k]) for k in (0, 1))
    around = [centred(vector_ND, gallery_MD) for vector_ND in (one_ND, other_ND)]
    numbers["colours exchanged"] = float(np.nanmean(cosines(one_ND, other_ND)))
    numbers["colours exchanged, centred"] = float(np.nanmean(cosines(*around)))
    # The fit of i(x_a,y_b) by both things and the names of both colours.
    bound_BSKD = concepts.bound_BSKD
    first_BSKD = np.broadcast_to(thing_BSD[:, :, None], bound_BSKD.shape)
    second_BSKD = np.roll(first_BSKD, -1, axis=1)
    colour_BSKD = np.broadcast_to(concepts.colour_BKD[:, None], bound_BSKD.shape)
    fit = fit_additive(
        bound_BSKD, (first_BSKD, second_BSKD), (colour_BSKD, colour_BSKD[:, :, ::-1])
    )
    return {**numbers, "explained": fit.explained}


def cones(concepts: Concepts, image_MD: FloatArray, caption_MD: FloatArray) -> dict[str, float]:
    """Return how narrow the cone is, and the distance between images and captions."""
    thing_BSD = concepts.thing_BSD
    single = cone(_flat(thing_BSD))
    both_ND = _flat(thing_BSD + np.roll(thing_BSD, -1, axis=1))
    between_D = image_MD.mean(axis=0) - caption_MD.mean(axis=0)
    works_on = single * thing_BSD.shape[0] * thing_BSD.shape[1]
    of_two = float(np.linalg.norm(both_ND, axis=-1).mean())
    return {
        "images": single,
        "captions": cone(caption_MD),
        "times M": works_on,
        "length of the sum": of_two,
        "two over all": of_two / works_on,
        "between means": float(np.linalg.norm(between_D)),
    }


def agreement(space: Space, bench: ProbeQuestions) -> dict[str, float]:
    """Return how similar images are that differ in one way."""
    sides = {
        name: tuple(space.images([pair[k] for pair in pairs]) for k in (0, 1))
        for name, pairs in bench.pairs.items()
    }
    gallery_MD = np.concatenate([vector_ND for vectors in sides.values() for vector_ND in vectors])
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


def order_free(space: Space, bench: ProbeQuestions) -> dict[str, float]:
    """Return the recall, and the share of it that remains after each shuffle."""
    gallery = bench.gallery
    image_PD, caption_CD = space.images(gallery.images), space.captions(gallery.captions)
    original = search(image_PD, caption_CD, gallery)
    shuffled_SPD = encode_shuffled(space, gallery.images, [bench.seed])
    label_of_direction = {direction: direction.replace("_", " ") for direction in DIRECTIONS}
    numbers = {
        f"recall, {label}": float(np.nanmean(original.hit[direction]))
        for direction, label in label_of_direction.items()
    }
    for search_result in (
        *search_captions(space, image_PD, gallery, bench.shuffled),
        *search_images(shuffled_SPD, caption_CD, gallery),
    ):
        for direction, label in label_of_direction.items():
            hit_SQ = search_result.hit[direction]
            before_SQ = np.broadcast_to(original.hit[direction], hit_SQ.shape)
            is_asked_SQ = np.isfinite(hit_SQ) & np.isfinite(before_SQ)
            # Undefined if nothing is found without shuffling.
            if before := before_SQ[is_asked_SQ].sum():
                numbers[f"retention {search_result.name}, {label}"] = float(
                    hit_SQ[is_asked_SQ].sum() / before
                )
    return numbers


TOLERANCE = 1e-3
INNER = 2
"""Inner folds for choosing a strength, which takes most of the time."""
WIDEST = "all patches"
_PARTNERS: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {"left/right": ((0, 1), (2, 3)), "binding": ((0, 2), (1, 3))}
)
"""Pairs of images in a set of four that differ only in a label."""


def readings(space: TinySpace, bench: ProbeQuestions) -> dict[str, float]:
    """Return the accuracy of all linear readers for all labels."""
    sheet = bench.sheet
    cls_NW, patch_NLW = space.last_layer(sheet.inputs)
    vector_ND = space.images(sheet.inputs)
    places = {
        "projected": vector_ND,
        "unprojected": cls_NW,
        "mean patch": patch_NLW.mean(axis=1),
        WIDEST: patch_NLW.reshape(len(patch_NLW), -1),
    }
    right: dict[str, dict[str, FloatArray]] = {}
    for label in sheet.labels:
        captions = [space.captions([row[k] for row in label.captions]) for k in (0, 1)]
        score_of_caption = [(vector_ND * caption_ND).sum(axis=1) for caption_ND in captions]
        right[label.name] = {"own score": credits(np.stack(score_of_caption, axis=1), label)}
    for place, feature_NF in places.items():
        right_by_label = read_linear(
            feature_NF, sheet.labels, sheet.groups, effort=bench.effort, seed=bench.seed
        )
        for label, (right_N, control_N) in zip(sheet.labels, right_by_label, strict=True):
            right[label.name][place] = right_N
            if place == WIDEST:
                right[label.name]["control"] = control_N
    numbers = {}
    for name, by_place in right.items():
        for place, right_N in by_place.items():
            numbers[f"{name}, {place}"] = float(right_N.mean())
        first = np.arange(0, len(vector_ND), 4)
        first_P, second_P = (
            np.concatenate([first + pair[k] for pair in _PARTNERS[name]]) for k in (0, 1)
        )
        is_merged_P = agree(vector_ND[first_P], vector_ND[second_P]) == 1
        numbers[f"{name}, merged pairs"] = float(is_merged_P.mean())
        for place, right_N in by_place.items() if is_merged_P.any() else ():
            # A tie of the own score counts half; both are right only if neither ties.
            both_P = (right_N[first_P] == 1) & (right_N[second_P] == 1)
            numbers[f"{name} of merged pairs, {place}"] = float(both_P[is_merged_P].mean())
    return numbers


def read_linear(
    feature_NF: Feature,
    labels: Sequence[Label],
    groups: Sequence[str],
    *,
    effort: Effort,
    seed: int,
) -> list[tuple[FloatArray, FloatArray]]:
    """Return, for each label, 1 where a logistic regression is right, and the same for a control.

    Readers are tested on unseen groups, as in `unbag.probes.classifiers.read`, but with thousands
    of features: the best weights lie in the span of the training rows, so features are rotated
    into that span, once for all labels.
    """
    tasks = [reader_fits(label.class_N, groups, effort, inner=INNER, seed=seed) for label in labels]
    credit = np.zeros((len(labels), 2, len(feature_NF)))
    for fold in range(effort.folds):
        # Folds depend on the groups, not on the labels.
        first = tasks[0][fold][0]
        train_TR, test_TR = _turned(feature_NF, first)
        for at, label in enumerate(labels):
            row = tasks[at][fold]
            inverse = _choose_strength(train_TR, row[0], effort)
            for kind, task in enumerate(row):
                fit = _fit_reader(train_TR, task.label_T, inverse)
                answer_T = fit.scores(test_TR).argmax(axis=1)
                credit[at, kind, task.test_T] = answer_T == label.class_N[task.test_T]
    return [(right_N, control_N) for right_N, control_N in credit]


def _turned(feature_NF: Feature, task: ReaderFit) -> tuple[FloatArray, FloatArray]:
    """Return standardised training and test rows, in the span of the training rows."""
    train_TF = feature_NF[task.train_T]
    scale = scale_of(train_TF)
    # Single precision halves the time of the large product, with an error far below the noise.
    train_TF, test_TF = (
        scale.apply(part).astype(np.float32) for part in (train_TF, feature_NF[task.test_T])
    )
    if train_TF.shape[1] <= train_TF.shape[0]:
        return train_TF.astype(float), test_TF.astype(float)
    length_T, turn_TT = np.linalg.eigh((train_TF @ train_TF.T).astype(float))
    is_kept_T = length_T > 1e-6 * length_T.max()
    turn_TR, long_R = turn_TT[:, is_kept_T], np.sqrt(length_T[is_kept_T])
    across_ST = (test_TF @ train_TF.T).astype(float)
    return turn_TR * long_R, across_ST @ (turn_TR / long_R)


def _choose_strength(train_TR: FloatArray, task: ReaderFit, effort: Effort) -> float:
    """Return the strength with the best accuracy over inner folds of the training groups."""
    strengths = effort.inverse_strengths
    if len(strengths) == 1:
        return strengths[0]
    right = np.zeros(len(strengths))
    for fold in range(int(task.inner_T.max()) + 1):
        is_held_T = task.inner_T == fold
        fit = None
        for at, inverse in enumerate(strengths):
            fit = _fit_reader(train_TR[~is_held_T], task.label_T[~is_held_T], inverse, start=fit)
            answer_T = fit.scores(train_TR[is_held_T]).argmax(axis=1)
            right[at] += (answer_T == task.label_T[is_held_T]).sum()
    return strengths[int(right.argmax())]


def _fit_reader(
    train_TR: FloatArray, told_T: IntArray, inverse: float, *, start: Logistic | None = None
) -> Logistic:
    return fit_logistic(
        train_TR,
        told_T,
        classes=2,
        strength=1 / (inverse * len(told_T)),
        start=start,
        tolerance=TOLERANCE,
    )


_IMAGES = (512, 64)
"""Batch sizes of images on a GPU and on a CPU."""
_CAPTIONS = (4_096, 256)


class TinySpace:
    """The vectors of a tiny model, cached in memory."""

    layers = None
    tokens = None
    damaged: Mapping[str, str] = MappingProxyType({})

    def __init__(self, encoder: Tiny) -> None:
        """Take a model; nothing is encoded before it is needed."""
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self._encoder = encoder
        self._at = int(encoder.device == "cpu")
        self._image: dict[Hashable, FloatArray] = {}
        self._caption: dict[str, FloatArray] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        keys = [_key(image) for image in images]
        missing = {k: p for k, p in zip(keys, images, strict=True) if k not in self._image}
        images_to_encode = list(missing.values())
        for at in range(0, len(images_to_encode), _IMAGES[self._at]):
            self._look(images_to_encode[at : at + _IMAGES[self._at]])
        return np.array([self._image[key] for key in keys])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        missing = sorted({c for c in captions if c not in self._caption}, key=lambda c: (len(c), c))
        for at in range(0, len(missing), _CAPTIONS[self._at]):
            chunk = missing[at : at + _CAPTIONS[self._at]]
            vector_BD = self._encoder.encode_texts(chunk).double().numpy()
            self._caption.update(zip(chunk, vector_BD, strict=True))
        return np.array([self._caption[caption] for caption in captions])

    def last_layer(self, images: Sequence[ImageSource]) -> tuple[Vectors, Vectors]:
        """Return the input of the projection: CLS [N, W] and patches [N, L, W]; not cached."""
        step = _IMAGES[self._at]
        parts = [self._look(images[at : at + step]) for at in range(0, len(images), step)]
        every_NLW = np.concatenate([part.float().cpu().numpy() for part in parts])
        return every_NLW[:, 0], every_NLW[:, 1:]

    @torch.inference_mode()
    def _look(self, images: Sequence[ImageSource]) -> Tensor:
        """Encode images: cache their vectors and return the last layer."""
        encoder = self._encoder.network.picture
        pixels = _levels(images, self._encoder.device).float() / 127.5 - 1.0
        last_BLW: Tensor = encoder.norm(encoder.blocks(encoder.enter(pixels)))
        vector_BD = functional.normalize(encoder.project(last_BLW[:, 0]), dim=-1)
        found_BD = vector_BD.double().cpu().numpy()
        self._image.update(zip(map(_key, images), found_BD, strict=True))
        return last_BLW


def _key(image: ImageSource) -> Hashable:
    """Return a key that is equal for images of the same scene."""
    if isinstance(image, ShuffledImage):
        return scene_of(image.image), image.kind, image.seed
    return scene_of(image)


def _levels(images: Sequence[ImageSource], device: str) -> Tensor:
    """Return bytes [B, 3, H, W]; shuffled images are cut after drawing and padded with black.

    Nine patches of 64 pixels leave one row and one column black, as in public code.
    """
    plain = [image.image if isinstance(image, ShuffledImage) else image for image in images]
    level_B3HW = drawn([scene_of(image) for image in plain]).to(device)
    for at, image in enumerate(images):
        if isinstance(image, ShuffledImage):
            image_HW3 = level_B3HW[at].permute(1, 2, 0).cpu().numpy()
            cut_HW3 = rearranged(image_HW3, GRIDS[image.kind], image.order())
            high, wide = cut_HW3.shape[:2]
            level_B3HW[at] = 0
            level_B3HW[at, :, :high, :wide] = torch.from_numpy(cut_HW3).permute(2, 0, 1).to(device)
    return level_B3HW
