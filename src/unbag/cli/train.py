"""`unbag train`: fine-tune a model and compare it before and after, or train a read-out on it."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.export import export_lines
from unbag.cli.options import (
    CAPTION_FILES,
    add_bench_data,
    add_cache,
    add_command,
    cache_of,
    check_dual_encoder,
    not_negative,
    positive,
)
from unbag.errors import UnbagError, unknown_name
from unbag.registry import Commands, find, names

if TYPE_CHECKING:
    from unbag.training.recipes import Precision
    from unbag.training.repair import DataConfig, Repaired, TrainingArguments


_ABOUT = """\
Fine-tune a dual encoder with a repair, then say what it gained and what it cost: a table before
and after with paired intervals, and folders that open_clip and transformers load. Or, with the name
of a read-out, train a small reader on a model that stays as it is. A run that was stopped or killed
goes on when the same command is given again.
"""

_EXAMPLES = """\
examples:
  unbag train --model tiny:base --recipe hard_positive --pairs world --out runs/tiny-hp
  unbag edit --captions captions.jsonl --out edits.jsonl
  unbag train --model open_clip:ViT-B-32/openai --recipe ce_clip_fixed --pairs edits.jsonl \\
      --pictures photos/ --bench sugarcrepe --data data/ --out runs/ce
  torchrun --nproc-per-node 8 -m unbag train ... --set batch_size=1024
  unbag train --model tiny:base --recipe dcsm_fixed --pairs world --out runs/dcsm
  unbag run --model tiny:base --scorer dcsm_fixed@runs/dcsm --bench world

recipes:
  `unbag list recipes` shows all; package.module:FUNCTION of yours works too. Numbers are settings
  of the recipe: --set learning_rate=1e-6 epochs=2 freeze.image=all lora.rank=8
  `unbag list readouts` shows read-outs, whose settings are others: --set steps=5000 scenes=50000
"""

_FORMS = (*CAPTION_FILES, "shards", "negclip", "folders")

_WORKERS = 8
"""Processes that read data for one GPU, where there are as many cores."""


def add(commands: Commands) -> None:
    """Model, recipe, pairs, benchmarks, machine."""
    text = "repair a dual encoder and say what it cost"
    train = add_command(commands, "train", text=text, about=_ABOUT, examples=_EXAMPLES)
    train.add_argument("--model", required=True, metavar="M", help="a dual encoder by name")
    train.add_argument(
        "--recipe", required=True, metavar="R", help="of `unbag list recipes` or readouts"
    )
    text = "settings of the recipe, as in learning_rate=1e-6 batch_size=128"
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="K=V", help=text)
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    _add_pairs(train)
    _add_benchmarks(train)
    _add_machine(train)
    add_cache(train)


def start(options: argparse.Namespace) -> int:
    """Train, or go on, and show what came of it."""
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import shown
    from unbag.models.loading import choose_device, load_model, model_name
    from unbag.runs.distributed import close_distributed, init_distributed
    from unbag.runs.files import TRAINING, check_run_folder
    from unbag.runs.progress import Progress, Silent
    from unbag.training.recipes import make_recipe
    from unbag.training.repair import repair

    if _is_readout(options.recipe):
        return _train_readout(options)
    recipe = make_recipe(options.recipe, options.set)
    benchmarks = find_benchmarks(options.bench)
    # Before a model is loaded, which can take minutes.
    check_run_folder(options.out, TRAINING)
    device = choose_device(options.device)
    team = init_distributed(device)
    progress: Progress = shown() if team.is_leader else Silent()
    try:
        model = check_dual_encoder(
            load_model(model_name(options.model), device=device),
            f"{options.model} gives no vector for an image and a caption",
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
        close_distributed(team)


def _add_pairs(train: argparse.ArgumentParser) -> None:
    pairs = train.add_argument_group("what is trained on")
    text = "images with captions: a file, a folder, a pattern of shards, or `world`"
    pairs.add_argument("--pairs", required=True, metavar="F", help=text)
    pairs.add_argument("--form", choices=_FORMS, help="of the pairs; default: by the ending")
    text = "folder that names of images start from; default: that of the pairs"
    pairs.add_argument("--pictures", type=Path, metavar="DIR", help=text)
    text = "what `unbag nearest` wrote, for recipes with hard images"
    pairs.add_argument("--neighbours", type=Path, metavar="F", help=text)
    text = "field or column with the caption; default: the usual names"
    pairs.add_argument("--caption-column", default="", metavar="NAME", help=text)
    text = "field or column with the image"
    pairs.add_argument("--picture-column", default="", metavar="NAME", help=text)
    text = "what to do about images that are not there: stop before training, or leave them out"
    pairs.add_argument("--missing", choices=("error", "skip"), default="error", help=text)
    text = "broken lines: stop before training, or leave them out"
    pairs.add_argument("--bad-lines", choices=("error", "skip"), default="error", help=text)


def _add_benchmarks(train: argparse.ArgumentParser) -> None:
    bench = train.add_argument_group("what it is measured on")
    text = "benchmarks, before, after and while training; default: the world's, before and after"
    bench.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    add_bench_data(bench)
    text = "steps between two measurements while training; default: an epoch"
    bench.add_argument("--evaluate-every", type=positive, metavar="N", help=text)


def _add_machine(train: argparse.ArgumentParser) -> None:
    machine = train.add_argument_group("machine")
    text = "auto, cpu, cuda, cuda:1 or mps; default: auto"
    machine.add_argument("--device", default="auto", metavar="D", help=text)
    text = "of the towers' arithmetic; weights stay float32. Default: bfloat16 on a GPU"
    choices = ("auto", "float32", "bfloat16")
    machine.add_argument("--precision", choices=choices, default="auto", help=text)
    text = "images that go through a tower at once: the batch needs the memory of so many"
    machine.add_argument("--micro", type=positive, metavar="N", help=text)
    text = "processes that read data; default: 1, on a GPU up to 8"
    machine.add_argument("--workers", type=not_negative, metavar="N", help=text)
    text = "minutes between two checkpoints, beside those of epochs; default: 10"
    machine.add_argument("--save-minutes", type=_minutes, default=10.0, metavar="N", help=text)
    machine.add_argument("--tensorboard", action="store_true", help="write TensorBoard events too")
    text = "log to this project of Weights & Biases, if wandb is installed"
    machine.add_argument("--wandb", default="", metavar="PROJECT", help=text)


def _minutes(text: str) -> float:
    """Of a clock: any number, 0 or more."""
    with suppress(ValueError):
        if isfinite(found := float(text)) and found >= 0:
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is not a number, 0 or more")


def _wanted(options: argparse.Namespace) -> DataConfig:
    from unbag.training.repair import DataConfig

    return DataConfig(
        options.pairs,
        form=options.form,
        images=options.images,
        neighbours=options.neighbours,
        caption_column=options.caption_column,
        image_column=options.image_column,
        skips_missing=options.missing == "skip",
        skips_bad=options.bad_lines == "skip",
    )


def _where(options: argparse.Namespace, device: str) -> TrainingArguments:
    import torch

    from unbag.training.repair import TrainingArguments

    is_gpu = device.startswith("cuda")
    cores = (os.cpu_count() or 1) // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    workers = options.workers
    if workers is None:
        workers = min(_WORKERS, max(1, cores)) if is_gpu else 1
    precision: Precision = options.precision
    if options.precision == "auto":
        # Older GPUs compute in it by other means, slower than in float32.
        has_bfloat16 = is_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
        precision = "bfloat16" if has_bfloat16 else "float32"
    return TrainingArguments(
        device=device,
        precision=precision,
        micro_batch_size=options.micro,
        workers=workers,
        cache=cache_of(options),
        save_minutes=options.save_minutes,
        uses_tensorboard=options.tensorboard,
        wandb_project=options.wandb,
        command=options.typed,
    )


def _show(found: Repaired) -> None:
    from unbag.cli.console import output, print_lines
    from unbag.reports.formatting import number_text
    from unbag.training.before_after import before_after_table
    from unbag.training.data.loader import MOST, left_out_lines

    trained, state = found.trained, found.trained.state
    if not trained.is_done:
        print(f"stopped after step {state.step}; the same command resumes from there")
        return
    if found.comparison is not None:
        output().print(before_after_table(found.comparison))
        print_lines(f"note: {note}" for note in found.comparison.notes)
    if state.seconds:
        rate = state.step * found.batch_size / state.seconds
        waited = number_text(state.waited / state.seconds)
        print_lines(
            [
                f"{state.step:,} steps in {state.seconds:,.0f} s: {rate:,.1f} images a second, "
                f"{waited} % of the time waiting for data"
            ]
        )
    print_lines(left_out_lines(trained.unread, is_all=len(trained.unread) < MOST), soft_wrap=True)
    lines = []
    if state.best is not None:
        lines.append(
            f"best mean headline while training: {number_text(state.best)} after step "
            f"{state.best_step}, in {trained.folder / 'best.safetensors'}"
        )
    if found.exported is not None:
        lines += export_lines(found.exported)
    else:
        lines.append(f"exported before: {trained.folder / 'export'}")
    print_lines([*lines, f"log: {trained.folder / 'log.jsonl'}"])


def _is_readout(name: str) -> bool:
    """Recipes and read-outs share --recipe; an unknown name is told the nearest of both."""
    recipes, readouts = names("recipe"), names("readout")
    if ":" not in name and name not in recipes and name not in readouts:
        raise unknown_name("recipe", name, [*recipes, *readouts])
    if name in recipes or name in readouts:
        return name in readouts
    from unbag.readouts.base import Readout

    return isinstance(find("recipe", name), Readout)


def _train_readout(options: argparse.Namespace) -> int:
    """A reader, connector or decoder on a model that stays as it is."""
    from unbag.cli.console import print_lines, shown
    from unbag.models.loading import choose_device, load_model, model_name
    from unbag.readouts.base import train_readout
    from unbag.runs.checkpoint import LAST

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
            progress=shown(),
        )
    except KeyboardInterrupt:
        # Between steps a run saves and comes back by itself; this one was not there yet.
        if not (options.out / LAST).exists():
            print(
                "stopped before the first step, so nothing is saved; the same command begins anew"
            )
        raise
    print_lines(found.lines, soft_wrap=True)
    if not found.is_done:
        print("stopped; the same command goes on from there")
    return 0 if found.is_done else 130


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
        raise UnbagError(
            f"{', '.join(unused)} with the read-out {options.recipe!r}",
            expected="nothing that is for recipes only: training of a read-out measures nothing",
            hint=f"leave it out, then: unbag run --model {options.model} "
            f"--scorer {options.recipe}@{options.out} --bench ...",
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UnbagError(
            f"{os.environ['WORLD_SIZE']} processes for the read-out {options.recipe!r}",
            expected="one process and one device: a reader is small",
            hint="start it without torchrun; `unbag run` takes several",
        )
