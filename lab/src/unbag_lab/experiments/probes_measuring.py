"""What the experiment `probes` asks of a model, and the numbers that answer it.

A model gets the numbers of every benchmark of the world by the benchmark's name, and these:

`intra`: mean cosine of a caption and its hard negatives, of it and its hard positives, and how
much nearer positives are (selectivity). `gap`: how much higher an image scores its caption than
these edits; `ratio` is that of positives over that of negatives (1 for a mere detector of edits),
`auc` how often a negative costs more than a positive (0.5 for such a detector). Both are means of
the means of swaps, relations and replacements; a metric "NAME, BENCHMARK" is of one benchmark.

`conditions`: how often each condition of an ideal space holds; "for all" where x is put against
every other thing at once; "cosine" where two images must not be one.

`superposition`: cosines of the vector of two things with the sum of theirs, with the best possible
vector, with each part and with the sum of another pair, raw and around the mean of single things;
"colours exchanged" is that of two images which would be one if all were sums; "explained" is the
share that things and names of colours explain.

`cone`: length of the mean vector of single things and of captions (0 for a cloud, 1 for a single
direction); the first times the number M of things, which is the length of their sum; the mean
length of the sum of two, which should be small against it; the latter over the former; and the
distance of the mean image from the mean caption.

`agreement`: of images that differ in one way, the share with a cosine above 0.95 (merged), mean
cosines, those around the mean of all images, and rank correlations of their vectors.

`order-free`: "recall" is R@1; "retention SHUFFLE" is R@1 with the words of all captions, or the
parts of all images, in another order, over R@1 of the same queries as they are (methods.md 3.4).
Retention means little where recall is low, as in an untrained model.

`extract`, of "left/right" (is the thing of the first hand on the left) and "binding" (has it the
colour of the first): accuracy of linear readers on pairs of things that they never saw, from
"projected" (the vector that is compared), "unprojected", "mean patch" and "all patches" of the last
layer; "control" is the reader of all patches fitted to shuffled labels; "own score" is the caption
with the greater cosine. "merged pairs" is the share of pairs of images which differ in that label
alone and have a cosine above 0.95; "of merged pairs" how often both images of such a pair are right
(chance 25 %), left out where there is none.

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


def ask(space: TinySpace, asked: ProbeQuestions) -> Numbers:
    """All numbers of one model; one that means nothing, such as a share of nothing, is left out."""
    found = {
        **benchmarks(space, asked.questions),
        **geometry(space, asked),
        "order-free": order_free(space, asked),
        "extract": readings(space, asked),
    }
    return {
        name: {metric: value for metric, value in row.items() if isfinite(value)}
        for name, row in found.items()
    }


def benchmarks(space: Space, questions: Questions) -> Numbers:
    """By benchmark and metric, by the cosine."""

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
    """How much is asked."""

    times: int
    """Items of benchmarks, in the number of the registered."""
    gallery: int
    """Images to search among."""
    draws: int
    """Of each shuffle of captions; images are shuffled once, since each must be encoded anew."""
    rings: int
    """Of four things each."""
    sets: int
    """Of four images to read from; each of 16 pairs of things has as many."""
    edited: int
    """Captions with edits by which a reader of captions is taught; a third of them test it."""
    quads: int
    """Whose captions and edits are compared, of each benchmark of edits; and as many sets of
    images of each kind. They are among the items of benchmarks, so little is encoded for them."""
    effort: Effort
    """Of readers of images; strengths are those of standardised features."""
    penalties: tuple[float, ...]
    """Among which a reader of captions chooses."""
    benchmarks: tuple[str, ...] | None = None
    """That models are asked; all of them if None."""
    every: int = 1
    """Which of their items models are asked: each so-many-th."""


@dataclass(frozen=True, eq=False)
class ProbeQuestions:
    """What every model of a base is asked."""

    questions: Questions
    triples: Mapping[str, tuple[EditedImage, ...]]
    """By benchmark."""
    pairs: Mapping[str, tuple[tuple[ImageSource, ImageSource], ...]]
    """Different images of the same things, by what differs."""
    gallery: Gallery
    shuffled: tuple[Shuffled, ...]
    """Every draw of every shuffle of the gallery's captions."""
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


def make_asked(questions: Questions, amount: Amount, *, seed: int) -> ProbeQuestions:
    """Benchmarks, edits and pairs are the same for all bases; the rest is drawn by the seed."""
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
    """Each once: the world turns caption and positive round, after which positives cost nothing."""
    each = -(-quads // len(families))
    seen: set[tuple[object, str, str]] = set()
    found = []
    for item in triple_items(families, n=each):
        (image,), (caption, negative, positive) = item.images, item.captions
        one = EditedImage(image, str(caption), str(negative), str(positive))
        if (image.key, one.positive, one.caption) not in seen:
            seen.add((image.key, one.caption, one.positive))
            found.append(one)
    return tuple(found)


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


def geometry(space: Space, asked: ProbeQuestions) -> Numbers:
    """Where captions, edits, images and concepts lie in a space."""
    concepts = concept_vectors(space, asked.rings)
    caption_MD = space.captions(asked.gallery.captions)
    return {
        **edits(space, asked),
        "conditions": conditions(concepts),
        "superposition": sums(concepts),
        "cone": cones(concepts, space.images(asked.gallery.images), caption_MD),
        "agreement": agreement(space, asked),
    }


def edits(space: Space, asked: ProbeQuestions) -> Numbers:
    """`intra` and `gap`."""
    intra: dict[str, float] = {}
    gap: dict[str, float] = {}
    for name, rows in asked.triples.items():
        found = sensitivity(
            space.images([row.image for row in rows]),
            space.captions([row.caption for row in rows]),
            space.captions([row.negative for row in rows]),
            space.captions([row.positive for row in rows]),
        )
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
            numbers[metric] = float(
                np.mean([numbers[f"{metric}, {name}"] for name in asked.triples])
            )
    if gap["negatives"]:
        gap["ratio"] = gap["positives"] / gap["negatives"]
    return {"intra": intra, "gap": gap}


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
    """How narrow it is, and how far images lie from captions."""
    thing_BSD = concepts.thing_BSD
    single = cone(_flat(thing_BSD))
    both_ND = _flat(thing_BSD + np.roll(thing_BSD, -1, axis=1))
    between_D = image_MD.mean(axis=0) - caption_MD.mean(axis=0)
    of_all = single * thing_BSD.shape[0] * thing_BSD.shape[1]
    of_two = float(np.linalg.norm(both_ND, axis=-1).mean())
    return {
        "images": single,
        "captions": cone(caption_MD),
        "times M": of_all,
        "length of the sum": of_two,
        "two over all": of_two / of_all,
        "between means": float(np.linalg.norm(between_D)),
    }


def agreement(space: Space, asked: ProbeQuestions) -> dict[str, float]:
    """How near images are that differ in one way."""
    sides = {
        name: tuple(space.images([pair[k] for pair in pairs]) for k in (0, 1))
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


def order_free(space: Space, asked: ProbeQuestions) -> dict[str, float]:
    """Recall, and how much of it every shuffle keeps."""
    gallery = asked.gallery
    image_PD, caption_CD = space.images(gallery.images), space.captions(gallery.captions)
    original = search(image_PD, caption_CD, gallery)
    shuffled_SPD = encode_shuffled(space, gallery.images, [asked.seed])
    ways = {way: way.replace("_", " ") for way in DIRECTIONS}
    found = {f"recall, {said}": float(np.nanmean(original.hit[way])) for way, said in ways.items()}
    for one in (
        *search_captions(space, image_PD, gallery, asked.shuffled),
        *search_images(shuffled_SPD, caption_CD, gallery),
    ):
        for way, spoken in ways.items():
            hit_SQ = one.hit[way]
            before_SQ = np.broadcast_to(original.hit[way], hit_SQ.shape)
            is_asked_SQ = np.isfinite(hit_SQ) & np.isfinite(before_SQ)
            # Nothing in a direction in which nothing is found as it is.
            if before := before_SQ[is_asked_SQ].sum():
                found[f"retention {one.name}, {spoken}"] = float(hit_SQ[is_asked_SQ].sum() / before)
    return found


TOLERANCE = 1e-3
INNER = 2
"""Parts of the training groups by which a strength is chosen; most of the time goes into this."""
WIDEST = "all patches"
_PARTNERS: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {"left/right": ((0, 1), (2, 3)), "binding": ((0, 2), (1, 3))}
)
"""Images of a set of four that differ in a label alone."""


def readings(space: TinySpace, asked: ProbeQuestions) -> dict[str, float]:
    """All readers of all labels."""
    sheet = asked.sheet
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
        own = [(vector_ND * caption_ND).sum(axis=1) for caption_ND in captions]
        right[label.name] = {"own score": credits(np.stack(own, axis=1), label)}
    for place, feature_NF in places.items():
        said = read_linear(
            feature_NF, sheet.labels, sheet.groups, effort=asked.effort, seed=asked.seed
        )
        for label, (right_N, control_N) in zip(sheet.labels, said, strict=True):
            right[label.name][place] = right_N
            if place == WIDEST:
                right[label.name]["control"] = control_N
    found = {}
    for name, by_place in right.items():
        for place, right_N in by_place.items():
            found[f"{name}, {place}"] = float(right_N.mean())
        first = np.arange(0, len(vector_ND), 4)
        first_P, second_P = (
            np.concatenate([first + pair[k] for pair in _PARTNERS[name]]) for k in (0, 1)
        )
        is_merged_P = agree(vector_ND[first_P], vector_ND[second_P]) == 1
        found[f"{name}, merged pairs"] = float(is_merged_P.mean())
        for place, right_N in by_place.items() if is_merged_P.any() else ():
            # A tie of the own score is half right; both are right only where neither ties.
            both_P = (right_N[first_P] == 1) & (right_N[second_P] == 1)
            found[f"{name} of merged pairs, {place}"] = float(both_P[is_merged_P].mean())
    return found


def read_linear(
    feature_NF: Feature,
    labels: Sequence[Label],
    groups: Sequence[str],
    *,
    effort: Effort,
    seed: int,
) -> list[tuple[FloatArray, FloatArray]]:
    """For each label 1 where a logistic regression is right on unseen groups, and its control.

    As `unbag.probes.classifiers.read`, for features in thousands: the best weights lie in the
    span of the training rows, so features are first turned into that span, once for all labels.
    """
    tasks = [reader_fits(label.class_N, groups, effort, inner=INNER, seed=seed) for label in labels]
    credit = np.zeros((len(labels), 2, len(feature_NF)))
    for fold in range(effort.folds):
        # Which rows are fitted to and tested on follows from the groups, not from labels.
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
    """Training and test rows, standardised; in as many dimensions as there are training rows."""
    train_TF = feature_NF[task.train_T]
    scale = scale_of(train_TF)
    # Single precision halves the time of the one large product, and is far finer than the noise.
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
    """The strength with the most right answers over inner folds of the training groups."""
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
"""That go through the encoder at once, on a GPU and on a processor."""
_CAPTIONS = (4_096, 256)


class TinySpace:
    """The vectors of a tiny model, kept in memory."""

    layers = None
    tokens = None
    damaged: Mapping[str, str] = MappingProxyType({})

    def __init__(self, encoder: Tiny) -> None:
        """Nothing is encoded before it is asked for."""
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self._encoder = encoder
        self._at = int(encoder.device == "cpu")
        self._image: dict[Hashable, FloatArray] = {}
        self._caption: dict[str, FloatArray] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        keys = [_key(image) for image in images]
        missing = {k: p for k, p in zip(keys, images, strict=True) if k not in self._image}
        some = list(missing.values())
        for at in range(0, len(some), _IMAGES[self._at]):
            self._look(some[at : at + _IMAGES[self._at]])
        return np.array([self._image[key] for key in keys])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        missing = sorted({c for c in captions if c not in self._caption}, key=lambda c: (len(c), c))
        for at in range(0, len(missing), _CAPTIONS[self._at]):
            some = missing[at : at + _CAPTIONS[self._at]]
            vector_BD = self._encoder.encode_texts(some).double().numpy()
            self._caption.update(zip(some, vector_BD, strict=True))
        return np.array([self._caption[caption] for caption in captions])

    def last_layer(self, images: Sequence[ImageSource]) -> tuple[Vectors, Vectors]:
        """What enters the projection: CLS [N, W] and patches [N, L, W]; not kept."""
        step = _IMAGES[self._at]
        parts = [self._look(images[at : at + step]) for at in range(0, len(images), step)]
        every_NLW = np.concatenate([part.float().cpu().numpy() for part in parts])
        return every_NLW[:, 0], every_NLW[:, 1:]

    @torch.inference_mode()
    def _look(self, images: Sequence[ImageSource]) -> Tensor:
        """One pass: vectors are kept, the last layer goes out."""
        encoder = self._encoder.network.picture
        pixels = _levels(images, self._encoder.device).float() / 127.5 - 1.0
        last_BLW: Tensor = encoder.norm(encoder.blocks(encoder.enter(pixels)))
        vector_BD = functional.normalize(encoder.project(last_BLW[:, 0]), dim=-1)
        found_BD = vector_BD.double().cpu().numpy()
        self._image.update(zip(map(_key, images), found_BD, strict=True))
        return last_BLW


def _key(image: ImageSource) -> Hashable:
    """Scenes compare by what they show, whatever an image is called."""
    if isinstance(image, ShuffledImage):
        return scene_of(image.image), image.kind, image.seed
    return scene_of(image)


def _levels(images: Sequence[ImageSource], device: str) -> Tensor:
    """Bytes [B, 3, H, W]; what is shuffled is cut after it is drawn, and filled up with black.

    Nine patches of 64 pixels leave one row and one column, which public code leaves black too.
    """
    plain = [one.image if isinstance(one, ShuffledImage) else one for one in images]
    level_B3HW = drawn([scene_of(one) for one in plain]).to(device)
    for at, one in enumerate(images):
        if isinstance(one, ShuffledImage):
            image_HW3 = level_B3HW[at].permute(1, 2, 0).cpu().numpy()
            cut_HW3 = rearranged(image_HW3, GRIDS[one.kind], one.order())
            high, wide = cut_HW3.shape[:2]
            level_B3HW[at] = 0
            level_B3HW[at, :, :high, :wide] = torch.from_numpy(cut_HW3).permute(2, 0, 1).to(device)
    return level_B3HW
