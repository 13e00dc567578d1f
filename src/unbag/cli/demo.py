"""`unbag demo`: evaluate the shipped models on the world benchmarks, and compare two read-outs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import add_cache, add_command, cache_of
from unbag.cli.run import run_job

if TYPE_CHECKING:
    from unbag.evaluation.loading import Job
    from unbag.evaluation.run import Finished
    from unbag.registry import Commands
    from unbag.types import Benchmark, RunContents

_ABOUT = """\
Evaluate the shipped tiny model before and after a repair, the same model with random weights and a
blind baseline on all world benchmarks, print the results and write a report. Then compare two
read-outs of one model: cosine similarity and a decoder.
"""

_MODELS = ("tiny:base", "tiny:hard_negative", "tiny:random", "caption:short")
"""Before and after a repair, with random weights, and a blind baseline."""
_MODEL, _READOUT = "tiny:base", "decoder"
_READOUT_BENCHMARKS = ("world-relation", "world-pairs-a", "world-swap", "world-count")
"""Two benchmarks that gain, one that stays the same, one that loses."""
READOUT_FOLDER = "another-readout"
"""Name of the second run folder, inside that of the demo."""


def add(commands: Commands) -> None:
    """Add the option: the run folder."""
    text = "evaluate the shipped models on the built-in world, without downloads"
    demo = add_command(commands, "demo", text=text, about=_ABOUT)
    text, default = "run folder, with the report", Path("unbag-demo")
    demo.add_argument("--out", type=Path, default=default, metavar="DIR", help=text)
    add_cache(demo)


def start(options: argparse.Namespace) -> int:
    """Evaluate on the built-in world, then compare two read-outs of one model."""
    from unbag.api import make_scorer
    from unbag.benchmarks.names import find_benchmarks
    from unbag.evaluation.loading import Job
    from unbag.models.loading import load_model

    job = Job(
        scorers=[make_scorer(load_model(name)) for name in _MODELS],
        benchmarks=find_benchmarks(["world"]),
        out=options.out,
        cache=cache_of(options),
        command=options.typed,
    )

    def readout_job() -> Job:
        model = load_model(_MODEL)
        return replace(
            job,
            scorers=[make_scorer(model), make_scorer(model, _READOUT)],
            benchmarks=find_benchmarks(_READOUT_BENCHMARKS),
            out=options.out / READOUT_FOLDER,
        )

    return run_job(job, second=readout_job, show_second=_show_readout)


def _show_readout(finished: Finished) -> None:
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import output, print_lines
    from unbag.reports.exports import report
    from unbag.reports.terminal import terminal_table

    report(finished.contents, finished.folder.report)
    text = f"\nthe same frozen {_MODEL}, scored by cosine similarity and by a small language model"
    print_lines([f"{text} that reads its patches (docs/background/decoder.md):"])
    output().print(terminal_table(finished.contents))
    print_lines([_changes(finished.contents, find_benchmarks(_READOUT_BENCHMARKS))])
    print(f"report:  {finished.folder.report}")


def _changes(contents: RunContents, benchmarks: Sequence[Benchmark]) -> str:
    """State which headline metrics the second read-out gains and loses, by paired intervals."""
    from unbag.reports.formatting import value_text

    changes: dict[str, list[str]] = {"gained": [], "lost": [], "no difference shown": []}
    for benchmark in benchmarks:
        for comparison in contents.comparisons:
            if (comparison.benchmark, comparison.metric) != (benchmark.name, benchmark.headline):
                continue
            value = {
                result.scorer: value_text(result.overall[comparison.metric])
                for result in contents.results
                if result.benchmark == comparison.benchmark
            }
            outcome = (
                "gained"
                if comparison.low > 0
                else "lost"
                if comparison.high < 0
                else "no difference shown"
            )
            changes[outcome].append(
                f"{benchmark.name} {value[comparison.first]} to {value[comparison.second]}"
            )
    return "; ".join(
        f"{outcome}: {', '.join(texts)}" for outcome, texts in changes.items() if texts
    )
