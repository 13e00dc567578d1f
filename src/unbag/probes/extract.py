"""Two probes: what small classifiers read from image features, and from caption features.

Something counts as read where the interval of the accuracy lies above chance, that of the
selectivity above 0, and the accuracy goes at least a tenth of the way from chance to 1, since
intervals leave out the luck of the folds; clearly, where the interval also lies above the middle.

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
"""What the sentence is about; the rest stands in the table."""
TEXT_LABELS = ("order", "binding", "negation")
IMAGES, ALL_IMAGES = 512, 1_536
"""Of each sheet, by default and in full: 8 and 24 sets of four for each pair of shapes."""
CAPTIONS, ALL_CAPTIONS = 384, 1_152
"""Of each label, by default and in full."""
LAYERS_CHUNK = 64
"""Inputs whose layers are in memory at once: only their means are kept."""
TIE = 1e-9
SELECTIVITY = "selectivity"
RANDOM = "random encoder"
OWN = "own score"
QUARTERS = "patches by quarter"
"""Means over quarters keep where things lie, and need fewer images than a learned query."""
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
"""What each label is, in a sentence."""


class ExtractThresholds(Thresholds):
    """Of the way of an accuracy from chance to 1."""

    LEAST = 0.1, "something is read if the accuracy is here or beyond, and surely above chance"
    CLEAR = 0.5, "it is clearly read, or clearly used by the score, if surely beyond"


_READ = "{what} {can} from the vector that is compared ({rate})"
_LOST = "but not from the vector that is compared ({rate})"
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "{what} could not be read, since no vector is finite"),
    "used": ("holds", f"{_READ} and its score uses it ({{own}})"),
    "used, not read": (
        "holds",
        "{what} is in the vector that is compared, for its score uses it ({own}), though readers "
        "find it in {rate} of unseen pairs",
    ),
    "used in part": ("mixed", f"{_READ} and in part its score uses it ({{own}})"),
    "not used": ("mixed", f"{_READ}, but its score does not use it ({{own}})"),
    "read": ("holds", _READ),
    "read in part": ("mixed", _READ),
    "less than random": ("mixed", f"{_READ}, less than with random weights ({{random}})"),
    "as random": ("told", f"{_READ}, no more than with random weights ({{random}})"),
    "more than random": ("holds", f"{_READ}, more than with random weights ({{random}})"),
    "a little more": ("mixed", f"{_READ}, more than with random weights ({{random}})"),
    "lost by the projection": (
        "fails",
        f"{{what}} {{can}} from the vector before the projection ({{before}}) {_LOST}: the "
        "projection loses it",
    ),
    "lost by the read-out": (
        "fails",
        f"{{what}} {{can}} from the {{many}} ({{inner}}) {_LOST}: it is there, and the read-out "
        "loses it",
    ),
    "not there": ("fails", "{what} cannot be read from the vector that is compared ({rate})"),
    "nowhere": (
        "fails",
        "{what} can be read neither from the vector that is compared ({rate}) nor from what stands "
        "before it",
    ),
    "nowhere inside": (
        "fails",
        "{what} can be read neither from the vector that is compared ({rate}) nor from the {many} "
        "({inner})",
    ),
}
"""What is said of one label."""
CAN = {True: "can be read", False: "can in part be read"}
NO_SCENES = "needs scenes in balanced sets: diagnose on the world's images as well"
NO_WORDS = "the captions are those of the world: diagnose on the world's images as well"
NO_VECTORS = "has no vectors to read from"
NO_SUCH_LAYER = "there is no layer"
NO_LAYERS = "the model does not show its layers: only the vector that is compared was read from"
ABOUT = """\
Is the answer in the features though the score ignores it? (methods.md 4.3; it generalises the
argument of S2: the same encoder, a better reader.) Images are drawn in sets of four: two things
exchanged or not, their colours exchanged or not. Each image has a shape and a colour of either
hand of cards, so both answers have the same words and a bag of words is at chance. Features:
projected (the unit vector that is compared), unprojected (what enters the projection), and of the
last layer the mean patch, the means of patches over each quarter of the image, and all patches;
also a curve over layers. Readers: logistic regression with the
strength of its L2 penalty chosen by cross-validation, a network with one hidden layer of 256, and
one learned query over all patches with a linear layer. Every image is judged by a reader that
never saw its pair of shapes. Control: the same reader fitted to shuffled labels; selectivity =
accuracy - control. The random twin is the other control: what it gives can be read from any
network of that build. Own score: the caption with the greater cosine, on the same images; a tie
counts half. Intervals resample pairs of shapes. Limits: that a reader fails does not show that
nothing is there, only that these readers find nothing in so many images; intervals leave out the
luck of the folds, and pairs share shapes; the number of things can in part be inferred from the
coloured area."""
TEXT_ABOUT = """\
Is order in the text vector, and in its words? (methods.md 4.3, on the side of text.) Captions come
in sets of exactly the same words, so a bag of words is at chance: "a red star left of a blue cup"
and "a blue cup left of a red star" (order: is the shape of the first hand of cards named first);
colours exchanged or not, named in both orders (binding); "a red star without a blue cup" and its
turn (negation: which one is denied; the world denies what stands last, so this is order too); in
full also "left of" and "right of" in both orders (relation: which one is said to be on the left).
Readers, controls and intervals are those of `extract`, with words in place of patches; pairs of
shapes are never in both parts. Limits: every text encoder is given positions, so order is easily
read from its words, even with random weights: what matters is whether it reaches the vector that
is compared; what can be read need not be used."""
Given = TypeVar("Given")
Ask: TypeAlias = Callable[[Sequence[Given], Sequence[int]], tuple[TokenFeatures, ...]]
OwnScore: TypeAlias = Callable[[Space, Sequence[Given], Label, Sequence[str], Options], Quantity]


@dataclass(frozen=True)
class Side:
    """Words for one encoder."""

    part: str
    many: str

    @property
    def whole(self) -> str:
        """The place of all of them."""
        return f"all {self.many}"

    @property
    def mean(self) -> str:
        """The place of their mean."""
        return f"mean {self.part}"


IMAGE_SIDE = Side("patch", "patches")
CAPTION_SIDE = Side("word", "words")


def ask_images(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Draw, encode, read; skipped without vectors or without scenes."""
    if not material.is_world:
        return ProbeResult(NAME, skipped=f"{material.about}: {NO_SCENES}")
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} {NO_VECTORS}")
    count = ALL_IMAGES if options.is_full else IMAGES
    sheets = image_sheets(seed=options.seed, images=count, is_full=options.is_full)
    found = _read_sheets(
        subject,
        sheets,
        IMAGE_SIDE,
        options,
        places_of=image_places,
        vectors_of=lambda space, images: space.images(images),
        own=own_score,
        task=progress.task(f"{subject.name}: readers", sum(len(s.labels) for s in sheets)),
    )
    return ProbeResult(NAME, found[0], f"{LABELS[0]}, projected, linear", *found[1:])


def say_of(finding: ProbeResult, labels: Sequence[str], side: Side) -> Verdict:
    """One sentence on the labels, the first first; fails or holds where all of them do."""
    told = [_label_verdict(finding, label, side) for label in labels]
    tones = {one.tone for one in told}
    each = "; ".join(one.sentence for one in told)
    tone: Tone = told[0].tone if len(tones) == 1 else "mixed"
    return Verdict(tone, "{labels}.", {"labels": f"{each[0].upper()}{each[1:]}"})


EXTRACT = Probe(
    NAME,
    "Is the answer in the image features though the score ignores it?",
    ABOUT,
    ask_images,
    partial(say_of, labels=LABELS, side=IMAGE_SIDE),
    tuple(ExtractThresholds),
)


def ask_captions(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Write captions, encode, read; skipped without vectors or where the world is not asked for."""
    if not material.is_world:
        return ProbeResult(TEXT_NAME, skipped=f"{material.about}: {NO_WORDS}")
    if subject.space is None:
        return ProbeResult(TEXT_NAME, skipped=f"{subject.name} {NO_VECTORS}")
    count = ALL_CAPTIONS if options.is_full else CAPTIONS
    sheets = caption_sheets(seed=options.seed, captions=count, is_full=options.is_full)
    found = _read_sheets(
        subject,
        sheets,
        CAPTION_SIDE,
        options,
        places_of=caption_places,
        vectors_of=lambda space, captions: space.captions(captions),
        task=progress.task(f"{subject.name}: readers of captions", len(sheets)),
    )
    return ProbeResult(TEXT_NAME, found[0], f"{TEXT_LABELS[0]}, projected, linear", *found[1:])


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
    sheets: Sequence[ProbeSheet[Given]],
    side: Side,
    options: Options,
    *,
    places_of: Callable[[Space, Sequence[Given], Options], Places],
    vectors_of: Callable[[Space, Sequence[Given]], FloatArray],
    own: OwnScore[Given] | None = None,
    task: AbstractContextManager[Callable[[int], None]],
) -> tuple[tuple[Quantity, ...], tuple[Plot, ...], tuple[str, ...]]:
    """Every label of every sheet: quantities, plots and notes."""
    assert subject.space is not None
    made: list[Quantity] = []
    plots: list[Plot] = []
    notes: list[str] = []
    with task as advance:
        for sheet in sheets:
            places = places_of(subject.space, sheet.given, options)
            notes += places.notes
            for label in sheet.labels:
                found, drawn = read_label(places, label, sheet.groups, side, options)
                made += found
                plots += drawn
                if own is not None:
                    made.append(own(subject.space, sheet.given, label, sheet.groups, options))
                if subject.random_init is not None and subject.random_init.space is not None:
                    twin_ND = vectors_of(subject.random_init.space, sheet.given)
                    made += read_twin(twin_ND, label, sheet.groups, options)
                advance(1)
    return tuple(made), tuple(plots), tuple(dict.fromkeys(notes))


def read_label(
    places: Places, label: Label, groups: Sequence[str], side: Side, options: Options
) -> tuple[list[Quantity], list[Plot]]:
    """All that is found out about one label."""
    effort = FULL if options.is_full else QUICK
    last, before = spots(places, side, options), curve_spots(places, side)
    found = list(readings(last, label, groups, options, effort))
    found += readings(before, label, groups, options, replace(effort, shuffles=0))
    made = list(quantities(found, label, groups, options))
    curve = curves(made, label, places, side, title=f"{label.name}: readable at which layer")
    return made, [curve] if curve is not None else []


def read_twin(
    projected_ND: FloatArray, label: Label, groups: Sequence[str], options: Options
) -> list[Quantity]:
    """What the vector that is compared gives without training."""
    effort = replace(FULL if options.is_full else QUICK, shuffles=0)
    spot = Spot("projected", projected_ND, ("linear", "mlp"))
    return [
        mean(
            f"{label.name}, {place}, {reader}, {RANDOM}",
            reading.correct_N,
            about="the same of the model with random weights",
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
    """How often the model itself gives the caption of the true class the greatest cosine."""
    classes = len(label.captions[0])
    image_ND = space.images(images)
    said = [space.captions([row[k] for row in label.captions]) for k in range(classes)]
    score_NK = np.stack([(image_ND * caption_ND).sum(axis=1) for caption_ND in said], axis=1)
    return mean(
        f"{label.name}, {OWN}",
        credits(score_NK, label),
        about=f"{label.name} by the cosine with a caption for each answer, without any reader",
        options=options,
        clusters=groups,
        known=Known(bag=None, perfect=1.0, chance=1 / classes),
        better="higher",
        is_rate=True,
    )


def credits(score_NK: FloatArray, label: Label) -> FloatArray:
    """1 if the true class is alone on top, its share among those that tie there, else 0."""
    top_N1 = score_NK.max(axis=1, keepdims=True)
    is_top_NK = score_NK >= top_N1 - TIE
    own_N = is_top_NK[np.arange(len(score_NK)), label.class_N] / np.maximum(is_top_NK.sum(1), 1)
    credit_N: FloatArray = np.where(np.isfinite(top_N1[:, 0]), own_N, np.nan)
    return credit_N


def _label_verdict(finding: ProbeResult, label: str, side: Side) -> Verdict:
    """Where one label can be read, and where it is lost."""
    values: dict[str, Value] = {"what": WORDS.get(label, label), "many": side.many}
    compared, before = (best(finding, label, place) for place in ("projected", "unprojected"))
    parts = [best(finding, label, place) for place in (side.whole, QUARTERS, side.mean)]
    inner = max((one for one in parts if one), key=BestReading.rank, default=None)
    if compared is None:
        return Verdict(*VERDICTS["unknown"], values)
    values |= {"rate": compared.estimate, "can": CAN[compared.is_clear]}
    known = {"before": before, "inner": inner}
    values |= {name: one.estimate for name, one in known.items() if one is not None}
    if compared.is_read or _is_used(finding, label):
        case, more = _in_compared(finding, label, compared)
        values |= more
    elif before is None and inner is None:
        case = "not there"
    elif before is not None and before.is_read:
        case, values["can"] = "lost by the projection", CAN[before.is_clear]
    elif inner is not None and inner.is_read:
        case, values["can"] = "lost by the read-out", CAN[inner.is_clear]
    else:
        case = "nowhere" if inner is None else "nowhere inside"
    return Verdict(*VERDICTS[case], values)


def _is_used(finding: ProbeResult, label: str) -> bool:
    """Whether the model's own score clearly decides by it: then it is there, readers or not."""
    own = finding.get(f"{label}, {OWN}")
    return own is not None and own.estimate.low > _beyond(own, ExtractThresholds.CLEAR)


def _in_compared(
    finding: ProbeResult, label: str, compared: BestReading
) -> tuple[str, Mapping[str, Value]]:
    """In the vector that is compared; whether the model's own score uses it."""
    own = finding.get(f"{label}, {OWN}")
    if own is None:
        return _beside_random(finding, label, compared)
    if _is_used(finding, label):
        case = "used" if compared.is_clear else "used, not read"
    else:
        is_above_chance = own.estimate.low > (own.known.chance or 0.0)
        case = "used in part" if is_above_chance else "not used"
    return case, {"own": own.estimate}


def _beside_random(
    finding: ProbeResult, label: str, compared: BestReading
) -> tuple[str, Mapping[str, Value]]:
    """Without a score to judge by: what any network of that build gives is no merit."""
    named = [finding.get(f"{label}, projected, {reader}, {RANDOM}") for reader in READERS]
    known = [one.estimate for one in named if one is not None and one.estimate.n]
    if not known:
        return "read" if compared.is_clear else "read in part", {}
    random = max(known, key=lambda one: one.value)
    if compared.estimate.high < random.value:
        case = "less than random"
    elif compared.estimate.low <= random.value:
        case = "as random"
    else:
        case = "more than random" if compared.is_clear else "a little more"
    return case, {"random": random}


class BestReading(NamedTuple):
    """The best reader of one place."""

    estimate: Estimate
    is_read: bool
    is_clear: bool

    def rank(self) -> tuple[bool, float]:
        """The best is the largest."""
        return self.is_read, self.estimate.value


def best(finding: ProbeResult, label: str, place: str) -> BestReading | None:
    """None where this place was not read from."""
    named = [finding.get(f"{label}, {place}, {reader}") for reader in READERS]
    rows = [_judged(finding, one) for one in named if one is not None and one.estimate.n]
    return max(rows, key=BestReading.rank, default=None)


def _judged(finding: ProbeResult, quantity: Quantity) -> BestReading:
    found, chance = quantity.estimate, quantity.known.chance or 0.0
    selectivity = finding.get(f"{quantity.name}, {SELECTIVITY}")
    is_beyond = selectivity is None or selectivity.estimate.low > 0
    is_beyond &= found.value >= _beyond(quantity, ExtractThresholds.LEAST)
    is_clear = is_beyond and found.low > _beyond(quantity, ExtractThresholds.CLEAR)
    return BestReading(found, is_beyond and found.low > chance, is_clear)


def _beyond(quantity: Quantity, share: float) -> float:
    """So much of the way from chance to 1."""
    chance = quantity.known.chance or 0.0
    return chance + share * (1 - chance)


@dataclass(frozen=True, eq=False)
class Spot:
    """One place and the readers that are put to it."""

    name: str
    feature: Feature
    """[N, F] or [N, L, W]."""
    readers: tuple[Reader, ...]
    mask_NL: BoolArray | None = None


def spots(places: Places, side: Side, options: Options) -> list[Spot]:
    """Where is read from, and by what: cheap readers only, all of them in full."""
    vector: tuple[Reader, ...] = ("linear", "mlp") if options.is_full else ("linear",)
    found = [Spot("projected", places.projected_ND, ("linear", "mlp"))]
    if places.last is not None and places.last.pooled_NW is not None:
        found.append(Spot("unprojected", places.last.pooled_NW, vector))
    if places.last is not None:
        found.append(Spot(side.mean, places.last.mean_NW, vector))
    if places.last is not None and places.last.quarter_NQ is not None:
        found.append(Spot(QUARTERS, places.last.quarter_NQ, ("linear",)))
    if places.whole is not None:
        whole = places.whole
        vector_NLW, mask_NL = whole.vector_NLW.numpy(), whole.mask_NL.numpy()
        found.append(Spot(side.whole, vector_NLW, ("attentive",), mask_NL))
    return found


def curve_spots(places: Places, side: Side) -> list[Spot]:
    """The layers before the last: what is read out there, and its patches or words."""
    found = []
    for layer, summary in sorted(places.layers.items())[:-1]:
        place, feature = side.mean, summary.mean_NW
        if summary.quarter_NQ is not None:
            place, feature = QUARTERS, summary.quarter_NQ
        found.append(Spot(at_layer(place, layer), feature, ("linear",)))
        if summary.pooled_NW is not None:
            found.append(Spot(at_layer("unprojected", layer), summary.pooled_NW, ("linear",)))
    return found


def at_layer(place: str, layer: int) -> str:
    """The name of a place before the last layer."""
    return f"{place} at layer {layer}"


def readings(
    spots: Sequence[Spot], label: Label, groups: Sequence[str], options: Options, effort: Effort
) -> Iterator[tuple[str, Reader, Reading]]:
    """Each reader at each place."""
    for spot in spots:
        for reader in spot.readers:
            found = read(
                spot.feature,
                label.class_N,
                groups,
                reader=reader,
                mask_NL=spot.mask_NL,
                effort=effort,
                seed=options.seed,
            )
            yield spot.name, reader, found


def quantities(
    found: Sequence[tuple[str, Reader, Reading]],
    label: Label,
    groups: Sequence[str],
    options: Options,
) -> Iterator[Quantity]:
    """Accuracy, and selectivity beside it where there was a control."""
    for place, reader, reading in found:
        name = f"{label.name}, {place}, {reader}"
        bag = label.bag if place == "projected" else None
        where = _WHERE.get(place, place)
        about = f"{label.name} read from {where} by {_BY[reader]}, unseen pairs"
        known = Known(bag=bag, perfect=1.0, chance=reading.chance)
        over_units = partial(mean, options=options, clusters=groups, better="higher")
        yield over_units(name, reading.correct_N, about=about, known=known, is_rate=True)
        if np.isfinite(reading.control_N).any():
            about = "the same minus a reader that was fitted to shuffled labels"
            known = Known(bag=None if bag is None else bag - reading.chance, chance=0.0)
            beyond_N = reading.correct_N - reading.control_N
            yield over_units(f"{name}, {SELECTIVITY}", beyond_N, about=about, known=known)


_BY: dict[Reader, str] = {
    "linear": "a logistic regression",
    "mlp": "a network with one hidden layer",
    "attentive": "one learned query",
}
_WHERE = {
    "projected": "the vector that is compared",
    "unprojected": "the vector before the projection",
}


def curves(
    made: Sequence[Quantity], label: Label, places: Places, side: Side, *, title: str
) -> Lines | None:
    """Accuracy of the linear reader by layer; None where there is no layer to go by."""
    value_of = {quantity.name: quantity.estimate for quantity in made}
    last = max(places.layers, default=0)
    series = []
    for place in (QUARTERS, side.mean, "unprojected"):
        rows = []
        for layer in sorted(places.layers):
            spot = place if layer == last else at_layer(place, layer)
            value = value_of.get(f"{label.name}, {spot}, linear")
            rows += [(layer, value)] if value is not None else []
        if len(rows) > 1:
            series.append(
                Series(
                    "vector that is read out" if place == "unprojected" else place,
                    tuple(float(layer) for layer, _ in rows),
                    tuple(value.value for _, value in rows),
                    tuple(value.low for _, value in rows),
                    tuple(value.high for _, value in rows),
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
        about="0 enters the first block, the last enters the projection; logistic regression",
    )


@dataclass(frozen=True, eq=False)
class LayerSummary:
    """One layer, without its patches or words."""

    mean_NW: Vectors
    pooled_NW: Vectors | None
    quarter_NQ: Vectors | None = None
    """Means over each quarter of an image, one after the other; None where there is no square
    grid of patches."""


@dataclass(frozen=True, eq=False)
class Places:
    """Where can be read from."""

    projected_ND: FloatArray
    """What is compared."""
    whole: TokenFeatures | None = None
    """All patches or words of the last layer."""
    layers: Mapping[int, LayerSummary] = field(default_factory=dict)
    """By number from 0; the last is what enters the projection."""
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> LayerSummary | None:
        """The layer that enters the projection."""
        return self.layers[max(self.layers)] if self.layers else None


def image_places(space: Space, images: Sequence[ImageSource], options: Options) -> Places:
    """Those of images: projected, the last layer, and layers for a curve."""
    view = space.layers
    projected_ND = space.images(images)
    if view is None:
        return Places(projected_ND, notes=(NO_LAYERS,))
    return _places(projected_ND, images, view.images, lambda: view.picture_depth, options, quarters)


def caption_places(space: Space, captions: Sequence[str], options: Options) -> Places:
    """Those of captions."""
    view = space.layers
    projected_ND = space.captions(captions)
    if view is None:
        return Places(projected_ND, notes=(NO_LAYERS,))
    return _places(projected_ND, captions, view.captions, lambda: view.caption_depth, options)


def _places(
    projected_ND: FloatArray,
    given: Sequence[Given],
    ask: Ask[Given],
    depth: Callable[[], int],
    options: Options,
    quartered: Callable[[TokenFeatures], Vectors | None] | None = None,
) -> Places:
    """Images have a curve by default, captions only in full: it is quick to do without."""
    try:
        layers, note = curve_layers(depth(), options, has_curve=quartered is not None)
        summaries_of: list[list[LayerSummary]] = []
        wholes: list[TokenFeatures] = []
        for at in range(0, len(given), LAYERS_CHUNK):
            found = ask(given[at : at + LAYERS_CHUNK], layers)
            quarter = quartered or (lambda _: None)
            summaries_of.append(
                [LayerSummary(mean_place(one), _pooled(one), quarter(one)) for one in found]
            )
            wholes.append(found[-1])
    except UnbagError as error:
        return Places(projected_ND, notes=(f"{NO_LAYERS} ({said_by(error)})",))
    summaries = {
        layer: _joined([some[at] for some in summaries_of]) for at, layer in enumerate(layers)
    }
    return Places(projected_ND, stacked(wholes), summaries, note)


def curve_layers(
    depth: int, options: Options, *, has_curve: bool = True
) -> tuple[list[int], tuple[str, ...]]:
    """The last, those asked for, and two for a curve (all of them in full), from 0 on."""
    beyond = sorted({layer for layer in options.layers if not -depth <= layer < depth})
    asked = {layer % depth for layer in options.layers if layer not in beyond}
    few = (0, (depth - 1) // 2, depth - 1) if has_curve else (depth - 1,)
    usual = range(depth) if options.is_full else few
    notes = [f"{NO_SUCH_LAYER} {layer}: there are {depth}, from 0 on" for layer in beyond]
    return sorted({*usual, *asked}), tuple(notes)


def mean_place(features: TokenFeatures) -> Vectors:
    """The mean over patches or words; NaN where there is none."""
    mask_NL = features.mask_NL.numpy()
    count_N = mask_NL.sum(axis=1, dtype=np.float32)
    seen_NLW = np.where(mask_NL[..., None], features.vector_NLW.numpy(), np.float32(0))
    with np.errstate(invalid="ignore"):
        mean_NW: Vectors = seen_NLW.sum(axis=1) / count_N[:, None]
    return mean_NW


def quarters(features: TokenFeatures) -> Vectors | None:
    """[N, 4 W]: the mean patch of each quarter; None unless patches fill a square grid."""
    n, length, wide = features.vector_NLW.shape
    side = isqrt(length)
    if side < 2 or side * side != length or not features.mask_NL.all():
        return None
    grid_NRCW = features.vector_NLW.numpy().reshape(n, side, side, wide)
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
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None
