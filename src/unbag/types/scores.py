"""Scores of a model on items, and the outcomes and estimates measured from them.

Dimensions: P images, C captions, U units of a metric, Q queries, K top candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal, NamedTuple, Protocol

from unbag.types.items import BoolArray, FloatArray, IntArray, Item

TieRule = Literal["wrong", "half", "right", "argmax_first", "argmax_last"]
"""Credit of an exact tie for the top score. `wrong` is ours; the others reproduce public code:
`half` gives 1/m for an m-way tie, `right` full credit, `argmax_first` / `argmax_last` credit it if
the first / last of the tied options is a true one."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one item, saved before anything is measured."""

    item: str
    values: FloatArray | None
    """[P, C], NaN where there is no score; None if only ranks were saved."""
    caption_CC: FloatArray | None = None
    """Cosines between the captions, if the benchmark needs them and the model has them."""
    text_to_image: Ranks | None = None
    image_to_text: Ranks | None = None
    answers: tuple[str, ...] = ()
    """Raw answers of a chat model by image, if the protocol has answers."""
    order_logprobs: tuple[tuple[float, ...], ...] = ()
    """Log-probabilities of the options for each order of presentation."""
    unparsed: int = 0
    """Number of answers that no rule could parse."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of retrieval in one direction: enough for recall at any k without the matrix.

    For query q the best-scored true candidate is compared with all the others.
    """

    greater_Q: IntArray
    """False candidates with a higher score than the best true one; -1 if the query is invalid."""
    equal_Q: IntArray
    """False candidates with the same score as the best true one."""
    true_equal_Q: IntArray
    """True candidates with that best score (at least 1)."""
    true_Q: IntArray
    """All true candidates of the query."""
    gallery: int
    """Number of candidates with scores; damaged images are excluded."""
    top_QK: IntArray
    """Indices of the top candidates, best first, for the failure gallery."""
    top_score_QK: FloatArray


class Case(NamedTuple):
    """An item with its scores."""

    item: Item
    scores: Scores


class Metric(Protocol):
    """Computes outcomes from all cases of a benchmark, so that it can join groups."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Measure every unit; invalid scores give NaN, never a miss."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """One metric per unit, before averaging. A unit is an item, a pair, a set or a query."""

    metric: str
    units: tuple[str, ...]
    value_U: FloatArray
    """Credit of the unit; NaN if it is invalid (a score is not finite)."""
    clusters: tuple[str, ...]
    """Cluster of each unit; units that share an image or a set are resampled together."""
    tags: tuple[Mapping[str, str], ...]
    tie_U: BoolArray
    chance_U: FloatArray
    """Expected credit of random scores; NaN if undefined."""
    weight_U: FloatArray
    """The statistic is sum(value) / sum(weight): ones for a mean, a second count for a ratio."""
    unparsed_U: IntArray
    chance_independent: float | None = None
    """A second chance level where the first is not the only sensible one (see `augmented`)."""
    is_rate: bool = True
    """True if values are credits in [0, 1]; False for means of scores."""


@dataclass(frozen=True)
class Aggregate:
    """An averaging rule from unit outcomes to one number."""

    by: tuple[str, ...] = ()
    """Tags to average over, outermost first: () is micro, ("kind",) the mean of the means of each
    kind, ("family", "kind") the mean over families of the mean over kinds."""
    least: int = 0
    """Minimum units of a group; smaller groups are left out (VG-Attribution uses 25)."""
    without: frozenset[str] = frozenset()
    """Values of the innermost tag that are left out."""
    only: tuple[tuple[str, str], ...] = ()
    """Filter of units: each (tag, value) must match."""
    label: str = ""
    """Published name of the rule if it has one ("macro9")."""

    @property
    def name(self) -> str:
        """The rule in short: micro, macro(kind), macro(pair, n>=25), micro[order=kept]."""
        parts = list(self.by)
        parts += [f"n>={self.least}"] if self.least else []
        parts += [f"without {len(self.without)}"] if self.without else []
        rule = f"macro({', '.join(parts)})" if self.by else "micro"
        filters = ", ".join(f"{tag}={value}" for tag, value in self.only)
        return self.label or rule + (f"[{filters}]" if filters else "")


MICRO = Aggregate()


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, sample size and chance level. Fractions, not percent."""

    value: float
    """NaN if nothing could be measured (n = 0)."""
    low: float
    high: float
    n: int
    ties: int = 0
    invalid: int = 0
    unparsed: int = 0
    chance: float | None = None
    chance_independent: float | None = None
    interval: str = "wilson"
    """Method of the interval: wilson, wilson (clusters), bootstrap, clustered bootstrap, their
    stratified forms, clustered bootstrap, joint over groups, normal, or none if nothing was
    measured. ", few clusters" at the end: a group has under 5, so the interval is too narrow."""
    is_rate: bool = True
    """True if shown as percent; False for means of scores."""

    def show(self, value: float) -> str:
        """Format a number of this estimate: percent for a rate.

        Percentages are rounded half to even in decimal: 23/80 is 28.8, although the nearest binary
        number is below .2875.
        """
        if value != value:
            return "–"
        if not self.is_rate or math.isinf(value):
            return f"{value:.3f}"
        percent = 100 * Decimal(repr(float(value)))
        return str(percent.quantize(Decimal("0.1"), rounding=ROUND_HALF_EVEN))

    def __str__(self) -> str:
        """Format as `74.1 [73.1, 75.1], n=7511, ties=0, chance=50`."""
        extra = f", invalid={self.invalid}" if self.invalid else ""
        extra += f", unparsed={self.unparsed}" if self.unparsed else ""
        extra += "" if self.chance is None else f", chance={100 * self.chance:.3g}"
        interval = f"[{self.show(self.low)}, {self.show(self.high)}]"
        return f"{self.show(self.value)} {interval}, n={self.n}, ties={self.ties}{extra}"
