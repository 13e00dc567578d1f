"""The commands of `unbag`, their parser, and how errors are printed.

Each command is a module with `add`, which declares its options, and `start`, which runs it. All
modules are imported for every command, so slow imports are inside the functions that need them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from unbag.cli import (
    completion,
    data,
    demo,
    diagnose,
    edit,
    export,
    merge,
    nearest,
    report,
    run,
    score,
    train,
    verify,
)
from unbag.cli import list as list_names
from unbag.cli.config import without_config
from unbag.cli.options import Parser
from unbag.errors import UnbagError
from unbag.registry import Command, load_command, plugin_commands
from unbag.version import __version__

COMMANDS: Mapping[str, Command] = {
    "demo": demo,
    "run": run,
    "score": score,
    "verify": verify,
    "diagnose": diagnose,
    "edit": edit,
    "nearest": nearest,
    "train": train,
    "export": export,
    "merge": merge,
    "report": report,
    "list": list_names,
    "data": data,
    "completion": completion,
}
"""In the order of `unbag --help`; commands of plug-ins follow."""

_ABOUT = """\
Measure, explain and repair bag-of-words behaviour in vision-language models: models that know
which words fit an image, but not how the words belong together.
"""

_FIRST = """\
first steps:
  unbag demo                                      evaluate the shipped models, without downloads
  unbag score IMAGE "a caption" "another" --model tiny:base
  unbag list                                      all models, benchmarks, recipes, probes ...
  unbag run --model tiny:base --bench world --out runs/first
  unbag diagnose --model tiny:base                explain the scores: one sentence per probe
  unbag train --model tiny:base --recipe hard_positive --pairs world --out runs/tiny-hp
  unbag lab                                       published claims, tested on a synthetic world

`unbag COMMAND --help` shows the options of a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    try:
        parser = make_parser(typed[:1])
        options = parser.parse_args(typed)
        if words := getattr(options, "config_words", ()):
            typed = without_config(typed, words)
        options.typed = shlex.join(["unbag", *typed])
        if options.command is None:
            parser.print_help()
            return 0
        if "" not in sys.path:
            # So that a file in the current folder works as package.module:NAME.
            sys.path.append("")
        with _plain_warnings():
            command = COMMANDS.get(options.command) or load_command(options.command)
            return command.start(options)
    except UnbagError as error:
        print(f"unbag: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of the pipe (head, less) has exited.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("unbag: stopped", file=sys.stderr)
        return 130


def make_parser(called: Collection[str]) -> argparse.ArgumentParser:
    """Make the parser of all commands; of plug-in commands only the one called is imported."""
    parser: argparse.ArgumentParser = Parser(prog="unbag", description=_ABOUT, epilog=_FIRST)
    parser.add_argument("--version", action="version", version=f"unbag {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS.values():
        command.add(commands)
    for name, text in plugin_commands().items():
        if name in commands.choices:
            raise UnbagError(
                f"a plug-in registers the command {name!r}, which unbag has itself ({text})",
                expected="another name in its entry points (group unbag.commands)",
            )
        if name in called:
            load_command(name).add(commands)
        else:
            commands.add_parser(name, help=text)
    return parser


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings without the line of code that raised them."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        print(f"unbag: {message}", file=sys.stderr if file is None else file)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
