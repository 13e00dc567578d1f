"""Measure and explain models: `evaluate`, `score`, `diagnose`, and the linear probe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, overload

import numpy as np

from unbag.api.names import (
    as_path,
    benchmarks_of,
    device_for,
    each,
    loaded,
    make_scorer,
    make_scorers,
)
from unbag.errors import UnbagError
from unbag.evaluation.embedding import embed
from unbag.evaluation.loading import ErrataChoice, Job, Missing, folder_of, without_missing
from unbag.evaluation.plan import make_plan
from unbag.evaluation.run import run
from unbag.evaluation.scoring import score_image, score_images
from unbag.models.loading import Model, Placement, as_dual_encoder
from unbag.published.lookup import known_as
from unbag.reports.results import Results
from unbag.runs.distributed import init_distributed
from unbag.runs.progress import Progress, Silent
from unbag.scorers.linear_probe import STRENGTHS, LinearProbe, fit_probe, training_classes
from unbag.types import (
    Benchmark,
    Caption,
    DualEncoder,
    EvalProtocol,
    FloatArray,
    Item,
    Scorer,
)

if TYPE_CHECKING:
    from unbag.evaluation.scoring import ImageInput
    from unbag.probes.base import Probe, ProbeData
    from unbag.probes.diagnosis.diagnose import Diagnosis

_LINEAR_PROBE = "linear-probe"


def evaluate(
    models: str | Model | Sequence[str | Model],
    benchmarks: str | Benchmark | Sequence[str | Benchmark],
    *,
    data_dir: str | Path | None = None,
    out: str | Path | None = None,
    scorer: str | None = None,
    prompts: str = "published",
    protocol: EvalProtocol | None = None,
    official_ties: bool = False,
    errata: ErrataChoice = "published",
    trained_on: Sequence[str] = (),
    missing: Missing = "error",
    allow_invalid: bool = False,
    batch_size: int = 256,
    seed: int = 0,
    device: str = "auto",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Results:
    """Score models on benchmarks and compute their metrics.

    All models are scored on the same items, so their results are compared pair by pair. If one of
    several models fails, the others are still scored and measured, and `results.problems` holds
    the failure. An error is raised only if nothing could be measured.

    Args:
        models: Names as in `list_models`, folders of training runs and exports, models, or
            scorers. A model that is given by name is loaded at every call.
        benchmarks: Names as in `list_benchmarks`, families ("world" is every world-*), or
            benchmarks.
        data_dir: Folder with one folder for each benchmark that is read from files.
        out: Run folder, as `unbag run` writes it, with scores, results and a report. The same call
            resumes an interrupted run. None writes nothing but the cache.
        scorer: The scorer of every model: a name as in `list_scorers`, or a trained read-out as
            "pacl@FOLDER". None is the default scorer of each model; blind baselines always use
            their own.
        prompts: Prompts of a chat model: "published", "all", or one by name.
        protocol: Tie rule, confidence and number of resamples.
        official_ties: Make each benchmark's own tie rule the headline.
        errata: Which known errors of the benchmarks are corrected.
        trained_on: Collections that the models were trained on, such as "COCO train2014".
        missing: "skip" leaves out items whose images are not on disk, "error" refuses them.
        allow_invalid: Compute metrics even if more than 1 % of the scores are not numbers.
        batch_size: Images or captions per forward pass.
        seed: Seed of the intervals.
        device: Device of models that are given by name; "auto" takes a GPU if there is one.
        cache_dir: Stores embeddings between calls; None keeps them in memory.
        progress: Shows progress bars; None shows none.

    Examples:
        >>> import unbag as ub
        >>> results = ub.evaluate(["tiny:base", "caption:short"], ["world-swap", "world-order"])
        >>> len(results.models), results.benchmarks
        (2, ['world-swap', 'world-order'])
        >>> print(results["caption:short", "world-order"].overall["accuracy"])
        25.0 [23.5, 29.5], n=240, ties=0, chance=25
    """
    if out is None and init_distributed().size > 1:
        raise UnbagError(
            "several processes run without a run folder",
            expected="a folder in which the processes exchange scores",
            hint='write evaluate(..., out="runs/name")',
        )
    names_or_models: list[str | Model] = each(models)
    data, cache = as_path(data_dir), as_path(cache_dir)
    loaded_benchmarks = benchmarks_of(each(benchmarks))
    device = device_for(device, *names_or_models)
    loaded_models = [loaded(model, Placement(device, cache=cache)) for model in names_or_models]
    progress = progress or Silent()
    if scorer == _LINEAR_PROBE:
        scorers = linear_probes(
            loaded_models,
            loaded_benchmarks,
            option=f"scorer={_LINEAR_PROBE!r}",
            data=data,
            missing=missing,
            cache=cache,
            batch_size=batch_size,
            progress=progress,
        )
    else:
        scorers = [s for model in loaded_models for s in _scorers(model, scorer, prompts)]
    named = zip(names_or_models, loaded_models, strict=True)
    with _run_folder(out) as folder:
        job = Job(
            scorers=scorers,
            benchmarks=loaded_benchmarks,
            out=folder,
            data=data,
            cache=cache,
            protocol=protocol or EvalProtocol(),
            seed=seed,
            batch_size=batch_size,
            allow_invalid=allow_invalid,
            official_first=official_ties,
            errata=errata,
            trained_on={s.name: trained_on for s in scorers if not s.is_blind},
            published_as={
                model.name: known_as(name)
                for name, model in named
                if isinstance(name, str) and known_as(name)
            },
            missing=missing,
            # With one model and one benchmark, the error itself is raised.
            keeps_going=len(scorers) * len(loaded_benchmarks) > 1,
            is_temporary=out is None,
            device=device,
        )
        finished = run(job, progress=progress)
        results = Results(finished.contents, None if out is None else folder)
        if out is not None and init_distributed().is_leader:
            results.save(finished.folder.report)
    if not results:
        raise UnbagError("\n".join(["nothing could be measured", *results.problems]))
    return results


@contextmanager
def _run_folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
        return
    with TemporaryDirectory(prefix="unbag-") as folder:
        yield Path(folder) / "run"


def _scorers(model: Model, name: str | None, prompts: str) -> list[Scorer]:
    if isinstance(model, Scorer) and model.is_blind:
        return [model]
    return make_scorers(model, name, prompts)


def linear_probes(
    models: Sequence[Model],
    benchmarks: Sequence[Benchmark],
    *,
    option: str,
    data: Path | None,
    missing: Missing,
    cache: Path | None,
    batch_size: int,
    progress: Progress,
) -> list[Scorer]:
    """Fit a linear probe for each model to the same training split.

    `option` is the option that requested it, for messages.
    """
    if len(benchmarks) != 1:
        raise UnbagError(
            f"{option} with {len(benchmarks)} benchmarks",
            expected="one benchmark: a probe knows only the classes of its own training split",
            hint="evaluate each benchmark on its own; with a cache, embeddings are computed once",
        )
    [benchmark] = benchmarks
    if benchmark.load_training is None:
        raise UnbagError(
            f"the benchmark {benchmark.name!r} has no training split for a linear probe",
            expected="a benchmark with load_training, such as cifar10",
            hint="docs/reference/benchmarks.md lists the benchmarks with one",
        )
    reason = f"{option} needs image embeddings, and"
    encoders = [as_dual_encoder(model, f"{reason} {model.name!r} has none") for model in models]
    items: Sequence[Item] = tuple(benchmark.load_training(folder_of(benchmark, data)))
    items = without_missing(benchmark.name, items, missing=missing, progress=progress)
    probes: list[Scorer] = []
    for encoder in encoders:
        probe = fit_linear_probe(
            encoder, items, cache=cache, batch_size=batch_size, progress=progress
        )
        progress.say(
            f"linear probe of {encoder.name}: fitted on {len(items)} images of "
            f"{len(probe.classes)} classes, strength {probe.strength:.1g}, "
            f"{probe.held_out:.1%} held-out accuracy"
        )
        probes.append(probe)
    return probes


@overload
def score(
    images: ImageInput,
    captions: Sequence[Caption],
    model: str | Model,
    *,
    scorer: str | None = None,
    device: str = "auto",
) -> FloatArray: ...
@overload
def score(
    images: Sequence[ImageInput],
    captions: Sequence[Caption],
    model: str | Model,
    *,
    scorer: str | None = None,
    device: str = "auto",
) -> FloatArray: ...
def score(
    images: ImageInput | Sequence[ImageInput],
    captions: Sequence[Caption],
    model: str | Model,
    *,
    scorer: str | None = None,
    device: str = "auto",
) -> FloatArray:
    """Score captions for images: a matrix [images, captions], or [captions] for a single image.

    Larger is better; NaN where the scorer returns no number. Nothing is cached. A model that is
    given by name is loaded at every call.

    Args:
        images: One path or PIL image, or a list of them.
        captions: Texts, scored for every image.
        model: A name, a model or a scorer.
        scorer: A name as in `list_scorers`; None is the default scorer of the model.
        device: Device of a model that is given by name.

    Examples:
        >>> import unbag as ub
        >>> captions = ["a red cube left of a blue ball", "a blue cube left of a red ball"]
        >>> ub.score(["horse.png", "grass.png"], captions, "tiny:base").shape
        (2, 2)
        >>> ub.score("horse.png", captions, "tiny:base").shape
        (2,)
    """
    score_with = make_scorer(loaded(model, Placement(device_for(device, model))), scorer)
    if isinstance(images, list | tuple):
        if not images:
            raise UnbagError("no image was given", expected="at least one path or PIL image")
        return score_images(images, captions, score_with)
    values = score_image(images, captions, score_with).values  # type: ignore[arg-type]
    assert values is not None
    score_C: FloatArray = values[0]
    return score_C


def diagnose(
    model: str | Model,
    *,
    against: str | Model | None = None,
    scorer: str | Scorer | None = None,
    data: str | Path | ProbeData | None = None,
    data_dir: str | Path | None = None,
    images: str | Path | None = None,
    probes: str | Probe | Sequence[str | Probe] | None = None,
    full: bool = False,
    layers: Sequence[int] = (),
    random_init: bool = True,
    maps: bool = True,
    seed: int = 0,
    device: str = "auto",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Run probes on a model; each answers one question in one sentence.

    `.print()` of the result prints the answers, `.write(folder)` writes a page and JSON.

    Args:
        model: A name, the folder of a training run, or a model.
        against: A second model; differences from it are paired.
        scorer: A trained read-out of the model as "pacl@FOLDER". It computes the scores that probes
            need, and its maps of words are drawn beside those of the model.
        data: Data of the probes: None for the built-in world, a benchmark or family, a file of
            captions, a folder of images, or a `ProbeData`.
        data_dir: Folder with one folder for each benchmark that is read from files.
        images: Folder to which the image names in a file of captions are relative.
        probes: One or several, by name as in `list_probes` or as objects; None runs all.
        full: Run all readers and conditions of each probe, not the quick subset.
        layers: Layers to read besides the last; negative numbers count from the end.
        random_init: Also run every probe on a randomly initialized model of the same architecture.
        maps: Draw maps of words over a few images; a chat model runs dozens of times for them.
        seed: Seed of samples, readers, intervals and random weights.
        device: Device of models that are given by name.
        cache_dir: Stores embeddings between calls; None keeps them in memory.
        progress: Shows progress bars; None shows none.

    Examples:
        >>> import unbag as ub
        >>> diagnosis = ub.diagnose("tiny:base", probes="order", random_init=False, maps=False)
        >>> [answer.probe for answer in diagnosis.answers]
        ['order']
        >>> diagnosis.write("diagnosis").name
        'diagnosis.html'
    """
    from unbag.probes.base import Options, ProbeData
    from unbag.probes.data import find_probe_data
    from unbag.probes.diagnosis.diagnose import DiagnosisConfig, examine

    chosen_probes = None if probes is None else _probes(probes)
    probe_data = data
    if not isinstance(data, ProbeData):
        probe_data = find_probe_data(
            None if data is None else str(data),
            root=as_path(data_dir),
            images=as_path(images),
            seed=seed,
            progress=progress,
        )
    assert isinstance(probe_data, ProbeData)
    cache = as_path(cache_dir)
    placement = Placement(device_for(device, model, against), cache=cache)
    loaded_model = loaded(model, placement)
    config = DiagnosisConfig(
        model=loaded_model,
        scorer=make_scorer(loaded_model, scorer) if isinstance(scorer, str) else scorer,
        against=None if against is None else loaded(against, placement),
        material=probe_data,
        probes=chosen_probes,
        options=Options(seed=seed, is_full=full, layers=tuple(layers)),
        has_random_init=random_init,
        has_maps=maps,
        cache=cache,
    )
    return examine(config, progress=progress)


def _probes(probes: str | Probe | Sequence[str | Probe]) -> tuple[Probe, ...]:
    from unbag.probes.base import Probe
    from unbag.probes.diagnosis.diagnose import registered_probes

    names_or_probes: Sequence[str | Probe] = [probes] if isinstance(probes, str | Probe) else probes
    return tuple(
        probe if isinstance(probe, Probe) else registered_probes([probe])[0]
        for probe in names_or_probes
    )


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
    """Fit a linear probe to items of one image and all classes, as `Benchmark.load_training` gives.

    Images are embedded as in a run, so a probe shares the cache of runs.
    """
    progress = progress or Silent()
    classes, class_N = training_classes(items)
    plan = make_plan({"training": items})
    embeddings = embed(
        encoder,
        replace(plan, captions=(), prompts=()),
        cache=Path(cache) if cache else None,
        batch_size=batch_size,
        progress=progress,
    )
    if embeddings.damaged:
        name, reason = next(iter(embeddings.damaged.items()))
        progress.say(
            f"{len(embeddings.damaged)} of {len(items)} training images cannot be opened and are "
            f"left out, such as {name} ({reason})"
        )
    image_N = np.array([rows.image_P[0] for rows in plan.rows["training"]], dtype=np.int64)
    return fit_probe(
        encoder,
        classes,
        class_N=class_N,
        image_ND=embeddings.image_ND[image_N],
        keys=[plan.image_keys[image] for image in image_N],
        fingerprint=plan.fingerprints["training"],
        seed=seed,
        strengths=strengths,
        progress=progress,
    )
