"""The demo's second part: one frozen encoder by two read-outs in, what is gained and lost out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from unbag.engine.evaluate import find_benchmarks
from unbag.engine.job import Job
from unbag.reports.wording import value_text
from unbag.scorers import load_model, make_scorer
from unbag.types import Benchmark, Comparison, RunContents

MODEL, READOUT = "tiny:base", "decoder"
BENCHMARKS = ("world-relation", "world-pairs-a", "world-swap", "world-count")
"""Two that gain, one that stays, one that loses."""
FOLDER = "another-readout"
TITLE = (
    f"the same frozen {MODEL}, by cosine and by a small language model that looks at its patches "
    "(docs/decoder.md):"
)


def readout_job(options: argparse.Namespace, *, cache: Path | None) -> Job:
    """Both read-outs on some benchmarks, in a folder inside that of the demo."""
    model = load_model(MODEL)
    return Job(
        scorers=[make_scorer(model), make_scorer(model, READOUT)],
        benchmarks=find_benchmarks(BENCHMARKS),
        out=options.out / FOLDER,
        cache=cache,
        command=options.typed,
    )


def changes(contents: RunContents, benchmarks: Sequence[Benchmark]) -> str:
    """What the second read-out gains and loses, by headline and by paired intervals."""
    said: dict[str, list[str]] = {"gained": [], "lost": [], "no difference shown": []}
    for benchmark in benchmarks:
        for one in contents.comparisons:
            if (one.benchmark, one.metric) == (benchmark.name, benchmark.headline):
                said[_verdict(one)].append(f"{benchmark.name} {_from_to(contents, one)}")
    return "; ".join(f"{what}: {', '.join(found)}" for what, found in said.items() if found)


def _verdict(one: Comparison) -> str:
    if one.low > 0:
        return "gained"
    return "lost" if one.high < 0 else "no difference shown"


def _from_to(contents: RunContents, one: Comparison) -> str:
    value = {
        result.scorer: value_text(result.overall[one.metric])
        for result in contents.results
        if result.benchmark == one.benchmark
    }
    return f"{value[one.first]} to {value[one.second]}"
