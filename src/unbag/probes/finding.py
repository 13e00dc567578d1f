"""Values of units come in; quantities with intervals and known references go out as one finding.

Dimensions: N units, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from unbag.metrics.aggregate import estimate
from unbag.metrics.intervals import percentile
from unbag.metrics.resample import generator
from unbag.probes.plots import Plot
from unbag.types import Estimate, EvalProtocol, FloatArray, IntArray, Outcomes

Better = Literal["higher", "lower", "neither"]
STATISTIC_RESAMPLES = 1_000
"""Of statistics that are no mean: each resample computes them anew."""


@dataclass(frozen=True)
class Known:
    """What a quantity is for spaces whose nature is known; None where nothing follows."""

    bag: float | None = None
    """For a bag of words: every word is understood, its ties to others are not."""
    perfect: float | None = None
    chance: float | None = None


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
class Finding:
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
