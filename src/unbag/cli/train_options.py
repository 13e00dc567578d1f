"""The options of `unbag train`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path

from unbag.cli.positive import minutes, not_negative, positive

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
  torchrun --nproc-per-node 8 -m unbag train ... --set batch=1024
  unbag train --model tiny:base --recipe dcsm_fixed --pairs world --out runs/dcsm
  unbag run --model tiny:base --scorer dcsm_fixed@runs/dcsm --bench world

recipes:
  `unbag list recipes` shows all; package.module:FUNCTION of yours works too. Numbers are settings
  of the recipe: --set learning_rate=1e-6 epochs=2 locks.picture=all lora.rank=8
  `unbag list readouts` shows read-outs, whose settings are others: --set steps=5000 scenes=50000
"""
FORMS = ("jsonl", "tsv", "csv", "parquet", "json", "shards", "negclip", "folders")


def add_train(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Model, recipe, pairs, benchmarks, machine."""
    train = commands.add_parser(
        "train",
        help="repair a dual encoder and say what it cost",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument("--model", required=True, metavar="M", help="a dual encoder by name")
    train.add_argument(
        "--recipe", required=True, metavar="R", help="of `unbag list recipes` or readouts"
    )
    text = "settings of the recipe, as in learning_rate=1e-6 batch=128"
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="K=V", help=text)
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    _add_pairs(train)
    _add_benchmarks(train)
    _add_machine(train)
    return train


def _add_pairs(train: argparse.ArgumentParser) -> None:
    pairs = train.add_argument_group("what is trained on")
    text = "pictures with captions: a file, a folder, a pattern of shards, or `world`"
    pairs.add_argument("--pairs", required=True, metavar="F", help=text)
    pairs.add_argument("--form", choices=FORMS, help="of the pairs; default: by the ending")
    text = "folder that names of pictures start from; default: that of the pairs"
    pairs.add_argument("--pictures", type=Path, metavar="DIR", help=text)
    text = "what `unbag nearest` wrote, for recipes with hard pictures"
    pairs.add_argument("--neighbours", type=Path, metavar="F", help=text)
    text = "field or column with the caption; default: the usual names"
    pairs.add_argument("--caption-column", default="", metavar="NAME", help=text)
    text = "field or column with the picture"
    pairs.add_argument("--picture-column", default="", metavar="NAME", help=text)
    text = "what to do about pictures that are not there: stop before training, or leave them out"
    pairs.add_argument("--missing", choices=("error", "skip"), default="error", help=text)
    text = "broken lines: stop before training, or leave them out"
    pairs.add_argument("--bad-lines", choices=("error", "skip"), default="error", help=text)


def _add_benchmarks(train: argparse.ArgumentParser) -> None:
    bench = train.add_argument_group("what it is measured on")
    text = "benchmarks, before, after and while training; default: the world's, before and after"
    bench.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    text = "folder with one folder for each benchmark that needs files"
    bench.add_argument("--data", type=Path, metavar="DIR", help=text)
    text = "steps between two measurements while training; default: an epoch"
    bench.add_argument("--evaluate-every", type=positive, metavar="N", help=text)


def _add_machine(train: argparse.ArgumentParser) -> None:
    machine = train.add_argument_group("machine")
    text = "auto, cpu, cuda, cuda:1 or mps; default: auto"
    machine.add_argument("--device", default="auto", metavar="D", help=text)
    text = "of the towers' arithmetic; weights stay float32. Default: bfloat16 on a GPU"
    choices = ("auto", "float32", "bfloat16")
    machine.add_argument("--precision", choices=choices, default="auto", help=text)
    text = "pictures that go through a tower at once: the batch needs the memory of so many"
    machine.add_argument("--micro", type=positive, metavar="N", help=text)
    text = "processes that read data; default: 1, on a GPU up to 8"
    machine.add_argument("--workers", type=not_negative, metavar="N", help=text)
    text = "minutes between two checkpoints, beside those of epochs; default: 10"
    machine.add_argument("--save-minutes", type=minutes, default=10.0, metavar="N", help=text)
    machine.add_argument("--tensorboard", action="store_true", help="write TensorBoard events too")
    text = "log to this project of Weights & Biases, if wandb is installed"
    machine.add_argument("--wandb", default="", metavar="PROJECT", help=text)
