"""The experiment `probes`: models that exist are asked where things lie and what can be read.

Nothing is trained but readers. Every arm that is a model has the numbers of `probe_geometry`
(`intra`, `gap`, `conditions`, `superposition`, `cone`, `agreement`), of `probe_order`
(`order-free`), of `probe_reading` (`extract`) and of every benchmark of the world by its name; the
arms `blind` and `blind-ordered` have those of `probe_blind` (`caption-only` and others). Arms of
one base are asked the same; seeds follow from its name.

    python -m unbag_lab probes --bases tiny-0.safetensors --out runs/lab --processes 2

Weights of repairs are those that the experiment `default` left in the same folder.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unbag.data.images import GRIDS, ShuffledPicture, rearranged
from unbag.errors import UserError, unknown_name
from unbag.metrics.retrieval import DIRECTIONS
from unbag.models.tiny import Tiny, TinyTowers, read, untrained
from unbag.probes.agreement import agree
from unbag.probes.base import Gallery
from unbag.probes.classifiers import Effort, Feature, Task, scale_of, tasks_of
from unbag.probes.concepts import THINGS, Concepts, Ring, concept_vectors, rings
from unbag.probes.conditions import CONDITIONS, condition_samples, for_all
from unbag.probes.extract import credits
from unbag.probes.extract_data import Label, Sheet, orbit_sheet
from unbag.probes.order import (
    Search,
    Shuffled,
    WorldTagger,
    encode_shuffled,
    search,
    search_captions,
    search_pictures,
    shuffle_captions,
)
from unbag.probes.sensitivity import Sensitivity, sensitivity
from unbag.probes.space import Space, centred, cosines, spearman
from unbag.probes.superposition import cone, fit_additive, superposition
from unbag.readouts.data import world_rows
from unbag.runs.cache import Vectors
from unbag.scorers.linear_probe import Logistic, fit_logistic
from unbag.training.data.world import drawn
from unbag.training.recipes import Slot
from unbag.types import FloatArray, IntArray, Item, Picture, Sparse
from unbag.world.benchmarks import pair_items, retrieval_items, set_items, triple_items
from unbag.world.rendering import ScenePicture
from unbag.world.scenes import Scene
from unbag_lab.claim import ArmKey
from unbag_lab.plan import Order, Say, arms_left
from unbag_lab.questions import Questions
from unbag_lab.results import BEFORE, UNTRAINED, ArmResult, Extent, Size, result_path, write_result
from unbag_lab.scheduler import each_apart, shares

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# NOTE lab.probe_arms
# Names of arms of the experiment `probes` come in; the models they stand for go out.
#
# Nothing is trained here: an arm is a base, its untrained twin, a repair whose weights another
# experiment left behind, or weights between a base and such a repair.

REPAIRS_OF = "default"
"""The experiment whose repairs are asked."""
REPAIRED = ("clip_ft", "neg_clip", "hard_negative", "hard_positive", "ce_clip_fixed")
MIXED = "hard_negative"
"""The repair towards which weights are mixed."""
_MIX = "mix-"
WEIGHTS = (0.25, 0.5, 0.75)
MIXES = tuple(f"{_MIX}{weight:g}" for weight in WEIGHTS)
BLIND = {"blind": "default", "blind-ordered": "ordered"}
"""Readers of captions alone, with the preset of the captions that they are taught by."""
MODELS: tuple[str, ...] = (BEFORE, UNTRAINED, *REPAIRED, *MIXES)
ARMS: tuple[str, ...] = (*MODELS, *BLIND)


def needs(arm: str) -> tuple[ArmKey, ...]:
    """The repair whose weights an arm reads."""
    if arm not in ARMS:
        raise unknown_name("arm", arm, ARMS)
    if arm in MIXES:
        return ((REPAIRS_OF, MIXED),)
    return ((REPAIRS_OF, arm),) if arm in REPAIRED else ()


def load_arm(arm: str, base: Path, out: Path, *, seed: int, device: str) -> Tiny:
    """The model of an arm; `seed` is that of the untrained twin."""
    first = read(base, name=base.stem, device=device)
    if arm == BEFORE:
        return first
    if arm == UNTRAINED:
        return Tiny(untrained(first.config, seed=seed), name=arm, device=device)
    ((experiment, repair),) = needs(arm)
    path = result_path(out, experiment, base.stem, repair).with_suffix(".safetensors")
    if not path.exists():
        raise UserError(
            f"no weights of {repair} at {path}",
            expected=f"those that the experiment {experiment!r} leaves there",
            way_out=f"run its arm {repair} on {base.stem} into the same folder first",
        )
    tuned = read(path, name=arm, device=device)
    return tuned if arm in REPAIRED else _mixed(first, tuned, arm)


def _mixed(first: Tiny, tuned: Tiny, arm: str) -> Tiny:
    # It imports all kinds of models, and PIL with them.
    from unbag.training.merge import interpolate

    weight = float(arm.removeprefix(_MIX))
    towers = TinyTowers(first.config)
    state = interpolate(first.towers.state_dict(), tuned.towers.state_dict(), weight)
    towers.load_state_dict(state)
    return Tiny(towers, name=arm, device=first.device)


# NOTE lab.probe_material
# The seed of a base comes in; all that its arms are asked, made once for all of them, goes out.


@dataclass(frozen=True)
class Amount:
    """How much is asked."""

    times: int
    """Items of benchmarks, in the number of the registered."""
    gallery: int
    """Pictures to search among."""
    draws: int
    """Of each shuffle of captions; pictures are shuffled once, since each must be encoded anew."""
    rings: int
    """Of four things each."""
    sets: int
    """Of four pictures to read from; each of 16 pairs of things has as many."""
    edited: int
    """Captions with edits by which a reader of captions is taught; a third of them test it."""
    quads: int
    """Whose captions and edits are compared, of each benchmark of edits; and as many sets of
    pictures of each kind. They are among the items of benchmarks, so little is encoded for them."""
    effort: Effort
    """Of readers of pictures; strengths are those of standardised features."""
    penalties: tuple[float, ...]
    """Among which a reader of captions chooses."""
    benchmarks: tuple[str, ...] | None = None
    """That models are asked; all of them if None."""
    every: int = 1
    """Which of their items models are asked: each so-many-th."""


AMOUNTS: Mapping[Size, Amount] = MappingProxyType(
    {
        "full": Amount(
            times=2,
            gallery=400,
            draws=3,
            rings=12,
            sets=512,
            edited=6_144,
            quads=200,
            effort=Effort(folds=4, inverse_strengths=(1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
            penalties=(1e-5, 1e-4, 1e-3, 1e-2),
        ),
        "small": Amount(
            times=1,
            gallery=24,
            draws=1,
            rings=2,
            sets=16,
            edited=384,
            quads=4,
            effort=Effort(inverse_strengths=(1e-3,)),
            penalties=(1e-3,),
            benchmarks=("world-relation", "world-pairs-a", "world-retrieval"),
            every=8,
        ),
    }
)

_FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "world-swap": ("swap",),
        "world-relation": ("relation", "replace_relation"),
        "world-replace": ("replace_colour", "replace_shape", "replace_size", "replace_texture"),
    }
)


@dataclass(frozen=True)
class EditedPicture:
    """A picture, its caption, a hard negative and a hard positive."""

    picture: Picture
    caption: str
    negative: str
    positive: str


@dataclass(frozen=True, eq=False)
class ProbeQuestions:
    """What every model of a base is asked."""

    questions: Questions
    triples: Mapping[str, tuple[EditedPicture, ...]]
    """By benchmark."""
    pairs: Mapping[str, tuple[tuple[Picture, Picture], ...]]
    """Different pictures of the same things, by what differs."""
    gallery: Gallery
    shuffled: tuple[Shuffled, ...]
    """Every draw of every shuffle of the gallery's captions."""
    rings: tuple[Ring, ...]
    sheet: Sheet[Picture]
    effort: Effort
    seed: int


def make_asked(questions: Questions, amount: Amount, *, seed: int) -> ProbeQuestions:
    """Benchmarks, edits and pairs are the same for all bases; the rest is drawn by the seed."""
    gallery = _gallery(amount.gallery)
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


def _triples(families: Sequence[str], quads: int) -> tuple[EditedPicture, ...]:
    """Each once: the world turns caption and positive round, after which positives cost nothing."""
    each = -(-quads // len(families))
    seen: set[tuple[object, str, str]] = set()
    found = []
    for item in triple_items(families, n=each):
        (picture,), (caption, negative, positive) = item.pictures, item.captions
        one = EditedPicture(picture, str(caption), str(negative), str(positive))
        if (picture.key, one.positive, one.caption) not in seen:
            seen.add((picture.key, one.caption, one.positive))
            found.append(one)
    return tuple(found)


def _pairs(sets: int) -> dict[str, tuple[tuple[Picture, Picture], ...]]:
    a, b = set_items("a", n=sets), set_items("b", n=sets)
    return {
        "left/right": _two(a, 0),
        "on/under": _two(a, 2),
        "left/right of set b": _two(b, 0),
        "front/behind": _two(b, 2),
        "colours": _two(pair_items("swap", n=sets), 0),
    }


def _two(items: Sequence[Item], at: int) -> tuple[tuple[Picture, Picture], ...]:
    return tuple((item.pictures[at], item.pictures[at + 1]) for item in items)


def _gallery(pictures: int) -> Gallery:
    kept = retrieval_items(n=pictures)[0]
    assert isinstance(kept.truth, Sparse)
    captions = tuple(map(str, kept.captions))
    return Gallery(tuple(kept.pictures), captions, kept.truth.row_T, kept.truth.column_T)


# NOTE lab.probe_blind
# Captions with edits come in; how far a reader that never sees a picture tells them goes out.
#
# The reader is a logistic regression over runs of one to three words, with marks of beginning and
# end, told which of two captions is the true one. "caption-only" is its accuracy on each benchmark,
# picture by picture, taught by edits as repairs are trained on; "caption-only own" taught by the
# other half of that benchmark's items; "caption-only edits" its accuracy on edits of other scenes,
# by
# kind. Galleries of pictures cannot be read, so retrieval is left out. Strict pairs and groups are
# 0
# for whatever does not look.
#
# Dimensions: N pairs of captions, F runs of words, M cells of all items.

KINDS = (
    "swap_arguments",
    "swap_attributes",
    "replace_relation",
    "replace_colour",
    "replace_shape",
)
"""Of edits that it is taught by."""
METRICS = ("original", "accuracy", "individual")
"""Of a single picture; a benchmark has one of them."""
LONGEST = 3
_BENCHMARKS = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-order",
    "world-pairs-a",
    "world-pairs-b",
    "world-binding",
    "world-count",
    "world-texture",
    "world-negation",
)


class CaptionPair(NamedTuple):
    """Two captions of one picture."""

    true: str
    false: str


@dataclass(frozen=True, eq=False)
class PhraseReader:
    """Scores captions by the runs of words in them."""

    weight: dict[str, float]
    _known: dict[str, float] = field(default_factory=dict, repr=False)

    def score(self, caption: str) -> float:
        """The sum of weights; where it has no preference a coin decides, by the caption itself."""
        if caption not in self._known:
            coin = int.from_bytes(blake2b(caption.encode(), digest_size=4).digest(), "big") / 2**32
            total = sum(self.weight.get(run, 0.0) for run in runs(caption))
            self._known[caption] = total + 1e-9 * coin
        return self._known[caption]


def runs(caption: str) -> Iterator[str]:
    """Of one to three words, beginning and end included."""
    words = ["^", *caption.split(), "$"]
    for length in range(1, LONGEST + 1):
        for at in range(len(words) - length + 1):
            yield " ".join(words[at : at + length])


def blind_numbers(preset: str, amount: Amount, *, seed: int) -> dict[str, dict[str, float]]:
    """What a reader of captions alone reaches, taught by captions of a preset."""
    train, test = _edited(preset, amount.edited, seed=seed)
    reader = taught([one for some in train.values() for one in some], amount.penalties)
    right = {kind: _shares(reader, some) for kind, some in test.items() if some}
    found: dict[str, dict[str, float]] = {
        "caption-only": {},
        "caption-only own": {},
        "caption-only edits": {kind: float(np.mean(some)) for kind, some in right.items()},
    }
    every = [one for some in right.values() for one in some]
    found["caption-only edits"]["all"] = float(np.mean(every))
    for name in _BENCHMARKS:
        questions = Questions([name], times=amount.times)
        found["caption-only"][name] = _asked(questions, name, lambda item: reader)
        found["caption-only own"][name] = _asked_own(questions, name, amount.penalties)
    return found


def _edited(
    preset: str, count: int, *, seed: int
) -> tuple[dict[str, list[CaptionPair]], dict[str, list[CaptionPair]]]:
    """By kind of edit: two thirds of all captions to teach by, the others to test on."""
    slots = [Slot(kind, (kind,)) for kind in KINDS]
    parts: tuple[dict[str, list[CaptionPair]], ...] = tuple({k: [] for k in KINDS} for _ in range(2))
    rows = [
        row
        for some in world_rows(count, seed=seed, slots=slots, preset=preset)
        for row in zip(some.captions, some.negatives, strict=True)
    ]
    for at, (caption, negatives) in enumerate(rows):
        part = parts[at >= 2 * count // 3]
        for kind, negative in zip(KINDS, negatives, strict=True):
            if negative is not None:
                part[kind].append(CaptionPair(caption, negative))
    return parts[0], parts[1]


def taught(contrasts: Sequence[CaptionPair], penalties: Sequence[float]) -> PhraseReader:
    """Least logistic loss with the penalty that does best on every fifth contrast."""
    place: dict[str, int] = {}
    apart_NF = _apart(contrasts, place)
    weight_F = _fit_phrases(apart_NF, _choose_penalty(apart_NF, penalties))
    return PhraseReader(dict(zip(place, weight_F.tolist(), strict=True)))


def _choose_penalty(apart_NF: csr_matrix, penalties: Sequence[float]) -> float:
    if len(penalties) == 1:
        return penalties[0]
    is_held_N = np.arange(apart_NF.shape[0]) % 5 == 0
    rest_NF, held_NF = apart_NF[~is_held_N], apart_NF[is_held_N]
    right = [float(((held_NF @ _fit_phrases(rest_NF, one)) > 0).mean()) for one in penalties]
    return penalties[int(np.argmax(right))]


def _apart(contrasts: Sequence[CaptionPair], place: dict[str, int]) -> csr_matrix:
    """Runs of the true caption minus those of the false one; `place` is filled."""
    from scipy.sparse import csr_matrix

    cells = [
        (row, place.setdefault(run, len(place)), sign)
        for row, pair in enumerate(contrasts)
        for caption, sign in ((pair.true, 1.0), (pair.false, -1.0))
        for run in runs(caption)
    ]
    row_C, column_C, sign_C = (np.array(some) for some in zip(*cells, strict=True))
    # Runs that both captions have are summed to 0.
    return csr_matrix((sign_C, (row_C, column_C)), shape=(len(contrasts), len(place)))


def _fit_phrases(apart_NF: csr_matrix, penalty: float) -> FloatArray:
    from scipy.optimize import minimize

    def loss(weight_F: FloatArray) -> tuple[float, FloatArray]:
        ahead_N = apart_NF @ weight_F
        missed_N = 1 / (1 + np.exp(np.clip(ahead_N, -500, 500)))
        value = float(np.logaddexp(0, -ahead_N).mean() + penalty / 2 * weight_F @ weight_F)
        return value, penalty * weight_F - (apart_NF.T @ missed_N) / len(missed_N)

    first_F = np.zeros(apart_NF.shape[1])
    found = minimize(loss, first_F, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    weight_F: FloatArray = found.x
    return weight_F


def _shares(reader: PhraseReader, contrasts: Iterable[CaptionPair]) -> list[bool]:
    return [reader.score(one.true) > reader.score(one.false) for one in contrasts]


def _asked(questions: Questions, name: str, reader_of: Callable[[Item], PhraseReader]) -> float:
    """The metric of a single picture, each item judged by its reader."""

    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        parts = [
            np.tile([reader_of(item).score(str(c)) for c in item.captions], len(item.pictures))
            for item in items
        ]
        return np.concatenate(parts)

    found = questions.measured(score)[name]
    return next(found[metric] for metric in METRICS if metric in found)


def _asked_own(questions: Questions, name: str, penalties: Sequence[float]) -> float:
    """Each half of the items, by group, is judged by a reader that was taught by the other."""
    readers: list[PhraseReader] = []

    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        for half in (1, 0):
            some = [item for item in items if _half(item) == half]
            contrasts = [one for item in some for one in _contrasts(item)]
            readers.append(taught(contrasts, penalties))
        return np.zeros(len(picture_M))

    # The items come with the question: it is asked once to teach by them, once to judge.
    questions.measured(score)
    return _asked(questions, name, lambda item: readers[_half(item)])


def _half(item: Item) -> int:
    return blake2b((item.group or item.id).encode(), digest_size=1).digest()[0] % 2


def _contrasts(item: Item) -> Iterator[CaptionPair]:
    """Every true caption of a picture beside every false one."""
    assert not isinstance(item.truth, Sparse)
    for true_C in item.truth:
        for true in np.flatnonzero(true_C):
            for false in np.flatnonzero(~true_C):
                yield CaptionPair(str(item.captions[true]), str(item.captions[false]))


# NOTE lab.probe_geometry
# A space comes in; where captions, edits, pictures and concepts lie in it goes out as numbers.
#
# `intra`: mean cosine of a caption and its hard negatives, of it and its hard positives, and how
# much nearer positives are (selectivity). `gap`: how much higher a picture scores its caption than
# these edits; `ratio` is that of positives over that of negatives (1 for a mere detector of edits),
# `auc` how often a negative costs more than a positive (0.5 for such a one). Means of the means of
# swaps, relations and replacements; after a comma of one benchmark alone.
#
# `conditions`: how often each condition of an ideal space holds; "for all" where x is put against
# every other thing at once; "cosine" where two pictures must not be one.
#
# `superposition`: cosines of the vector of two things with the sum of theirs, with the best
# possible
# vector, with each part and with the sum of another pair, raw and around the mean of single things;
# "colours exchanged" is that of two pictures which would be one if all were sums; "explained" the
# share that things and names of colours explain.
#
# `cone`: length of the mean vector of single things and of captions (0 for a cloud, 1 for a single
# direction), the first times their number M, which is the length of their sum, the mean length of
# the
# sum of two, against which it should be small, the latter over the former, and the distance of the
# mean picture from the mean caption.
#
# `agreement`: of pictures that differ in one way, the share with a cosine above 0.95 (merged), mean
# cosines, those around the mean of all pictures, rank correlations of the numbers of their vectors.
#
# Dimensions: N rows, M gallery, D space.

Numbers = dict[str, dict[str, float]]
"""By kind and metric."""


def geometry(space: Space, asked: ProbeQuestions) -> Numbers:
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


def edits(space: Space, asked: ProbeQuestions) -> Numbers:
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


def _sensitivity(space: Space, rows: Sequence[EditedPicture]) -> Sensitivity:
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


def agreement(space: Space, asked: ProbeQuestions) -> dict[str, float]:
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


# NOTE lab.probe_order
# A space and a gallery come in; what is found with and without order goes out as numbers.
#
# `order-free`: "recall" is R@1 as captions are; "retention SHUFFLE" is R@1 with the words of all
# captions, or the parts of all pictures, in another order over R@1 of the same queries as they are;
# "text to image" and "image to text" is what is asked for what (methods.md 3.4). Retention means
# little where recall is low, as of an untrained model.
#
# Dimensions: S draws, Q queries, P pictures, D space.


def order_free(space: Space, asked: ProbeQuestions) -> dict[str, float]:
    """Recall, and how much of it every shuffle keeps."""
    gallery = asked.gallery
    picture_PD, caption_CD = space.pictures(gallery.pictures), space.captions(gallery.captions)
    original = search(picture_PD, caption_CD, gallery)
    shuffled_SPD = encode_shuffled(space, gallery.pictures, [asked.seed])
    found = {f"recall, {_spoken(way)}": float(np.nanmean(original.hit[way])) for way in DIRECTIONS}
    for one in (
        *search_captions(space, picture_PD, gallery, asked.shuffled),
        *search_pictures(shuffled_SPD, caption_CD, gallery),
    ):
        found |= _retentions(one, original)
    return found


def _retentions(one: Search, original: Search) -> dict[str, float]:
    """Nothing in a direction in which nothing is found as it is."""
    found = {}
    for way in DIRECTIONS:
        hit_SQ = one.hit[way]
        before_SQ = np.broadcast_to(original.hit[way], hit_SQ.shape)
        is_asked_SQ = np.isfinite(hit_SQ) & np.isfinite(before_SQ)
        if before := before_SQ[is_asked_SQ].sum():
            found[f"retention {one.name}, {_spoken(way)}"] = float(
                hit_SQ[is_asked_SQ].sum() / before
            )
    return found


def _spoken(way: str) -> str:
    return way.replace("_", " ")


# NOTE lab.probe_space
# A tiny model comes in; a space that draws and encodes each scene and caption once goes out.
#
# Like `unbag.probes.space`, but pictures are drawn together where the model computes, which needs
# neither files nor PIL, and patches of the last layer come from the same pass.
#
# Dimensions: N pictures or captions, B a batch, D joint space, L patches, W width of the last
# layer.


_PICTURES = (512, 64)
"""That go through the tower at once, on a GPU and on a processor."""
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
        self._picture: dict[Hashable, FloatArray] = {}
        self._caption: dict[str, FloatArray] = {}

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        keys = [_key(picture) for picture in pictures]
        missing = {k: p for k, p in zip(keys, pictures, strict=True) if k not in self._picture}
        some = list(missing.values())
        for at in range(0, len(some), _PICTURES[self._at]):
            self._look(some[at : at + _PICTURES[self._at]])
        return np.array([self._picture[key] for key in keys])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        missing = sorted({c for c in captions if c not in self._caption}, key=lambda c: (len(c), c))
        for at in range(0, len(missing), _CAPTIONS[self._at]):
            some = missing[at : at + _CAPTIONS[self._at]]
            vector_BD = self._encoder.encode_captions(some).double().numpy()
            self._caption.update(zip(some, vector_BD, strict=True))
        return np.array([self._caption[caption] for caption in captions])

    def last_layer(self, pictures: Sequence[Picture]) -> tuple[Vectors, Vectors]:
        """What enters the projection: CLS [N, W] and patches [N, L, W]; not kept."""
        step = _PICTURES[self._at]
        parts = [self._look(pictures[at : at + step]) for at in range(0, len(pictures), step)]
        every_NLW = np.concatenate([part.float().cpu().numpy() for part in parts])
        return every_NLW[:, 0], every_NLW[:, 1:]

    @torch.inference_mode()
    def _look(self, pictures: Sequence[Picture]) -> Tensor:
        """One pass: vectors are kept, the last layer goes out."""
        tower = self._encoder.towers.picture
        pixels = _levels(pictures, self._encoder.device).float() / 127.5 - 1.0
        last_BLW: Tensor = tower.norm(tower.blocks(tower.enter(pixels)))
        vector_BD = functional.normalize(tower.project(last_BLW[:, 0]), dim=-1)
        found_BD = vector_BD.double().cpu().numpy()
        self._picture.update(zip(map(_key, pictures), found_BD, strict=True))
        return last_BLW


def _scene(picture: Picture) -> Scene:
    assert isinstance(picture, ScenePicture)
    return picture.scene


def _key(picture: Picture) -> Hashable:
    """Scenes compare by what they show, whatever a picture is called."""
    if isinstance(picture, ShuffledPicture):
        return _scene(picture.picture), picture.kind, picture.seed
    return _scene(picture)


def _levels(pictures: Sequence[Picture], device: str) -> Tensor:
    """Bytes [B, 3, H, W]; what is shuffled is cut after it is drawn, and filled up with black.

    Nine patches of 64 pixels leave one row and one column, which public code leaves black too.
    """
    plain = [one.picture if isinstance(one, ShuffledPicture) else one for one in pictures]
    level_B3HW = drawn([_scene(one) for one in plain]).to(device)
    for at, one in enumerate(pictures):
        if isinstance(one, ShuffledPicture):
            image_HW3 = level_B3HW[at].permute(1, 2, 0).cpu().numpy()
            cut_HW3 = rearranged(image_HW3, GRIDS[one.kind], one.order())
            high, wide = cut_HW3.shape[:2]
            level_B3HW[at] = 0
            level_B3HW[at, :, :high, :wide] = torch.from_numpy(cut_HW3).permute(2, 0, 1).to(device)
    return level_B3HW


# NOTE lab.probe_reading
# A space and pictures with labels come in; what linear readers find in its features goes out.
#
# `extract`, of "left/right" (is the thing of the first hand on the left) and "binding" (has it the
# colour of the first): accuracy on pairs of things that the reader never saw, from "projected" (the
# vector that is compared), "unprojected", "mean patch" and "all patches" of the last layer;
# "control"
# is the reader of all patches fitted to shuffled labels; "own score" is the caption with the
# greater
# cosine. "merged pairs" is the share of pairs of pictures which differ in that label alone and have
# a cosine above 0.95; "of merged pairs" how often both pictures of such a pair are right (chance
# 25 %), left out where there is none.
#
# Dimensions: N pictures, P pairs of pictures, T and S pictures to fit to and to test on, F
# features,
# R rank.

TOLERANCE = 1e-3
INNER = 2
"""Parts of the training groups by which a strength is chosen; most of the time goes into this."""
WIDEST = "all patches"
_PARTNERS: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {"left/right": ((0, 1), (2, 3)), "binding": ((0, 2), (1, 3))}
)
"""Pictures of a set of four that differ in a label alone."""


def readings(space: TinySpace, asked: ProbeQuestions) -> dict[str, float]:
    """All readers of all labels."""
    sheet = asked.sheet
    cls_NW, patch_NLW = space.last_layer(sheet.given)
    vector_ND = space.pictures(sheet.given)
    places = {
        "projected": vector_ND,
        "unprojected": cls_NW,
        "mean patch": patch_NLW.mean(axis=1),
        WIDEST: patch_NLW.reshape(len(patch_NLW), -1),
    }
    right = {label.name: {"own score": _own(space, vector_ND, label)} for label in sheet.labels}
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
        found |= _of_merged(name, by_place, vector_ND)
    return found


def _own(space: TinySpace, vector_ND: FloatArray, label: Label) -> FloatArray:
    captions = [space.captions([row[k] for row in label.captions]) for k in (0, 1)]
    score_NK = np.stack([(vector_ND * caption_ND).sum(axis=1) for caption_ND in captions], axis=1)
    return credits(score_NK, label)


def _of_merged(
    name: str, right: Mapping[str, FloatArray], vector_ND: FloatArray
) -> Iterator[tuple[str, float]]:
    first = np.arange(0, len(vector_ND), 4)
    first_P, second_P = (
        np.concatenate([first + pair[k] for pair in _PARTNERS[name]]) for k in (0, 1)
    )
    is_merged_P = agree(vector_ND[first_P], vector_ND[second_P]) == 1
    yield f"{name}, merged pairs", float(is_merged_P.mean())
    if is_merged_P.any():
        for place, right_N in right.items():
            # A tie of the own score is half right; both are right only where neither ties.
            both_P = (right_N[first_P] == 1) & (right_N[second_P] == 1)
            yield f"{name} of merged pairs, {place}", float(both_P[is_merged_P].mean())


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
    tasks = [tasks_of(label.class_N, groups, effort, inner=INNER, seed=seed) for label in labels]
    credit = np.zeros((len(labels), 2, len(feature_NF)))
    for fold in range(effort.folds):
        # Which rows are fitted to and tested on follows from the groups, not from labels.
        first = tasks[0][fold][0]
        train_TR, test_TR = _turned(feature_NF, first)
        for at, label in enumerate(labels):
            row = tasks[at][fold]
            inverse = _choose_strength(train_TR, row[0], effort)
            for kind, task in enumerate(row):
                fit = _fit_reader(train_TR, task.told_T, inverse)
                answer_T = fit.scores(test_TR).argmax(axis=1)
                credit[at, kind, task.test_T] = answer_T == label.class_N[task.test_T]
    return [(right_N, control_N) for right_N, control_N in credit]


def _turned(feature_NF: Feature, task: Task) -> tuple[FloatArray, FloatArray]:
    """Training and test rows, standardised; in as many dimensions as there are training rows."""
    train_TF = feature_NF[task.train_T]
    scale = scale_of(train_TF)
    # Single precision halves the time of the one large product, and is far finer than the noise.
    train_TF, test_TF = (
        scale.of(part).astype(np.float32) for part in (train_TF, feature_NF[task.test_T])
    )
    if train_TF.shape[1] <= train_TF.shape[0]:
        return train_TF.astype(float), test_TF.astype(float)
    length_T, turn_TT = np.linalg.eigh((train_TF @ train_TF.T).astype(float))
    is_kept_T = length_T > 1e-6 * length_T.max()
    turn_TR, long_R = turn_TT[:, is_kept_T], np.sqrt(length_T[is_kept_T])
    across_ST = (test_TF @ train_TF.T).astype(float)
    return turn_TR * long_R, across_ST @ (turn_TR / long_R)


def _choose_strength(train_TR: FloatArray, task: Task, effort: Effort) -> float:
    """The strength with the most right answers over inner folds of the training groups."""
    strengths = effort.inverse_strengths
    if len(strengths) == 1:
        return strengths[0]
    right = np.zeros(len(strengths))
    for fold in range(int(task.inner_T.max()) + 1):
        is_held_T = task.inner_T == fold
        fit = None
        for at, inverse in enumerate(strengths):
            fit = _fit_reader(
                train_TR[~is_held_T], task.told_T[~is_held_T], inverse, start=fit
            )
            answer_T = fit.scores(train_TR[is_held_T]).argmax(axis=1)
            right[at] += (answer_T == task.told_T[is_held_T]).sum()
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


# NOTE lab.probe_experiment


class Probes:
    """Models that exist, asked."""

    name = "probes"
    about = "models that exist are asked where pictures and captions lie and what can be read"
    arms = ARMS
    reads_bases = True
    on_processor = True
    most_processes = 4

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """The repair whose weights an arm reads."""
        return needs(arm)

    def seconds(self, arm: str) -> float:
        """Readers are fitted on a processor, whatever encodes."""
        needs(arm)
        return 30.0 if arm in BLIND else 45.0

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Nothing is trained here."""
        needs(arm)
        return Extent(steps=0, batch=0, times=AMOUNTS[size].times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Base by base, the arms of each in as many processes as are allowed."""
        amount = AMOUNTS[order.size]
        left = {path: arms_left(order, self, path, seed=seed_of(path)) for path in order.bases}
        if not any(left.values()):
            return
        questions = Questions(amount.benchmarks, times=amount.times, every=amount.every)
        for path, arms in left.items():
            base = _ProbedBase(path, questions, amount, order)
            count = max(1, min(order.processes, len(arms)))
            groups = [arms[at::count] for at in range(count)]
            work = shares(partial(_run_arms, base, count, say), groups)
            each_apart(work, processes=count, say=say)


PROBES = Probes()


def seed_of(base: Path) -> int:
    """Each base has scenes of its own, whatever stands beside it."""
    return crc32(f"{Probes.name}/{base.stem}".encode()) & 0x7FFF_FFFF


class _ProbedBase:
    """What arms of a base share."""

    def __init__(self, path: Path, questions: Questions, amount: Amount, order: Order) -> None:
        self.path, self.questions, self.amount, self.order = path, questions, amount, order
        self.seed = seed_of(path)

    @cached_property
    def asked(self) -> ProbeQuestions:
        """What every model is asked."""
        return make_asked(self.questions, self.amount, seed=self.seed)

    @cached_property
    def fingerprint(self) -> str:
        """Of the base itself."""
        return read(self.path, name=self.path.stem).fingerprint


def _run_arms(base: _ProbedBase, processes: int, say: Say, arms: Sequence[str]) -> None:
    """One after the other; each result is written as soon as it is there."""
    if processes > 1:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))
    for arm in arms:
        started = time.monotonic()
        numbers = _numbers(base, arm)
        seconds = time.monotonic() - started
        result = ArmResult(
            experiment=Probes.name,
            base=base.path.stem,
            fingerprint=base.fingerprint,
            arm=arm,
            steps=0,
            batch=0,
            seed=base.seed,
            times=base.amount.times,
            precision="float32",
            loss=None,
            numbers=numbers,
            size=base.order.size,
            seconds=seconds,
        )
        path = result_path(base.order.out, Probes.name, base.path.stem, arm)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_result(path, result)
        say(f"{base.path.stem}: {arm} asked in {seconds:.0f} s")


def _numbers(base: _ProbedBase, arm: str) -> Numbers:
    if arm in BLIND:
        return blind_numbers(BLIND[arm], base.amount, seed=base.seed)
    device = base.order.device
    encoder = load_arm(arm, base.path, base.order.out, seed=base.seed, device=device)
    return ask(TinySpace(encoder), base.asked)


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

    def cosine(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        space.pictures([picture for item in items for picture in item.pictures])
        space.captions([str(caption) for item in items for caption in item.captions])
        parts = [
            space.pictures(item.pictures) @ space.captions(list(map(str, item.captions))).T
            for item in items
        ]
        return np.concatenate([part.ravel() for part in parts])

    return questions.measured(cosine)


def probes_script() -> None:
    """Run the experiment `probes` on existing bases."""
    parser = argparse.ArgumentParser(description=probes_script.__doc__)
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder with results and weights")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--size", choices=tuple(AMOUNTS), default="full")
    # Asking whether there is a GPU would forbid processes to fork.
    parser.add_argument("--device", default="cpu")
    text = "processes in which the arms of a base are asked side by side"
    parser.add_argument("--processes", type=int, default=1, help=text)
    given = parser.parse_args()
    order = Order(
        bases=tuple(given.bases),
        arms=tuple(given.arms),
        out=given.out,
        size=given.size,
        device=given.device,
        processes=given.processes,
    )
    PROBES.run(order, say=partial(print, flush=True))
    print(f"every arm is in {given.out / PROBES.name}")
