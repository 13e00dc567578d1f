"""The options of `unbag diagnose`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

_ABOUT = """\
Ask why a model answers as it does: does its text tower see order, does its picture tower merge
different pictures, is the information there but not read out, does it only notice edits? Each
question gets one sentence, with its number beside that of a bag of words, a perfect model,
chance and the same model with random weights. Writes diagnosis.html and diagnosis.json.
"""

_EXAMPLES = """\
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
        description=_ABOUT,
        epilog=_EXAMPLES,
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
