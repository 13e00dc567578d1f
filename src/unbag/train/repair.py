"""A model, pairs and a recipe come in; repaired weights, what they cost, and an export go out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from unbag.engine.progress import Progress, Silent
from unbag.engine.team import Team, join_team
from unbag.errors import UserError
from unbag.train.batches import Batches, Share
from unbag.train.begun import check_begun
from unbag.train.blind_reader import blind_reader
from unbag.train.card import Card, Cost
from unbag.train.card_settings import card_settings
from unbag.train.config import Precision, Recipe
from unbag.train.described import described
from unbag.train.evaluation import check_benchmarks
from unbag.train.export import export
from unbag.train.exported import Exported
from unbag.train.job import TrainJob
from unbag.train.loop import Trained, train
from unbag.train.make_trainable import make_trainable
from unbag.train.open_pairs import open_pairs
from unbag.train.pair_batches import PairBatches
from unbag.train.pairs import Pairs
from unbag.train.photo_features import keep_features
from unbag.train.price import Priced, price
from unbag.train.price_shown import price_markdown
from unbag.train.ready_batches import ready_batches
from unbag.train.settings import make_recipe
from unbag.train.trainable import Trainable
from unbag.train.world_batches import WorldBatches
from unbag.types import Benchmark, DualEncoder

WORLD = "world"
"""In place of a file: scenes that are drawn while training."""


@dataclass(frozen=True)
class Where:
    """How a run is carried out; nothing here is meant to change what is learned."""

    device: str = "cpu"
    precision: Precision = "float32"
    micro: int | None = None
    workers: int = 0
    cache: Path | None = None
    save_minutes: float = 10.0
    uses_tensorboard: bool = False
    wandb_project: str = ""
    command: str = ""


@dataclass(frozen=True)
class Wanted:
    """What is trained on."""

    path: str
    """A file, folder or pattern, or `world`."""
    form: str | None = None
    pictures: Path | None = None
    neighbours: Path | None = None
    caption_column: str = ""
    picture_column: str = ""
    skips_missing: bool = False
    skips_bad: bool = False

    def opened(self) -> Pairs:
        """The pairs of the file or folder; not for `world`, which has none."""
        return open_pairs(
            self.path,
            form=self.form,
            pictures=self.pictures,
            neighbours=self.neighbours,
            caption_column=self.caption_column,
            picture_column=self.picture_column,
            skips_missing=self.skips_missing,
            skips_bad=self.skips_bad,
        )


@dataclass(frozen=True)
class Repaired:
    """What came of it. Without an end there is no price and no export yet."""

    trained: Trained
    batch: int
    """Pictures of a step."""
    priced: Priced | None = None
    exported: Exported | None = None


def repair(
    model: DualEncoder,
    pairs: Wanted | str | Path,
    recipe: Recipe | str,
    out: Path | str,
    *,
    seed: int = 0,
    benchmarks: Sequence[Benchmark] = (),
    data: Path | None = None,
    evaluate_every: int | None = None,
    while_training: bool = True,
    where: Where | None = None,
    base: str = "",
    progress: Progress | None = None,
) -> Repaired:
    """Train, measure before and after on the benchmarks, export; or go on where it stopped.

    Args:
        model: Loaded by name; it stays as it is.
        pairs: Pictures with captions: a file, a folder, or `world`.
        recipe: By name, of `make_recipe`, or your own.
        out: Folder of the run.
        seed: Of the order of pairs, of what is drawn, and of dropout.
        benchmarks: Scored while training and before and after; none means those of the world,
            before and after only.
        data: Folder with one folder for each benchmark that needs files.
        evaluate_every: Steps; None is every epoch.
        while_training: False scores before and after only.
        where: Device, precision, processes.
        base: The name that loads the model, as it was typed: for the card, and for an export of
            this run later on.
        progress: Who shows bars.
    """
    where, progress, out = where or Where(), progress or Silent(), Path(out)
    wanted = pairs if isinstance(pairs, Wanted) else Wanted(str(pairs))
    recipe = make_recipe(recipe) if isinstance(recipe, str) else recipe
    # Here too, since features may be computed before the first step.
    check_begun(out)
    check_benchmarks(model, benchmarks, data=data)
    team = join_team(where.device)
    trainable = make_trainable(model, device=where.device)
    batches = _batches(
        wanted, recipe, trainable, seed=seed, team=team, micro=where.micro, progress=progress
    )
    if isinstance(batches, PairBatches) and team.size == 1:
        trainable = keep_features(
            model, trainable, batches.pairs, recipe, cache=where.cache, progress=progress
        )
        batches = replace(batches, reads=trainable.reads)
    for line in (f"data: {batches.about}", f"steps: {len(batches):,} of {recipe.batch:,} pictures"):
        progress.say(line)
    _check_bias(trainable, recipe)
    if model.scale > recipe.largest_scale:
        progress.say(
            f"the scale of {model.name}, {model.scale:.1f}, is cut to {recipe.largest_scale:g}; "
            "--set largest_scale=... allows more"
        )
    if recipe.batch == 1:
        progress.say("a batch of one has nothing to tell a pair from: most losses are 0")
    if recipe.warm_up > len(batches):
        progress.say(f"warm-up takes {recipe.warm_up} steps, so the rate never reaches its height")
    job = TrainJob(
        trainable=trainable,
        batches=batches,
        recipe=recipe,
        out=out,
        seed=seed,
        device=where.device,
        precision=where.precision,
        micro=where.micro,
        workers=where.workers,
        benchmarks=tuple(benchmarks) if while_training else (),
        data=data,
        evaluate_every=evaluate_every,
        cache=where.cache,
        save_minutes=where.save_minutes,
        uses_tensorboard=where.uses_tensorboard,
        wandb_project=where.wandb_project,
        command=where.command,
        base=base or model.name,
    )
    trained = train(job, progress=progress)
    if not trained.is_done:
        return Repaired(trained, recipe.batch)
    after = trainable.encoder(f"{model.name}+{recipe.name}")
    priced = price(
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
        return Repaired(trained, recipe.batch, priced)
    card = _card(job, trained, priced, base=base or model.name, team=team)
    return Repaired(trained, recipe.batch, priced, export(after, out / "export", card=card))


def _check_bias(trainable: Trainable, recipe: Recipe) -> None:
    terms = [term.name for term in recipe.objective.terms if term.weight]
    if "sigmoid" in terms and len(trainable.temperature) < 2:
        raise UserError(
            f"{trainable.name} has no bias, which the sigmoid loss of {recipe.name} needs",
            expected="a model that was trained with it, such as a SigLIP",
            way_out="another recipe: hard_negative asks for the same with CLIP's loss",
        )


def _batches(
    wanted: Wanted,
    recipe: Recipe,
    trainable: Trainable,
    *,
    seed: int,
    team: Team,
    micro: int | None,
    progress: Progress,
) -> Batches:
    share = Share(team.rank, team.size)
    strings = None if micro is None else micro * (1 + len(recipe.negatives) + len(recipe.positives))
    if wanted.path == WORLD:
        return WorldBatches(recipe, trainable.reads, seed=seed, share=share, largest=strings)
    pairs = wanted.opened()
    batches, found = ready_batches(
        pairs, recipe, trainable.reads, seed=seed, share=share, micro=strings
    )
    for line in found.lines():
        progress.say(line)
    return batches


def _card(job: TrainJob, trained: Trained, priced: Priced, *, base: str, team: Team) -> Card:
    recipe = job.recipe
    said = described(recipe)
    assert isinstance(said, dict)
    standing = trained.standing
    return Card(
        title=f"{base} repaired with {recipe.name}",
        base=base,
        recipe=recipe.name,
        settings=card_settings(said, seed=job.seed, precision=job.precision),
        data=job.batches.about,
        table=price_markdown(priced),
        cost=Cost(
            steps=standing.step,
            samples=standing.step * recipe.batch,
            seconds=standing.seconds,
            device=_device(job.device, team),
        ),
        command=job.command,
    )


def _device(device: str, team: Team) -> str:
    name = f"{os.cpu_count()} CPU cores"
    if device.startswith("cuda"):
        name = torch.cuda.get_device_name(device)
    return name if team.size == 1 else f"{team.size} x {name}"
