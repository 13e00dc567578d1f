"""Options that several commands share, and checks of their values."""

from __future__ import annotations

import argparse
from pathlib import Path

CAPTION_FILES = ("jsonl", "tsv", "csv", "parquet", "json")
"""Forms of a file of captions."""


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


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where models compute."""
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """What models compute in."""
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=["auto", "float32", "bfloat16", "float16"],
        help="precision of the model (default: auto: float32; bfloat16 for chat models on a GPU)",
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Where embeddings are kept, or that they are not."""
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="where embeddings are kept between runs"
    )
    parser.add_argument("--no-cache", action="store_true", help="keep embeddings in memory only")


def cache_of(options: argparse.Namespace) -> Path | None:
    """The folder that the options of `add_cache` ask for."""
    from unbag.runs.cache import default_cache

    if options.no_cache:
        return None
    return options.cache if options.cache is not None else default_cache()
