"""Published claims with predictions, one TOML file for each paper.

A claim is a sentence with arms and predictions that can fail: inequalities about the difference
between two arms of the same base, or between an arm and a number. It is committed before its
results exist. `order.txt` has the order of the overview.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any, Literal

from unbag.errors import UnbagError, unknown_name
from unbag_lab.results import ArmResult, in_order, seeds_for

NAMES = tuple((files(__name__) / "order.txt").read_text(encoding="utf-8").split())
FEWEST_BASES = 5
"""Base models that a verdict needs (methods.md 12.7)."""
LEAST_FIT = 0.85
"""Train accuracy on a few fixed examples that a reader must reach for a base to count (12.10)."""
ArmKey = tuple[str, str]
"""An experiment and one of its arms."""
ArmsOfBase = Mapping[ArmKey, ArmResult]
"""All results of one base."""


@dataclass(frozen=True)
class TrainingArguments:
    """Images on which a claim is tested."""

    name: str
    """Name in verdicts."""
    small: str
    """Why effect sizes measured there mean little elsewhere."""


WORLD = TrainingArguments("the world", "small models on drawn scenes")
PHOTOGRAPHS = TrainingArguments(
    "these photographs",
    "small heads on two frozen parts, asked about edits that rules made of the captions of one "
    "collection",
)


@dataclass(frozen=True)
class Claim:
    """One claim of one paper, as an experiment on the world or on photographs."""

    name: str
    source: str
    """Authors and place of the claim."""
    statement: str
    """The claim in one sentence."""
    experiment: str
    """Name of the experiment in `unbag_lab.experiments` whose arms it compares."""
    predictions: tuple[Prediction, ...]
    must_fit: tuple[str, ...] = ()
    """Arms that must be able to fit a few fixed examples. A base on which one cannot does not
    count, since a reader that cannot fit shows nothing about the features it reads."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """Bases, with the fingerprints of their weights, on which trained arms of the claim had been
    run before it was written down. They do not count, nor do these weights under another name or
    other weights under these names."""
    beside: tuple[Number, ...] = ()
    """Numbers of control arms that are run and shown but decide nothing: a verdict does not wait
    for them. An arm named here is shown with all metrics of the claim."""
    controls: str = ""
    """How other explanations are ruled out."""
    knobs: str = ""
    """Settings fixed before the run, and what else could matter."""
    paper: str = ""
    """Short name of the first source, the heading in the overview."""
    where: TrainingArguments = WORLD
    """The images that its verdict is about."""

    def __post_init__(self) -> None:
        if not self.predictions:
            raise UnbagError(f"the claim {self.name!r} predicts nothing", expected="an inequality")

    def counts(self, arms: ArmsOfBase) -> bool:
        """Return whether a base counts for the claim."""
        own_results = [arms[key] for key in self.arms if key in arms]
        if any(
            result.base in self.seen or result.fingerprint in self.seen.values()
            for result in own_results
        ):
            return False
        fit_results = (arms.get((self.experiment, name)) for name in self.must_fit)
        learned = (
            result.numbers.get("fit", {}).get("few", 0.0) if result else 0.0
            for result in fit_results
        )
        return all(share >= LEAST_FIT for share in learned)

    @property
    def seeds(self) -> int:
        """Number of seeds that a verdict needs."""
        return seeds_for(FEWEST_BASES, seen=self.seen)

    @property
    def arms(self) -> tuple[ArmKey, ...]:
        """The arms that its verdict depends on."""
        keys = [n.key(self.experiment) for p in self.predictions for n in p.numbers]
        fitted = [(self.experiment, name) for name in self.must_fit]
        return tuple(dict.fromkeys([*keys, *fitted]))

    @property
    def arms_beside(self) -> tuple[ArmKey, ...]:
        """The control arms."""
        keys = dict.fromkeys(number.key(self.experiment) for number in self.beside)
        return tuple(key for key in keys if key not in self.arms)


@dataclass(frozen=True)
class Prediction:
    """An inequality: `number` minus `control` is above, below or within `bound`."""

    says: str
    """The prediction as a sentence."""
    number: Number
    control: Number | float
    side: Literal["above", "below", "within"]
    bound: float = 0.0
    """As a fraction; for `within`, the largest distance from 0."""

    def __post_init__(self) -> None:
        if self.side == "within" and self.bound <= 0:
            raise UnbagError(
                f"the prediction {self.says!r} is within {self.bound}", expected="a number above 0"
            )

    @property
    def level(self) -> float | None:
        """The control if it is a constant, else None."""
        return None if isinstance(self.control, Number) else self.control

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers that it compares."""
        return (self.number, self.control) if isinstance(self.control, Number) else (self.number,)

    def effects(self, bases: Mapping[str, ArmsOfBase], experiment: str) -> dict[str, float]:
        """Return the differences by base, for bases with both numbers."""
        differences = {}
        for base in in_order(bases):
            arms = bases[base]
            value, other = self.number.of(arms, experiment), self.level
            if isinstance(self.control, Number):
                other = self.control.of(arms, experiment)
            if value is not None and other is not None and isfinite(value - other):
                differences[base] = value - other
        return differences


@dataclass(frozen=True)
class Number:
    """One number of one arm: a metric of a benchmark, as a fraction."""

    arm: str
    benchmark: str
    metric: str
    experiment: str = ""
    """Experiment of the arm, if it is not that of the claim."""

    def key(self, experiment: str) -> ArmKey:
        """Return its arm, for a claim of this experiment."""
        return self.experiment or experiment, self.arm

    def of(self, arms: ArmsOfBase, experiment: str) -> float | None:
        """Return the number on one base; None if it was not measured."""
        result = arms.get(self.key(experiment))
        return None if result is None else result.numbers.get(self.benchmark, {}).get(self.metric)


def find_claim(name: str) -> Claim:
    """Return a claim by name."""
    if name not in NAMES:
        raise unknown_name("claim", name, NAMES)
    return _read_claims()[name]


def all_claims() -> tuple[Claim, ...]:
    """Return every claim, in the order of the overview."""
    return tuple(_read_claims()[name] for name in NAMES)


@cache
def _read_claims() -> Mapping[str, Claim]:
    claims = {}
    for file in files(__name__).iterdir():
        if file.name.endswith(".toml"):
            for name, fields in tomllib.loads(file.read_text(encoding="utf-8")).items():
                claims[name] = _claim(name, **fields)
    return claims


def _claim(
    name: str,
    *,
    predictions: Sequence[dict[str, Any]],
    where: str = "world",
    must_fit: Sequence[str] = (),
    beside: Sequence[Sequence[str]] = (),
    **texts: Any,
) -> Claim:
    """Parse a claim; a number is [arm, benchmark, metric], plus the experiment if it differs."""
    parsed = []
    for fields in predictions:
        control = fields["control"]
        level_or_number = control if isinstance(control, float) else Number(*control)
        parsed.append(
            Prediction(
                **(fields | {"number": Number(*fields["number"]), "control": level_or_number})
            )
        )
    return Claim(
        name=name,
        predictions=tuple(parsed),
        where={"world": WORLD, "photographs": PHOTOGRAPHS}[where],
        must_fit=tuple(must_fit),
        beside=tuple(Number(*parts) for parts in beside),
        **texts,
    )
