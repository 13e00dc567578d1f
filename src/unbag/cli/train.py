"""`unbag train`: a model, a recipe and pairs in; a repaired model and its price out."""

from __future__ import annotations

import argparse
import os

from rich.console import Console

from unbag.benchmarks.names import find_benchmarks
from unbag.cli.console import Shown, output
from unbag.cli.export import shown
from unbag.cli.run import cache_of
from unbag.errors import UserError, unknown_name
from unbag.models.loading import choose_device, load_model, model_name
from unbag.registry import find, names
from unbag.runs.distributed import join_team, leave_team
from unbag.runs.progress import Progress, Silent
from unbag.training.before_after import price_table
from unbag.training.data.loader import MOST, left_out_lines
from unbag.training.job import check_begun
from unbag.training.recipes import Precision
from unbag.training.repair import Repaired, Wanted, Where, repair
from unbag.training.settings import make_recipe
from unbag.types import DualEncoder

_WORKERS = 8
"""Processes that read data for one GPU, where there are as many cores."""


def train_command(options: argparse.Namespace) -> int:
    """Train, or go on, and show what came of it."""
    if _is_readout(options.recipe):
        return _train_readout(options)
    recipe = make_recipe(options.recipe, options.set)
    benchmarks = find_benchmarks(options.bench)
    # Before a model is loaded, which can take minutes.
    check_begun(options.out)
    device = choose_device(options.device)
    team = join_team(device)
    progress: Progress = Shown(Console(stderr=True)) if team.is_leader else Silent()
    try:
        model = load_model(model_name(options.model), device=device)
        if not isinstance(model, DualEncoder):
            raise UserError(
                f"{options.model} gives no vector for a picture and a caption",
                expected="a dual encoder, such as tiny:base or open_clip:ViT-B-32/openai",
                way_out="name another with --model",
            )
        found = repair(
            model,
            _wanted(options),
            recipe,
            options.out,
            seed=options.seed,
            benchmarks=benchmarks,
            data=options.data,
            evaluate_every=options.evaluate_every,
            where=_where(options, device),
            base=options.model,
            progress=progress,
        )
        if team.is_leader:
            _show(found)
        return 0 if found.trained.is_done else 130
    finally:
        leave_team(team)


def _is_readout(name: str) -> bool:
    """Recipes and read-outs share --recipe; an unknown name is told the nearest of both."""
    recipes, readouts = names("recipe"), names("readout")
    if ":" not in name and name not in recipes and name not in readouts:
        raise unknown_name("recipe", name, [*recipes, *readouts])
    if name in recipes or name in readouts:
        return name in readouts
    from unbag.readouts.base import Readout

    return isinstance(find("recipe", name), Readout)


def _check_readout(options: argparse.Namespace) -> None:
    """What was asked for and would be ignored is an error."""
    asked = {
        "--bench": options.bench,
        "--data": options.data,
        "--evaluate-every": options.evaluate_every,
        "--tensorboard": options.tensorboard,
        "--wandb": options.wandb,
    }
    unused = [flag for flag, value in asked.items() if value]
    if unused:
        raise UserError(
            f"{', '.join(unused)} with the read-out {options.recipe!r}",
            expected="nothing that is for recipes only: training of a read-out measures nothing",
            way_out=f"leave it out, then: unbag run --model {options.model} "
            f"--scorer {options.recipe}@{options.out} --bench ...",
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(
            f"{os.environ['WORLD_SIZE']} processes for the read-out {options.recipe!r}",
            expected="one process and one device: a reader is small",
            way_out="start it without torchrun; `unbag run` takes several",
        )


def _train_readout(options: argparse.Namespace) -> int:
    """A reader, connector or decoder on a model that stays as it is."""
    from unbag.readouts.base import train_readout
    from unbag.readouts.reader import LAST

    _check_readout(options)
    device = choose_device(options.device)
    model = load_model(model_name(options.model), device=device)
    try:
        found = train_readout(
            options.recipe,
            model,
            _wanted(options),
            options.out,
            spec=options.model,
            settings=options.set,
            seed=options.seed,
            where=_where(options, device),
            progress=Shown(Console(stderr=True)),
        )
    except KeyboardInterrupt:
        # Between steps a run saves and comes back by itself; this one was not there yet.
        if not (options.out / LAST).exists():
            output().print("stopped before the first step, so nothing is saved; the same command "
                           "begins anew")  # fmt: skip
        raise
    for line in found.lines:
        output().print(line, highlight=False, markup=False, soft_wrap=True)
    if not found.is_done:
        output().print("stopped; the same command goes on from there")
    return 0 if found.is_done else 130


def _wanted(options: argparse.Namespace) -> Wanted:
    return Wanted(
        options.pairs,
        form=options.form,
        pictures=options.pictures,
        neighbours=options.neighbours,
        caption_column=options.caption_column,
        picture_column=options.picture_column,
        skips_missing=options.missing == "skip",
        skips_bad=options.bad_lines == "skip",
    )


def _where(options: argparse.Namespace, device: str) -> Where:
    is_gpu = device.startswith("cuda")
    cores = (os.cpu_count() or 1) // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    workers = options.workers
    if workers is None:
        workers = min(_WORKERS, max(1, cores)) if is_gpu else 1
    precision: Precision = options.precision
    if options.precision == "auto":
        precision = "bfloat16" if is_gpu and _has_bfloat16() else "float32"
    return Where(
        device=device,
        precision=precision,
        micro=options.micro,
        workers=workers,
        cache=cache_of(options),
        save_minutes=options.save_minutes,
        uses_tensorboard=options.tensorboard,
        wandb_project=options.wandb,
        command=options.typed,
    )


def _has_bfloat16() -> bool:
    """Older GPUs compute in it by other means, slower than in float32."""
    import torch

    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _show(found: Repaired) -> None:
    console, trained = output(), found.trained
    standing = trained.standing
    if not trained.is_done:
        console.print(f"stopped after step {standing.step}; the same command goes on from there")
        return
    if found.priced is not None:
        console.print(price_table(found.priced))
        for note in found.priced.notes:
            console.print(f"note: {note}", highlight=False, markup=False)
    if standing.seconds:
        rate = standing.step * found.batch / standing.seconds
        waited = 100 * standing.waited / standing.seconds
        console.print(
            f"{standing.step:,} steps in {standing.seconds:,.0f} s: {rate:,.1f} pictures a second, "
            f"{waited:.1f} % of the time waiting for data",
            highlight=False,
        )
    for line in left_out_lines(standing.unread, is_all=len(standing.unread) < MOST):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if standing.pictures_skipped and not standing.unread:
        # Of a run that was begun before names were kept.
        console.print(f"pictures that could not be read: {standing.pictures_skipped:,}")
    if standing.best is not None:
        console.print(
            f"best mean headline while training: {100 * standing.best:.1f} after step "
            f"{standing.best_step}, in {trained.folder / 'best.safetensors'}",
            highlight=False,
        )
    if found.exported is not None:
        for line in shown(found.exported):
            console.print(line, highlight=False, markup=False)
    else:
        console.print(f"exported before: {trained.folder / 'export'}", highlight=False)
    console.print(f"log: {trained.folder / 'log.csv'}", highlight=False)
