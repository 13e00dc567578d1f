"""Options that several commands share, and the parser of all commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from unbag.cli.config import apply_config

if TYPE_CHECKING:
    from unbag.models.loading import Model
    from unbag.registry import Commands
    from unbag.types import DualEncoder

CAPTION_FILES = ("jsonl", "tsv", "csv", "parquet", "json")
"""Formats of a caption file."""

RENAMED: Mapping[str, Mapping[str, str]] = {
    "run": {"--batch": "--batch-size", "--budget": "--max-requests"},
    "diagnose": {
        "--root": "--data (and what the probes look at is --on)",
        "--pictures": "--images",
        "--no-twin": "--no-random-init",
    },
    "edit": {"--picture-column": "--image-column", "--budget": "--max-requests"},
    "nearest": {
        "--batch": "--batch-size",
        "--each": "--k",
        "--pictures": "--images",
        "--picture-column": "--image-column",
    },
    "train": {
        "--form": "--pairs-format",
        "--micro": "--micro-batch-size",
        "--pictures": "--images",
        "--picture-column": "--image-column",
    },
    "export": {"--weights": "--checkpoint"},
    "merge": {"--batch": "--batch-size", "--budget": "--max-drop"},
    "data get": {"--pictures": "--images"},
}
"""Renamed options of each command: the old name and the new one."""


class HelpText(argparse.RawDescriptionHelpFormatter):
    """Formats help: descriptions as written, and the default after each option."""

    def __init__(self, prog: str, *sizes: Any, **more: Any) -> None:
        """Take the options of argparse, with a wider column of option names."""
        super().__init__(prog, *sizes, **{"max_help_position": 28} | more)
        # argparse does not account for the indentation of the list of commands.
        self._action_max_length = 16

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help or "", action.default
        is_plain = default is None or isinstance(default, bool) or default in ("", [])
        if is_plain or default == argparse.SUPPRESS or "(default" in text:
            return text
        defaults = default if isinstance(default, list) else [default]
        default_text = " ".join(
            f"{value:g}" if isinstance(value, float) else str(value) for value in defaults
        )
        return f"{text} (default: {default_text.replace('%', '%%')})"


class Parser(argparse.ArgumentParser):
    """Argument parser without abbreviations.

    The error for a renamed option gives its new name. --config FILE sets other defaults.
    """

    def __init__(self, *words: Any, **options: Any) -> None:
        """Take the options of argparse; also used for commands of plug-ins."""
        own = {"formatter_class": HelpText, "allow_abbrev": False}
        super().__init__(*words, **options | own)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Check the names of the options, read --config, then parse."""
        typed = sys.argv[1:] if args is None else list(args)
        if not any(isinstance(action, argparse._SubParsersAction) for action in self._actions):
            self._check_spelling(typed)
            apply_config(self, typed, renamed=self.renamed)
        return super().parse_known_args(typed, namespace)

    @property
    def renamed(self) -> Mapping[str, str]:
        """Renamed options of this command."""
        return RENAMED.get(self.prog.partition(" ")[2], {})

    def _check_spelling(self, typed: Sequence[str]) -> None:
        """Report unknown options before argparse reports missing ones."""
        options = self._option_string_actions
        for word in typed:
            if word == "--":
                return
            option = word.partition("=")[0]
            # argparse takes a word with a space as a positional argument, such as a caption.
            if not option.startswith("--") or " " in option or option in options:
                continue
            if option in self.renamed:
                self.error(f"{option} is now {self.renamed[option]}")
            similar = [name for name in options if name.startswith(option)]
            similar = similar or get_close_matches(option, options, n=1)
            suggestion = f"; did you mean {' or '.join(similar)}?" if similar else ""
            self.error(f"there is no option {option}{suggestion}")

    def error(self, message: str) -> NoReturn:
        """Print the message without the usage, which can be longer than a screen."""
        self.exit(2, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")


def positive(text: str) -> int:
    """Parse an integer above 0, for `type=` of an option."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def not_negative(text: str) -> int:
    """Parse an integer, 0 or more, for `type=` of an option."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def add_command(
    commands: Commands, name: str, *, text: str, about: str, examples: str = ""
) -> argparse.ArgumentParser:
    """Add a command with a line in `unbag --help`, a description and examples."""
    return commands.add_parser(name, help=text, description=about, epilog=examples)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add --config, a file with options."""
    text = "read options from a YAML or TOML file; options on the command line take precedence"
    parser.add_argument("--config", metavar="FILE", help=text)


def add_bench_data(parser: argparse._ActionsContainer) -> None:
    """Add --data, the folder with the files of benchmarks."""
    text = "data folder, with one subfolder per benchmark (see `unbag data`)"
    parser.add_argument("--data", type=Path, metavar="DIR", help=text)


def add_seed(parser: argparse._ActionsContainer, what: str) -> None:
    """Add --seed, the random seed of `what`."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=f"random seed {what}")


def add_batch_size(parser: argparse._ActionsContainer, what: str = "inputs") -> None:
    """Add --batch-size."""
    text = f"batch size ({what} per forward pass)"
    parser.add_argument("--batch-size", type=positive, default=256, metavar="N", help=text)


def add_server(parser: argparse._ActionsContainer) -> None:
    """Add limits on the requests to a model server."""
    text = "concurrent requests to a model server"
    parser.add_argument("--concurrency", type=positive, default=8, metavar="N", help=text)
    text = "maximum number of requests to a model server, per worker (default: no limit)"
    parser.add_argument("--max-requests", type=positive, metavar="N", help=text)


def add_device(parser: argparse._ActionsContainer) -> None:
    """Add --device."""
    text = "device: auto, cpu, cuda, cuda:1 or mps"
    parser.add_argument("--device", default="auto", metavar="D", help=text)


def add_dtype(parser: argparse._ActionsContainer) -> None:
    """Add --dtype."""
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=["auto", "float32", "bfloat16", "float16"],
        help="precision of the model; auto is float32, or bfloat16 for chat models on a GPU",
    )


def add_cache(parser: argparse._ActionsContainer) -> None:
    """Add --cache and --no-cache."""
    text = "cache folder for embeddings (default: $XDG_CACHE_HOME/unbag or ~/.cache/unbag)"
    parser.add_argument("--cache", type=Path, metavar="DIR", help=text)
    parser.add_argument("--no-cache", action="store_true", help="do not cache embeddings on disk")


def cache_of(options: argparse.Namespace) -> Path | None:
    """Return the cache folder that the options of `add_cache` select; None for no cache."""
    from unbag.runs.cache import default_cache

    if options.no_cache:
        return None
    return options.cache if options.cache is not None else default_cache()


def check_dual_encoder(model: Model, message: str) -> DualEncoder:
    """Return the model if it is a dual encoder; otherwise raise UnbagError with this message."""
    from unbag.models.loading import as_dual_encoder

    return as_dual_encoder(model, message, hint="name another with --model")
