"""What a published claim is in the lab: a sentence, its arms, and predictions that can fail.

A claim is written down and committed before its results. Its predictions are inequalities about
differences between two arms of the same base, or between an arm and a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unbag.errors import UserError
from unbag.lab.repair_results import ArmResult

FEWEST_BASES = 5
"""Base models below which nothing is decided (methods.md 12.7)."""
LEAST_FIT = 0.85
"""Share of fixed examples that a reader must learn by heart for its nulls to count (12.10)."""


@dataclass(frozen=True)
class Number:
    """One number of one arm: a metric of a benchmark, as a fraction."""

    arm: str
    benchmark: str
    metric: str

    def of(self, results: dict[str, ArmResult]) -> float | None:
        """On one base, whose arms come by name; None where it was not asked."""
        result = results.get(self.arm)
        return None if result is None else result.numbers.get(self.benchmark, {}).get(self.metric)


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
            raise UserError(
                f"the prediction {self.says!r} is within {self.bound}", expected="a number above 0"
            )

    def effects(self, results: dict[str, dict[str, ArmResult]]) -> dict[str, float]:
        """By base, for every base on which both sides were asked."""
        found = {}
        for base, arms in sorted(results.items()):
            value = self.number.of(arms)
            other = self.control if isinstance(self.control, float) else self.control.of(arms)
            if value is not None and other is not None:
                found[base] = value - other
        return found


@dataclass(frozen=True)
class Claim:
    """One claim of one paper, as an experiment on the world."""

    name: str
    source: str
    """Who claims it, and where."""
    statement: str
    """In one sentence, as they claim it."""
    experiment: str
    """Whose arms it compares: the name under which results are kept."""
    predictions: tuple[Prediction, ...]
    must_fit: tuple[str, ...] = ()
    """Arms that must be able to learn what they are shown; a base on which one is not counts for
    nothing, since a reader that cannot fit says nothing about what it reads."""
    controls: str = ""
    """What rules other explanations out."""
    knobs: str = ""
    """What was fixed before, and what else could matter."""

    def __post_init__(self) -> None:
        if not self.predictions:
            raise UserError(f"the claim {self.name!r} predicts nothing", expected="an inequality")

    def counts(self, arms: dict[str, ArmResult]) -> bool:
        """Whether a base, whose arms come by name, says anything about the claim."""
        learned = [
            arms[name].numbers.get("fit", {}).get("few", 0.0) if name in arms else 0.0
            for name in self.must_fit
        ]
        return all(share >= LEAST_FIT for share in learned)

    @property
    def arms(self) -> tuple[str, ...]:
        """All that must be run for it."""
        numbers = [
            one
            for prediction in self.predictions
            for one in (prediction.number, prediction.control)
            if isinstance(one, Number)
        ]
        return tuple(dict.fromkeys(one.arm for one in numbers))
