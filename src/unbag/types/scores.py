"""What a model answers to an item (scores), and what is measured from it (outcomes, estimates).

Dimensions: P images, C captions, U units of a metric, Q queries, K kept candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal, NamedTuple, Protocol

from unbag.types.items import BoolArray, FloatArray, IntArray, Item

TieRule = Literal["wrong", "half", "right", "argmax_first", "argmax_last"]
"""What an exactly equal top score is worth. `wrong` is ours; the others reproduce public code:
`half` gives 1/m for an m-way tie, `right` full credit, `argmax_first` / `argmax_last` credit it if
the first / last of the tied options is a true one."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What a scorer said of one item. Saved before anything is measured."""

    item: str
    values: FloatArray | None
    """[P, C], NaN where no score could be had; None when only ranks were kept."""
    caption_CC: FloatArray | None = None
    """Cosine of the captions with each other, where the benchmark asks and the model has it."""
    text_to_image: Ranks | None = None
    image_to_text: Ranks | None = None
    answers: tuple[str, ...] = ()
    """Raw answers of a chat model, image by image, where the protocol has them."""
    order_logprobs: tuple[tuple[float, ...], ...] = ()
    """Log-probabilities of the options for each order they were shown in."""
    unparsed: int = 0
    """Answers that no rule could read."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """What retrieval keeps of one direction: enough for recall at any k, not the whole matrix.

    For query q the best-scored true candidate is compared with all the others.
    """

    greater_Q: IntArray
    """False candidates scored strictly above the best true one; -1 where the query is invalid."""
    equal_Q: IntArray
    """False candidates scored exactly as the best true one."""
    true_equal_Q: IntArray
    """True candidates with that best score, itself included (at least 1)."""
    true_Q: IntArray
    """True candidates of the query in all."""
    gallery: int
    """Candidates that could be scored; damaged images are not among them."""
    top_QK: IntArray
    """Indices of the best-scored candidates, best first, for the failure gallery."""
    top_score_QK: FloatArray


class Case(NamedTuple):
    """An item with its scores: what a metric sees."""

    item: Item
    scores: Scores


class Metric(Protocol):
    """From all cases of a benchmark to outcomes; it sees all of them, so it can join groups."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every unit; invalid scores give NaN, never a miss."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """One metric, unit by unit, before averaging. A unit is an item, a pair, a set or a query."""

    metric: str
    units: tuple[str, ...]
    value_U: FloatArray
    """Credit of the unit; NaN where it is invalid (some score was not a finite number)."""
    clusters: tuple[str, ...]
    """Units of one cluster share an image or a set and are resampled together."""
    tags: tuple[Mapping[str, str], ...]
    tie_U: BoolArray
    chance_U: FloatArray
    """Expected credit of random scores; NaN where there is no such level."""
    weight_U: FloatArray
    """The statistic is sum(value) / sum(weight): ones for a mean, a second count for a ratio."""
    unparsed_U: IntArray
    chance_independent: float | None = None
    """A second null where the first is not the only sensible one (see `augmented`)."""
    is_rate: bool = True
    """Values are credits in [0, 1]; False for means of scores."""


@dataclass(frozen=True)
class Aggregate:
    """How unit outcomes become one number. Every average names its rule."""

    by: tuple[str, ...] = ()
    """Tags to average over, outermost first: () is micro, ("kind",) the mean of the means of each
    kind, ("family", "kind") the mean over families of the mean over kinds."""
    least: int = 0
    """Groups with fewer units are left out (VG-Attribution publishes with 25)."""
    without: frozenset[str] = frozenset()
    """Values of the innermost tag that are left out."""
    only: tuple[tuple[str, str], ...] = ()
    """Units that count: each (tag, value) must match."""
    label: str = ""
    """A name of its own where the rule has one ("macro9")."""

    @property
    def name(self) -> str:
        """The rule in words: micro, macro(kind), macro(pair, n>=25), micro[order=kept]."""
        parts = list(self.by)
        parts += [f"n>={self.least}"] if self.least else []
        parts += [f"without {len(self.without)}"] if self.without else []
        rule = f"macro({', '.join(parts)})" if self.by else "micro"
        chosen = f"[{', '.join(f'{tag}={value}' for tag, value in self.only)}]" if self.only else ""
        return self.label or rule + chosen


MICRO = Aggregate()


@dataclass(frozen=True)
class Estimate:
    """A number that is shown, with everything needed to judge it. Fractions, never percent."""

    value: float
    """NaN when nothing could be measured (n = 0)."""
    low: float
    high: float
    n: int
    ties: int = 0
    invalid: int = 0
    unparsed: int = 0
    chance: float | None = None
    chance_independent: float | None = None
    interval: str = "wilson"
    """How low and high were found: wilson, wilson (clusters), bootstrap, clustered bootstrap,
    their stratified forms, clustered bootstrap, joint over groups, normal, or none where nothing
    was measured. ", few clusters" at the end: a group has under 5, so the interval is too
    narrow."""
    is_rate: bool = True
    """Shown as percent; False for means of scores, shown as they are."""

    def show(self, value: float) -> str:
        """A number of this estimate as people read it: percent for a rate.

        Percent are rounded half to even on the fraction as it is written: 23/80 is 28.8, although
        the nearest binary number lies below .2875.
        """
        if value != value:
            return "–"
        if not self.is_rate or math.isinf(value):
            return f"{value:.3f}"
        percent = 100 * Decimal(repr(float(value)))
        return str(percent.quantize(Decimal("0.1"), rounding=ROUND_HALF_EVEN))

    def __str__(self) -> str:
        """As `74.1 [73.1, 75.1], n=7511, ties=0, chance=50`."""
        extra = f", invalid={self.invalid}" if self.invalid else ""
        extra += f", unparsed={self.unparsed}" if self.unparsed else ""
        extra += "" if self.chance is None else f", chance={100 * self.chance:.3g}"
        interval = f"[{self.show(self.low)}, {self.show(self.high)}]"
        return f"{self.show(self.value)} {interval}, n={self.n}, ties={self.ties}{extra}"
