"""Repair a dual encoder: train it with a recipe, measure it before and after, export it.

`repair` does all the work of `unbag train`; `read_trained` loads the weights of a run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from unbag.data.pairs import Pairs
from unbag.data.readers import open_pairs
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job, load_all
from unbag.models.joined import JoinedEncoder
from unbag.models.loading import load_model, model_name
from unbag.models.text_encoders import TextTable
from unbag.reports.cards import Card, Cost, Exported, card_settings
from unbag.runs.checkpoint import BEST, latest_checkpoint, load_checkpoint
from unbag.runs.distributed import Distributed, init_distributed
from unbag.runs.files import TRAINING, RunFolder, check_run_folder, read_run
from unbag.runs.identity import described
from unbag.runs.progress import Progress, Silent
from unbag.scorers.cosine import Cosine
from unbag.training.before_after import (
    DEFAULT,
    BeforeAfter,
    before_after_markdown,
    blind_reader,
    compare_before_after,
)
from unbag.training.data.batch import Batches, Share
from unbag.training.data.checks import ready_batches
from unbag.training.data.pairs import PairBatches
from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze
from unbag.training.encoders.cached_features import cache_frozen
from unbag.training.encoders.lora import add_lora
from unbag.training.export.export import export
from unbag.training.fine_tuning import Trained, TrainJob, train
from unbag.training.recipes import Freeze, Lora, Precision, Recipe, make_recipe
from unbag.training.trainer import check_earlier, load_weights, state_of
from unbag.types import Benchmark, DualEncoder
from unbag.types.items import prompts_of

WORLD = "world"
"""Instead of a file: scenes that are drawn while training."""
Weights = Literal["last", "best"]


def repair(
    model: DualEncoder,
    pairs: DataConfig | str | Path,
    recipe: Recipe | str,
    out: Path | str,
    *,
    seed: int = 0,
    benchmarks: Sequence[Benchmark] = (),
    data: Path | None = None,
    evaluate_every: int | None = None,
    while_training: bool = True,
    where: TrainingArguments | None = None,
    base: str = "",
    progress: Progress | None = None,
) -> Repaired:
    """Train a model, measure it before and after training and export it, or resume the run.

    Args:
        model: Loaded by name; it is not changed.
        pairs: Images with captions: a file, a folder, or `world`.
        recipe: The name of a recipe, what `make_recipe` returned, or your own.
        out: Folder of the run.
        seed: Seed of the order of pairs, of the drawn captions and edits, and of dropout.
        benchmarks: Measured while training, before and after. None given: those of the world,
            before and after only.
        data: Folder with a subfolder for each benchmark that needs files.
        evaluate_every: Steps between measurements; None: every epoch.
        while_training: False measures before and after only.
        where: Device, precision and processes.
        base: The name that loads the model, as the user typed it: for the card, and to export this
            run later.
        progress: Shows bars and messages.
    """
    where, progress, out = where or TrainingArguments(), progress or Silent(), Path(out)
    config = pairs if isinstance(pairs, DataConfig) else DataConfig(str(pairs))
    recipe = make_recipe(recipe) if isinstance(recipe, str) else recipe
    # Checked before features are computed, not only before the first step.
    check_run_folder(out, TRAINING)
    known_identity = {"model": model.name, "model_fingerprint": model.fingerprint}
    check_earlier(RunFolder(out, TRAINING), **known_identity, recipe=recipe, seed=seed)
    _check_benchmarks(model, benchmarks, data=data)
    team = init_distributed(where.device)
    trainable = make_trainable(model, device=where.device)
    batches = _batches(
        config,
        recipe,
        trainable,
        seed=seed,
        team=team,
        micro_batch_size=where.micro_batch_size,
        progress=progress,
    )
    if isinstance(batches, PairBatches) and team.size == 1:
        trainable = cache_frozen(
            model, trainable, batches.pairs, recipe, cache=where.cache, progress=progress
        )
        batches = replace(batches, reads=trainable.reads)
    _describe_training(model, trainable, batches, recipe, progress)
    job = TrainJob(
        trainable=trainable,
        batches=batches,
        recipe=recipe,
        out=out,
        seed=seed,
        benchmarks=tuple(benchmarks) if while_training else (),
        data=data,
        evaluate_every=evaluate_every,
        base=base or model.name,
        **vars(where),
    )
    trained = train(job, progress=progress)
    if not trained.is_done:
        return Repaired(trained, recipe.batch_size)
    after = trainable.encoder(f"{model.name}+{recipe.name}")
    comparison = compare_before_after(
        model,
        after,
        out=out / "before_after",
        benchmarks=benchmarks,
        data=data,
        cache=where.cache,
        seed=seed,
        command=where.command,
        progress=progress,
        reader=blind_reader(model, batches) if isinstance(batches, PairBatches) else None,
    )
    if not team.is_leader or (out / "export").exists():
        return Repaired(trained, recipe.batch_size, comparison)
    card = _card(job, trained, comparison, base=base or model.name, team=team)
    return Repaired(
        trained, recipe.batch_size, comparison, export(after, out / "export", card=card)
    )


@dataclass(frozen=True)
class Repaired:
    """Result of a repair; a run that was stopped has no comparison and no export yet."""

    trained: Trained
    batch_size: int
    """Images per step."""
    comparison: BeforeAfter | None = None
    exported: Exported | None = None

    @property
    def folder(self) -> Path:
        """The folder of the run; it can be loaded as a model when the run is done."""
        return self.trained.folder

    @property
    def is_done(self) -> bool:
        """False if the user stopped training; the same call resumes it."""
        return self.trained.is_done


@dataclass(frozen=True)
class DataConfig:
    """The training data."""

    path: str
    """A file, folder or pattern, or `world`."""
    form: str | None = None
    images: Path | None = None
    neighbours: Path | None = None
    caption_column: str = ""
    image_column: str = ""
    skips_missing: bool = False
    skips_bad: bool = False

    def open(self) -> Pairs:
        """Open the pairs of the file or folder; not for `world`, which has none."""
        return open_pairs(**vars(self))


@dataclass(frozen=True)
class TrainingArguments:
    """How a run is carried out; these arguments do not change what is learned."""

    device: str = "cpu"
    precision: Precision = "float32"
    micro_batch_size: int | None = None
    workers: int = 0
    cache: Path | None = None
    save_minutes: float = 10.0
    uses_tensorboard: bool = False
    wandb_project: str = ""
    command: str = ""


def _check_benchmarks(
    encoder: DualEncoder, benchmarks: Sequence[Benchmark], *, data: Path | None
) -> None:
    """Load the benchmarks that need files, so that missing data is reported before training.

    A model that knows only the captions of a table must know those of every benchmark.
    """
    has_table = isinstance(encoder, JoinedEncoder) and isinstance(encoder.text, TextTable)
    files = [benchmark for benchmark in benchmarks if benchmark.files]
    to_load = (benchmarks or DEFAULT) if has_table else files
    job = Job(scorers=[Cosine(encoder)], benchmarks=to_load, out=Path(), data=data)
    loaded = load_all(job, progress=Silent())
    if has_table:
        for name, items in loaded.items.items():
            captions = (caption for item in items for caption in item.captions)
            try:
                encoder.count_tokens([text for caption in captions for text in prompts_of(caption)])
            except UnbagError as error:
                raise UnbagError(
                    f"{name} cannot be measured before and after training: {error.message}",
                    expected=error.expected,
                    hint="add the captions of the benchmark to the file, or name benchmarks "
                    "that it knows with --bench",
                ) from error


def _batches(
    config: DataConfig,
    recipe: Recipe,
    trainable: Trainable,
    *,
    seed: int,
    team: Distributed,
    micro_batch_size: int | None,
    progress: Progress,
) -> Batches:
    share = Share(team.rank, team.size)
    max_strings = (
        None
        if micro_batch_size is None
        else micro_batch_size * (1 + len(recipe.negatives) + len(recipe.positives))
    )
    if config.path == WORLD:
        return WorldBatches(
            recipe, trainable.reads, seed=seed, share=share, max_group_size=max_strings
        )
    pairs = config.open()
    batches, surveyed = ready_batches(
        pairs, recipe, trainable.reads, seed=seed, share=share, micro_batch_size=max_strings
    )
    for line in surveyed.lines():
        progress.say(line)
    return batches


def _describe_training(
    model: DualEncoder,
    trainable: Trainable,
    batches: Batches,
    recipe: Recipe,
    progress: Progress,
) -> None:
    """Print data and steps, and warn of settings that do not fit the model or the data."""
    for line in (
        f"data: {batches.about}",
        f"steps: {len(batches):,} of {recipe.batch_size:,} images",
    ):
        progress.say(line)
    terms = [term.name for term in recipe.objective.terms if term.weight]
    if "sigmoid" in terms and len(trainable.temperature) < 2:
        raise UnbagError(
            f"{trainable.name} has no bias, which the sigmoid loss of {recipe.name} needs",
            expected="a model that was trained with it, such as a SigLIP",
            hint="use another recipe: hard_negative does the same with CLIP's loss",
        )
    if model.scale > recipe.max_logit_scale:
        progress.say(
            f"the scale of {model.name}, {model.scale:.1f}, is cut to {recipe.max_logit_scale:g}; "
            "--set max_logit_scale=... allows more"
        )
    if recipe.batch_size == 1:
        progress.say("a batch of one holds no other pair to compare with: most losses are 0")
    if recipe.warmup_steps > len(batches):
        progress.say(
            f"warmup takes {recipe.warmup_steps} steps, more than the run has: the learning rate "
            "never reaches its maximum"
        )


def _card(
    job: TrainJob, trained: Trained, comparison: BeforeAfter, *, base: str, team: Distributed
) -> Card:
    recipe = job.recipe
    recipe_settings = described(recipe)
    assert isinstance(recipe_settings, dict)
    state = trained.state
    return Card(
        title=f"{base} repaired with {recipe.name}",
        base=base,
        recipe=recipe.name,
        settings=card_settings(recipe_settings, seed=job.seed, precision=job.precision),
        data=job.batches.about,
        table=before_after_markdown(comparison),
        cost=Cost(
            steps=state.step,
            samples=state.step * recipe.batch_size,
            seconds=state.seconds,
            device=_device(job.device, team),
        ),
        command=job.command,
    )


def _device(device: str, team: Distributed) -> str:
    name = f"{os.cpu_count()} CPU cores"
    if device.startswith("cuda"):
        name = torch.cuda.get_device_name(device)
    return name if team.size == 1 else f"{team.size} x {name}"


def read_trained(folder: Path, *, weights: Weights = "last") -> tuple[DualEncoder, Card]:
    """Load the model that a run trained, finished or not, and its card.

    The original model must still load by its name.
    """
    record = read_run(folder, TRAINING)
    path = latest_checkpoint(folder) if weights == "last" else folder / BEST
    if record is None or "recipe" not in record["identity"] or not (path and path.exists()):
        raise UnbagError(
            f"the folder {folder} holds no {weights}.safetensors of a recipe",
            expected="a folder that `unbag train` wrote; best.safetensors only where benchmarks "
            "were measured while training",
            hint="name the folder that was given as --out",
        )
    identity = record["identity"]
    encoder = load_model(model_name(record["base"]))
    if encoder.fingerprint != identity["model_fingerprint"]:
        raise UnbagError(
            f"{record['base']} is not the model that the run {folder} started from",
            expected=f"weights with the fingerprint {identity['model_fingerprint']}",
            hint="restore the original weights under this name",
        )
    trainable, recipe = make_trainable(encoder, device="cpu"), identity["recipe"]
    if recipe["lora"] is not None:
        # Add the LoRA matrices of the run; frozen layers have none.
        freeze, lora = (
            {name: value for name, value in recipe[part].items() if name != "class"}
            for part in ("freeze", "lora")
        )
        apply_freeze(trainable, Freeze(**freeze))
        add_lora(trainable, Lora(**lora))
    checkpoint = load_checkpoint(path)
    load_weights(trainable.module, checkpoint, name=trainable.name)
    state, name = state_of(checkpoint), f"{identity['model']}+{recipe['name']}"
    card = Card(
        title=name,
        base=record["base"],
        recipe=recipe["name"],
        settings=card_settings(recipe, seed=identity["seed"], precision=identity["precision"])
        + f"\n- after step {state.step} of {record['steps']}",
        data=record["data"],
        cost=Cost(
            steps=state.step,
            samples=state.step * recipe["batch_size"],
            seconds=state.seconds,
            device=record["device"],
        ),
        command=record["command"],
    )
    return trainable.encoder(name), card
