"""The probe `order`: how much a model depends on the order of words, and of parts of images.

Order-free retrieval (methods.md 3.4; Yuksekgonul et al. 2023, section 2.3): recall at 1 with
shuffled captions, or images, both as queries and in the gallery, over that of the original. Order
precision (3.3): how often an image prefers its caption to a shuffle of it; a tie is no preference.
Limits: language alone distinguishes a sentence from a shuffle into nonsense, so only swaps that
make another sentence show that a model understands order.

The verdict is about the headline: order precision on swaps, else on a shuffle.

Dimensions: P images, C captions, Q queries of one direction, A captions with an image, N captions
with a shuffle or swap, S seeds, D space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from unbag.benchmarks.retrieval import TEXT
from unbag.benchmarks.taggers import find_tagger, tag_captions
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
RETENTION, RECALL = "retention, all_words, text to image", "R@1, original, text to image"
ORIGINAL = "original"
OTHERS = {SWAPS: "another sentence of the same words"}
"""What a caption is compared with, where that is not a shuffle."""


class OrderThresholds(Thresholds):
    """Thresholds on order precision, unless they say otherwise."""

    CHANCE = 0.5, "order is not shown if the interval reaches it"
    UNSURE = (
        0.75,
        "half way from chance to 1: an interval from chance to above it does not decide",
    )
    SEES = 0.9, "order is seen if the low end of the interval is not below it"
    ALIKE = 0.95, "mean cosine of unrelated captions above which all captions are alike"
    LEAST = 20, "captions of a kind for it to be named; right queries for retention to be named"


_MEASURED = (
    "the image prefers a caption to {other} in {precision} of cases, where 50 % is chance; "
    "their vectors have cosine {similarity}{unrelated}{retained}."
)
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Not measured: no caption and image have finite vectors."),
    "blind": (
        "fails",
        "No: a caption and {other} have the same vector (cosine {similarity}), and the image "
        "prefers the caption in {precision} of cases{retained}.",
    ),
    "undecided": ("mixed", f"Not decided: {_MEASURED}"),
    "no": ("fails", f"No: {_MEASURED}"),
    "nonsense": ("mixed", f"Perhaps (language alone reveals nonsense): {_MEASURED}"),
    "not this kind": ("mixed", f"In part ({{kind}}: {{worst}}): {_MEASURED}"),
    "in part": ("mixed", f"In part: {_MEASURED}"),
    "yes": ("holds", f"Yes: {_MEASURED}"),
}
_KIND = f"{PRECISION}{SWAPS}: "
PHRASES = {
    "unrelated": ", those of unrelated captions {cosine:value}",
    "alike": ", those of unrelated captions {cosine:value} (all captions are alike)",
    "retained": "; with all words shuffled, {kept} of retrieval remains",
}
MAX_IMAGES = 160
"""Images of the gallery in a quick diagnosis, where captions are shuffled."""
MAX_SHUFFLED_IMAGES = 80
"""Images of the gallery in a quick diagnosis, where images are shuffled and encoded again."""
SEEDS = 3
ABOUT = """\
R@1 of retrieval with the words of all captions, or the parts of all images, in another order, and
its retention: shuffled R@1 over original R@1 (methods.md 3.4; Yuksekgonul et al. 2023). Order
precision: the share of captions that their image prefers to the same words in another order; a
tie is no preference. Similarity: the mean cosine of a caption to the same words in another order,
from the text encoder alone; 1 is blind to order. "Swaps" are negatives of the same words that make
another sentence, false of the image; the other shuffles mostly make nonsense, which a language
model detects without the image, so the verdict is about swaps where there are any. Limits: a
shuffle with the same meaning is left out on the world, where meanings are known, but nowhere else;
retention says little where the original R@1 is low."""


def _ask(
    subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no caption vectors")
    # The words of the world are known; other captions need an installed spaCy pipeline.
    tagger = WorldTagger() if data.is_world else find_tagger("auto")
    return order(subject.space, data, options, tagger=tagger)


def say(result: ProbeResult) -> Verdict:
    """No where precision may be chance, yes where its interval is above 90 % on swaps.

    A kind of swap at chance, with enough captions, turns yes into in part.
    """
    label = result.headline.removeprefix(PRECISION)
    precision, similarity = result[result.headline].estimate, result[SIMILARITY + label].estimate
    kinds = [
        quantity
        for quantity in result.quantities
        if quantity.name.startswith(_KIND) and quantity.estimate.n >= OrderThresholds.LEAST
    ]
    is_swaps = label == SWAPS
    worst = (
        min(kinds, key=lambda quantity: quantity.estimate.low, default=None) if is_swaps else None
    )
    if precision.n == 0:
        case = "unknown"
    elif similarity.value >= 1 - TIE:
        case = "blind"
    elif precision.low <= OrderThresholds.CHANCE:
        case = "undecided" if precision.high > OrderThresholds.UNSURE else "no"
    elif label != SWAPS:
        case = "nonsense"
    elif worst is not None and worst.estimate.low <= OrderThresholds.CHANCE:
        case = "not this kind"
    else:
        case = "in part" if precision.low < OrderThresholds.SEES else "yes"
    values: dict[str, Value] = {
        "other": OTHERS.get(label, "the same words shuffled"),
        "precision": precision,
        "similarity": similarity,
        "unrelated": _unrelated(result),
        "retained": _retained(result),
    }
    if worst is not None:
        values |= {"kind": worst.name.removeprefix(_KIND), "worst": worst.estimate}
    return Verdict(*VERDICTS[case], values)


ORDER = Probe(NAME, "Does the text encoder see order?", ABOUT, _ask, say, tuple(OrderThresholds))


def order(
    space: Space, data: ProbeData, options: Options, *, tagger: Tagger | None = None
) -> ProbeResult:
    """Measure retrieval without order, order precision and similarity in any space."""
    gallery = data.gallery and choose_gallery(data.gallery, _limit(MAX_IMAGES, options))
    asked = asked_captions(data.rows, _limit(MAX_IMAGES, options))
    if gallery is not None:
        # Every caption with its first image; captions without an image are only distractors.
        first = first_images(gallery).tolist()
        asked = [
            AskedCaption(gallery.images[place], caption, at, f"image {place}")
            for at, (caption, place) in enumerate(zip(gallery.captions, first, strict=True))
            if place >= 0
        ]
    if not asked:
        return ProbeResult(NAME, skipped=f"{data.about}: no captions with their images")
    seeds = range(options.seed, options.seed + (SEEDS if options.is_full else 1))
    texts = [ask.caption for ask in asked] if gallery is None else gallery.captions
    shuffles = shuffle_captions(texts, seeds=seeds, tagger=tagger)
    swaps = choose_rows(list(filter(is_swap, data.rows)), options)
    quantities = swapped_captions(space, swaps, options) if swaps else []
    asked_AD = space.images([ask.image for ask in asked])
    for name in dict.fromkeys(draw.name for draw in shuffles):
        same_kind = [draw for draw in shuffles if draw.name == name]
        quantities += shuffled_captions(
            space, asked_AD, asked, same_kind, options, is_world=data.is_world
        )
    quantities += other_captions(space, asked, options)
    if gallery is not None and _can_search(gallery):
        image_PD = space.images(gallery.images)
        original = search(image_PD, space.captions(gallery.captions), gallery)
        quantities += recalls(original, gallery, options)
        for search_result in search_captions(space, image_PD, gallery, shuffles):
            quantities += recalls(search_result, gallery, options)
            quantities += retentions(search_result, original, gallery, options)
        small_gallery = choose_gallery(gallery, _limit(MAX_SHUFFLED_IMAGES, options))
        quantities += _image_search(space, small_gallery, seeds, options)
    # Every caption that has another order has one when all words move.
    headline = PRECISION + (SWAPS if swaps else "all_words")
    notes = _notes(gallery, shuffles, tagger, has_swaps=bool(swaps))
    notes += part_note(len(swaps), sum(map(is_swap, data.rows)), "captions with swaps")
    if gallery is not None and data.gallery is not None:
        gallery_size = len(data.gallery.images)
        notes += part_note(len(gallery.images), gallery_size, "images of the gallery")
    return ProbeResult(NAME, tuple(quantities), headline, plots(quantities), notes)


def plots(quantities: Sequence[Quantity]) -> tuple[Plot, ...]:
    """Plot retention, order precision and similarity."""
    charts = (
        Bars(
            "R@1 left without order",
            bars_of(quantities, "retention, ", ", text to image"),
            about="Captions, or images, are shuffled in the whole gallery; 100 %: no loss.",
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
    return tuple(chart for chart in charts if chart.bars)


def _notes(
    gallery: Gallery | None, shuffles: Sequence[Shuffled], tagger: Tagger | None, *, has_swaps: bool
) -> tuple[str, ...]:
    notes = []
    if tagger is None:
        skipped = " and ".join(name for name in TEXT if name in BY_TAG)
        notes.append(f"Without a tagger, {skipped} are left out: {HOW_TO}.")
    else:
        notes.append(f"Parts of speech: {tagger.name}.")
    unchanged = {
        name: sum(shuffle.captions.count(None) for shuffle in shuffles if shuffle.name == name)
        for name in dict.fromkeys(shuffle.name for shuffle in shuffles)
    }
    counts = ", ".join(f"{name} {count}" for name, count in unchanged.items() if count)
    if counts:
        notes.append(f"Captions without another order are left out: {counts}.")
    if gallery is None or not _can_search(gallery):
        notes.append("Retrieval is left out: it needs two images and two captions.")
    if not has_swaps:
        notes.append(
            "No negative has the same words as its caption, so all other orders are shuffles, "
            "mostly nonsense that language alone detects."
        )
    return tuple(notes)


def _limit(max_items: int, options: Options) -> int | None:
    return None if options.is_full else max_items


def _can_search(gallery: Gallery) -> bool:
    return len(gallery.images) > 1 and len(gallery.captions) > 1


def _unrelated(result: ProbeResult) -> str:
    other = result.get(SIMILARITY + OTHER)
    if other is None or not other.estimate.n:
        return ""
    is_alike = other.estimate.value > OrderThresholds.ALIKE
    return fill(PHRASES["alike" if is_alike else "unrelated"], cosine=other.estimate)


def _retained(result: ProbeResult) -> str:
    retention, recall = (result.get(name) for name in (RETENTION, RECALL))
    if retention is None or recall is None:
        return ""
    is_enough = recall.estimate.value * recall.estimate.n >= OrderThresholds.LEAST
    return fill(PHRASES["retained"], kept=retention.estimate) if is_enough else ""


@dataclass(frozen=True)
class AskedCaption:
    """A caption with an image that it is true of."""

    image: ImageSource
    caption: str
    at: int
    """Index among all captions that are shuffled."""
    cluster: str


@dataclass(frozen=True)
class CaptionPair:
    """A caption and the same words in another order."""

    image: ImageSource
    caption: str
    other: str
    id: str
    cluster: str
    kind: str


def asked_captions(rows: Sequence[Row], max_rows: int | None) -> list[AskedCaption]:
    """Return unique pairs of image and caption, at most `max_rows`, chosen by hash."""
    rows_by_pair = {(row.image.key, row.caption): row for row in rows}
    chosen = sorted(rows_by_pair, key=lambda pair: hashed("\0".join(pair)))[:max_rows]
    united = unite([rows_by_pair[pair] for pair in chosen])
    return [
        AskedCaption(row.image, row.caption, place, cluster_of(row))
        for place, row in enumerate(united)
    ]


def swapped_captions(space: Space, rows: Sequence[Row], options: Options) -> list[Quantity]:
    """Compare captions with false sentences of the same words, also by kind."""
    pairs = [
        CaptionPair(row.image, row.caption, row.negative, row.id, cluster_of(row), row.kind)
        for row in rows
        if row.negative is not None
    ]
    image_ND = space.images([pair.image for pair in pairs])
    other_text = "another sentence of the same words"
    quantities = _precision_and_similarity(space, image_ND, pairs, SWAPS, other_text, options)
    kinds = sorted({pair.kind for pair in pairs})
    for kind in kinds if len(kinds) > 1 else ():
        places = [place for place, pair in enumerate(pairs) if pair.kind == kind]
        pairs_of_kind = [pairs[place] for place in places]
        quantities += _precision_and_similarity(
            space, image_ND[places], pairs_of_kind, f"{SWAPS}: {kind}", other_text, options
        )
    return quantities


def shuffled_captions(
    space: Space,
    image_AD: FloatArray,
    captions: Sequence[AskedCaption],
    shuffles: Sequence[Shuffled],
    options: Options,
    *,
    is_world: bool,
) -> list[Quantity]:
    """Compare captions with their shuffles of one kind, unless the meaning is the same."""
    pairs, places = [], []
    for shuffled in shuffles:
        for place, ask in enumerate(captions):
            other = shuffled.captions[ask.at]
            # A shuffle can have the same meaning: "a red star and a blue cup" in reverse.
            if other is None or (is_world and semantic().judge(ask.image, other) == 1):
                continue
            id = f"{ask.at}/{shuffled.seed - options.seed}"
            places.append(place)
            pairs.append(CaptionPair(ask.image, ask.caption, other, id, ask.cluster, shuffled.name))
    image_ND = image_AD[np.array(places, dtype=np.int64)]
    return _precision_and_similarity(
        space, image_ND, pairs, shuffles[0].name, "the same words shuffled", options
    )


def other_captions(
    space: Space, captions: Sequence[AskedCaption], options: Options
) -> list[Quantity]:
    """Measure the similarity of unrelated captions, as a reference for that of shuffles."""
    texts = sorted({caption.caption for caption in captions}, key=hashed)
    if len(texts) < 2:
        return []
    caption_ND = space.captions(texts)
    return [
        mean(
            f"{SIMILARITY}{OTHER}",
            cosines(caption_ND, np.roll(caption_ND, 1, axis=0)),
            about="Mean cosine of a caption and another one drawn at random, as a reference",
            options=options,
            units=texts,
        )
    ]


def _precision_and_similarity(
    space: Space,
    image_ND: FloatArray,
    pairs: Sequence[CaptionPair],
    label: str,
    other_text: str,
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
        about=f"Share of captions that their image prefers to {other_text}; a tie is no preference",
        known=Known(bag=0.0, perfect=1.0, chance=0.5),
        better="higher",
        is_rate=True,
    )
    similarity = over_pairs(
        f"{SIMILARITY}{label}",
        cosines(caption_ND, other_ND),
        about=f"Mean cosine of a caption and {other_text}, in the text encoder alone; 1 is blind",
        known=Known(bag=1.0),
        better="lower",
    )
    return [precision, similarity]


def preferred(image_ND: FloatArray, caption_ND: FloatArray, other_ND: FloatArray) -> FloatArray:
    """Return 1 where an image is nearer to its caption than to the other, else 0; NaN unknown."""
    ahead_N = cosines(image_ND, caption_ND) - cosines(image_ND, other_ND)
    return np.where(np.isfinite(ahead_N), ahead_N > TIE, np.nan)


def shuffled_images(
    image_PD: FloatArray, shuffled_SPD: Mapping[str, FloatArray], options: Options
) -> list[Quantity]:
    """Measure the similarity of images with themselves in another order of parts."""
    names = [f"image {number}" for number in range(len(image_PD))]
    return [
        mean(
            f"{SIMILARITY}{kind}",
            cosines(image_PD, images_SPD).ravel(),
            about=f"Mean cosine of an image and itself with {kind} shuffled",
            options=options,
            units=[f"{name}/{number}" for number in range(len(images_SPD)) for name in names],
            clusters=names * len(images_SPD),
            better="lower",
        )
        for kind, images_SPD in shuffled_SPD.items()
    ]


@dataclass(frozen=True)
class Shuffled:
    """All captions after one shuffle with one seed."""

    name: str
    seed: int
    captions: tuple[str | None, ...]
    """None for a caption without another order."""


@dataclass(frozen=True)
class WorldTagger:
    """Tags parts of speech in captions of the world, whose words are known."""

    name: str = "the words of the world"

    def __call__(self, captions: Sequence[str]) -> Iterator[Tagged]:
        """Yield tags: NN or NNS for shapes, JJ for other attributes, XX for all other words."""
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
    """Apply every shuffle with every seed; those by part of speech only with a tagger."""
    texts = [spaced(caption) for caption in captions]
    tagged = tag_captions(tagger, texts) if tagger is not None else None
    shuffles = []
    for name in TEXT:
        if name in BY_TAG and tagged is None:
            continue
        tags = tagged if name in BY_TAG and tagged is not None else [None] * len(texts)
        for seed in seeds:
            shuffled: tuple[str | None, ...] = tuple(
                shuffle(text, name, rng=generator(seed, name, text), tagged=tag, form=spaced)
                for text, tag in zip(texts, tags, strict=True)
            )
            shuffles.append(Shuffled(name, seed, shuffled))
    return shuffles


def _image_search(
    space: Space, gallery: Gallery, seeds: Sequence[int], options: Options
) -> list[Quantity]:
    """Search with shuffled images, and with the original ones, since the gallery may be smaller."""
    image_PD, caption_CD = space.images(gallery.images), space.captions(gallery.captions)
    shuffled_SPD = encode_shuffled(space, gallery.images, seeds)
    original = search(image_PD, caption_CD, gallery)
    quantities = recalls(original, gallery, options, note=f" ({len(gallery.images)} images)")
    for result in search_images(shuffled_SPD, caption_CD, gallery):
        quantities += recalls(result, gallery, options) + retentions(
            result, original, gallery, options
        )
    return quantities + shuffled_images(image_PD, shuffled_SPD, options)


def encode_shuffled(
    space: Space, images: Sequence[ImageSource], seeds: Sequence[int]
) -> dict[str, FloatArray]:
    """Encode all images with shuffled parts; return vectors [S, P, D] by kind of parts."""
    return {
        kind: np.array(
            [space.images([ShuffledImage(image, kind, seed) for image in images]) for seed in seeds]
        )
        for kind in GRIDS
    }


@dataclass(frozen=True, eq=False)
class Search:
    """Hits at rank 1 in a gallery under one shuffle."""

    name: str
    hit: Mapping[Direction, FloatArray]
    """[S, Q], one row per seed; NaN where there is no query."""


def search(image_PD: FloatArray, caption_CD: FloatArray, gallery: Gallery) -> Search:
    """Search the original gallery."""
    hits = hits_at_1(image_PD, caption_CD, truth_of(gallery))
    return Search(ORIGINAL, {direction: hit_Q[None] for direction, hit_Q in hits.items()})


def search_captions(
    space: Space, image_PD: FloatArray, gallery: Gallery, shuffles: Sequence[Shuffled]
) -> list[Search]:
    """Search with all captions shuffled, for every kind of shuffle.

    A caption without another order stays in the gallery but is not a query.
    """
    searches = []
    for name, same_kind in groupby(shuffles, key=lambda shuffled: shuffled.name):
        hits = [_search_shuffled(space, image_PD, gallery, shuffled) for shuffled in same_kind]
        searches.append(_search(name, hits))
    return searches


def _search_shuffled(
    space: Space, image_PD: FloatArray, gallery: Gallery, shuffled: Shuffled
) -> Mapping[Direction, FloatArray]:
    pairs = zip(shuffled.captions, gallery.captions, strict=True)
    caption_CD = space.captions([old if new is None else new for new, old in pairs])
    hit = hits_at_1(image_PD, caption_CD, truth_of(gallery))
    is_new_C = np.array([new is not None for new in shuffled.captions], dtype=np.bool_)
    is_new_P = np.zeros(len(gallery.images), dtype=np.bool_)
    is_new_P[gallery.image_T[is_new_C[gallery.caption_T]]] = True
    queries: Mapping[Direction, BoolArray] = {"text_to_image": is_new_C, "image_to_text": is_new_P}
    return {direction: np.where(queries[direction], hit[direction], np.nan) for direction in hit}


def search_images(
    shuffled_SPD: Mapping[str, FloatArray], caption_CD: FloatArray, gallery: Gallery
) -> list[Search]:
    """Search with the parts of all images shuffled, for each kind of parts."""
    truth = truth_of(gallery)
    return [
        _search(kind, [hits_at_1(image_PD, caption_CD, truth) for image_PD in images_SPD])
        for kind, images_SPD in shuffled_SPD.items()
    ]


def _search(name: str, hits: Sequence[Mapping[Direction, FloatArray]]) -> Search:
    return Search(
        name, {direction: np.stack([hit[direction] for hit in hits]) for direction in DIRECTIONS}
    )


def hits_at_1(
    image_PD: FloatArray, caption_CD: FloatArray, truth: Sparse
) -> dict[Direction, FloatArray]:
    """Return 1 where a true match of a query ranks first, else 0, also for a tie at the top.

    NaN for a query without a true match, and for one without a vector.
    """
    if image_PD.shape[1] != caption_CD.shape[1]:
        # A space that could open no image does not know the width of image vectors.
        image_PD = np.full((len(image_PD), caption_CD.shape[1]), np.nan)

    def block(start: int, stop: int) -> FloatArray:
        score_BC: FloatArray = image_PD[start:stop] @ caption_CD.T
        return score_BC

    by_text, by_image = rank_blocks(block, truth, keep=1, tie_eps=TIE)
    return {"text_to_image": hits(by_text, 1)[0], "image_to_text": hits(by_image, 1)[0]}


def recalls(result: Search, gallery: Gallery, options: Options, note: str = "") -> list[Quantity]:
    """Return R@1 in both directions."""
    is_original = result.name == ORIGINAL
    return [
        mean(
            f"R@1, {result.name}{note}, {_words(direction)}",
            result.hit[direction][:, queries.query_Q].ravel(),
            about=f"Queries with a true match at rank 1, {_words(direction)}; a tie is wrong",
            options=options,
            units=queries.units(len(result.hit[direction])),
            clusters=queries.clusters * len(result.hit[direction]),
            known=Known(perfect=1.0 if is_original else None, chance=queries.chance),
            better="higher" if is_original else "neither",
            is_rate=True,
        )
        for direction, queries in _queries(gallery)
    ]


def retentions(
    result: Search, original: Search, gallery: Gallery, options: Options
) -> list[Quantity]:
    """Return R@1 under the shuffle over R@1 of the same original queries, in both directions."""
    quantities = []
    for direction, queries in _queries(gallery):
        value_SQ = result.hit[direction][:, queries.query_Q]
        weight_SQ = np.broadcast_to(original.hit[direction][:, queries.query_Q], value_SQ.shape)
        is_valid_SQ = np.isfinite(value_SQ) & np.isfinite(weight_SQ)
        quantity = mean(
            f"retention, {result.name}, {_words(direction)}",
            np.where(is_valid_SQ, value_SQ, np.nan).ravel(),
            about=f"R@1 with {result.name} shuffled over the original R@1, {_words(direction)}",
            options=options,
            units=queries.units(len(value_SQ)),
            clusters=queries.clusters * len(value_SQ),
            weight_N=np.where(is_valid_SQ, weight_SQ, 0.0).ravel(),
            known=Known(bag=None if result.name in GRIDS else 1.0),
            better="lower",
            is_rate=True,
        )
        quantities.append(quantity)
    return quantities


@dataclass(frozen=True, eq=False)
class _Queries:
    """The queries of one direction that have a true match."""

    query_Q: IntArray
    clusters: tuple[str, ...]
    """The image that each is about."""
    chance: float

    def units(self, seeds: int) -> tuple[str, ...]:
        return tuple(f"{query}/{seed}" for seed in range(seeds) for query in self.query_Q)


def _queries(gallery: Gallery) -> Iterator[tuple[Direction, _Queries]]:
    first_C = first_images(gallery)
    for direction in DIRECTIONS:
        is_text = direction == "text_to_image"
        query_T = gallery.caption_T if is_text else gallery.image_T
        query_Q, true_Q = np.unique(query_T, return_counts=True)
        image_Q = first_C[query_Q] if is_text else query_Q
        size = len(gallery.images if is_text else gallery.captions)
        chance = float(hit_chance(size, true_Q, 1).mean()) if len(query_Q) else float("nan")
        yield direction, _Queries(query_Q, tuple(f"image {at}" for at in image_Q), chance)


def _words(direction: Direction) -> str:
    return direction.replace("_", " ")
