"""Published claims: what one is, and those of the study, one TOML file a paper.

A claim is a sentence, its arms, and predictions that can fail: inequalities about differences
between two arms of the same base, or between an arm and a number. It is written down and committed
before its results. `order.txt` has the order in which the overview shows them.
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
"""Base models below which nothing is decided (methods.md 12.7)."""
LEAST_FIT = 0.85
"""Share of fixed examples that a reader must learn by heart for its nulls to count (12.10)."""
ArmKey = tuple[str, str]
"""An experiment and one of its arms."""
ArmsOfBase = Mapping[ArmKey, ArmResult]
"""All that is known of one base."""


@dataclass(frozen=True)
class TrainingArguments:
    """Images on which a claim is tried."""

    name: str
    """As verdicts say it."""
    small: str
    """Why sizes of effects found there mean little elsewhere."""


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
    """Who claims it, and where."""
    statement: str
    """In one sentence, as they claim it."""
    experiment: str
    """Whose arms it compares: a name of `unbag_lab.experiments`."""
    predictions: tuple[Prediction, ...]
    must_fit: tuple[str, ...] = ()
    """Arms that must be able to learn what they are shown; a base on which one is not counts for
    nothing, since a reader that cannot fit says nothing about what it reads."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """Bases on which arms that are taught for it had been run when it was written down, with the
    fingerprints of their weights. They decide nothing, nor do those weights under another name or
    other weights under that name."""
    beside: tuple[Number, ...] = ()
    """Of controls that are run and shown beside, and decide nothing: a verdict does not wait for
    them. An arm that is named by one of its numbers is shown with all that the claim asks for."""
    controls: str = ""
    """What rules other explanations out."""
    knobs: str = ""
    """What was fixed before, and what else could matter."""
    paper: str = ""
    """Short name of the first source, under which the overview shows the claim."""
    where: TrainingArguments = WORLD
    """What its verdict is about."""

    def __post_init__(self) -> None:
        if not self.predictions:
            raise UnbagError(f"the claim {self.name!r} predicts nothing", expected="an inequality")

    def counts(self, arms: ArmsOfBase) -> bool:
        """Whether a base says anything about the claim."""
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
        """How many a run needs for a verdict."""
        return seeds_for(FEWEST_BASES, seen=self.seen)

    @property
    def arms(self) -> tuple[ArmKey, ...]:
        """All that its verdict rests on, each once."""
        keys = [n.key(self.experiment) for p in self.predictions for n in p.numbers]
        fitted = [(self.experiment, name) for name in self.must_fit]
        return tuple(dict.fromkeys([*keys, *fitted]))

    @property
    def arms_beside(self) -> tuple[ArmKey, ...]:
        """Those that are run for it too."""
        keys = dict.fromkeys(number.key(self.experiment) for number in self.beside)
        return tuple(key for key in keys if key not in self.arms)


@dataclass(frozen=True)
class Prediction:
    """An inequality: `number` minus `control` is above, below or within `bound`."""

    says: str
    """For people, in one sentence."""
    number: Number
    control: Number | float
    side: Literal["above", "below", "within"]
    bound: float = 0.0
    """As a fraction; for `within`, how far from 0 on either side still counts as nothing."""

    def __post_init__(self) -> None:
        if self.side == "within" and self.bound <= 0:
            raise UnbagError(
                f"the prediction {self.says!r} is within {self.bound}", expected="a number above 0"
            )

    @property
    def level(self) -> float | None:
        """What its number is held against, where that is no number of an arm."""
        return None if isinstance(self.control, Number) else self.control

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The one or two that it compares."""
        return (self.number, self.control) if isinstance(self.control, Number) else (self.number,)

    def effects(self, bases: Mapping[str, ArmsOfBase], experiment: str) -> dict[str, float]:
        """By base, for every base on which both sides were asked and came to a number."""
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
    """Where the arm is not of the claim's own experiment."""

    def key(self, experiment: str) -> ArmKey:
        """Which arm it is of, in a claim of this experiment."""
        return self.experiment or experiment, self.arm

    def of(self, arms: ArmsOfBase, experiment: str) -> float | None:
        """On one base; None where it was not asked."""
        result = arms.get(self.key(experiment))
        return None if result is None else result.numbers.get(self.benchmark, {}).get(self.metric)


def find_claim(name: str) -> Claim:
    """By name."""
    if name not in NAMES:
        raise unknown_name("claim", name, NAMES)
    return _read_claims()[name]


def all_claims() -> tuple[Claim, ...]:
    """Every claim."""
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
    """A number is written as [arm, benchmark, metric], and the experiment if it is another."""
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
