"""What every probe is made of: the question, the model and data it is put to, findings and plots.

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
    """As a user asks: "Does the image encoder merge different images?"."""
    about: str
    """Formula, source and limits, for the page and the docs."""
    ask: Callable[[ProbedModel, ProbeData, Options, Progress], ProbeResult]
    """A subject, material or kind of model it cannot be put to gives a finding that is skipped."""
    say: Callable[[ProbeResult], Verdict]
    """Of a finding that was not skipped."""
    thresholds: tuple[Thresholds, ...] = ()
    """What `say` compares with."""


class Thresholds(float, ReprEnum):
    """The numbers that a verdict compares with, as a table: NAME = value, what it decides."""

    reason: str

    def __new__(cls, value: float, reason: str) -> Thresholds:
        """A number with its reason."""
        found = float.__new__(cls, value)
        # Two rows may have one value: a row is known by both.
        found._value_ = (value, reason)
        found.reason = reason
        return found


Tone = Literal["fails", "holds", "mixed", "told"]
"""fails: like a bag of words; holds: as one would wish; mixed: between or undecided by the
interval; told: a fact that is neither."""
Value: TypeAlias = Estimate | str | float


@dataclass(frozen=True)
class Verdict:
    """One plain sentence, as a template and the values in it."""

    tone: Tone
    template: str
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The template with its values."""
        return fill(self.template, **self.values)


def fill(template: str, **values: Value) -> str:
    """A template with its values; how an estimate is shown stands behind its name.

    `{x}` is "74.1 % [73.1, 75.1]", `{x:4}` the same with 4 digits, `{x:value}` "74.1", `{x:n}` the
    number of units, `{x:degrees}` "1.2 degrees [1.0, 2.0]", `{x:change}` "+4.1", and `{x:points}`
    "+4.1 points [+2.0, +6.2]".
    """
    known = {name: _Shown(v) if isinstance(v, Estimate) else v for name, v in values.items()}
    return template.format_map(known)


class _Shown(NamedTuple):
    """An estimate in a template."""

    found: Estimate

    def __format__(self, form: str) -> str:
        found = self.found
        if form == "value":
            return found.show(found.value)
        if form == "n":
            return f"{found.n:,}"
        if form == "degrees":
            return shown(found, "degrees", digits=1)
        if form in ("change", "points"):
            ends = (found.value, found.low, found.high)
            value, low, high = (difference_text(one, is_rate=True) for one in ends)
            return value if form == "change" else f"{value} points [{low}, {high}]"
        return shown(found, digits=int(form or 3))


@dataclass(frozen=True, eq=False)
class ProbedModel:
    """A model under examination."""

    name: str
    model: Model
    space: Space | None
    """None for chat models and matching heads, which have no vectors."""
    scorer: Scorer
    random_init: ProbedModel | None = None
    """The same model with random weights; None where it cannot be made."""
    has_readout: bool = False
    """Whether the scorer is a read-out's, and not the cosine of the vectors in `space`."""
    other: ProbedModel | None = None
    """The model it is set against, such as the one that a repair started from."""


@dataclass(frozen=True)
class Options:
    """How probes ask."""

    seed: int = 0
    is_full: bool = False
    """All of the grids; the default is a small part that is quick."""
    layers: tuple[int, ...] = ()
    """Layers to read from, besides the last; negative ones count from the end."""
    confidence: float = 0.95
    resamples: int = 10_000


@dataclass(frozen=True, eq=False)
class ProbeData:
    """Everything that is looked at. Probes on scenes of the world draw their own beside it."""

    about: str
    """In words: "the world's benchmarks"."""
    rows: tuple[Row, ...] = ()
    pairs: tuple[ImagePair, ...] = ()
    gallery: Gallery | None = None
    is_world: bool = False
    """Images are scenes, so probes that draw scenes of their own apply as well."""
    notes: tuple[str, ...] = ()
    """What was left out and why."""
    images: tuple[ImageSource, ...] = ()
    """Of a user without pairs: the nearest of them, for a model, are pairs to tell apart."""


@dataclass(frozen=True)
class Row:
    """An image, a caption that is true of it, and edits of that caption."""

    id: str
    image: ImageSource
    caption: str
    negative: str | None = None
    """False of the image."""
    positive: str | None = None
    """True too, in other words."""
    kind: str = ""
    """Of the edit that leads to the negative."""
    cluster: str = ""
    """Rows of one cluster share scenes or captions and are resampled together."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ImagePair:
    """Two different images that a model should tell apart, and a caption for each."""

    id: str
    first: ImageSource
    second: ImageSource
    relation: str
    """What they differ in: left/right, colour swap, count ..."""
    captions: tuple[str, str] | None = None
    """True of the first only, true of the second only."""
    cluster: str = ""


@dataclass(frozen=True, eq=False)
class Gallery:
    """Images and captions to search among; truth is the cells (row, column) that belong."""

    images: tuple[ImageSource, ...]
    captions: tuple[str, ...]
    image_T: IntArray
    caption_T: IntArray


@dataclass(frozen=True)
class Known:
    """What a quantity is for spaces whose nature is known; None where nothing follows."""

    bag: float | None = None
    """For a bag of words: every word is understood, its ties to others are not."""
    perfect: float | None = None
    chance: float | None = None


Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, eq=False)
class Quantity:
    """One number of a probe, with what it was made of."""

    name: str
    """Unique within its probe: "merged, left/right"."""
    about: str
    """What it is, in one line without a full stop."""
    estimate: Estimate
    known: Known = field(default_factory=Known)
    better: Better = "neither"
    outcomes: Outcomes | None = None
    """Unit by unit, where it is a mean or a ratio: what a paired comparison needs."""
    draw_R: FloatArray | None = None
    """Resamples of any other statistic, drawn alike for every model: their difference is paired."""


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """What one probe found out about one model."""

    probe: str
    quantities: tuple[Quantity, ...] = ()
    headline: str = ""
    """Name of the quantity that the sentence is about."""
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""
    """Why nothing was asked; empty if something was."""

    def __getitem__(self, name: str) -> Quantity:
        """A quantity by name."""
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str) -> Quantity | None:
        """A quantity by name, None if it was not measured."""
        return next((one for one in self.quantities if one.name == name), None)


STATISTIC_RESAMPLES = 1_000
"""Of statistics that are no mean: each resample computes them anew."""


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
    """The mean, or sum(value) / sum(weight); NaN values are left out and counted as invalid.

    Units of one cluster are resampled together. Rates are credits from 0 to 1, shown as percent.
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
    found = estimate(outcomes, protocol=protocol, seed=options.seed, allow_invalid=True)
    return Quantity(name, about, found, known, better, outcomes)


def statistic(
    name: str,
    of: Callable[[IntArray], float],
    count: int,
    *,
    about: str,
    options: Options,
    clusters: Sequence[str] | None = None,
    known: Known | None = None,
    better: Better = "neither",
    is_rate: bool = False,
) -> Quantity:
    """Any statistic of `count` units: `of` is given the places of the units that count.

    Percentile bootstrap over units, or over clusters of units where these are given. The same seed
    and name draw the same resamples for every model.
    """
    value = of(np.arange(count))
    places = _places(clusters) if clusters is not None else None
    drawn = count if places is None else len(places)
    rng = generator(options.seed, name, str(drawn))
    draws = []
    for _ in range(min(options.resamples, STATISTIC_RESAMPLES) if count else 0):
        draw = np.sort(rng.integers(drawn, size=drawn))
        draws.append(of(draw if places is None else np.concatenate([places[i] for i in draw])))
    draw_R = np.array(draws, dtype=float)
    how = "bootstrap" if drawn == count else "clustered bootstrap"
    low, high, how = percentile(draw_R, options.confidence, how)
    known = known or Known()
    found = Estimate(value, low, high, count, chance=known.chance, interval=how, is_rate=is_rate)
    return Quantity(name, about, found, known, better, draw_R=draw_R)


def _places(clusters: Sequence[str]) -> list[IntArray]:
    """The places of the units of each cluster."""
    found: dict[str, list[int]] = {}
    for at, name in enumerate(clusters):
        found.setdefault(name, []).append(at)
    return [np.array(places) for places in found.values()]


def shown(found: Estimate, unit: str = "", *, digits: int = 3) -> str:
    """With its interval: "74.1 % [73.1, 75.1]", "0.973 [0.971, 0.975]", "1.2 degrees [1, 2]"."""
    unit = f" {unit}" if unit else " %" if found.is_rate else ""
    value, low, high = (_number(found, one, digits) for one in (found.value, found.low, found.high))
    return f"{value}{unit} [{low}, {high}]"


def _number(found: Estimate, value: float, digits: int) -> str:
    if found.is_rate or value != value:
        return found.show(value)
    # Nothing is minus nothing.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def bar(quantity: Quantity, name: str) -> Bar:
    """Beside chance, where there is one."""
    found = quantity.estimate
    return Bar(name, found.value, found.low, found.high, quantity.known.chance)


def bars_of(quantities: Iterable[Quantity], begin: str, end: str = "") -> tuple[Bar, ...]:
    """Of all quantities whose names begin and end so; what is between names the bar."""
    return tuple(
        bar(one, one.name.removeprefix(begin).removesuffix(end))
        for one in quantities
        if one.name.startswith(begin) and one.name.endswith(end)
    )


# What a probe wants drawn, as plain data: a page draws it, a file keeps it.


@dataclass(frozen=True)
class ScatterPoint:
    """A place in a scatter."""

    x: float
    y: float
    group: str = ""
    name: str = ""
    """Shown when pointed at."""


@dataclass(frozen=True)
class Scatter:
    """Points over two numbers, coloured by group."""

    title: str
    x: str
    y: str
    points: tuple[ScatterPoint, ...]
    lines: tuple[tuple[str, float], ...] = ()
    """Named heights, such as a threshold."""
    about: str = ""


@dataclass(frozen=True)
class Bar:
    """A value with its interval and what is beside it."""

    name: str
    value: float
    low: float
    high: float
    chance: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """One bar under the other."""

    title: str
    bars: tuple[Bar, ...]
    is_rate: bool = True
    about: str = ""


@dataclass(frozen=True)
class Series:
    """Values along an axis, with intervals."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Lines:
    """Curves, such as the accuracy of a reader by layer."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    chance: float | None = None
    is_rate: bool = True
    about: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of shares, such as which relation is taken for which."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    row_name: str = ""
    column_name: str = ""
    about: str = ""


@dataclass(frozen=True)
class WordMap:
    """How near each patch is to one word."""

    word: str
    values: tuple[tuple[float, ...], ...]
    """Rows of patches from the top left."""
    whole: str = ""
    """The number with all patches, in words, where the map says what one patch does to it."""


@dataclass(frozen=True)
class Maps:
    """One image and the map of each word of a caption over its patches."""

    title: str
    image: str
    """As a data: address."""
    caption: str
    maps: tuple[WordMap, ...]
    about: str = ""
    is_signed: bool = False
    """Whether zero is nothing, and numbers below it speak against."""
    asked: str = ""
    """What the model was asked about the image, where it is asked."""
    when: str = ""
    """Before or after the training of a read-out, where both are shown."""


Plot: TypeAlias = Scatter | Bars | Lines | Grid | Maps
