"""The options of `unbag score`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path

_EXAMPLES = """\
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
        epilog=_EXAMPLES,
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
