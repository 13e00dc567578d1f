"""The options of `unbag verify`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from math import isfinite
from pathlib import Path

# The options of `unbag data`; apart from the command, which takes long to import.


def add_data(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """List, check and get."""
    text = "which benchmarks are read from files, whether yours are complete, and getting them"
    data = commands.add_parser("data", help=text, description=text[0].upper() + text[1:] + ".")
    actions = data.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="benchmarks that need files")
    check = actions.add_parser("check", help="what is there and what is missing")
    check.add_argument("name", metavar="NAME", help="a benchmark")
    get = actions.add_parser(
        "get",
        help="fetch what has a public address",
        description="Say what will be fetched, fetch it, and check it. A download that was stopped "
        "goes on where it was. What needs an account or a form is explained.",
    )
    get.add_argument("names", nargs="+", metavar="NAME", help="benchmarks")
    get.add_argument(
        "--pictures",
        action="store_true",
        help="pictures too, often gigabytes (default: annotation files only)",
    )
    for action in (check, get):
        action.add_argument(
            "--data", type=Path, required=True, metavar="DIR", help="holds one folder a benchmark"
        )


def start_data(options: argparse.Namespace) -> int:
    """One of the three."""
    from unbag.cli import data

    if options.action == "list":
        return data.list_data()
    if options.action == "check":
        return data.check_data(options.name, options.data)
    from unbag.cli.data import get_data

    return get_data(options.names, options.data, pictures=options.pictures)


# The options of `unbag diagnose`; apart from the command, which takes long to import.

_DIAGNOSE_OPTIONS_ABOUT = """\
Ask why a model answers as it does: does its text tower see order, does its picture tower merge
different pictures, is the information there but not read out, does it only notice edits? Each
question gets one sentence, with its number beside that of a bag of words, a perfect model,
chance and the same model with random weights. Writes diagnosis.html and diagnosis.json.
"""

_DIAGNOSE_OPTIONS_EXAMPLES = """\
examples:
  unbag diagnose --model tiny:base
  unbag diagnose --model tiny:hard_negative --against tiny:base --out repair
  unbag diagnose --model tiny:base --scorer pacl@runs/pacl --against tiny:base --probes profile
  unbag diagnose --model open_clip:ViT-B-32/openai --data whatsup --root data
  unbag diagnose --model open_clip:ViT-B-32/openai --data my/pictures --probes agreement stability
"""


def add_diagnose(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """One or two models, what is looked at, and which questions are put."""
    diagnose = commands.add_parser(
        "diagnose",
        help="ask why a model answers as it does",
        description=_DIAGNOSE_OPTIONS_ABOUT,
        epilog=_DIAGNOSE_OPTIONS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "a model by name, or the folder of a training run or export"
    diagnose.add_argument("--model", required=True, metavar="M", help=text)
    text = "a second model, such as the one a repair started from; differences are paired"
    diagnose.add_argument("--against", metavar="M", help=text)
    text = "a trained read-out, NAME@FOLDER: its scores, and its maps beside the model's own"
    diagnose.add_argument("--scorer", metavar="S", help=text)
    text = "for diagnosis.html and diagnosis.json (default: unbag-diagnosis/MODEL)"
    diagnose.add_argument("--out", type=Path, metavar="DIR", help=text)
    _add_data(diagnose)
    text = "questions to put, by name (default: all; `unbag list probes`)"
    diagnose.add_argument("--probes", nargs="+", metavar="P", help=text)
    text = "all readers, conditions and layers of each probe, not the quick part of them"
    diagnose.add_argument("--full", action="store_true", help=text)
    text = "layers to read from, besides the last; -2 is the one before it"
    diagnose.add_argument("--layers", type=int, nargs="+", default=[], metavar="N", help=text)
    text = "do not put the questions to the same model with random weights"
    diagnose.add_argument("--no-twin", action="store_true", help=text)
    text = "draw no maps of words over pictures, for which a chat model runs dozens of times"
    diagnose.add_argument("--no-maps", action="store_true", help=text)
    text = "of samples, readers, intervals and the random twin (default: 0)"
    diagnose.add_argument("--seed", type=int, default=0, metavar="N", help=text)
    diagnose.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    diagnose.add_argument(
        "--dtype",
        default="auto",
        choices=["auto", "float32", "bfloat16", "float16"],
        help="precision of the model (default: auto: float32; bfloat16 for chat models on a GPU)",
    )
    diagnose.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return diagnose


def _add_data(diagnose: argparse.ArgumentParser) -> None:
    data = diagnose.add_argument_group("what is looked at")
    text = "world (default), a benchmark or family, a file of captions, or a folder of pictures"
    data.add_argument("--data", metavar="D", help=text)
    text = "holds one folder for each benchmark that is read from files"
    data.add_argument("--root", type=Path, metavar="DIR", help=text)
    text = "folder that names of pictures in a file of captions start from"
    data.add_argument("--pictures", type=Path, metavar="DIR", help=text)


def start_diagnose(options: argparse.Namespace) -> int:
    """Run the command, with one thread for the products of NumPy and SciPy.

    They are small here, and between two of them a second thread of OpenBLAS spins: on two busy
    cores that made readers seven times slower. It must be said before NumPy is imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from unbag.cli.diagnose import diagnose_command

    return diagnose_command(options)


def positive(text: str) -> int:
    """For `type=` of an option."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def not_negative(text: str) -> int:
    """The same with 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def minutes(text: str) -> float:
    """Of a clock: any number, 0 or more."""
    with suppress(ValueError):
        if isfinite(found := float(text)) and found >= 0:
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is not a number, 0 or more")


# The options of `unbag edit`; apart from the command, which takes long to import.

_EDIT_OPTIONS_ABOUT = """\
Make hard negatives and hard positives of the captions of a collection, or of one caption. A job
that was stopped goes on when the same command is given again.
"""

_EDIT_OPTIONS_EXAMPLES = """\
examples:
  unbag edit --try "A black dog sits to the left of a small child."
  unbag edit --captions captions.jsonl --out edits.jsonl --workers 8
  unbag edit --captions coco.json --kinds neg_clip_fixed --out train.tsv --format negclip
  unbag edit --captions "shards/{000000..000099}.tar" --kinds negatives --out edited

kinds:
  `unbag list edits` shows all; groups are default, negatives, positives, all, neg_clip_fixed ...
"""
EDIT_OPTIONS_FORMS = ("jsonl", "tsv", "csv", "parquet", "json", "shards")


def add_edit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """A collection or one caption, kinds, and what the kinds need."""
    edit = commands.add_parser(
        "edit",
        help="hard negatives and hard positives of captions",
        description=_EDIT_OPTIONS_ABOUT,
        epilog=_EDIT_OPTIONS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    edit.add_argument("--try", dest="tried", metavar="CAPTION", help="print edits of one caption")
    _add_files(edit)
    _add_edits(edit)
    _add_parts(edit)
    _add_work(edit)


def _add_files(edit: argparse.ArgumentParser) -> None:
    text = "a file of captions; for shards also a folder or a pattern"
    edit.add_argument("--captions", metavar="FILE", help=text)
    edit.add_argument("--out", type=Path, metavar="FILE", help="for shards a folder")
    text = "of --captions: {} (default: by its ending)".format(", ".join(EDIT_OPTIONS_FORMS))
    edit.add_argument("--captions-format", choices=EDIT_OPTIONS_FORMS, metavar="F", help=text)
    text = "of --out: the same, or negclip (default: by its ending)"
    edit.add_argument("--format", choices=(*EDIT_OPTIONS_FORMS, "negclip"), metavar="F", help=text)
    text = "column or field of captions (default: caption, title or text)"
    edit.add_argument("--caption-column", default="", metavar="C", help=text)
    text = "column or field that names the picture (default: filepath, image or url)"
    edit.add_argument("--picture-column", default="", metavar="C", help=text)
    edit.add_argument("--limit", type=positive, metavar="N", help="only the first N captions")
    edit.add_argument(
        "--bad-lines",
        choices=("error", "skip"),
        help="broken lines: stop before anything is computed (default), or leave them out",
    )
    text = "nearest pictures, for --format negclip: lines of {picture, neighbours}"
    edit.add_argument("--neighbours", type=Path, metavar="FILE", help=text)


def _add_edits(edit: argparse.ArgumentParser) -> None:
    text = "kinds of edits or groups of them (default: default)"
    edit.add_argument("--kinds", nargs="+", default=["default"], metavar="K", help=text)
    text = "edits of each kind for a caption (default: 1)"
    edit.add_argument("--per-kind", type=positive, default=1, metavar="N", help=text)
    edit.add_argument("--seed", type=int, default=0, help="decides what is drawn (default: 0)")
    text = "besides those always on: fluency:PATH, meaning:PATH, package.module:NAME"
    edit.add_argument("--filters", nargs="+", default=[], metavar="F", help=text)
    text = "a language model that tries to tell edits from originals, by kind"
    edit.add_argument("--leak", default="", metavar="PATH", help=text)


def _add_parts(edit: argparse.ArgumentParser) -> None:
    text = "spaCy pipeline by name or folder (default: auto, the first installed)"
    edit.add_argument("--pipeline", default="auto", metavar="P", help=text)
    text = "folder with WordNet (default: auto, where it is usually installed)"
    edit.add_argument("--wordnet", default="auto", metavar="DIR", help=text)
    text = "language model for kinds that fill in words: folder or name"
    edit.add_argument("--fill", default="", metavar="M", help=text)
    text = "chat model for kinds that rewrite: hf:FOLDER or server:MODEL@URL"
    edit.add_argument("--rewrite", default="", metavar="M", help=text)
    edit.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    text = "where answers of a server are kept between runs"
    edit.add_argument("--cache", type=Path, metavar="DIR", help=text)
    text = "requests to a server at a time (default: 8)"
    edit.add_argument("--concurrency", type=positive, default=8, metavar="N", help=text)
    text = "most requests to a server, for each worker (default: no limit)"
    edit.add_argument("--budget", type=positive, metavar="N", help=text)


def _add_work(edit: argparse.ArgumentParser) -> None:
    text = "processes; the output is the same for any number (default: 1)"
    edit.add_argument("--workers", type=positive, metavar="N", help=text)
    text = "a Ray cluster that does the work instead: host:port, auto, or local"
    edit.add_argument("--ray", default="", metavar="ADDRESS", help=text)


# The options of `unbag export`; apart from the command, which takes long to import.

_EXPORT_OPTIONS_ABOUT = """\
Write a dual encoder so that plain open_clip and plain transformers load it, with a model card.
Each form is read again by its library and compared with the model before it gets its name; a form
that a library cannot have is left out, and the reason is said.
"""

_EXPORT_OPTIONS_EXAMPLES = """\
examples:
  unbag export --model open_clip:ViT-B-32-quickgelu/openai --out exports/vit-b-32
  unbag export --run runs/ce --weights best --out exports/ce-best
"""


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """A model and a new folder."""
    export = commands.add_parser(
        "export",
        help="folders that open_clip and transformers load, with a model card",
        description=_EXPORT_OPTIONS_ABOUT,
        epilog=_EXPORT_OPTIONS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "a dual encoder: open_clip:, hf:, photo:, joined: or tiny:"
    what = export.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", metavar="M", help=text)
    text = "folder of a training run, finished or not"
    what.add_argument("--run", type=Path, metavar="DIR", help=text)
    text = "of the run: the last checkpoint, or the best one by its benchmarks; default: last"
    export.add_argument("--weights", choices=("last", "best"), help=text)
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")


# The options of `unbag merge`; apart from the command, which takes long to import.

_MERGE_OPTIONS_ABOUT = """\
Mix the weights of a model before and after fine-tuning (WiSE-FT), score every mix, and keep one:
fine-tuning gains composition and costs recognition, and a mix often keeps most of both.
"""

_MERGE_OPTIONS_EXAMPLES = """\
examples:
  unbag merge --base tiny:base --tuned tiny:tuned.safetensors --out merged
  unbag merge --base open_clip:ViT-B-32-quickgelu/openai --tuned open_clip:local-dir:trained \\
    --bench sugarcrepe_pp coco_retrieval cifar100 --data data --out merged
"""


def add_merge(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Two models, weights, benchmarks, and how one weight is chosen."""
    merge = commands.add_parser(
        "merge",
        help="mix weights before and after fine-tuning",
        description=_MERGE_OPTIONS_ABOUT,
        epilog=_MERGE_OPTIONS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    merge.add_argument("--base", required=True, metavar="M", help="the model before fine-tuning")
    merge.add_argument("--tuned", required=True, metavar="M", help="the same after it")
    text = "for the curve, the run folder and the mixed model"
    merge.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    text = "shares of the tuned weights, with commas (default: 0,0.25,0.5,0.75,1)"
    merge.add_argument("--weights", default="0,0.25,0.5,0.75,1", metavar="W", help=text)
    text = "benchmarks or families (default: four of the world, which are drawings)"
    merge.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    text = "holds one folder for each benchmark"
    merge.add_argument("--data", type=Path, metavar="DIR", help=text)
    merge.add_argument("--pick", type=float, metavar="W", help="keep this weight")
    text = "without --pick: points of recognition that may be lost (default: 1)"
    merge.add_argument("--budget", type=float, default=1.0, metavar="P", help=text)
    for side in ("composition", "recognition"):
        text = f"benchmarks that count as {side} whatever their metrics"
        merge.add_argument(f"--{side}", nargs="+", default=[], metavar="B", help=text)
    merge.add_argument("--seed", type=int, default=0, help="for the intervals (default: 0)")
    merge.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    text = "inputs at once (default: 256)"
    merge.add_argument("--batch", type=positive, default=256, metavar="N", help=text)
    return merge


# The options of `unbag nearest`; apart from the command, which takes long to import.

_NEAREST_OPTIONS_ABOUT = """\
For every picture that a caption file names, find the nearest other pictures by a model's vectors:
NegCLIP's hard pictures. The output goes into `unbag edit --format negclip --neighbours FILE`.
"""

_NEAREST_OPTIONS_EXAMPLES = """\
example:
  unbag nearest --captions captions.jsonl --pictures photos --model open_clip:ViT-B-32/openai \\
    --out neighbours.jsonl
"""
_FORMS = tuple(form for form in EDIT_OPTIONS_FORMS if form != "shards")
"""Pictures inside shards have no path."""


def add_nearest(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """A caption file, a folder of pictures, a model."""
    nearest = commands.add_parser(
        "nearest",
        help="the nearest other pictures of each picture",
        description=_NEAREST_OPTIONS_ABOUT,
        epilog=_NEAREST_OPTIONS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "a file that names pictures"
    nearest.add_argument("--captions", required=True, metavar="FILE", help=text)
    text = "of --captions: {} (default: by its ending)".format(", ".join(_FORMS))
    nearest.add_argument("--captions-format", choices=_FORMS, metavar="F", help=text)
    text = "column or field that names the picture (default: filepath, image or url)"
    nearest.add_argument("--picture-column", default="", metavar="C", help=text)
    text = "the folder that their names start from"
    nearest.add_argument("--pictures", type=Path, required=True, metavar="DIR", help=text)
    nearest.add_argument("--model", required=True, metavar="M", help="a dual encoder")
    nearest.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines")
    text = "neighbours of each picture (default: 3)"
    nearest.add_argument("--each", type=int, default=3, metavar="N", help=text)
    nearest.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    text = "pictures encoded at once (default: 256)"
    nearest.add_argument("--batch", type=int, default=256, metavar="N", help=text)
    return nearest


# The options of `unbag score`; apart from the command, which takes long to import.

_SCORE_OPTIONS_EXAMPLES = """\
examples:
  unbag score cat.jpg "a cat on a mat" "a mat on a cat" --model tiny:base
  unbag score cat.jpg "a cat" "a dog" --model hf:models/clip hf:models/blip-itm --json
  unbag score cat.jpg dog.jpg "a cat" "a dog" --model hf:models/clip
  unbag score cat.jpg "a cat on a mat" "a mat on a cat" --model tiny:base --scorer pacl@runs/pacl
"""


def add_score(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Pictures, captions, and models by the names that `unbag run` takes."""
    text = "a picture or several, a few captions, any models"
    score = commands.add_parser(
        "score",
        help=text,
        description="Score captions for each picture and print a table, best first. Arguments that "
        "are files are pictures and stand first, the others are captions.",
        epilog=_SCORE_OPTIONS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    score.add_argument("picture", type=Path, metavar="PICTURE", help="a file; more may follow")
    score.add_argument("captions", nargs="+", metavar="CAPTION", help="in quotes")
    score.add_argument("--model", nargs="+", required=True, metavar="M", help="models to ask")
    score.add_argument(
        "--scorer",
        metavar="S",
        help="how a model gives a score, or NAME@FOLDER (default: the natural one)",
    )
    score.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    score.add_argument(
        "--dtype",
        default="auto",
        choices=["auto", "float32", "bfloat16", "float16"],
        help="precision of the model (default: auto)",
    )
    score.add_argument("--json", action="store_true", help="print JSON instead of a table")


# The options of `unbag train`; apart from the command, which takes long to import.

_TRAIN_OPTIONS_ABOUT = """\
Fine-tune a dual encoder with a repair, then say what it gained and what it cost: a table before
and after with paired intervals, and folders that open_clip and transformers load. Or, with the name
of a read-out, train a small reader on a model that stays as it is. A run that was stopped or killed
goes on when the same command is given again.
"""

_TRAIN_OPTIONS_EXAMPLES = """\
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
TRAIN_OPTIONS_FORMS = ("jsonl", "tsv", "csv", "parquet", "json", "shards", "negclip", "folders")


def add_train(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Model, recipe, pairs, benchmarks, machine."""
    train = commands.add_parser(
        "train",
        help="repair a dual encoder and say what it cost",
        description=_TRAIN_OPTIONS_ABOUT,
        epilog=_TRAIN_OPTIONS_EXAMPLES,
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
    pairs.add_argument(
        "--form", choices=TRAIN_OPTIONS_FORMS, help="of the pairs; default: by the ending"
    )
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


def add_verify(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """All but those of the cache, which other commands share."""
    text = "published numbers of a model beside ours"
    verify = commands.add_parser(
        "verify",
        help=text,
        description="Run every protocol that published numbers of a model need, as far as the "
        "files are there, and say which lie inside our intervals.",
        epilog="exit code: 0 all that can be compared lie inside, 3 some lie outside",
    )
    verify.add_argument("--model", required=True, metavar="M", help="the model to score")
    verify.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the runs")
    verify.add_argument("--data", type=Path, metavar="DIR", help="holds one folder a benchmark")
    verify.add_argument(
        "--as", dest="published_as", default="", metavar="NAME", help="what papers call the model"
    )
    verify.add_argument(
        "--bench", nargs="+", default=[], metavar="B", help="only these (default: all there are)"
    )
    verify.add_argument("--scorer", metavar="S", help="how the model gives a score")
    verify.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    verify.add_argument(
        "--missing",
        default="error",
        choices=["error", "skip"],
        help="a benchmark with pictures missing: skip it whole (error, default), or its items",
    )
    return verify
