"""Weights in the middle of training come in; headlines of benchmarks go out and are kept."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

from unbag.engine.atomic import write_text
from unbag.engine.job import Job
from unbag.engine.loading import load_all
from unbag.engine.progress import Progress, Silent
from unbag.engine.run import run
from unbag.engine.team import Team
from unbag.errors import UserError
from unbag.models.joined import Joined
from unbag.models.text_table import TextTable
from unbag.scorers.cosine import Cosine
from unbag.train.job import TrainJob
from unbag.train.price_sides import DEFAULT
from unbag.types import Benchmark, DualEncoder, Item

FOLDER, NAME = "evaluations", "evaluations.csv"
_HEADER = ("step", "benchmark", "metric", "value", "low", "high", "n")


def evaluate_weights(job: TrainJob, step: int, *, progress: Progress, team: Team) -> float:
    """Score the weights as they are on the job's benchmarks; gives the mean of the headlines."""
    encoder = job.trainable.encoder(f"{job.trainable.name}+{job.recipe.name}@{step}")
    finished = run(
        Job(
            scorers=[Cosine(encoder)],
            benchmarks=job.benchmarks,
            out=job.out / FOLDER / f"step-{step}",
            data=job.data,
            seed=job.seed,
            device=job.device,
            command=job.command,
        ),
        progress=progress,
    )
    if finished.problems:
        raise UserError(
            f"benchmarks could not be measured after step {step}: {finished.problems[0]}",
            way_out="train with other benchmarks (--bench), or mend the data; the same command "
            "goes on from the last checkpoint",
        )
    # The first result of a benchmark follows the rule that the field publishes.
    first = {one.benchmark: one for one in reversed(finished.contents.results)}
    found = {
        name: (first[name].headline, first[name].overall[first[name].headline]) for name in first
    }
    if team.is_leader:
        with (job.out / NAME).open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for name, (metric, one) in found.items():
                writer.writerow((step, name, metric, one.value, one.low, one.high, one.n))
    for name, (metric, one) in found.items():
        value = "nothing" if one.value is None else f"{100 * one.value:.1f}"
        progress.say(f"step {step}: {name} {metric} {value}")
    values = [one.value for _, one in found.values() if one.value is not None]
    return sum(values) / len(values) if values else 0.0


def check_benchmarks(
    encoder: DualEncoder, benchmarks: Sequence[Benchmark], *, data: Path | None
) -> None:
    """Read those that need files: what is missing is said before training, not after an epoch.

    A model that knows only the captions of a table must know those of every benchmark too.
    """
    has_table = isinstance(encoder, Joined) and isinstance(encoder.text, TextTable)
    files = [benchmark for benchmark in benchmarks if benchmark.files]
    asked = (benchmarks or DEFAULT) if has_table else files
    job = Job(scorers=[Cosine(encoder)], benchmarks=asked, out=Path(), data=data)
    loaded = load_all(job, progress=Silent())
    if has_table:
        for name, items in loaded.items.items():
            _check_known(encoder, name, items)


def _check_known(encoder: DualEncoder, name: str, items: Sequence[Item]) -> None:
    every = (one for item in items for one in item.captions)
    texts = [text for one in every for text in ((one,) if isinstance(one, str) else one.prompts)]
    try:
        encoder.count_tokens(texts)
    except UserError as error:
        raise UserError(
            f"{name} cannot be measured before and after training: {error.found}",
            expected=error.expected,
            way_out="add the captions of the benchmark to the file, or name benchmarks that it "
            "knows with --bench",
        ) from error


def forget_later(folder: Path, step: int) -> None:
    """Drop what was measured after a step, since those steps are taken again."""
    for path in (folder / FOLDER).glob("step-*"):
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)
    table = folder / NAME
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    whole = [line for line in lines[1:] if line.count(",") == len(_HEADER) - 1]
    kept = [",".join(_HEADER), *(row for row in whole if int(row.partition(",")[0]) <= step)]
    if kept != lines:
        write_text(table, "\n".join(kept) + "\n")
