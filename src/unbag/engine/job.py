"""What a run is asked to do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unbag.engine.errata import ErrataChoice
from unbag.engine.missing import Missing
from unbag.types import Benchmark, EvalProtocol, Scorer


@dataclass(frozen=True)
class Job:
    """What to run and where to put it."""

    scorers: Sequence[Scorer]
    benchmarks: Sequence[Benchmark]
    out: Path
    data: Path | None = None
    """Folder with one folder for each benchmark that needs files."""
    cache: Path | None = None
    """Where embeddings are kept; None keeps them in memory only."""
    protocol: EvalProtocol = field(default_factory=EvalProtocol)
    seed: int = 0
    batch: int = 256
    allow_invalid: bool = False
    official_first: bool = False
    """Make each benchmark's official tie rule the headline; the other rule is still reported."""
    errata: ErrataChoice = "published"
    """Which known errors of the benchmarks are mended; part of every result's key."""
    trained_on: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Collections that models were trained on, by model, beside what they declare themselves."""
    published_as: Mapping[str, str] = field(default_factory=dict)
    """What papers call a model, by the scorer's name, where neither it nor we know."""
    missing: Missing = "error"
    """What to do about pictures that are not on disk: refuse to run, or leave their items out."""
    also_compared: tuple[str, ...] = ()
    """Metrics on which models are compared besides each headline, where a benchmark has them."""
    keeps_going: bool = False
    """Score the other models where one fails, and measure what there is; the failure is a problem
    of the finished run instead of an error. One process only: others would wait for the one."""
    device: str = "cpu"
    save_seconds: float = 5.0
    """Least time between two writes of the scores; what is lost by a kill is at most this much."""
    command: str = field(default_factory=lambda: shlex.join(sys.argv))
    """What was typed, for the record of the run."""
