"""A benchmark comes in; what it asks for goes out: composition, or what a model knew before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from unbag.metrics.classify import Classify
from unbag.metrics.correlation import Correlation
from unbag.metrics.retrieval import Recall
from unbag.types import Benchmark
from unbag.world import benchmarks as world

Kind = Literal["composition", "words", "retrieval", "classification", "agreement"]
"""`words`: which words fit, which a bag of words can tell; `agreement`: with ratings by people."""
Side = Literal["composition", "recognition", "neither"]

BY_NAME: Mapping[str, Kind] = MappingProxyType({world.REPLACE.name: "words"})
"""Those that their metrics would put elsewhere."""
BY_METRIC: tuple[tuple[type, Kind], ...] = (
    (Classify, "classification"),
    (Recall, "retrieval"),
    (Correlation, "agreement"),
)
"""The first metric a benchmark has decides; every other benchmark asks for composition."""
RECOGNITION: frozenset[Kind] = frozenset({"words", "retrieval", "classification"})

DEFAULT: tuple[Benchmark, ...] = (world.SWAP, world.RELATION, world.REPLACE, world.RETRIEVAL)
"""Where a user names none: pictures are drawn, so any model can be asked without a download."""
DRAWINGS = (
    "world benchmarks are drawings of simple shapes: what they show of a model trained on "
    "photographs need not hold for photographs; name benchmarks with --bench"
)


def kind_of(benchmark: Benchmark) -> Kind:
    """By name, then by its metrics."""
    if benchmark.name in BY_NAME:
        return BY_NAME[benchmark.name]
    for form, kind in BY_METRIC:
        if any(isinstance(metric, form) for metric in benchmark.metrics):
            return kind
    return "composition"


def side_of(benchmark: Benchmark) -> Side:
    """Ratings by people count for neither side."""
    kind = kind_of(benchmark)
    if kind in RECOGNITION:
        return "recognition"
    return "composition" if kind == "composition" else "neither"


def are_drawings(benchmarks: Sequence[Benchmark]) -> bool:
    """Whether any of them draws its pictures."""
    return any("unbag world" in benchmark.sources for benchmark in benchmarks)
