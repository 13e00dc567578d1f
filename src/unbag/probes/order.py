"""The probe `order`: what a model keeps when words, or parts of images, change their order.

Order-free retrieval (methods.md 3.4; Yuksekgonul et al. 2023, section 2.3): recall at 1 when the
captions, or the images, are shuffled as queries and in the gallery alike, over that of the
original. Order precision (3.3): how often an image prefers its caption to a shuffle of it; a tie
is no preference. Limits: language alone distinguishes a shuffle into nonsense from a sentence, so
only swaps that make another sentence show that order is understood.

The verdict is about the headline: order precision on swaps, else on a shuffle.

Dimensions: P images, C captions, Q queries of one direction, A captions asked about, N captions
with a shuffle or swap, S seeds, D space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from unbag.benchmarks.retrieval import TEXT
from unbag.benchmarks.taggers import find_tagger, tags_of
from unbag.data.images import GRIDS, ShuffledImage
from unbag.edits.parsing import HOW_TO
from unbag.edits.shuffles import BY_TAG, Tagged, Tagger, shuffle, spaced
from unbag.metrics.intervals import generator
from unbag.metrics.retrieval import DIRECTIONS, Direction, hits, rank_blocks
from unbag.metrics.ties import hit_chance
from unbag.probes.base import (
    Bars,
    Gallery,
    Known,
    Options,
    Plot,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Row,
    Thresholds,
    Tone,
    Value,
    Verdict,
    bars_of,
    fill,
    mean,
)
from unbag.probes.sampling import (
    choose_gallery,
    choose_rows,
    cluster_of,
    first_images,
    hashed,
    is_swap,
    part_note,
    truth_of,
    unite,
)
from unbag.probes.space import TIE, Space, cosines
from unbag.runs.progress import Progress
from unbag.types import BoolArray, FloatArray, ImageSource, IntArray, Sparse
from unbag.world.grammar import CONTENT_WORDS
from unbag.world.oracles import semantic

NAME = "order"
PRECISION, SIMILARITY = "order precision, ", "similarity, "
SWAPS, OTHER = "swaps", "another caption"
KEPT, WHOLE = "retention, all_words, text to image", "R@1, original, text to image"
ORIGINAL = "original"
OTHERS = {SWAPS: "another sentence of the same words"}
"""What a caption is set beside, where that is no shuffle."""


class OrderThresholds(Thresholds):
    """Of order precision, unless something else is named."""

    CHANCE = 0.5, "an interval that reaches it shows no order"
    UNSURE = (
        0.75,
        "half way from chance to all: an interval from chance to above it decides nothing",
    )
    SEES = 0.9, "order is seen if the low end is not below it"
    ALIKE = 0.95, "mean cosine of unrelated captions above which all captions are alike"
    LEAST = 20, "captions of a kind before it is named, right queries before retention is told"


_TOLD = (
    "the image prefers a caption to {other} in {precision} of cases, where 50 % is chance; "
    "their vectors have cosine {similarity}{unrelated}{retained}."
)
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Not known: no caption and image have vectors that are numbers."),
    "blind": (
        "fails",
        "No: a caption and {other} have the same vector (cosine {similarity}), and the image "
        "prefers the caption in {precision} of cases{retained}.",
    ),
    "undecided": ("mixed", f"Not decided: {_TOLD}"),
    "no": ("fails", f"No: {_TOLD}"),
    "nonsense": ("mixed", f"Perhaps, since language alone tells nonsense: {_TOLD}"),
    "not this kind": ("mixed", f"In part ({{kind}}: {{worst}}): {_TOLD}"),
    "in part": ("mixed", f"In part: {_TOLD}"),
    "yes": ("holds", f"Yes: {_TOLD}"),
}
_KIND = f"{PRECISION}{SWAPS}: "
PHRASES = {
    "unrelated": ", those of unrelated captions {cosine:value}",
    "alike": ", those of unrelated captions {cosine:value} (all captions are alike)",
    "retained": "; {kept} of retrieval is left with all words shuffled",
}
MOST_IMAGES = 160
"""Of the gallery whose captions are shuffled, unless all is asked for."""
MOST_SHUFFLED_IMAGES = 80
"""Of the gallery whose images are shuffled: each must be encoded anew."""
SEEDS = 3
ABOUT = """\
R@1 of retrieval with the words of all captions, or the parts of all images, in another order, and
its retention: R@1 shuffled over R@1 as it is (methods.md 3.4; Yuksekgonul et al. 2023). Order
precision: the share of captions that their image prefers to the same words in another order; a
tie is no preference. Similarity: the mean cosine of a caption to the same words in another order,
from the text encoder alone; 1 is blind to order. "Swaps" are negatives of the same words that make
another sentence, false of the image; the other shuffles mostly make nonsense, which a model of
language can tell without any image, so the verdict is about swaps where there are any. Limits: a
shuffle that happens to say the same is left out on the world, where that is known, and nowhere
else; retention says little where R@1 is low to begin with."""


def _ask(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no vectors of captions")
    # The words of the world are known; for others the spaCy pipeline that is installed, if any.
    tagger = WorldTagger() if material.is_world else find_tagger("auto")
    return order(subject.space, material, options, tagger=tagger)


def say(finding: ProbeResult) -> Verdict:
    """No where precision is about chance or less, yes where it is surely above 90 % on swaps.

    A kind of swap that may be chance makes it a part only, if there are enough of it to say.
    """
    label = finding.headline.removeprefix(PRECISION)
    found, similar = finding[finding.headline].estimate, finding[SIMILARITY + label].estimate
    kinds = [
        one
        for one in finding.quantities
        if one.name.startswith(_KIND) and one.estimate.n >= OrderThresholds.LEAST
    ]
    is_swaps = label == SWAPS
    worst = min(kinds, key=lambda one: one.estimate.low, default=None) if is_swaps else None
    if found.n == 0:
        case = "unknown"
    elif similar.value >= 1 - TIE:
        case = "blind"
    elif found.low <= OrderThresholds.CHANCE:
        case = "undecided" if found.high > OrderThresholds.UNSURE else "no"
    elif label != SWAPS:
        case = "nonsense"
    elif worst is not None and worst.estimate.low <= OrderThresholds.CHANCE:
        case = "not this kind"
    else:
        case = "in part" if found.low < OrderThresholds.SEES else "yes"
    values: dict[str, Value] = {
        "other": OTHERS.get(label, "the same words shuffled"),
        "precision": found,
        "similarity": similar,
        "unrelated": _unrelated(finding),
        "retained": _retained(finding),
    }
    if worst is not None:
        values |= {"kind": worst.name.removeprefix(_KIND), "worst": worst.estimate}
    return Verdict(*VERDICTS[case], values)


ORDER = Probe(NAME, "Does the text encoder see order?", ABOUT, _ask, say, tuple(OrderThresholds))


def order(
    space: Space, material: ProbeData, options: Options, *, tagger: Tagger | None = None
) -> ProbeResult:
    """Retrieval without order, order precision and similarity in any space of vectors."""
    gallery = material.gallery and choose_gallery(material.gallery, _most(MOST_IMAGES, options))
    asked = of_rows(material.rows, _most(MOST_IMAGES, options))
    if gallery is not None:
        # Every caption with its first image; one without an image only distracts.
        first = first_images(gallery).tolist()
        asked = [
            AskedCaption(gallery.images[place], caption, at, f"image {place}")
            for at, (caption, place) in enumerate(zip(gallery.captions, first, strict=True))
            if place >= 0
        ]
    if not asked:
        return ProbeResult(NAME, skipped=f"{material.about}: no captions with their images")
    seeds = range(options.seed, options.seed + (SEEDS if options.is_full else 1))
    texts = [one.caption for one in asked] if gallery is None else gallery.captions
    drawn = shuffle_captions(texts, seeds=seeds, tagger=tagger)
    swaps = choose_rows(list(filter(is_swap, material.rows)), options)
    quantities = swapped_captions(space, swaps, options) if swaps else []
    asked_AD = space.images([one.image for one in asked])
    for name in dict.fromkeys(one.name for one in drawn):
        every = [one for one in drawn if one.name == name]
        quantities += shuffled_captions(
            space, asked_AD, asked, every, options, is_world=material.is_world
        )
    quantities += other_captions(space, asked, options)
    if gallery is not None and _can_search(gallery):
        image_PD = space.images(gallery.images)
        original = search(image_PD, space.captions(gallery.captions), gallery)
        quantities += recalls(original, gallery, options)
        for found in search_captions(space, image_PD, gallery, drawn):
            quantities += recalls(found, gallery, options)
            quantities += retentions(found, original, gallery, options)
        few = choose_gallery(gallery, _most(MOST_SHUFFLED_IMAGES, options))
        quantities += _image_search(space, few, seeds, options)
    # Whatever caption has another order has one when all of its words move.
    headline = PRECISION + (SWAPS if swaps else "all_words")
    notes = _notes(gallery, drawn, tagger, has_swaps=bool(swaps))
    notes += part_note(len(swaps), sum(map(is_swap, material.rows)), "captions with swaps")
    if gallery is not None and material.gallery is not None:
        whole = len(material.gallery.images)
        notes += part_note(len(gallery.images), whole, "images of the gallery")
    return ProbeResult(NAME, tuple(quantities), headline, plots(quantities), notes)


def plots(quantities: Sequence[Quantity]) -> tuple[Plot, ...]:
    """What is retained, what is preferred and how near shuffles are."""
    found = (
        Bars(
            "R@1 left without order",
            bars_of(quantities, "retention, ", ", text to image"),
            about="Captions, or images, are shuffled in the whole gallery; 100 % lost nothing.",
        ),
        Bars(
            "Order precision",
            bars_of(quantities, PRECISION),
            about="How often an image prefers its caption to the same words in another order.",
        ),
        Bars(
            "Similarity to itself in another order",
            bars_of(quantities, SIMILARITY),
            is_rate=False,
            about="Mean cosine; 1 is blind to order.",
        ),
    )
    return tuple(one for one in found if one.bars)


def _notes(
    gallery: Gallery | None, drawn: Sequence[Shuffled], tagger: Tagger | None, *, has_swaps: bool
) -> tuple[str, ...]:
    notes = []
    if tagger is None:
        without = " and ".join(name for name in TEXT if name in BY_TAG)
        notes.append(f"No tagger, so {without} are not asked: {HOW_TO}.")
    else:
        notes.append(f"Parts of speech: {tagger.name}.")
    same = {
        name: sum(one.captions.count(None) for one in drawn if one.name == name)
        for name in dict.fromkeys(one.name for one in drawn)
    }
    counts = ", ".join(f"{name} {count}" for name, count in same.items() if count)
    if counts:
        notes.append(f"Captions without another order are left out: {counts}.")
    if gallery is None or not _can_search(gallery):
        notes.append("Retrieval is not asked: it needs two images and two captions.")
    if not has_swaps:
        notes.append(
            "No negative has the words of its caption, so all other orders are shuffles, mostly "
            "into nonsense: these can be told by language alone."
        )
    return tuple(notes)


def _most(most: int, options: Options) -> int | None:
    return None if options.is_full else most


def _can_search(gallery: Gallery) -> bool:
    return len(gallery.images) > 1 and len(gallery.captions) > 1


def _unrelated(finding: ProbeResult) -> str:
    other = finding.get(SIMILARITY + OTHER)
    if other is None or not other.estimate.n:
        return ""
    is_alike = other.estimate.value > OrderThresholds.ALIKE
    return fill(PHRASES["alike" if is_alike else "unrelated"], cosine=other.estimate)


def _retained(finding: ProbeResult) -> str:
    kept, whole = (finding.get(name) for name in (KEPT, WHOLE))
    if kept is None or whole is None:
        return ""
    is_enough = whole.estimate.value * whole.estimate.n >= OrderThresholds.LEAST
    return fill(PHRASES["retained"], kept=kept.estimate) if is_enough else ""


@dataclass(frozen=True)
class AskedCaption:
    """A caption with an image it is true of."""

    image: ImageSource
    caption: str
    at: int
    """Place of the caption among all that are shuffled."""
    cluster: str


@dataclass(frozen=True)
class CaptionPair:
    """A caption beside the same words in another order."""

    image: ImageSource
    caption: str
    other: str
    id: str
    cluster: str
    kind: str


def of_rows(rows: Sequence[Row], most: int | None) -> list[AskedCaption]:
    """Every image with its caption once, or so many of them, chosen by hash."""
    every = {(row.image.key, row.caption): row for row in rows}
    chosen = sorted(every, key=lambda pair: hashed("\0".join(pair)))[:most]
    found = unite([every[pair] for pair in chosen])
    return [
        AskedCaption(row.image, row.caption, at, cluster_of(row)) for at, row in enumerate(found)
    ]


def swapped_captions(space: Space, rows: Sequence[Row], options: Options) -> list[Quantity]:
    """Captions beside another sentence of the same words, false of the image; by kind too."""
    pairs = [
        CaptionPair(row.image, row.caption, row.negative, row.id, cluster_of(row), row.kind)
        for row in rows
        if row.negative is not None
    ]
    image_ND = space.images([pair.image for pair in pairs])
    what = "another sentence of the same words"
    found = _precision_and_similarity(space, image_ND, pairs, SWAPS, what, options)
    kinds = sorted({pair.kind for pair in pairs})
    for kind in kinds if len(kinds) > 1 else ():
        places = [at for at, pair in enumerate(pairs) if pair.kind == kind]
        some = [pairs[at] for at in places]
        found += _precision_and_similarity(
            space, image_ND[places], some, f"{SWAPS}: {kind}", what, options
        )
    return found


def shuffled_captions(
    space: Space,
    image_AD: FloatArray,
    asked: Sequence[AskedCaption],
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
            # A shuffle can say the same: "a red star and a blue cup" the other way round.
            if other is None or (is_world and semantic().judge(ask.image, other) == 1):
                continue
            id = f"{ask.at}/{one.seed - options.seed}"
            places.append(place)
            pairs.append(CaptionPair(ask.image, ask.caption, other, id, ask.cluster, one.name))
    image_ND = image_AD[np.array(places, dtype=np.int64)]
    return _precision_and_similarity(
        space, image_ND, pairs, drawn[0].name, "the same words shuffled", options
    )


def other_captions(space: Space, asked: Sequence[AskedCaption], options: Options) -> list[Quantity]:
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


def _precision_and_similarity(
    space: Space,
    image_ND: FloatArray,
    pairs: Sequence[CaptionPair],
    label: str,
    what: str,
    options: Options,
) -> list[Quantity]:
    caption_ND = space.captions([pair.caption for pair in pairs])
    other_ND = space.captions([pair.other for pair in pairs])
    over_pairs = partial(
        mean,
        options=options,
        units=[pair.id for pair in pairs],
        clusters=[pair.cluster for pair in pairs],
        tags=[{"kind": pair.kind} for pair in pairs],
    )
    precision = over_pairs(
        f"{PRECISION}{label}",
        preferred(image_ND, caption_ND, other_ND),
        about=f"Share of captions that their image prefers to {what}; a tie is no preference",
        known=Known(bag=0.0, perfect=1.0, chance=0.5),
        better="higher",
        is_rate=True,
    )
    similarity = over_pairs(
        f"{SIMILARITY}{label}",
        cosines(caption_ND, other_ND),
        about=f"Mean cosine of a caption and {what}, in the text encoder alone; 1 is blind",
        known=Known(bag=1.0),
        better="lower",
    )
    return [precision, similarity]


def preferred(image_ND: FloatArray, caption_ND: FloatArray, other_ND: FloatArray) -> FloatArray:
    """1 where the image is nearer to its caption than to the other one, else 0; NaN unknown."""
    ahead_N = cosines(image_ND, caption_ND) - cosines(image_ND, other_ND)
    return np.where(np.isfinite(ahead_N), ahead_N > TIE, np.nan)


def shuffled_images(
    image_PD: FloatArray, shuffled_SPD: Mapping[str, FloatArray], options: Options
) -> list[Quantity]:
    """How near an image is to itself with its parts in another order, in the image encoder."""
    names = [f"image {at}" for at in range(len(image_PD))]
    return [
        mean(
            f"{SIMILARITY}{kind}",
            cosines(image_PD, every_SPD).ravel(),
            about=f"Mean cosine of an image and itself with {kind} shuffled",
            options=options,
            units=[f"{name}/{at}" for at in range(len(every_SPD)) for name in names],
            clusters=names * len(every_SPD),
            better="lower",
        )
        for kind, every_SPD in shuffled_SPD.items()
    ]


@dataclass(frozen=True)
class Shuffled:
    """One draw of one shuffle of all captions."""

    name: str
    seed: int
    captions: tuple[str | None, ...]
    """None where there is no other order."""


@dataclass(frozen=True)
class WorldTagger:
    """Parts of speech in captions of the world: its words are known, so no parser is needed."""

    name: str = "the words of the world"

    def __call__(self, captions: Sequence[str]) -> Iterator[Tagged]:
        """Nouns and adjectives by name; all else is another part of speech."""
        for caption in captions:
            yield [(word, self._tag(word)) for word in caption.split()]

    def _tag(self, word: str) -> str:
        known = CONTENT_WORDS.get(word)
        if known is None:
            return "XX"
        if known.attribute != "shape":
            return "JJ"
        return "NNS" if known.plural else "NN"


def shuffle_captions(
    captions: Sequence[str], *, seeds: Sequence[int], tagger: Tagger | None
) -> list[Shuffled]:
    """Every shuffle at every seed; those by part of speech only with a tagger."""
    texts = [spaced(caption) for caption in captions]
    tagged = tags_of(tagger, texts) if tagger is not None else None
    found = []
    for name in TEXT:
        if name in BY_TAG and tagged is None:
            continue
        tags = tagged if name in BY_TAG and tagged is not None else [None] * len(texts)
        for seed in seeds:
            drawn: tuple[str | None, ...] = tuple(
                shuffle(text, name, rng=generator(seed, name, text), tagged=tag, form=spaced)
                for text, tag in zip(texts, tags, strict=True)
            )
            found.append(Shuffled(name, seed, drawn))
    return found


def _image_search(
    space: Space, gallery: Gallery, seeds: Sequence[int], options: Options
) -> list[Quantity]:
    """The original again, since the gallery may be a smaller one."""
    image_PD, caption_CD = space.images(gallery.images), space.captions(gallery.captions)
    shuffled_SPD = encode_shuffled(space, gallery.images, seeds)
    original = search(image_PD, caption_CD, gallery)
    found = recalls(original, gallery, options, beside=f" ({len(gallery.images)} images)")
    for one in search_images(shuffled_SPD, caption_CD, gallery):
        found += recalls(one, gallery, options) + retentions(one, original, gallery, options)
    return found + shuffled_images(image_PD, shuffled_SPD, options)


def encode_shuffled(
    space: Space, images: Sequence[ImageSource], seeds: Sequence[int]
) -> dict[str, FloatArray]:
    """Vectors [S, P, D] of all images cut and put together anew, by kind of cut."""
    return {
        kind: np.array(
            [space.images([ShuffledImage(one, kind, seed) for one in images]) for seed in seeds]
        )
        for kind in GRIDS
    }


@dataclass(frozen=True, eq=False)
class Search:
    """What is found first in a gallery under one shuffle."""

    name: str
    hit: Mapping[Direction, FloatArray]
    """[S, Q], one row a seed; NaN where nothing was asked."""


def search(image_PD: FloatArray, caption_CD: FloatArray, gallery: Gallery) -> Search:
    """As it is."""
    found = found_first(image_PD, caption_CD, truth_of(gallery))
    return Search(ORIGINAL, {direction: hit_Q[None] for direction, hit_Q in found.items()})


def search_captions(
    space: Space, image_PD: FloatArray, gallery: Gallery, drawn: Sequence[Shuffled]
) -> list[Search]:
    """With all captions shuffled, in every way that was drawn.

    A caption that has no other order stays in the gallery, and is no query.
    """
    found = []
    for name, every in groupby(drawn, key=lambda one: one.name):
        hits = [_search_shuffled(space, image_PD, gallery, one) for one in every]
        found.append(_search(name, hits))
    return found


def _search_shuffled(
    space: Space, image_PD: FloatArray, gallery: Gallery, one: Shuffled
) -> Mapping[Direction, FloatArray]:
    pairs = zip(one.captions, gallery.captions, strict=True)
    caption_CD = space.captions([old if new is None else new for new, old in pairs])
    hit = found_first(image_PD, caption_CD, truth_of(gallery))
    is_new_C = np.array([new is not None for new in one.captions], dtype=np.bool_)
    is_new_P = np.zeros(len(gallery.images), dtype=np.bool_)
    is_new_P[gallery.image_T[is_new_C[gallery.caption_T]]] = True
    asked: Mapping[Direction, BoolArray] = {"text_to_image": is_new_C, "image_to_text": is_new_P}
    return {direction: np.where(asked[direction], hit[direction], np.nan) for direction in hit}


def search_images(
    shuffled_SPD: Mapping[str, FloatArray], caption_CD: FloatArray, gallery: Gallery
) -> list[Search]:
    """With all images cut and put together in another order, for each kind of cut."""
    truth = truth_of(gallery)
    return [
        _search(kind, [found_first(image_PD, caption_CD, truth) for image_PD in every_SPD])
        for kind, every_SPD in shuffled_SPD.items()
    ]


def _search(name: str, hits: Sequence[Mapping[Direction, FloatArray]]) -> Search:
    return Search(name, {way: np.stack([hit[way] for hit in hits]) for way in DIRECTIONS})


def found_first(
    image_PD: FloatArray, caption_CD: FloatArray, truth: Sparse
) -> dict[Direction, FloatArray]:
    """1 where what belongs to a query comes first, else 0; a tie at the top is 0 as well.

    NaN for a query without anything true, and for one whose vector is missing.
    """
    if image_PD.shape[1] != caption_CD.shape[1]:
        # A space that could open no image does not know how wide their vectors are.
        image_PD = np.full((len(image_PD), caption_CD.shape[1]), np.nan)

    def block(start: int, stop: int) -> FloatArray:
        score_BC: FloatArray = image_PD[start:stop] @ caption_CD.T
        return score_BC

    by_text, by_image = rank_blocks(block, truth, keep=1, tie_eps=TIE)
    return {"text_to_image": hits(by_text, 1)[0], "image_to_text": hits(by_image, 1)[0]}


def recalls(found: Search, gallery: Gallery, options: Options, beside: str = "") -> list[Quantity]:
    """R@1 in both directions."""
    is_original = found.name == ORIGINAL
    return [
        mean(
            f"R@1, {found.name}{beside}, {_spoken(way)}",
            found.hit[way][:, asked.query_Q].ravel(),
            about=f"Share of queries whose counterpart comes first, {_spoken(way)}; a tie is wrong",
            options=options,
            units=asked.units(len(found.hit[way])),
            clusters=asked.clusters * len(found.hit[way]),
            known=Known(perfect=1.0 if is_original else None, chance=asked.chance),
            better="higher" if is_original else "neither",
            is_rate=True,
        )
        for way, asked in _queries(gallery)
    ]


def retentions(
    found: Search, original: Search, gallery: Gallery, options: Options
) -> list[Quantity]:
    """R@1 under the shuffle over R@1 of the same queries as they are, in both directions."""
    quantities = []
    for way, asked in _queries(gallery):
        value_SQ = found.hit[way][:, asked.query_Q]
        weight_SQ = np.broadcast_to(original.hit[way][:, asked.query_Q], value_SQ.shape)
        is_valid_SQ = np.isfinite(value_SQ) & np.isfinite(weight_SQ)
        quantity = mean(
            f"retention, {found.name}, {_spoken(way)}",
            np.where(is_valid_SQ, value_SQ, np.nan).ravel(),
            about=f"R@1 with {found.name} shuffled over R@1 as it is, {_spoken(way)}",
            options=options,
            units=asked.units(len(value_SQ)),
            clusters=asked.clusters * len(value_SQ),
            weight_N=np.where(is_valid_SQ, weight_SQ, 0.0).ravel(),
            known=Known(bag=None if found.name in GRIDS else 1.0),
            better="lower",
            is_rate=True,
        )
        quantities.append(quantity)
    return quantities


@dataclass(frozen=True, eq=False)
class _Queries:
    """The queries of one direction that have a counterpart."""

    query_Q: IntArray
    clusters: tuple[str, ...]
    """The image that each is about."""
    chance: float

    def units(self, seeds: int) -> tuple[str, ...]:
        return tuple(f"{query}/{seed}" for seed in range(seeds) for query in self.query_Q)


def _queries(gallery: Gallery) -> Iterator[tuple[Direction, _Queries]]:
    first_C = first_images(gallery)
    for way in DIRECTIONS:
        is_text = way == "text_to_image"
        asking_T = gallery.caption_T if is_text else gallery.image_T
        query_Q, true_Q = np.unique(asking_T, return_counts=True)
        image_Q = first_C[query_Q] if is_text else query_Q
        size = len(gallery.images if is_text else gallery.captions)
        chance = float(hit_chance(size, true_Q, 1).mean()) if len(query_Q) else float("nan")
        yield way, _Queries(query_Q, tuple(f"image {at}" for at in image_Q), chance)


def _spoken(way: Direction) -> str:
    return way.replace("_", " ")
