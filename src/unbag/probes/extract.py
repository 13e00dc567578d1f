"""Two probes: what small classifiers can read from image features and from caption features.

A label can be read where the interval of the accuracy lies above chance, that of the selectivity
above 0, and the accuracy is at least a tenth of the way from chance to 1, since intervals do not
cover the variation between folds; it is clearly read where the interval also lies above the middle.

Dimensions: N images or captions, D joint space, F features, L patches or words, W width of a
layer, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from math import isqrt
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from unbag.errors import UnbagError, said_by
from unbag.models.features import stacked
from unbag.probes.base import (
    Known,
    Lines,
    Options,
    Plot,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Series,
    Thresholds,
    Tone,
    Value,
    Verdict,
    mean,
)
from unbag.probes.classifiers import FULL, QUICK, Effort, Feature, Reader, Reading, read
from unbag.probes.extract_data import Label, ProbeSheet, caption_sheets, image_sheets
from unbag.probes.space import Space
from unbag.runs.cache import Vectors
from unbag.runs.progress import Progress
from unbag.types import BoolArray, Estimate, FloatArray, ImageSource, TokenFeatures

NAME = "extract"
TEXT_NAME = "extract_text"
LABELS = ("left/right", "binding")
"""Labels in the verdict; the others are only in the table."""
TEXT_LABELS = ("order", "binding", "negation")
IMAGES, ALL_IMAGES = 512, 1_536
"""Images per sheet, by default and in full: 8 and 24 sets of four for each pair of shapes."""
CAPTIONS, ALL_CAPTIONS = 384, 1_152
"""Captions per label, by default and in full."""
LAYERS_CHUNK = 64
"""Inputs per chunk: all their layers are in memory at once, later only the means."""
TIE = 1e-9
SELECTIVITY = "selectivity"
RANDOM = "random encoder"
OWN = "own score"
QUARTERS = "patches by quarter"
"""Means over quarters preserve positions, and need fewer images than a learned query."""
READERS = ("linear", "mlp", "attentive")
WORDS = {
    "left/right": "left or right",
    "above/below": "above or below",
    "binding": "which thing has which colour",
    "count": "how many things there are",
    "presence": "whether a thing is there",
    "order": "which thing is named first",
    "negation": "which thing is denied",
    "relation": "which thing is said to be on the left",
}
"""The labels in words."""


class ExtractThresholds(Thresholds):
    """Thresholds on the position of an accuracy between chance (0) and 1."""

    LEAST = (
        0.1,
        "a label can be read if the accuracy is at least here and its interval above chance",
    )
    CLEAR = 0.5, "a label is clearly read, or used by the score, if the interval lies above this"


_READ = "{what} {can} from the embedding ({rate})"
_LOST = "but not from the embedding ({rate})"
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "{what} could not be measured, since no vector is finite"),
    "used": ("holds", f"{_READ} and its score uses it ({{own}})"),
    "used, not read": (
        "holds",
        "{what} is in the embedding, since its score uses it ({own}), though readers have an "
        "accuracy of {rate} on unseen pairs",
    ),
    "used in part": ("mixed", f"{_READ} and its score uses it in part ({{own}})"),
    "not used": ("mixed", f"{_READ}, but its score does not use it ({{own}})"),
    "read": ("holds", _READ),
    "read in part": ("mixed", _READ),
    "less than random": (
        "mixed",
        f"{_READ}, but less than in a randomly initialized model ({{random}})",
    ),
    "as random": ("told", f"{_READ}, no more than in a randomly initialized model ({{random}})"),
    "more than random": (
        "holds",
        f"{_READ}, more than in a randomly initialized model ({{random}})",
    ),
    "a little more": ("mixed", f"{_READ}, more than in a randomly initialized model ({{random}})"),
    "lost by the projection": (
        "fails",
        f"{{what}} {{can}} from the vector before the projection ({{before}}) {_LOST}: the "
        "projection loses it",
    ),
    "lost by the read-out": (
        "fails",
        f"{{what}} {{can}} from the {{many}} ({{inner}}) {_LOST}: the read-out loses it",
    ),
    "not there": ("fails", "{what} cannot be read from the embedding ({rate})"),
    "nowhere": (
        "fails",
        "{what} can be read neither from the embedding ({rate}) nor from the vector before the "
        "projection",
    ),
    "nowhere inside": (
        "fails",
        "{what} can be read neither from the embedding ({rate}) nor from the {many} ({inner})",
    ),
}
"""Clauses of the verdict, one per label."""
CAN = {True: "can be read", False: "can partly be read"}
NO_SCENES = "it needs balanced sets of scenes; diagnose on the built-in world as well"
NO_WORDS = "it needs captions of the world; diagnose on the built-in world as well"
NO_VECTORS = "has no vectors to read from"
NO_SUCH_LAYER = "there is no layer"
NO_LAYERS = "the model does not expose its layers: readers get the embedding only"
ABOUT = """\
Is the answer in the features though the score ignores it? (methods.md 4.3; it generalises the
argument of S2: the same encoder, a better reader.) Images are drawn in sets of four: two things
exchanged or not, their colours exchanged or not. Shapes and colours are divided into two halves,
and each image has one shape and one colour of each, so both answers have the same words and a bag
of words is at chance. Features: projected (the embedding, whose cosine is the score), unprojected
(the input of the projection), and of the last layer the mean patch, the mean patch of each quarter
of the image, and all patches; also a curve over layers. Readers: logistic regression with the
strength of its L2 penalty chosen by cross-validation, a network with one hidden layer of 256, and
one learned query over all patches with a linear layer. Every image is classified by a reader that
never saw its pair of shapes. Control: the same reader fitted to shuffled labels; selectivity =
accuracy - control. The randomly initialized model is the other control: its accuracy can be had
from any network of that architecture. Own score: the caption with the greater cosine, on the same
images; a tie counts half. Intervals resample pairs of shapes. Limits: a reader that fails does not
show that the information is missing, only that these readers do not find it in so many images;
intervals do not cover the variation between folds, and pairs share shapes; the number of things can
partly be inferred from the coloured area."""
TEXT_ABOUT = """\
Is order in the text vector, and in its words? (methods.md 4.3, for text.) Captions come in sets of
exactly the same words, so a bag of words is at chance: "a red star left of a blue cup" and "a blue
cup left of a red star" (order: whether the shape of the first half is named first); colours
exchanged or not, named in both orders (binding); "a red star without a blue cup" and the reverse
(negation: which one is denied; the world denies the last thing, so this is order too); in full also
"left of" and "right of" in both orders (relation: which one is said to be on the left). Readers,
controls and intervals are those of `extract`, with words in place of patches; pairs of shapes are
never split between training and test. Limits: text encoders have position embeddings, so order is
easily read from words, even with random weights: what matters is whether it reaches the embedding;
information that can be read need not be used."""
Input = TypeVar("Input")
Encode: TypeAlias = Callable[[Sequence[Input], Sequence[int]], tuple[TokenFeatures, ...]]
OwnScore: TypeAlias = Callable[[Space, Sequence[Input], Label, Sequence[str], Options], Quantity]


@dataclass(frozen=True)
class Side:
    """Names of the features of one encoder."""

    part: str
    many: str

    @property
    def whole(self) -> str:
        """Name of all features together."""
        return f"all {self.many}"

    @property
    def mean(self) -> str:
        """Name of the mean feature."""
        return f"mean {self.part}"


IMAGE_SIDE = Side("patch", "patches")
CAPTION_SIDE = Side("word", "words")


def ask_images(
    subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Draw images, encode and read them; skipped without vectors or without scenes."""
    if not data.is_world:
        return ProbeResult(NAME, skipped=f"{data.about}: {NO_SCENES}")
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} {NO_VECTORS}")
    count = ALL_IMAGES if options.is_full else IMAGES
    sheets = image_sheets(seed=options.seed, images=count, is_full=options.is_full)
    quantities, plots, notes = _read_sheets(
        subject,
        sheets,
        IMAGE_SIDE,
        options,
        places_of=image_places,
        vectors_of=lambda space, images: space.images(images),
        own=own_score,
        task=progress.task(f"{subject.name}: readers", sum(len(s.labels) for s in sheets)),
    )
    return ProbeResult(NAME, quantities, f"{LABELS[0]}, projected, linear", plots, notes)


def say_of(result: ProbeResult, labels: Sequence[str], side: Side) -> Verdict:
    """Join one clause per label; fails or holds only if all labels do."""
    verdicts = [_label_verdict(result, label, side) for label in labels]
    tones = {verdict.tone for verdict in verdicts}
    sentences = "; ".join(verdict.sentence for verdict in verdicts)
    tone: Tone = verdicts[0].tone if len(tones) == 1 else "mixed"
    return Verdict(tone, "{labels}.", {"labels": f"{sentences[0].upper()}{sentences[1:]}"})


EXTRACT = Probe(
    NAME,
    "Is the answer in the image features though the score ignores it?",
    ABOUT,
    ask_images,
    partial(say_of, labels=LABELS, side=IMAGE_SIDE),
    tuple(ExtractThresholds),
)


def ask_captions(
    subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Write captions, encode and read them; skipped without vectors or without the world."""
    if not data.is_world:
        return ProbeResult(TEXT_NAME, skipped=f"{data.about}: {NO_WORDS}")
    if subject.space is None:
        return ProbeResult(TEXT_NAME, skipped=f"{subject.name} {NO_VECTORS}")
    count = ALL_CAPTIONS if options.is_full else CAPTIONS
    sheets = caption_sheets(seed=options.seed, captions=count, is_full=options.is_full)
    quantities, plots, notes = _read_sheets(
        subject,
        sheets,
        CAPTION_SIDE,
        options,
        places_of=caption_places,
        vectors_of=lambda space, captions: space.captions(captions),
        task=progress.task(f"{subject.name}: readers of captions", len(sheets)),
    )
    return ProbeResult(TEXT_NAME, quantities, f"{TEXT_LABELS[0]}, projected, linear", plots, notes)


EXTRACT_TEXT = Probe(
    TEXT_NAME,
    "Are order, binding and negation in the text vector?",
    TEXT_ABOUT,
    ask_captions,
    partial(say_of, labels=TEXT_LABELS, side=CAPTION_SIDE),
    tuple(ExtractThresholds),
)


def _read_sheets(
    subject: ProbedModel,
    sheets: Sequence[ProbeSheet[Input]],
    side: Side,
    options: Options,
    *,
    places_of: Callable[[Space, Sequence[Input], Options], Places],
    vectors_of: Callable[[Space, Sequence[Input]], FloatArray],
    own: OwnScore[Input] | None = None,
    task: AbstractContextManager[Callable[[int], None]],
) -> tuple[tuple[Quantity, ...], tuple[Plot, ...], tuple[str, ...]]:
    """Read every label of every sheet; return quantities, plots and notes."""
    assert subject.space is not None
    quantities: list[Quantity] = []
    plots: list[Plot] = []
    notes: list[str] = []
    with task as advance:
        for sheet in sheets:
            places = places_of(subject.space, sheet.inputs, options)
            notes += places.notes
            for label in sheet.labels:
                label_quantities, label_plots = read_label(
                    places, label, sheet.groups, side, options
                )
                quantities += label_quantities
                plots += label_plots
                if own is not None:
                    quantities.append(
                        own(subject.space, sheet.inputs, label, sheet.groups, options)
                    )
                if subject.random_init is not None and subject.random_init.space is not None:
                    random_ND = vectors_of(subject.random_init.space, sheet.inputs)
                    quantities += read_random_init(random_ND, label, sheet.groups, options)
                advance(1)
    return tuple(quantities), tuple(plots), tuple(dict.fromkeys(notes))


def read_label(
    places: Places, label: Label, groups: Sequence[str], side: Side, options: Options
) -> tuple[list[Quantity], list[Plot]]:
    """Read one label everywhere; return its quantities and its curve over layers."""
    effort = FULL if options.is_full else QUICK
    last_spots, earlier = spots(places, side, options), curve_spots(places, side)
    label_readings = list(readings(last_spots, label, groups, options, effort))
    label_readings += readings(earlier, label, groups, options, replace(effort, shuffles=0))
    label_quantities = list(quantities(label_readings, label, groups, options))
    curve = curves(
        label_quantities, label, places, side, title=f"{label.name}: readable at which layer"
    )
    return label_quantities, [curve] if curve is not None else []


def read_random_init(
    projected_ND: FloatArray, label: Label, groups: Sequence[str], options: Options
) -> list[Quantity]:
    """Measure the accuracy of readers on the embedding of the randomly initialized model."""
    effort = replace(FULL if options.is_full else QUICK, shuffles=0)
    spot = Spot("projected", projected_ND, ("linear", "mlp"))
    return [
        mean(
            f"{label.name}, {place}, {reader}, {RANDOM}",
            reading.correct_N,
            about="the same for the randomly initialized model",
            options=options,
            clusters=groups,
            known=Known(chance=reading.chance),
            is_rate=True,
        )
        for place, reader, reading in readings([spot], label, groups, options, effort)
    ]


def own_score(
    space: Space,
    images: Sequence[ImageSource],
    label: Label,
    groups: Sequence[str],
    options: Options,
) -> Quantity:
    """Measure how often the caption of the true class has the greatest cosine."""
    classes = len(label.captions[0])
    image_ND = space.images(images)
    captions_KND = [
        space.captions([captions[k] for captions in label.captions]) for k in range(classes)
    ]
    score_NK = np.stack(
        [(image_ND * caption_ND).sum(axis=1) for caption_ND in captions_KND], axis=1
    )
    return mean(
        f"{label.name}, {OWN}",
        credits(score_NK, label),
        about=f"{label.name} by the cosine with a caption for each class, without a reader",
        options=options,
        clusters=groups,
        known=Known(bag=None, perfect=1.0, chance=1 / classes),
        better="higher",
        is_rate=True,
    )


def credits(score_NK: FloatArray, label: Label) -> FloatArray:
    """Return 1 if the true class has the highest score, its share if several tie, else 0."""
    top_N1 = score_NK.max(axis=1, keepdims=True)
    is_top_NK = score_NK >= top_N1 - TIE
    share_N = is_top_NK[np.arange(len(score_NK)), label.class_N] / np.maximum(is_top_NK.sum(1), 1)
    credit_N: FloatArray = np.where(np.isfinite(top_N1[:, 0]), share_N, np.nan)
    return credit_N


def _label_verdict(result: ProbeResult, label: str, side: Side) -> Verdict:
    """Say where one label can be read, and where it is lost."""
    values: dict[str, Value] = {"what": WORDS.get(label, label), "many": side.many}
    projected, unprojected = (best(result, label, place) for place in ("projected", "unprojected"))
    inside = [best(result, label, place) for place in (side.whole, QUARTERS, side.mean)]
    inner = max((reading for reading in inside if reading), key=BestReading.rank, default=None)
    if projected is None:
        return Verdict(*VERDICTS["unknown"], values)
    values |= {"rate": projected.estimate, "can": CAN[projected.is_clear]}
    estimates = {"before": unprojected, "inner": inner}
    values |= {name: reading.estimate for name, reading in estimates.items() if reading is not None}
    if projected.is_read or _is_used(result, label):
        case, more_values = _case_in_embedding(result, label, projected)
        values |= more_values
    elif unprojected is None and inner is None:
        case = "not there"
    elif unprojected is not None and unprojected.is_read:
        case, values["can"] = "lost by the projection", CAN[unprojected.is_clear]
    elif inner is not None and inner.is_read:
        case, values["can"] = "lost by the read-out", CAN[inner.is_clear]
    else:
        case = "nowhere" if inner is None else "nowhere inside"
    return Verdict(*VERDICTS[case], values)


def _is_used(result: ProbeResult, label: str) -> bool:
    """Whether the model's own score clearly uses it, which shows that it is there."""
    own = result.get(f"{label}, {OWN}")
    return own is not None and own.estimate.low > _beyond(own, ExtractThresholds.CLEAR)


def _case_in_embedding(
    result: ProbeResult, label: str, projected: BestReading
) -> tuple[str, Mapping[str, Value]]:
    """Return the case of a label in the embedding: whether the model's own score uses it."""
    own = result.get(f"{label}, {OWN}")
    if own is None:
        return _case_against_random(result, label, projected)
    if _is_used(result, label):
        case = "used" if projected.is_clear else "used, not read"
    else:
        is_above_chance = own.estimate.low > (own.known.chance or 0.0)
        case = "used in part" if is_above_chance else "not used"
    return case, {"own": own.estimate}


def _case_against_random(
    result: ProbeResult, label: str, projected: BestReading
) -> tuple[str, Mapping[str, Value]]:
    """Return the case without an own score: compare with the randomly initialized model."""
    quantities = [result.get(f"{label}, projected, {reader}, {RANDOM}") for reader in READERS]
    estimates = [
        quantity.estimate for quantity in quantities if quantity is not None and quantity.estimate.n
    ]
    if not estimates:
        return "read" if projected.is_clear else "read in part", {}
    random = max(estimates, key=lambda quantity: quantity.value)
    if projected.estimate.high < random.value:
        case = "less than random"
    elif projected.estimate.low <= random.value:
        case = "as random"
    else:
        case = "more than random" if projected.is_clear else "a little more"
    return case, {"random": random}


class BestReading(NamedTuple):
    """The result of the best reader at one place."""

    estimate: Estimate
    is_read: bool
    is_clear: bool

    def rank(self) -> tuple[bool, float]:
        """Return a sort key: the best reading is the largest."""
        return self.is_read, self.estimate.value


def best(result: ProbeResult, label: str, place: str) -> BestReading | None:
    """Return the best reading at a place, or None if it was not read."""
    quantities = [result.get(f"{label}, {place}, {reader}") for reader in READERS]
    readings = [
        _rated(result, quantity)
        for quantity in quantities
        if quantity is not None and quantity.estimate.n
    ]
    return max(readings, key=BestReading.rank, default=None)


def _rated(result: ProbeResult, quantity: Quantity) -> BestReading:
    estimate, chance = quantity.estimate, quantity.known.chance or 0.0
    selectivity = result.get(f"{quantity.name}, {SELECTIVITY}")
    is_above = selectivity is None or selectivity.estimate.low > 0
    is_above &= estimate.value >= _beyond(quantity, ExtractThresholds.LEAST)
    is_clear = is_above and estimate.low > _beyond(quantity, ExtractThresholds.CLEAR)
    return BestReading(estimate, is_above and estimate.low > chance, is_clear)


def _beyond(quantity: Quantity, share: float) -> float:
    """Return the accuracy at this share of the way from chance to 1."""
    chance = quantity.known.chance or 0.0
    return chance + share * (1 - chance)


@dataclass(frozen=True, eq=False)
class Spot:
    """Features of one place, and the readers to fit on them."""

    name: str
    feature: Feature
    """[N, F] or [N, L, W]."""
    readers: tuple[Reader, ...]
    mask_NL: BoolArray | None = None


def spots(places: Places, side: Side, options: Options) -> list[Spot]:
    """List the features and readers of the last layer: cheap readers only, or all in full."""
    readers: tuple[Reader, ...] = ("linear", "mlp") if options.is_full else ("linear",)
    spots = [Spot("projected", places.projected_ND, ("linear", "mlp"))]
    if places.last is not None and places.last.pooled_NW is not None:
        spots.append(Spot("unprojected", places.last.pooled_NW, readers))
    if places.last is not None:
        spots.append(Spot(side.mean, places.last.mean_NW, readers))
    if places.last is not None and places.last.quarter_NQ is not None:
        spots.append(Spot(QUARTERS, places.last.quarter_NQ, ("linear",)))
    if places.whole is not None:
        tokens = places.whole
        vector_NLW, mask_NL = tokens.vector_NLW.numpy(), tokens.mask_NL.numpy()
        spots.append(Spot(side.whole, vector_NLW, ("attentive",), mask_NL))
    return spots


def curve_spots(places: Places, side: Side) -> list[Spot]:
    """List the features of the layers before the last, for the linear reader."""
    spots = []
    for layer, summary in sorted(places.layers.items())[:-1]:
        place, feature = side.mean, summary.mean_NW
        if summary.quarter_NQ is not None:
            place, feature = QUARTERS, summary.quarter_NQ
        spots.append(Spot(at_layer(place, layer), feature, ("linear",)))
        if summary.pooled_NW is not None:
            spots.append(Spot(at_layer("unprojected", layer), summary.pooled_NW, ("linear",)))
    return spots


def at_layer(place: str, layer: int) -> str:
    """Return the name of a place before the last layer."""
    return f"{place} at layer {layer}"


def readings(
    spots: Sequence[Spot], label: Label, groups: Sequence[str], options: Options, effort: Effort
) -> Iterator[tuple[str, Reader, Reading]]:
    """Yield the reading of each reader at each place."""
    for spot in spots:
        for reader in spot.readers:
            reading = read(
                spot.feature,
                label.class_N,
                groups,
                reader=reader,
                mask_NL=spot.mask_NL,
                effort=effort,
                seed=options.seed,
            )
            yield spot.name, reader, reading


def quantities(
    label_readings: Sequence[tuple[str, Reader, Reading]],
    label: Label,
    groups: Sequence[str],
    options: Options,
) -> Iterator[Quantity]:
    """Yield the accuracy of each reading, and its selectivity where there was a control."""
    for place, reader, reading in label_readings:
        name = f"{label.name}, {place}, {reader}"
        bag = label.bag if place == "projected" else None
        source = _SOURCES.get(place, place)
        about = f"{label.name} read from {source} by {_READER_NAMES[reader]}, unseen pairs"
        known = Known(bag=bag, perfect=1.0, chance=reading.chance)
        over_units = partial(mean, options=options, clusters=groups, better="higher")
        yield over_units(name, reading.correct_N, about=about, known=known, is_rate=True)
        if np.isfinite(reading.control_N).any():
            about = "the same minus a reader that was fitted to shuffled labels"
            known = Known(bag=None if bag is None else bag - reading.chance, chance=0.0)
            beyond_N = reading.correct_N - reading.control_N
            yield over_units(f"{name}, {SELECTIVITY}", beyond_N, about=about, known=known)


_READER_NAMES: dict[Reader, str] = {
    "linear": "a logistic regression",
    "mlp": "a network with one hidden layer",
    "attentive": "one learned query",
}
_SOURCES = {
    "projected": "the embedding",
    "unprojected": "the vector before the projection",
}


def curves(
    label_quantities: Sequence[Quantity], label: Label, places: Places, side: Side, *, title: str
) -> Lines | None:
    """Plot the accuracy of the linear reader by layer; None without several layers."""
    value_of = {quantity.name: quantity.estimate for quantity in label_quantities}
    last = max(places.layers, default=0)
    series = []
    for place in (QUARTERS, side.mean, "unprojected"):
        points = []
        for layer in sorted(places.layers):
            spot = place if layer == last else at_layer(place, layer)
            estimate = value_of.get(f"{label.name}, {spot}, linear")
            points += [(layer, estimate)] if estimate is not None else []
        if len(points) > 1:
            series.append(
                Series(
                    "vector that is read out" if place == "unprojected" else place,
                    tuple(float(layer) for layer, _ in points),
                    tuple(estimate.value for _, estimate in points),
                    tuple(estimate.low for _, estimate in points),
                    tuple(estimate.high for _, estimate in points),
                )
            )
    if not series:
        return None
    return Lines(
        title,
        x="layer",
        y="accuracy on unseen pairs",
        series=tuple(series),
        chance=1 / (int(label.class_N.max()) + 1),
        about="layer 0 enters the first block, the last the projection; logistic regression",
    )


@dataclass(frozen=True, eq=False)
class LayerSummary:
    """Pooled features of one layer."""

    mean_NW: Vectors
    pooled_NW: Vectors | None
    quarter_NQ: Vectors | None = None
    """Means over each quarter of an image, concatenated; None without a square grid of patches."""


@dataclass(frozen=True, eq=False)
class Places:
    """All features to read from."""

    projected_ND: FloatArray
    """The embedding."""
    whole: TokenFeatures | None = None
    """All patches or words of the last layer."""
    layers: Mapping[int, LayerSummary] = field(default_factory=dict)
    """By number from 0; the last is the input of the projection."""
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> LayerSummary | None:
        """The layer that enters the projection."""
        return self.layers[max(self.layers)] if self.layers else None


def image_places(space: Space, images: Sequence[ImageSource], options: Options) -> Places:
    """Encode images: the embedding, the last layer, and layers for a curve."""
    view = space.layers
    projected_ND = space.images(images)
    if view is None:
        return Places(projected_ND, notes=(NO_LAYERS,))
    return _places(projected_ND, images, view.images, lambda: view.picture_depth, options, quarters)


def caption_places(space: Space, captions: Sequence[str], options: Options) -> Places:
    """Encode captions: the embedding and their layers."""
    view = space.layers
    projected_ND = space.captions(captions)
    if view is None:
        return Places(projected_ND, notes=(NO_LAYERS,))
    return _places(projected_ND, captions, view.captions, lambda: view.caption_depth, options)


def _places(
    projected_ND: FloatArray,
    inputs: Sequence[Input],
    encode: Encode[Input],
    depth: Callable[[], int],
    options: Options,
    quartered: Callable[[TokenFeatures], Vectors | None] | None = None,
) -> Places:
    """Collect features. Images have a curve over layers by default, captions only in full."""
    try:
        layers, note = curve_layers(depth(), options, has_curve=quartered is not None)
        chunks: list[list[LayerSummary]] = []
        last_layers: list[TokenFeatures] = []
        for start in range(0, len(inputs), LAYERS_CHUNK):
            features = encode(inputs[start : start + LAYERS_CHUNK], layers)
            quarters_of = quartered or (lambda _: None)
            chunks.append(
                [LayerSummary(mean_place(f), _pooled(f), quarters_of(f)) for f in features]
            )
            last_layers.append(features[-1])
    except UnbagError as error:
        return Places(projected_ND, notes=(f"{NO_LAYERS} ({said_by(error)})",))
    summaries = {
        layer: _joined([chunk[place] for chunk in chunks]) for place, layer in enumerate(layers)
    }
    return Places(projected_ND, stacked(last_layers), summaries, note)


def curve_layers(
    depth: int, options: Options, *, has_curve: bool = True
) -> tuple[list[int], tuple[str, ...]]:
    """Choose the last layer, requested ones, and two for a curve (all in full), numbered from 0."""
    missing = sorted({layer for layer in options.layers if not -depth <= layer < depth})
    requested = {layer % depth for layer in options.layers if layer not in missing}
    default_layers = (0, (depth - 1) // 2, depth - 1) if has_curve else (depth - 1,)
    chosen = range(depth) if options.is_full else default_layers
    notes = [f"{NO_SUCH_LAYER} {layer}: there are {depth}, numbered from 0" for layer in missing]
    return sorted({*chosen, *requested}), tuple(notes)


def mean_place(features: TokenFeatures) -> Vectors:
    """Return the mean over patches or words; NaN where there is none."""
    mask_NL = features.mask_NL.numpy()
    count_N = mask_NL.sum(axis=1, dtype=np.float32)
    seen_NLW = np.where(mask_NL[..., None], features.vector_NLW.numpy(), np.float32(0))
    with np.errstate(invalid="ignore"):
        mean_NW: Vectors = seen_NLW.sum(axis=1) / count_N[:, None]
    return mean_NW


def quarters(features: TokenFeatures) -> Vectors | None:
    """Return the mean patch of each quarter, [N, 4 W]; None unless patches fill a square grid."""
    n, length, width = features.vector_NLW.shape
    side = isqrt(length)
    if side < 2 or side * side != length or not features.mask_NL.all():
        return None
    grid_NRCW = features.vector_NLW.numpy().reshape(n, side, side, width)
    halves = (slice(None, side // 2), slice(side // 2, None))
    means = [grid_NRCW[:, rows, columns].mean(axis=(1, 2)) for rows in halves for columns in halves]
    return np.concatenate(means, axis=1)


def _pooled(features: TokenFeatures) -> Vectors | None:
    return None if features.pooled_NW is None else features.pooled_NW.numpy()


def _joined(parts: Sequence[LayerSummary]) -> LayerSummary:
    return LayerSummary(
        np.concatenate([part.mean_NW for part in parts]),
        _whole([part.pooled_NW for part in parts]),
        _whole([part.quarter_NQ for part in parts]),
    )


def _whole(parts: Sequence[Vectors | None]) -> Vectors | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if len(present) == len(parts) else None
