"""The types of every probe: its question, the probed model, the data, the result and its plots.

Dimensions: N units, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import ReprEnum
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from unbag.metrics.aggregate import estimate
from unbag.metrics.intervals import generator, percentile
from unbag.models.loading import Model
from unbag.probes.space import Space
from unbag.reports.formatting import difference_text
from unbag.runs.progress import Progress
from unbag.types import Estimate, EvalProtocol, FloatArray, ImageSource, IntArray, Outcomes, Scorer


@dataclass(frozen=True)
class Probe:
    """A question that can be put to any model."""

    name: str
    question: str
    """As a user would ask it: "Does the image encoder merge different images?"."""
    about: str
    """Formula, source and limits, for the page and the docs."""
    ask: Callable[[ProbedModel, ProbeData, Options, Progress], ProbeResult]
    """Measures a model on data. If the probe does not apply, the result says why it is skipped."""
    say: Callable[[ProbeResult], Verdict]
    """Turns a result that is not skipped into a sentence."""
    thresholds: tuple[Thresholds, ...] = ()
    """The numbers that `say` compares the result with."""


class Thresholds(float, ReprEnum):
    """A table of the numbers that decide a verdict: NAME = value, what it decides."""

    reason: str

    def __new__(cls, value: float, reason: str) -> Thresholds:
        """A threshold with its reason."""
        threshold = float.__new__(cls, value)
        # Two thresholds may have the same value: value and reason identify a row.
        threshold._value_ = (value, reason)
        threshold.reason = reason
        return threshold


Tone = Literal["fails", "holds", "mixed", "told"]
"""fails: like a bag of words; holds: as desired; mixed: in between, or the interval does not
decide; told: a fact that is neither good nor bad."""
Value: TypeAlias = Estimate | str | float


@dataclass(frozen=True)
class Verdict:
    """One plain sentence: a template and its values."""

    tone: Tone
    template: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fail where the verdict is made, not where its sentence is shown."""
        _ = self.sentence

    @property
    def sentence(self) -> str:
        """The template filled with its values."""
        return fill(self.template, **self.values)


def fill(template: str, **values: Value) -> str:
    """Fill a template; a format behind the name of an estimate says how it is shown.

    `{x}` is "74.1 % [73.1, 75.1]", `{x:4}` the same with 4 digits, `{x:value}` "74.1", `{x:n}` the
    number of units, `{x:degrees}` "1.2 degrees [1.0, 2.0]", `{x:change}` "+4.1", and `{x:points}`
    "+4.1 points [+2.0, +6.2]".
    """
    known = {
        name: _FormattedEstimate(v) if isinstance(v, Estimate) else v for name, v in values.items()
    }
    return template.format_map(known)


class _FormattedEstimate(NamedTuple):
    """An estimate in a template."""

    estimate: Estimate

    def __format__(self, form: str) -> str:
        estimate = self.estimate
        if form == "value":
            return estimate.show(estimate.value)
        if form == "n":
            return f"{estimate.n:,}"
        if form == "degrees":
            return estimate_with_interval(estimate, "degrees", digits=1)
        if form in ("change", "points"):
            ends = (estimate.value, estimate.low, estimate.high)
            value, low, high = (difference_text(end, is_rate=True) for end in ends)
            return value if form == "change" else f"{value} points [{low}, {high}]"
        return estimate_with_interval(estimate, digits=int(form or 3))


@dataclass(frozen=True, eq=False)
class ProbedModel:
    """A model that is probed."""

    name: str
    model: Model
    space: Space | None
    """None for chat models and matching heads, which have no vectors."""
    scorer: Scorer
    random_init: ProbedModel | None = None
    """The same model, randomly initialized; None where it cannot be built."""
    has_readout: bool = False
    """Whether the scorer is a read-out instead of the cosine of the vectors in `space`."""
    other: ProbedModel | None = None
    """The model it is compared with, such as the one that a repair started from."""


@dataclass(frozen=True)
class Options:
    """Settings of all probes."""

    seed: int = 0
    is_full: bool = False
    """Measure everything; the default is a quick subset."""
    layers: tuple[int, ...] = ()
    """Layers to read from besides the last; negative numbers count from the end."""
    confidence: float = 0.95
    resamples: int = 10_000


@dataclass(frozen=True, eq=False)
class ProbeData:
    """The data that probes use. Probes on scenes of the world also draw scenes of their own."""

    about: str
    """A description in words: "the world's benchmarks"."""
    rows: tuple[Row, ...] = ()
    pairs: tuple[ImagePair, ...] = ()
    gallery: Gallery | None = None
    is_world: bool = False
    """The images are scenes of the world, so probes that draw their own scenes apply as well."""
    notes: tuple[str, ...] = ()
    """What is left out, and why."""
    images: tuple[ImageSource, ...] = ()
    """Images of a user who has no pairs: the nearest ones, for a model, become the pairs."""


@dataclass(frozen=True)
class Row:
    """An image, a caption that is true of it, and edits of that caption."""

    id: str
    image: ImageSource
    caption: str
    negative: str | None = None
    """False of the image."""
    positive: str | None = None
    """Also true, in other words."""
    kind: str = ""
    """Kind of the edit that made the negative."""
    cluster: str = ""
    """Rows of one cluster share scenes or captions, and are resampled together."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ImagePair:
    """Two different images that a model should distinguish, and a caption for each."""

    id: str
    first: ImageSource
    second: ImageSource
    relation: str
    """The difference between them: left/right, colour swap, count ..."""
    captions: tuple[str, str] | None = None
    """True of the first only, true of the second only."""
    cluster: str = ""


@dataclass(frozen=True, eq=False)
class Gallery:
    """Images and captions to retrieve from; each pair (image_T, caption_T) belongs together."""

    images: tuple[ImageSource, ...]
    captions: tuple[str, ...]
    image_T: IntArray
    caption_T: IntArray


@dataclass(frozen=True)
class Known:
    """The value of a quantity for reference models; None where it is not known."""

    bag: float | None = None
    """For a bag of words, which knows every word but no relation between words."""
    perfect: float | None = None
    chance: float | None = None


Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, eq=False)
class Quantity:
    """One number that a probe measures, with the values behind it."""

    name: str
    """Unique within its probe: "merged, left/right"."""
    about: str
    """A definition in one line, without a full stop."""
    estimate: Estimate
    known: Known = field(default_factory=Known)
    better: Better = "neither"
    outcomes: Outcomes | None = None
    """Values per unit, for a mean or a ratio: a paired comparison needs them."""
    draw_R: FloatArray | None = None
    """Bootstrap resamples of any other statistic. Every model has the same draws, so differences of
    two models are paired."""


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """The result of one probe for one model."""

    probe: str
    quantities: tuple[Quantity, ...] = ()
    headline: str = ""
    """Name of the quantity that the verdict is about."""
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""
    """Why nothing is measured; empty if something is."""

    def __getitem__(self, name: str) -> Quantity:
        """Return a quantity by name."""
        quantity = self.get(name)
        if quantity is None:
            raise KeyError(name)
        return quantity

    def get(self, name: str) -> Quantity | None:
        """Return a quantity by name, or None if it was not measured."""
        return next((quantity for quantity in self.quantities if quantity.name == name), None)


STATISTIC_RESAMPLES = 1_000
"""Resamples of statistics other than means: each resample computes the statistic again."""


def mean(
    name: str,
    value_N: FloatArray,
    *,
    about: str,
    options: Options,
    units: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    weight_N: FloatArray | None = None,
    known: Known | None = None,
    better: Better = "neither",
    is_rate: bool = False,
    tags: Sequence[Mapping[str, str]] | None = None,
) -> Quantity:
    """Return the mean, or sum(value) / sum(weight); NaN values are left out and counted as invalid.

    Units of one cluster are resampled together. Rates lie between 0 and 1 and are shown as percent.
    """
    count = len(value_N)
    units = tuple(units) if units is not None else tuple(map(str, range(count)))
    known = known or Known()
    chance = np.nan if known.chance is None else known.chance
    outcomes = Outcomes(
        metric=name,
        units=units,
        value_U=np.asarray(value_N, dtype=float),
        clusters=tuple(clusters) if clusters is not None else units,
        tags=tuple(tags) if tags is not None else ({},) * count,
        tie_U=np.zeros(count, dtype=np.bool_),
        chance_U=np.full(count, chance),
        weight_U=np.ones(count) if weight_N is None else np.asarray(weight_N, dtype=float),
        unparsed_U=np.zeros(count, dtype=np.int64),
        is_rate=is_rate,
    )
    protocol = EvalProtocol(confidence=options.confidence, resamples=options.resamples)
    result = estimate(outcomes, protocol=protocol, seed=options.seed, allow_invalid=True)
    return Quantity(name, about, result, known, better, outcomes)


def statistic(
    name: str,
    compute: Callable[[IntArray], float],
    count: int,
    *,
    about: str,
    options: Options,
    clusters: Sequence[str] | None = None,
    known: Known | None = None,
    better: Better = "neither",
    is_rate: bool = False,
) -> Quantity:
    """Return any statistic of `count` units; `compute` gets the indices of the units of a resample.

    The interval is a percentile bootstrap over units, or over clusters of units where these are
    given. The same seed and name draw the same resamples for every model.
    """
    value = compute(np.arange(count))
    members = _members_of(clusters) if clusters is not None else None
    clusters_drawn = count if members is None else len(members)
    rng = generator(options.seed, name, str(clusters_drawn))
    draws = []
    for _ in range(min(options.resamples, STATISTIC_RESAMPLES) if count else 0):
        draw = np.sort(rng.integers(clusters_drawn, size=clusters_drawn))
        draws.append(
            compute(draw if members is None else np.concatenate([members[i] for i in draw]))
        )
    draw_R = np.array(draws, dtype=float)
    interval = "bootstrap" if clusters_drawn == count else "clustered bootstrap"
    low, high, interval = percentile(draw_R, options.confidence, interval)
    known = known or Known()
    estimate = Estimate(
        value, low, high, count, chance=known.chance, interval=interval, is_rate=is_rate
    )
    return Quantity(name, about, estimate, known, better, draw_R=draw_R)


def _members_of(clusters: Sequence[str]) -> list[IntArray]:
    """Return the indices of the units of each cluster."""
    members: dict[str, list[int]] = {}
    for place, name in enumerate(clusters):
        members.setdefault(name, []).append(place)
    return [np.array(places) for places in members.values()]


def estimate_with_interval(estimate: Estimate, unit: str = "", *, digits: int = 3) -> str:
    """Format as "74.1 % [73.1, 75.1]", "0.973 [0.971, 0.975]" or "1.2 degrees [1, 2]"."""
    unit = f" {unit}" if unit else " %" if estimate.is_rate else ""
    value, low, high = (
        _number(estimate, number, digits)
        for number in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}{unit} [{low}, {high}]"


def _number(estimate: Estimate, value: float, digits: int) -> str:
    if estimate.is_rate or value != value:
        return estimate.show(value)
    # Adding 0 turns -0 into 0.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def bar(quantity: Quantity, name: str) -> Bar:
    """Return the bar of a quantity, with its chance where known."""
    estimate = quantity.estimate
    return Bar(name, estimate.value, estimate.low, estimate.high, quantity.known.chance)


def bars_of(quantities: Iterable[Quantity], prefix: str, suffix: str = "") -> tuple[Bar, ...]:
    """Return a bar for each quantity with this prefix and suffix, named by what is in between."""
    return tuple(
        bar(quantity, quantity.name.removeprefix(prefix).removesuffix(suffix))
        for quantity in quantities
        if quantity.name.startswith(prefix) and quantity.name.endswith(suffix)
    )


# Plots as plain data: the page draws them, the JSON file stores them.


@dataclass(frozen=True)
class ScatterPoint:
    """A point of a scatter plot."""

    x: float
    y: float
    group: str = ""
    name: str = ""
    """Shown on hover."""


@dataclass(frozen=True)
class Scatter:
    """A scatter plot, coloured by group."""

    title: str
    x: str
    y: str
    points: tuple[ScatterPoint, ...]
    lines: tuple[tuple[str, float], ...] = ()
    """Named horizontal lines, such as a threshold."""
    about: str = ""


@dataclass(frozen=True)
class Bar:
    """A value with its interval and chance."""

    name: str
    value: float
    low: float
    high: float
    chance: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """A chart of horizontal bars."""

    title: str
    bars: tuple[Bar, ...]
    is_rate: bool = True
    about: str = ""


@dataclass(frozen=True)
class Series:
    """One curve, with intervals."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Lines:
    """A line chart, such as the accuracy of a reader by layer."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    chance: float | None = None
    is_rate: bool = True
    about: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of shares, such as which relation is confused with which."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    row_name: str = ""
    column_name: str = ""
    about: str = ""


@dataclass(frozen=True)
class WordMap:
    """The similarity of each patch to one word."""

    word: str
    values: tuple[tuple[float, ...], ...]
    """Rows of patches from the top left."""
    whole: str = ""
    """The value with all patches, as text, where the map shows the effect of each patch on it."""


@dataclass(frozen=True)
class Maps:
    """One image, with the map of each word of a caption over its patches."""

    title: str
    image: str
    """A data: URL."""
    caption: str
    maps: tuple[WordMap, ...]
    about: str = ""
    is_signed: bool = False
    """Whether zero means no effect, and values below it count against the word."""
    asked: str = ""
    """The question about the image, for models that answer questions."""
    when: str = ""
    """Before or after the training of a read-out, where both are drawn."""


Plot: TypeAlias = Scatter | Bars | Lines | Grid | Maps
