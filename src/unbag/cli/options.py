"""Options that several commands share, and checks of their values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.models.loading import Model
    from unbag.registry import Commands
    from unbag.types import DualEncoder

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


def add_command(
    commands: Commands, name: str, *, text: str, about: str, examples: str
) -> argparse.ArgumentParser:
    """A command with examples, whose lines stay as they are written."""
    return commands.add_parser(
        name,
        help=text,
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_bench_data(parser: argparse._ActionsContainer) -> None:
    """Where the files of benchmarks are."""
    text = "folder with one folder for each benchmark that needs files"
    parser.add_argument("--data", type=Path, metavar="DIR", help=text)


def add_batch(parser: argparse.ArgumentParser, what: str = "inputs") -> None:
    """How many inputs a model gets at once."""
    text = f"{what} at once (default: 256)"
    parser.add_argument("--batch", type=positive, default=256, metavar="N", help=text)


def add_server(parser: argparse.ArgumentParser) -> None:
    """Limits on the requests to a model behind a server."""
    text = "requests to a server at a time (default: 8)"
    parser.add_argument("--concurrency", type=positive, default=8, metavar="N", help=text)
    text = "most requests to a server, for each worker (default: no limit)"
    parser.add_argument("--budget", type=positive, metavar="N", help=text)


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


def check_dual_encoder(model: Model, message: str) -> DualEncoder:
    """The model, if it has vectors of images and captions; else an error with this message."""
    from unbag.types import DualEncoder

    if isinstance(model, DualEncoder):
        return model
    raise UnbagError(
        message,
        expected="a dual encoder, such as tiny:base or open_clip:ViT-B-32/openai",
        hint="name another with --model",
    )
