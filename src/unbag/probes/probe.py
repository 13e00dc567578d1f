"""What a probe is: a question to a model, how it is asked, and what is said of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from unbag.engine.progress import Progress, Silent
from unbag.probes.finding import Finding, Options
from unbag.probes.material import Material
from unbag.probes.space import Space
from unbag.scorers.resolve import Model
from unbag.types import Scorer

Tone = Literal["fails", "holds", "mixed", "told"]
"""fails: like a bag of words; holds: as one would wish; mixed: between or undecided by the
interval; told: a fact that is neither."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model under examination."""

    name: str
    model: Model
    space: Space | None
    """None for chat models and matching heads, which have no vectors."""
    scorer: Scorer
    twin: Subject | None = None
    """The same model with random weights; None where it cannot be made."""
    has_readout: bool = False
    """Whether the scorer is a read-out's, and not the cosine of the vectors in `space`."""
    other: Subject | None = None
    """The model it is set against, such as the one that a repair started from."""


@dataclass(frozen=True)
class Verdict:
    """One plain sentence, with the number in it."""

    sentence: str
    tone: Tone


@dataclass(frozen=True)
class Probe:
    """A question that can be put to any model."""

    name: str
    question: str
    """As a user asks: "Does the picture tower merge different pictures?"."""
    about: str
    """Formula, source and limits, for the page and the docs."""
    ask: Callable[[Subject, Material, Options, Progress], Finding]
    """A subject, material or kind of model it cannot be put to gives a finding that is skipped."""
    say: Callable[[Finding], Verdict]
    """Of a finding that was not skipped."""


def put(
    probe: Probe,
    subject: Subject,
    material: Material,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Put one question to one model."""
    return probe.ask(subject, material, options or Options(), progress or Silent())
