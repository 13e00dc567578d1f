"""The options of `unbag edit`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path

from unbag.cli.positive import positive

_ABOUT = """\
Make hard negatives and hard positives of the captions of a collection, or of one caption. A job
that was stopped goes on when the same command is given again.
"""

_EXAMPLES = """\
examples:
  unbag edit --try "A black dog sits to the left of a small child."
  unbag edit --captions captions.jsonl --out edits.jsonl --workers 8
  unbag edit --captions coco.json --kinds neg_clip_fixed --out train.tsv --format negclip
  unbag edit --captions "shards/{000000..000099}.tar" --kinds negatives --out edited

kinds:
  `unbag list edits` shows all; groups are default, negatives, positives, all, neg_clip_fixed ...
"""
FORMS = ("jsonl", "tsv", "csv", "parquet", "json", "shards")


def add_edit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """A collection or one caption, kinds, and what the kinds need."""
    edit = commands.add_parser(
        "edit",
        help="hard negatives and hard positives of captions",
        description=_ABOUT,
        epilog=_EXAMPLES,
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
    text = "of --captions: {} (default: by its ending)".format(", ".join(FORMS))
    edit.add_argument("--captions-format", choices=FORMS, metavar="F", help=text)
    text = "of --out: the same, or negclip (default: by its ending)"
    edit.add_argument("--format", choices=(*FORMS, "negclip"), metavar="F", help=text)
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
