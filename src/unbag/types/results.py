"""The contents of a report: results, protocol, run record, comparisons and references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from unbag.errors import UnbagError
from unbag.types.benchmarks import Published
from unbag.types.scores import Estimate, TieRule


@dataclass(frozen=True)
class Result:
    """The metrics of one model on one benchmark under one protocol and averaging rule."""

    benchmark: str
    scorer: str
    protocol: EvalProtocol
    aggregate: str
    headline: str
    about: str = field(default="", kw_only=True)
    """What the benchmark tests, in one sentence."""
    is_blind: bool = field(default=False, kw_only=True)
    """Whether the scorer ignores images: a baseline that is at chance on a good benchmark."""
    overall: Mapping[str, Estimate]
    by_tag: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """Micro averages by tag=value."""
    run: RunRecord | None = None


@dataclass(frozen=True)
class EvalProtocol:
    """All settings besides model and data that change a number."""

    ties: TieRule = "wrong"
    tie_eps: float = 0.0
    """Scores this close count as tied; 0 means exact equality."""
    scoring: str = "cosine"
    """How scores were computed: cosine, yes-probability, letters, perplexity ..."""
    prompt: str = ""
    errata: str = ""
    """Name of the errata that were applied; empty if none were."""
    confidence: float = 0.95
    resamples: int = 50_000

    def __post_init__(self) -> None:
        if self.ties not in get_args(TieRule):
            raise UnbagError(
                f"the tie rule {self.ties!r} is not known",
                expected=f"one of {', '.join(get_args(TieRule))}",
                hint="for the rule of each benchmark use --ties official (official_ties=True in "
                "Python)",
            )
        if not 0 < self.confidence < 1 or self.resamples < 1 or self.tie_eps < 0:
            raise UnbagError(
                f"confidence {self.confidence}, resamples {self.resamples}, tie_eps {self.tie_eps}",
                expected="confidence between 0 and 1, at least one resample, tie_eps of 0 or more",
            )

    @property
    def key(self) -> str:
        """Short text that is unique to the protocol."""
        parts = [self.scoring, f"ties={self.ties}"]
        parts += [f"eps={self.tie_eps:g}"] if self.tie_eps else []
        parts += [f"prompt={self.prompt}"] if self.prompt else []
        parts += [f"errata={self.errata}"] if self.errata else []
        parts += [f"confidence={self.confidence:g}"] if self.confidence != 0.95 else []
        parts += [f"resamples={self.resamples}"] if self.resamples != 50_000 else []
        return ", ".join(parts)


@dataclass(frozen=True)
class RunRecord:
    """The command, data, models and software of a run, so that it can be reproduced."""

    command: str
    started: str
    """ISO 8601, UTC."""
    seed: int
    device: str
    versions: Mapping[str, str]
    fingerprints: Mapping[str, str]
    """Fingerprints of the weights of each model and the items of each benchmark."""
    damaged: tuple[str, ...] = ()
    """Images that could not be opened, by name."""
    truncated: Mapping[str, int] = field(default_factory=dict)
    """Number of captions truncated to the context length, by model."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of items left out because their images are missing, by benchmark."""
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Messages of the loader of each benchmark, and which scores are only bounds."""
    incomplete: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Why a benchmark differs from the one that papers report, by benchmark."""
    trained_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Training datasets that each model declares, by model."""


@dataclass(frozen=True)
class Comparison:
    """The difference of two scorers on the units that both have."""

    benchmark: str
    metric: str
    first: str
    second: str
    difference: float
    """Second minus first, on the shared units."""
    low: float
    high: float
    """Of the interval of a paired, clustered bootstrap."""
    n: int
    p_value: float | None
    """For the hypothesis of no difference; None for means of scores, ratios and half credits."""
    p_holm: float | None
    """p-value after Holm's correction over all comparisons of the run."""
    test: str = ""
    """mcnemar (exact) if each unit is its own cluster, else sign flip over clusters; "" if there
    is none."""
    aggregate: str = "micro"
    """Averaging rule of both values."""


@dataclass(frozen=True)
class Reference:
    """A published number and ours, with the same metric and averaging rule."""

    benchmark: str
    scorer: str
    published: Published
    ours: Estimate
    is_same_model: bool
    """Whether the published number is of the same model; else it is shown for orientation."""
    is_comparable: bool = True
    """Whether scoring and averaging are known to be the same."""
    doubts: tuple[str, ...] = ()
    """Inconsistencies in the source, and differences between its protocol and ours."""

    @property
    def difference(self) -> float:
        """Our value minus the published one."""
        return self.ours.value - self.published.value

    @property
    def is_inside(self) -> bool | None:
        """Whether the published number, with its rounding, overlaps our interval.

        None if we have no interval. Ends may touch; the small tolerance is for binary fractions.
        """
        if self.ours.low != self.ours.low or self.ours.high != self.ours.high:
            return None
        half = self.published.half + 1e-12
        low, high = self.published.value - half, self.published.value + half
        return low <= self.ours.high and self.ours.low <= high


@dataclass(frozen=True)
class Failure:
    """An item that a scorer got wrong, in a form for the gallery of failures."""

    benchmark: str
    scorer: str
    item: str
    metric: str
    images: tuple[str, ...]
    """data: URLs of thumbnails."""
    captions: tuple[str, ...]
    kinds: tuple[str, ...]
    truth: tuple[tuple[bool, ...], ...]
    """One row per image, one column per caption."""
    scores: tuple[tuple[float, ...], ...]
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, matrix in (("truth", self.truth), ("scores", self.scores)):
            if [len(row) for row in matrix] != [len(self.captions)] * len(self.images):
                raise UnbagError(
                    f"field failure.{name} has rows of {[len(row) for row in matrix]} entries",
                    expected=f"images x captions = {len(self.images)} rows of {len(self.captions)}",
                    hint="the file was changed; run again to rewrite it",
                )


@dataclass(frozen=True)
class RunContents:
    """The results that a run folder holds and a report shows."""

    record: RunRecord
    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...] = ()
    failures: tuple[Failure, ...] = ()
    problems: tuple[str, ...] = ()
    """What was scored but could not be measured or compared, with the reason."""
    references: tuple[Reference, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings about the validity of numbers, such as training on the images of the test."""
