"""Train, merge and export models: `train`, `merge`, `export`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from unbag.api.names import as_path, benchmarks_of, device_for, dual_encoder, each, loaded
from unbag.errors import UnbagError
from unbag.models.loading import Model, Placement, choose_device
from unbag.registry import names
from unbag.runs.progress import Progress
from unbag.types import Benchmark

if TYPE_CHECKING:
    from unbag.readouts.base import ReadoutTrained
    from unbag.reports.cards import Exported
    from unbag.training.merge import Merged
    from unbag.training.recipes import Precision, Recipe
    from unbag.training.repair import DataConfig, Repaired, TrainingArguments, Weights


@overload
def train(
    model: str | Model,
    *,
    pairs: str | Path | DataConfig,
    recipe: str | Recipe,
    out: str | Path,
    settings: Sequence[str] | Mapping[str, object] = (),
    benchmarks: str | Benchmark | Sequence[str | Benchmark] = (),
    data_dir: str | Path | None = None,
    evaluate_every: int | None = None,
    while_training: bool = True,
    seed: int = 0,
    device: str = "auto",
    precision: Precision | Literal["auto"] = "auto",
    micro_batch_size: int | None = None,
    workers: int = 0,
    save_minutes: float = 10.0,
    tensorboard: bool = False,
    wandb_project: str = "",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Repaired: ...
@overload
def train(
    model: str | Model,
    *,
    pairs: str | Path | DataConfig,
    readout: str,
    out: str | Path,
    settings: Sequence[str] | Mapping[str, object] = (),
    seed: int = 0,
    device: str = "auto",
    precision: Precision | Literal["auto"] = "auto",
    micro_batch_size: int | None = None,
    workers: int = 0,
    save_minutes: float = 10.0,
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> ReadoutTrained: ...
def train(
    model: str | Model,
    *,
    pairs: str | Path | DataConfig,
    out: str | Path,
    recipe: str | Recipe | None = None,
    readout: str | None = None,
    settings: Sequence[str] | Mapping[str, object] = (),
    benchmarks: str | Benchmark | Sequence[str | Benchmark] = (),
    data_dir: str | Path | None = None,
    evaluate_every: int | None = None,
    while_training: bool = True,
    seed: int = 0,
    device: str = "auto",
    precision: Precision | Literal["auto"] = "auto",
    micro_batch_size: int | None = None,
    workers: int = 0,
    save_minutes: float = 10.0,
    tensorboard: bool = False,
    wandb_project: str = "",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Repaired | ReadoutTrained:
    """Fine-tune a dual encoder with a recipe, or train a read-out on a frozen model.

    A recipe measures the model before and after training with paired intervals and exports the
    result for open_clip and transformers. The same call resumes an interrupted run.

    Args:
        model: A name or a model; the object is not changed.
        pairs: Images with captions and edits: a file, a folder, or "world". A
            `unbag.training.repair.DataConfig` sets format, columns and image folder.
        out: Run folder.
        recipe: A name as in `list_recipes`, package.module:FUNCTION, or a `Recipe`.
        readout: In place of a recipe: a name as in `list_readouts`, or package.module:NAME.
        settings: Changed settings of the recipe or read-out: ["epochs=2", "lora.rank=8"], or a
            mapping of names to values.
        benchmarks: Measured before, during and after training with a recipe; none means four of
            the world, before and after.
        data_dir: Folder with one folder for each benchmark that is read from files.
        evaluate_every: Steps between two measurements during training; None is an epoch.
        while_training: False measures before and after training only.
        seed: Seed of the order of pairs, of sampling and of dropout.
        device: Device of training; "auto" takes a GPU if there is one.
        precision: "float32", "bfloat16", or "auto": bfloat16 on a GPU that supports it.
        micro_batch_size: Images per forward pass; lowers memory, gradients are unchanged.
        workers: Processes that load data; 0 loads in this process.
        save_minutes: Minutes between two checkpoints; another is saved after each epoch.
        tensorboard: Write TensorBoard events.
        wandb_project: Log to this project of Weights & Biases.
        cache_dir: Stores embeddings of frozen encoders; None keeps them in memory.
        progress: Shows progress bars; None shows none.

    Examples:
        >>> import unbag as ub
        >>> trained = ub.train(
        ...     "tiny:base", pairs="world", readout="pooled", out="runs/pooled",
        ...     settings={"steps": 2, "scenes": 20, "batch_size": 4}, device="cpu",
        ... )
        >>> trained.is_done
        True
        >>> ub.evaluate("tiny:base", "world-order", scorer="pooled@runs/pooled").models
        ['tiny:base+pooled']
    """
    from unbag.training.repair import DataConfig, TrainingArguments

    device = device_for(device, model) if isinstance(model, str) else choose_device(device)
    arguments = TrainingArguments(
        device=device,
        precision=_precision(device) if precision == "auto" else precision,
        micro_batch_size=micro_batch_size,
        workers=workers,
        cache=as_path(cache_dir),
        save_minutes=save_minutes,
        uses_tensorboard=tensorboard,
        wandb_project=wandb_project,
        command=shlex.join(sys.argv),
    )
    data_config = pairs if isinstance(pairs, DataConfig) else DataConfig(str(pairs))
    set_options = _setting_options(settings)
    if recipe is not None and readout is None:
        return _train_recipe(
            model, data_config, _recipe(recipe, set_options), Path(out), seed=seed,
            benchmarks=benchmarks_of(each(benchmarks)), data=as_path(data_dir),
            evaluate_every=evaluate_every, while_training=while_training, where=arguments,
            progress=progress,
        )  # fmt: skip
    if readout is None or recipe is not None:
        raise UnbagError(
            "train was called without a recipe and a read-out"
            if readout is None
            else f"train was called with the recipe {recipe!r} and the read-out {readout!r}",
            expected="one of the two",
            hint='write recipe="hard_positive" or readout="dcsm_fixed"; ub.list_recipes() and '
            "ub.list_readouts() return the names",
        )
    unused = {
        "benchmarks": each(benchmarks),
        "data_dir": data_dir,
        "evaluate_every": evaluate_every,
        "while_training": not while_training,
        "tensorboard": tensorboard,
        "wandb_project": wandb_project,
    }
    if any(unused.values()):
        raise UnbagError(
            f"{', '.join(name for name, value in unused.items() if value)} with the read-out "
            f"{readout!r}",
            expected="no argument for recipes only: a read-out is not measured during training",
            hint=f"omit it, then: ub.evaluate(model, ..., scorer={f'{readout}@{out}'!r})",
        )
    return _train_readout(
        model, data_config, readout, Path(out), set_options, seed, arguments, progress
    )


def _train_recipe(
    model: str | Model,
    pairs: DataConfig,
    recipe: Recipe,
    out: Path,
    *,
    seed: int,
    benchmarks: Sequence[Benchmark],
    data: Path | None,
    evaluate_every: int | None,
    while_training: bool,
    where: TrainingArguments,
    progress: Progress | None,
) -> Repaired:
    from unbag.runs.files import TRAINING, check_run_folder
    from unbag.training.repair import repair

    # Before a model is loaded, which can take minutes.
    check_run_folder(out, TRAINING)
    encoder = dual_encoder(loaded(model, Placement(where.device)), "be fine-tuned")
    return repair(
        encoder, pairs, recipe, out, seed=seed, benchmarks=benchmarks, data=data,
        evaluate_every=evaluate_every, while_training=while_training, where=where,
        base=model if isinstance(model, str) else "", progress=progress,
    )  # fmt: skip


def _train_readout(
    model: str | Model,
    pairs: DataConfig,
    readout: str,
    out: Path,
    settings: Sequence[str],
    seed: int,
    where: TrainingArguments,
    progress: Progress | None,
) -> ReadoutTrained:
    from unbag.readouts.base import find_readout, train_readout

    if readout in names("recipe"):
        raise UnbagError(f"{readout!r} is a recipe", hint=f"write recipe={readout!r}")
    find_readout(readout)
    return train_readout(
        readout, loaded(model, Placement(where.device)), pairs, out,
        spec=model if isinstance(model, str) else "", settings=settings, seed=seed, where=where,
        progress=progress,
    )  # fmt: skip


def _recipe(recipe: str | Recipe, settings: Sequence[str]) -> Recipe:
    from unbag.training.recipes import make_recipe

    if not isinstance(recipe, str):
        if settings:
            raise UnbagError(
                f"settings {', '.join(settings)} with a recipe that is an object",
                expected="settings only with the name of a recipe",
                hint="change the object with dataclasses.replace",
            )
        return recipe
    if recipe in names("readout") and recipe not in names("recipe"):
        raise UnbagError(f"{recipe!r} is a read-out", hint=f"write readout={recipe!r}")
    return make_recipe(recipe, settings)


def _setting_options(settings: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Return settings as `key=value` strings, as `--set` takes them."""
    if isinstance(settings, str):
        return [settings]
    if isinstance(settings, Mapping):
        return [f"{key}={value}" for key, value in settings.items()]
    return list(settings)


def _precision(device: str) -> Precision:
    import torch

    # Older GPUs emulate bfloat16, slower than float32.
    is_gpu = device.startswith("cuda")
    has_bfloat16 = is_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if has_bfloat16 else "float32"


def export(
    model: str | Model | None = None,
    *,
    out: str | Path,
    run: str | Path | None = None,
    weights: Weights | None = None,
) -> Exported:
    """Write a dual encoder as folders that open_clip and transformers load, with a model card.

    Each folder is reloaded with its library and compared with the model.

    Args:
        model: A name or a model.
        out: A new folder.
        run: The folder of a training run, finished or not, in place of a model.
        weights: Checkpoint of the run: "last" (default), or "best" by its benchmarks.

    Examples:
        >>> import unbag as ub
        >>> exported = ub.export("tiny:base", out="exports/base")
        >>> [folder.library for folder in exported.folders]
        ['tiny']
        >>> ub.load_model("exports/base").fingerprint == exported.fingerprint
        True
    """
    from unbag.reports.cards import card_of_copy
    from unbag.training.export.export import export as write
    from unbag.training.repair import read_trained

    if (model is None) == (run is None):
        raise UnbagError(
            "export was called with " + ("no model" if model is None else "a model and a run"),
            expected="a model, or run= with the folder of a training run",
        )
    if run is not None:
        encoder, card = read_trained(Path(run), weights=weights or "last")
        return write(encoder, Path(out), card=card)
    if weights is not None:
        raise UnbagError(
            f"weights={weights!r} was given with a model",
            expected="weights only with run=: a model has one set of weights",
        )
    assert model is not None
    encoder = dual_encoder(loaded(model, Placement()), "be exported")
    base = model if isinstance(model, str) else encoder.name
    card = card_of_copy(base, name=encoder.name, command=shlex.join(sys.argv))
    return write(encoder, Path(out), card=card)


def merge(
    base: str | Model,
    tuned: str | Model,
    *,
    out: str | Path,
    weights: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    benchmarks: str | Benchmark | Sequence[str | Benchmark] = (),
    composition: str | Benchmark | Sequence[str | Benchmark] = (),
    recognition: str | Benchmark | Sequence[str | Benchmark] = (),
    data_dir: str | Path | None = None,
    pick: float | None = None,
    budget: float = 1.0,
    batch_size: int = 256,
    seed: int = 0,
    device: str = "auto",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Merged:
    """Interpolate the weights of a model before and after fine-tuning (WiSE-FT); export one mix.

    Every mix is measured. The exported one has the highest composition score among those that lose
    at most `budget` points of recognition. The same call resumes an interrupted merge.

    Args:
        base: The model before fine-tuning.
        tuned: The same model after it.
        out: Folder for the curve, the run folder and the mixed model.
        weights: Shares of the tuned weights, from 0 to 1.
        benchmarks: Benchmarks of every mix; none means four of the world.
        composition: Benchmarks that count as composition whatever their metrics.
        recognition: Benchmarks that count as recognition whatever their metrics.
        data_dir: Folder with one folder for each benchmark that is read from files.
        pick: Export the mix with this weight.
        budget: Points of recognition that may be lost.
        batch_size: Images or captions per forward pass.
        seed: Seed of the intervals.
        device: Device of models that are given by name.
        cache_dir: Stores embeddings between calls; None keeps them in memory.
        progress: Shows progress bars; None shows none.

    Examples:
        >>> import unbag as ub
        >>> merged = ub.merge(
        ...     "tiny:base", "tiny:hard_negative", out="merged", weights=[0, 0.5], pick=0.5,
        ...     benchmarks="world-swap",
        ... )
        >>> merged.curve.choice.weight
        0.5
        >>> ub.load_model(merged.model).context == ub.load_model("tiny:base").context
        True
    """
    from unbag.runs.files import check_run_folder
    from unbag.training.before_after import Side
    from unbag.training.merge import MERGE, check_weights, merge_models

    # Before models are loaded, which can take minutes.
    check_weights(weights, pick)
    check_run_folder(Path(out), MERGE)
    sides: dict[str, Side] = {}
    by_side = {"composition": benchmarks_of(each(composition))}
    by_side["recognition"] = benchmarks_of(each(recognition))
    for benchmark in by_side["composition"]:
        sides[benchmark.name] = "composition"
    for benchmark in by_side["recognition"]:
        if benchmark.name in sides:
            raise UnbagError(
                f"{benchmark.name} is named as composition and as recognition",
                expected="one side for a benchmark",
            )
        sides[benchmark.name] = "recognition"
    all_benchmarks = benchmarks_of([*each(benchmarks), *each(composition), *each(recognition)])
    placement = Placement(device_for(device, base, tuned), cache=as_path(cache_dir))
    first, second = (dual_encoder(loaded(m, placement), "be mixed") for m in (base, tuned))
    return merge_models(
        first,
        second,
        names=(
            base if isinstance(base, str) else first.name,
            tuned if isinstance(tuned, str) else second.name,
        ),
        out=Path(out),
        weights=weights,
        benchmarks=all_benchmarks,
        sides=sides,
        data=as_path(data_dir),
        pick=pick,
        budget=budget,
        seed=seed,
        batch_size=batch_size,
        cache=as_path(cache_dir),
        command=shlex.join(sys.argv),
        progress=progress,
    )
