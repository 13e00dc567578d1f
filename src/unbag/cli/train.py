"""`unbag train`: fine-tune a model and evaluate it before and after, or train a read-out."""

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
    add_config,
    add_device,
    add_seed,
    cache_of,
    check_dual_encoder,
    not_negative,
    positive,
)
from unbag.errors import UnbagError, unknown_name
from unbag.registry import Commands, Kind, find, names

if TYPE_CHECKING:
    from unbag.training.recipes import Precision
    from unbag.training.repair import DataConfig, Repaired, TrainingArguments


_ABOUT = """\
Fine-tune a dual encoder with a recipe (--recipe), evaluate it before and after with paired
confidence intervals, and export it to open_clip and transformers. Or train a small read-out on the
frozen model (--readout). Run the same command again to resume an interrupted run.
"""

_EXAMPLES = """\
examples:
  unbag train --model tiny:base --recipe hard_positive --pairs world --out runs/tiny-hp
  unbag edit --captions captions.jsonl --out edits.jsonl
  unbag train --model open_clip:ViT-B-32/openai --recipe ce_clip_fixed --pairs edits.jsonl \\
      --images photos/ --bench sugarcrepe --data data/ --out runs/ce
  torchrun --nproc-per-node 8 -m unbag train --config train.yaml --out runs/ce
  unbag train --model tiny:base --readout dcsm_fixed --pairs world --out runs/dcsm
  unbag run --model tiny:base --scorer dcsm_fixed@runs/dcsm --bench world --out runs/scored

hyperparameters:
  --set learning_rate=1e-6 epochs=2 lora.rank=8; as `settings:` in a file of --config:
    recipe: hard_positive
    settings:
      learning_rate: 1e-6
      lora: {rank: 8}
  Recipes and read-outs: `unbag list recipes`, `unbag list readouts`, or package.module:NAME.
"""

_FORMS = (*CAPTION_FILES, "shards", "negclip", "folders")

_WORKERS = 8
"""Data loading processes per GPU, if there are as many cores."""


def add(commands: Commands) -> None:
    """Add the options: model, recipe or read-out, pairs, benchmarks, machine."""
    text = "fine-tune a model with a recipe, or train a read-out on it"
    train = add_command(commands, "train", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "a dual encoder by name, or the folder of a training run"
    train.add_argument("--model", required=True, metavar="M", help=text)
    what = train.add_mutually_exclusive_group(required=True)
    text = "fine-tune with this recipe (`unbag list recipes`)"
    what.add_argument("--recipe", metavar="NAME", help=text)
    text = "train this read-out on the frozen model (`unbag list readouts`)"
    what.add_argument("--readout", metavar="NAME", help=text)
    text = "run folder: new, empty, or that of an interrupted run to resume"
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    text = "hyperparameters, such as learning_rate=1e-6 epochs=2"
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="K=V", help=text)
    add_config(train)
    add_seed(train, "of data order, edits and initialization")
    _add_pairs(train)
    _add_benchmarks(train)
    _add_machine(train)


def start(options: argparse.Namespace) -> int:
    """Train or resume, and print the results."""
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import terminal_progress
    from unbag.models.loading import choose_device, load_model, model_name
    from unbag.runs.distributed import close_distributed, init_distributed
    from unbag.runs.files import TRAINING, check_run_folder
    from unbag.runs.progress import Progress, Silent
    from unbag.training.recipes import make_recipe
    from unbag.training.repair import repair

    _check_kind(options)
    if options.readout:
        return _train_readout(options)
    recipe = make_recipe(options.recipe, options.set)
    benchmarks = find_benchmarks(options.bench)
    # Checked before loading a model, which can take minutes.
    check_run_folder(options.out, TRAINING)
    device = choose_device(options.device)
    distributed = init_distributed(device)
    progress: Progress = terminal_progress() if distributed.is_leader else Silent()
    try:
        model = check_dual_encoder(
            load_model(model_name(options.model), device=device),
            f"{options.model} has no image and text embeddings",
        )
        repaired = repair(
            model,
            _data_config(options),
            recipe,
            options.out,
            seed=options.seed,
            benchmarks=benchmarks,
            data=options.data,
            evaluate_every=options.evaluate_every,
            where=_training_arguments(options, device),
            base=options.model,
            progress=progress,
        )
        if distributed.is_leader:
            _show(repaired)
        return 0 if repaired.trained.is_done else 130
    finally:
        close_distributed(distributed)


def _add_pairs(train: argparse.ArgumentParser) -> None:
    pairs = train.add_argument_group("training data")
    text = "image-caption pairs: a file, a folder, a glob pattern of shards, or world"
    pairs.add_argument("--pairs", required=True, metavar="FILE", help=text)
    text = "format of --pairs (default: by its file extension)"
    pairs.add_argument("--pairs-format", choices=_FORMS, help=text)
    text = "folder that image paths are relative to (default: that of --pairs)"
    pairs.add_argument("--images", type=Path, metavar="DIR", help=text)
    text = "nearest images, as written by `unbag nearest`, for recipes with hard images"
    pairs.add_argument("--neighbours", type=Path, metavar="FILE", help=text)
    text = "column or field with the caption (default: caption, title or text)"
    pairs.add_argument("--caption-column", default="", metavar="C", help=text)
    text = "column or field with the image path (default: filepath, image or url)"
    pairs.add_argument("--image-column", default="", metavar="C", help=text)
    text = "missing images: stop before training, or skip them"
    pairs.add_argument("--missing", choices=("error", "skip"), default="error", help=text)
    text = "malformed lines: stop before training, or skip them"
    pairs.add_argument("--bad-lines", choices=("error", "skip"), default="error", help=text)


def _add_benchmarks(train: argparse.ArgumentParser) -> None:
    bench = train.add_argument_group("evaluation (with --recipe)")
    text = (
        "benchmarks to evaluate before, during and after training (default: world benchmarks, "
        "before and after)"
    )
    bench.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    add_bench_data(bench)
    text = "steps between evaluations during training (default: one epoch)"
    bench.add_argument("--evaluate-every", type=positive, metavar="N", help=text)


def _add_machine(train: argparse.ArgumentParser) -> None:
    machine = train.add_argument_group("machine")
    add_device(machine)
    text = (
        "mixed precision of the encoders; weights stay float32 (auto: bfloat16 on GPUs that "
        "support it, else float32)"
    )
    choices = ("auto", "float32", "bfloat16")
    machine.add_argument("--precision", choices=choices, default="auto", help=text)
    text = (
        "micro-batch size (images per forward pass); lowers memory, gradients are unchanged "
        "(default: the batch size)"
    )
    machine.add_argument("--micro-batch-size", type=positive, metavar="N", help=text)
    text = "data loading processes (default: 1; on a GPU up to 8)"
    machine.add_argument("--workers", type=not_negative, metavar="N", help=text)
    text = "minutes between checkpoints; there is also one after each epoch"
    machine.add_argument("--save-minutes", type=_minutes, default=10.0, metavar="N", help=text)
    machine.add_argument("--tensorboard", action="store_true", help="write TensorBoard events")
    text = "log to this project of Weights & Biases"
    machine.add_argument("--wandb", default="", metavar="PROJECT", help=text)
    add_cache(machine)


def _minutes(text: str) -> float:
    """Parse a number, 0 or more, for `type=` of an option."""
    with suppress(ValueError):
        if isfinite(minutes := float(text)) and minutes >= 0:
            return minutes
    raise argparse.ArgumentTypeError(f"{text!r} is not a number, 0 or more")


def _data_config(options: argparse.Namespace) -> DataConfig:
    from unbag.training.repair import DataConfig

    return DataConfig(
        options.pairs,
        form=options.pairs_format,
        images=options.images,
        neighbours=options.neighbours,
        caption_column=options.caption_column,
        image_column=options.image_column,
        skips_missing=options.missing == "skip",
        skips_bad=options.bad_lines == "skip",
    )


def _training_arguments(options: argparse.Namespace, device: str) -> TrainingArguments:
    import torch

    from unbag.training.repair import TrainingArguments

    is_gpu = device.startswith("cuda")
    cores = (os.cpu_count() or 1) // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    workers = options.workers
    if workers is None:
        workers = min(_WORKERS, max(1, cores)) if is_gpu else 1
    precision: Precision = options.precision
    if options.precision == "auto":
        # Older GPUs emulate bfloat16, which is slower than float32.
        has_bfloat16 = is_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
        precision = "bfloat16" if has_bfloat16 else "float32"
    return TrainingArguments(
        device=device,
        precision=precision,
        micro_batch_size=options.micro_batch_size,
        workers=workers,
        cache=cache_of(options),
        save_minutes=options.save_minutes,
        uses_tensorboard=options.tensorboard,
        wandb_project=options.wandb,
        command=options.typed,
    )


def _show(repaired: Repaired) -> None:
    from unbag.cli.console import output, print_lines
    from unbag.reports.formatting import number_text
    from unbag.training.before_after import before_after_table
    from unbag.training.data.loader import MAX_NAMES, left_out_lines

    trained, state = repaired.trained, repaired.trained.state
    if not trained.is_done:
        print(f"stopped after step {state.step}; the same command resumes from there")
        return
    if repaired.comparison is not None:
        output().print(before_after_table(repaired.comparison))
        print_lines(f"note: {note}" for note in repaired.comparison.notes)
    if state.seconds:
        rate = state.step * repaired.batch_size / state.seconds
        waited = number_text(state.waited / state.seconds)
        print_lines(
            [
                f"{state.step:,} steps in {state.seconds:,.0f} s: {rate:,.1f} images per second, "
                f"{waited} % of the time waiting for data"
            ]
        )
    print_lines(
        left_out_lines(trained.unread, is_all=len(trained.unread) < MAX_NAMES), soft_wrap=True
    )
    lines = []
    if state.best is not None:
        lines.append(
            f"best mean headline during training: {number_text(state.best)} after step "
            f"{state.best_step}, in {trained.folder / 'best.safetensors'}"
        )
    if repaired.exported is not None:
        lines += export_lines(repaired.exported)
    else:
        lines.append(f"already exported: {trained.folder / 'export'}")
    print_lines([*lines, f"log: {trained.folder / 'log.jsonl'}"])


def _check_kind(options: argparse.Namespace) -> None:
    """Raise UnbagError for a read-out given to --recipe, or the reverse."""
    kind: Kind = "recipe" if options.recipe else "readout"
    other: Kind = "readout" if options.recipe else "recipe"
    name = options.recipe or options.readout
    if name in names(kind):
        return
    if name in names(other) or (":" in name and _is_readout(name) != (kind == "readout")):
        words = {"recipe": "recipe", "readout": "read-out"}
        raise UnbagError(
            f"--{kind} {name}: {name!r} is a {words[other]}, not a {words[kind]}",
            hint=f"--{other} {name}",
        )
    if ":" not in name:
        hint = f"`unbag list {kind}s` lists them; package.module:NAME works too"
        raise unknown_name(kind, name, names(kind), hint=hint)


def _is_readout(name: str) -> bool:
    """Return whether package.module:NAME is a read-out; a recipe is a function that returns one."""
    from unbag.readouts.base import Readout

    return isinstance(find("recipe", name), Readout)


def _train_readout(options: argparse.Namespace) -> int:
    """Train a read-out on a frozen model."""
    from unbag.cli.console import print_lines, terminal_progress
    from unbag.models.loading import choose_device, load_model, model_name
    from unbag.readouts.base import train_readout
    from unbag.runs.checkpoint import LAST

    _check_readout(options)
    device = choose_device(options.device)
    model = load_model(model_name(options.model), device=device)
    try:
        trained = train_readout(
            options.readout,
            model,
            _data_config(options),
            options.out,
            spec=options.model,
            settings=options.set,
            seed=options.seed,
            where=_training_arguments(options, device),
            progress=terminal_progress(),
        )
    except KeyboardInterrupt:
        # From the first step on, a run saves a checkpoint and returns by itself.
        if not (options.out / LAST).exists():
            print(
                "stopped before the first step; nothing is saved, and the same command starts again"
            )
        raise
    print_lines(trained.lines, soft_wrap=True)
    if not trained.is_done:
        print("stopped; the same command resumes from there")
    return 0 if trained.is_done else 130


def _check_readout(options: argparse.Namespace) -> None:
    """Raise UnbagError for options that would be ignored."""
    values = {
        "--bench": options.bench,
        "--data": options.data,
        "--evaluate-every": options.evaluate_every,
        "--tensorboard": options.tensorboard,
        "--wandb": options.wandb,
    }
    unused = [flag for flag, value in values.items() if value]
    if unused:
        raise UnbagError(
            f"{', '.join(unused)} with the read-out {options.readout!r}",
            expected="no options of recipes: training a read-out includes no evaluation",
            hint=f"remove it; afterwards: unbag run --model {options.model} "
            f"--scorer {options.readout}@{options.out} --bench ...",
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UnbagError(
            f"{os.environ['WORLD_SIZE']} processes for the read-out {options.readout!r}",
            expected="one process and one device, since read-outs are small",
            hint="start it without torchrun; `unbag run` supports several processes",
        )
