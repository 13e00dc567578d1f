"""The options of `unbag nearest`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path

from unbag.cli.edit_options import FORMS

_ABOUT = """\
For every picture that a caption file names, find the nearest other pictures by a model's vectors:
NegCLIP's hard pictures. The output goes into `unbag edit --format negclip --neighbours FILE`.
"""

_EXAMPLES = """\
example:
  unbag nearest --captions captions.jsonl --pictures photos --model open_clip:ViT-B-32/openai \\
    --out neighbours.jsonl
"""
_FORMS = tuple(form for form in FORMS if form != "shards")
"""Pictures inside shards have no path."""


def add_nearest(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """A caption file, a folder of pictures, a model."""
    nearest = commands.add_parser(
        "nearest",
        help="the nearest other pictures of each picture",
        description=_ABOUT,
        epilog=_EXAMPLES,
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
