"""Models and one benchmark with a training split come in; fitted linear probes go out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.engine.loading import folder_of
from unbag.engine.missing import Missing, without_missing
from unbag.engine.probe import fit_linear_probe
from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.scorers.resolve import Model
from unbag.types import Benchmark, DualEncoder, Item, Loader, Scorer

NAME = "linear-probe"
"""Of the scorer."""


def fit_probes(
    models: Sequence[Model],
    benchmarks: Sequence[Benchmark],
    *,
    data: Path | None,
    cache: Path | None,
    batch: int,
    missing: Missing,
    progress: Progress,
) -> list[Scorer]:
    """A probe for each model, all fitted to the same training split."""
    benchmark, load = _only(benchmarks)
    encoders = [_encoder(model) for model in models]
    items: Sequence[Item] = tuple(load(folder_of(benchmark, data)))
    items = without_missing(benchmark.name, items, missing=missing, progress=progress)
    found: list[Scorer] = []
    for encoder in encoders:
        probe = fit_linear_probe(encoder, items, cache=cache, batch=batch, progress=progress)
        progress.say(
            f"linear probe of {encoder.name}: fitted to {len(items)} pictures of "
            f"{len(probe.classes)} classes, strength {probe.strength:.1g}, "
            f"{probe.held_out:.1%} right on the held-out part"
        )
        found.append(probe)
    return found


def _only(benchmarks: Sequence[Benchmark]) -> tuple[Benchmark, Loader]:
    if len(benchmarks) != 1:
        raise UserError(
            f"--scorer {NAME} with {len(benchmarks)} benchmarks",
            expected="one: a probe knows the classes of its own training split only",
            way_out="run it once for each benchmark; vectors are kept in the cache",
        )
    if benchmarks[0].load_training is None:
        raise UserError(
            f"the benchmark {benchmarks[0].name!r} has no training split for a linear probe",
            expected="a benchmark with load_training, such as cifar10",
            way_out="see docs/benchmarks.md for those that have one",
        )
    return benchmarks[0], benchmarks[0].load_training


def _encoder(model: Model) -> DualEncoder:
    if isinstance(model, DualEncoder):
        return model
    raise UserError(
        f"--scorer {NAME} needs vectors of pictures, and {model.name!r} has none",
        expected="a dual encoder",
    )
