"""The public functions behind `import unbag as ub` that take names as well as objects.

The others stand in their own packages: `unbag.evaluation.run.run`, `unbag.edits.editor.edit`,
`unbag.training.repair.repair`, `unbag.reports.exports.report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, TypeGuard, runtime_checkable

import numpy as np

from unbag import scorers
from unbag.benchmarks.names import benchmark
from unbag.errors import UnbagError
from unbag.evaluation.embedding import embed
from unbag.evaluation.loading import Job, Missing
from unbag.evaluation.plan import make_plan
from unbag.evaluation.run import no_scorer, run
from unbag.evaluation.scoring import answered
from unbag.models.loading import Model, load_model, model_name
from unbag.registry import find, names
from unbag.runs.progress import Progress, Silent
from unbag.scorers.linear_probe import STRENGTHS, LinearProbe, fit_probe, training_classes
from unbag.types import (
    Benchmark,
    Caption,
    DualEncoder,
    EvalProtocol,
    FloatArray,
    Generator,
    Item,
    Result,
    Scorer,
)

if TYPE_CHECKING:
    from unbag.evaluation.scoring import Shown
    from unbag.probes.base import Probe, ProbeData
    from unbag.probes.diagnosis.diagnose import Diagnosis

__all__ = [
    "benchmark",
    "diagnose",
    "evaluate",
    "fit_linear_probe",
    "make_scorer",
    "make_scorers",
    "model",
    "score",
    "scorer",
]


def evaluate(
    scorer: Model | str,
    benchmark: Benchmark | str,
    *,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    protocol: EvalProtocol | None = None,
    seed: int = 0,
    allow_invalid: bool = False,
    missing: Missing = "error",
) -> Result:
    """Score and measure; the result follows the averaging rule that the field publishes.

    A dual encoder is scored by `Cosine`, a chat model by the probability of yes. A model that is
    given by name is loaded at every call. `root` holds one folder for each benchmark. Nothing is
    written except to `cache`, if given; use `run` to keep scores and to continue after a stop.
    """
    wanted = _as_scorer(scorer)
    with TemporaryDirectory(prefix="unbag-") as folder:
        job = Job(
            scorers=[wanted],
            benchmarks=[_as_benchmark(benchmark)],
            out=Path(folder) / "run",
            data=Path(root) if root else None,
            cache=Path(cache) if cache else None,
            protocol=protocol or EvalProtocol(),
            seed=seed,
            allow_invalid=allow_invalid,
            missing=missing,
        )
        finished = run(job)
    if finished.problems:
        raise UnbagError(finished.problems[0])
    return finished.contents.results[0]


def score(image: Shown, captions: Sequence[Caption], scorer: Model | str) -> FloatArray:
    """One number a caption, larger is better; NaN where the scorer has none.

    The smallest use: nothing is planned, cached or measured. A dual encoder is scored by `Cosine`;
    a model that is given by name is loaded at every call.
    """
    found = answered(image, captions, _as_scorer(scorer)).values
    assert found is not None
    score_C: FloatArray = found[0]
    return score_C


def diagnose(
    model: str | Model,
    *,
    against: str | Model | None = None,
    scorer: str | Scorer | None = None,
    data: str | Path | ProbeData | None = None,
    root: str | Path | None = None,
    probes: str | Sequence[str | Probe] | None = None,
    is_full: bool = False,
    layers: Sequence[int] = (),
    seed: int = 0,
    has_random_init: bool = True,
    has_maps: bool = True,
    cache: str | Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Diagnosis:
    """Put probes to a model, and say in one sentence each what was found.

    Args:
        model: By name (`tiny:base`), the folder of a training run, or loaded.
        against: A second model; differences from it are paired.
        scorer: A trained read-out of the model, `pacl@FOLDER`: it scores where a probe asks for a
            score, and its maps of words stand beside the model's.
        data: What is looked at: None for the world, a benchmark, a file of captions, a folder of
            images, or material made by hand.
        root: Holds one folder for each benchmark that is read from files.
        probes: One or several, by name, `package.module:NAME` or as they are; None is all that
            are registered.
        is_full: All grids of readers and conditions, not the quick part of them.
        layers: Layers to read from, besides the last; negative ones count from the end.
        seed: Of samples, readers, intervals and the random twin.
        has_random_init: Put every question to the same model with random weights as well.
        has_maps: Draw maps of words over a few images; a chat model runs dozens of times for it.
        cache: Keeps vectors between runs.
        device: Where models that are named here compute.
        progress: Shows progress bars; None shows none.
    """
    from unbag.probes.base import Options, ProbeData
    from unbag.probes.data import find_probe_data
    from unbag.probes.diagnosis.diagnose import DiagnosisConfig, examine

    material = data
    if not isinstance(data, ProbeData):
        material = find_probe_data(
            None if data is None else str(data),
            root=Path(root) if root else None,
            seed=seed,
            progress=progress,
        )
    assert isinstance(material, ProbeData)
    examined = _loaded(model, device)
    config = DiagnosisConfig(
        model=examined,
        scorer=make_scorer(examined, scorer) if isinstance(scorer, str) else scorer,
        against=None if against is None else _loaded(against, device),
        material=material,
        probes=None if probes is None else _probes(probes),
        options=Options(seed=seed, is_full=is_full, layers=tuple(layers)),
        has_random_init=has_random_init,
        has_maps=has_maps,
        cache=Path(cache) if cache else None,
    )
    return examine(config, progress=progress)


def _loaded(model: str | Model, device: str) -> Model:
    return load_model(model_name(model), device=device) if isinstance(model, str) else model


def _probes(asked: str | Sequence[str | Probe]) -> tuple[Probe, ...]:
    from unbag.probes.base import Probe
    from unbag.probes.diagnosis.diagnose import registered_probes

    asked = [asked] if isinstance(asked, str) else asked
    return tuple(one if isinstance(one, Probe) else registered_probes([one])[0] for one in asked)


def model(spec: str, *, device: str = "cpu") -> Model:
    """A model by name: tiny:base, caption:short, package.module:NAME."""
    return load_model(spec, device=device)


def scorer(spec: str, *, scoring: str | None = None, device: str = "cpu") -> Scorer:
    """A model by name, ready to score: with cosine if it is a dual encoder.

    `scoring` is what `--scorer` takes: `match`, or a trained read-out as `pacl@FOLDER`.
    """
    return make_scorer(load_model(spec, device=device), scoring)


def make_scorer(model: Model, name: str | None = None) -> Scorer:
    """The scorer asked for, or the natural one of this kind of model.

    `NAME@folder`, and the name of a read-out alone, is a trained reader of the model's parts.
    """
    if not _is_readout(name):
        return scorers.make_scorer(model, name, other_names=names("readout"))
    found = _read_out(model, name)
    if len(found) != 1:
        raise UnbagError(
            f"the read-out {name!r} gives {len(found)} scorers",
            expected="one, where a single score is asked for",
            hint="`unbag run` and `unbag score` take several",
        )
    return found[0]


def make_scorers(model: Model, name: str | None = None, prompts: str = "all") -> list[Scorer]:
    """The same, with one scorer a prompt where the protocol asks in words, the published first."""
    if _is_readout(name):
        return _read_out(model, name)
    return scorers.make_scorers(model, name, prompts, other_names=names("readout"))


def _is_readout(name: str | None) -> TypeGuard[str]:
    """Whether a name behind --scorer is that of a read-out, alone or with a folder."""
    return name is not None and ("@" in name or name in names("readout"))


def _read_out(model: Model, typed: str) -> list[Scorer]:
    name, _, folder = typed.partition("@")
    readout = find("readout", name)
    if not isinstance(readout, _Scoring):
        raise UnbagError(
            f"the read-out {name!r} is a {type(readout).__name__}",
            expected="name, train(job, progress=...) and scorers(model, folder)",
            hint="see unbag.readouts.base",
        )
    return readout.scorers(model, Path(folder).expanduser() if folder else None)


@runtime_checkable
class _Scoring(Protocol):
    """What scoring needs of a read-out, which may have no training of its own."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]: ...


def fit_linear_probe(
    encoder: DualEncoder,
    items: Sequence[Item],
    *,
    cache: str | Path | None = None,
    batch_size: int = 256,
    seed: int = 0,
    strengths: Sequence[float] = STRENGTHS,
    progress: Progress | None = None,
) -> LinearProbe:
    """Fit to items of one image and all classes each, as `Benchmark.load_training` gives them.

    Images are embedded as in a run, so a probe shares the cache with every other run.
    """
    progress = progress or Silent()
    classes, class_N = training_classes(items)
    plan = make_plan({"training": items})
    found = embed(
        encoder,
        replace(plan, captions=(), prompts=()),
        cache=Path(cache) if cache else None,
        batch_size=batch_size,
        progress=progress,
    )
    if found.damaged:
        name, reason = next(iter(found.damaged.items()))
        progress.say(
            f"{len(found.damaged)} of {len(items)} training images cannot be opened and are left "
            f"out, such as {name} ({reason})"
        )
    row_N = np.array([rows.image_P[0] for rows in plan.rows["training"]], dtype=np.int64)
    return fit_probe(
        encoder,
        classes,
        class_N=class_N,
        image_ND=found.image_ND[row_N],
        keys=[plan.image_keys[row] for row in row_N],
        fingerprint=plan.fingerprints["training"],
        seed=seed,
        strengths=strengths,
        progress=progress,
    )


def _as_benchmark(given: Benchmark | str) -> Benchmark:
    return benchmark(given) if isinstance(given, str) else given


def _as_scorer(given: Model | str) -> Scorer:
    """A scorer as it is; a model with its natural one; a name is loaded, at every call anew."""
    model = load_model(given) if isinstance(given, str) else given
    if isinstance(model, type) or not isinstance(model, DualEncoder | Generator | Scorer):
        raise no_scorer(model)
    return make_scorer(model)
