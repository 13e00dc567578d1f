"""What a report is made of: results with protocol and run record, comparisons, references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from unbag.errors import UnbagError
from unbag.types.benchmarks import Published
from unbag.types.scores import Estimate, TieRule


@dataclass(frozen=True)
class Result:
    """One model on one benchmark under one protocol and one averaging rule."""

    benchmark: str
    scorer: str
    protocol: EvalProtocol
    aggregate: str
    headline: str
    about: str = field(default="", kw_only=True)
    """What the benchmark asks, in one sentence."""
    is_blind: bool = field(default=False, kw_only=True)
    """The scorer never looked at an image: a baseline that a good benchmark keeps at chance."""
    overall: Mapping[str, Estimate]
    by_tag: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """Keyed as tag=value; every entry is a micro average."""
    run: RunRecord | None = None


@dataclass(frozen=True)
class EvalProtocol:
    """Everything besides model and data that changes a number; two protocols are two results."""

    ties: TieRule = "wrong"
    tie_eps: float = 0.0
    """Scores this close count as tied; 0 means exact equality."""
    scoring: str = "cosine"
    """How a number was had from the model: cosine, yes-probability, letters, perplexity ..."""
    prompt: str = ""
    errata: str = ""
    """Name of the known errors of the benchmark that were mended; empty if none were."""
    confidence: float = 0.95
    resamples: int = 50_000

    def __post_init__(self) -> None:
        if self.ties not in get_args(TieRule):
            raise UnbagError(
                f"the tie rule {self.ties!r} is not known",
                expected=f"one of {', '.join(get_args(TieRule))}",
                hint="for each benchmark's own rule use --ties official (official_ties=True in "
                "Python)",
            )
        if not 0 < self.confidence < 1 or self.resamples < 1 or self.tie_eps < 0:
            raise UnbagError(
                f"confidence {self.confidence}, resamples {self.resamples}, tie_eps {self.tie_eps}",
                expected="confidence between 0 and 1, at least one resample, tie_eps of 0 or more",
            )

    @property
    def key(self) -> str:
        """Short text that differs whenever the protocol does."""
        parts = [self.scoring, f"ties={self.ties}"]
        parts += [f"eps={self.tie_eps:g}"] if self.tie_eps else []
        parts += [f"prompt={self.prompt}"] if self.prompt else []
        parts += [f"errata={self.errata}"] if self.errata else []
        parts += [f"confidence={self.confidence:g}"] if self.confidence != 0.95 else []
        parts += [f"resamples={self.resamples}"] if self.resamples != 50_000 else []
        return ", ".join(parts)


@dataclass(frozen=True)
class RunRecord:
    """What was run, on what, with what: enough to run it again and to doubt it properly."""

    command: str
    started: str
    """ISO 8601, UTC."""
    seed: int
    device: str
    versions: Mapping[str, str]
    fingerprints: Mapping[str, str]
    """Of every model's weights and every benchmark's items."""
    damaged: tuple[str, ...] = ()
    """Images that could not be opened, by name."""
    truncated: Mapping[str, int] = field(default_factory=dict)
    """Captions cut to the context length, by model."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Items left out because their images are missing, by benchmark."""
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the loader of each benchmark said, and which of its scores are only bounds."""
    incomplete: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Why a benchmark is not the one that papers report on, by benchmark."""
    trained_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Collections that each model says it was trained on, by model."""


@dataclass(frozen=True)
class Comparison:
    """Two scorers on the units both were judged on."""

    benchmark: str
    metric: str
    first: str
    second: str
    difference: float
    """Value of the second minus value of the first, on the shared units."""
    low: float
    high: float
    """Paired, clustered bootstrap."""
    n: int
    p_value: float | None
    """Of no difference; None for means of scores, ratios and half credits."""
    p_holm: float | None
    """The same after Holm's correction over all comparisons made together."""
    test: str = ""
    """mcnemar (exact) where each unit has its own cluster, else sign flip over clusters; "" if
    there is none."""
    aggregate: str = "micro"
    """The averaging rule of both values."""


@dataclass(frozen=True)
class Reference:
    """A published number beside ours, under the same metric and averaging rule."""

    benchmark: str
    scorer: str
    published: Published
    ours: Estimate
    is_same_model: bool
    """The published number is of this very model; else it only gives the scale."""
    is_comparable: bool = True
    """Scored in the same way, and the source says how it averages."""
    doubts: tuple[str, ...] = ()
    """What does not add up in the source, or differs between its protocol and ours."""

    @property
    def difference(self) -> float:
        """Ours minus theirs."""
        return self.ours.value - self.published.value

    @property
    def is_inside(self) -> bool | None:
        """Whether the printed number, as far as its digits go, meets our interval.

        None where we have no interval. Ends may touch: the tiny allowance is for binary fractions.
        """
        if self.ours.low != self.ours.low or self.ours.high != self.ours.high:
            return None
        half = self.published.half + 1e-12
        low, high = self.published.value - half, self.published.value + half
        return low <= self.ours.high and self.ours.low <= high


@dataclass(frozen=True)
class Failure:
    """An item that a scorer got wrong, kept small enough to be shown on a page."""

    benchmark: str
    scorer: str
    item: str
    metric: str
    images: tuple[str, ...]
    """data: addresses of small images."""
    captions: tuple[str, ...]
    kinds: tuple[str, ...]
    truth: tuple[tuple[bool, ...], ...]
    """Row an image, column a caption."""
    scores: tuple[tuple[float, ...], ...]
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, matrix in (("truth", self.truth), ("scores", self.scores)):
            if [len(row) for row in matrix] != [len(self.captions)] * len(self.images):
                raise UnbagError(
                    f"field failure.{name} has rows of {[len(row) for row in matrix]} entries",
                    expected=f"images x captions = {len(self.images)} rows of {len(self.captions)}",
                    hint="the file was changed; run again to write it anew",
                )


@dataclass(frozen=True)
class RunContents:
    """All that a run folder holds about its results, and all that a report is made of."""

    record: RunRecord
    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...] = ()
    failures: tuple[Failure, ...] = ()
    problems: tuple[str, ...] = ()
    """What was scored but could not be measured or compared, and why."""
    references: tuple[Reference, ...] = ()
    warnings: tuple[str, ...] = ()
    """What a reader must know before trusting a number, such as training on the test's images."""
