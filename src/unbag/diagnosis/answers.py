"""What is kept of a diagnosis: every question with what was found, for each of the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unbag.probes.finding import Finding, Options, Quantity
from unbag.probes.plots import Maps
from unbag.probes.probe import Verdict
from unbag.types import Comparison


@dataclass(frozen=True)
class Examined:
    """A model by name."""

    name: str
    fingerprint: str


@dataclass(frozen=True, eq=False)
class Answer:
    """One question, and what was found for each model."""

    probe: str
    question: str
    about: str
    finding: Finding
    verdict: Verdict | None
    """None if the question could not be put; `finding.skipped` says why."""
    twin: Finding | None = None
    """Of the same model with random weights."""
    other: Finding | None = None
    """Of the model it is set against."""
    other_verdict: Verdict | None = None
    differences: tuple[Comparison, ...] = ()
    """The model minus the other, a quantity each where it can be paired."""
    seconds: float = 0.0

    @property
    def headline(self) -> Quantity | None:
        """The quantity that the sentence is about."""
        return self.finding.get(self.finding.headline)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """A whole diagnosis."""

    model: Examined
    material: str
    options: Options
    answers: tuple[Answer, ...] = ()
    twin: Examined | None = None
    other: Examined | None = None
    maps: tuple[Maps, ...] = ()
    """Words over patches, of the model, of its read-out, and of the other."""
    notes: tuple[str, ...] = ()
    """What was left out of the material, pictures that could not be opened ..."""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    started: str = ""
    """ISO 8601, UTC."""
    command: str = ""
    device: str = ""
    is_whole: bool = True
    """False if it was stopped before the last question."""

    @property
    def answered(self) -> tuple[Answer, ...]:
        """The questions that could be put."""
        return tuple(answer for answer in self.answers if answer.verdict is not None)

    @property
    def skipped(self) -> tuple[Answer, ...]:
        """The others; `finding.skipped` says why."""
        return tuple(answer for answer in self.answers if answer.verdict is None)

    def print(self) -> None:
        """The questions with their sentences, as a table on the terminal."""
        from unbag.diagnosis.table import print_diagnosis

        print_diagnosis(self)

    def write(self, folder: str | Path) -> Path:
        """Write `diagnosis.json` and `diagnosis.html` into a folder; gives the page."""
        from unbag.diagnosis.written import write_diagnosis

        return write_diagnosis(self, Path(folder))
