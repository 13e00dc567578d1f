"""The options of `unbag export`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path

_ABOUT = """\
Write a dual encoder so that plain open_clip and plain transformers load it, with a model card.
Each form is read again by its library and compared with the model before it gets its name; a form
that a library cannot have is left out, and the reason is said.
"""

_EXAMPLES = """\
examples:
  unbag export --model open_clip:ViT-B-32-quickgelu/openai --out exports/vit-b-32
  unbag export --run runs/ce --weights best --out exports/ce-best
"""


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """A model and a new folder."""
    export = commands.add_parser(
        "export",
        help="folders that open_clip and transformers load, with a model card",
        description=_ABOUT,
        epilog=_EXAMPLES,
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
