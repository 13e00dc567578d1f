"""`unbag completion`: print a shell completion script."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from unbag.cli.options import add_command
from unbag.registry import Commands, Kind, names

_ABOUT = """\
Print a shell script that completes commands, options, and names of benchmarks, recipes, read-outs,
probes, edits and scorers.
"""

_EXAMPLES = """\
bash:
  unbag completion bash > ~/.local/share/bash-completion/completions/unbag
zsh, in a folder of $fpath:
  unbag completion zsh > ~/.zfunc/_unbag
fish:
  unbag completion fish > ~/.config/fish/completions/unbag.fish

Open a new shell afterwards. Repeat the command after an update of unbag or of a plug-in.
"""

_NAMES: Mapping[str, Kind] = {
    "bench": "benchmark",
    "composition": "benchmark",
    "recognition": "benchmark",
    "recipe": "recipe",
    "readout": "readout",
    "probes": "probe",
    "scorer": "scorer",
    "kinds": "edit",
}
"""Options whose values are registered names."""


def add(commands: Commands) -> None:
    """Add the option: the shell."""
    text = "print a completion script for bash, zsh or fish"
    parser = add_command(commands, "completion", text=text, about=_ABOUT, examples=_EXAMPLES)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def start(options: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from unbag.cli.main import make_parser

    parser = make_parser([point.name for point in entry_points(group="unbag.commands")])
    for command in _leaves(parser):
        for action in command._actions:
            if action.choices is None and action.dest in _NAMES:
                # For completion only: this parser is discarded, so other names stay valid.
                action.choices = sorted(names(_NAMES[action.dest]))
            if action.type is Path:
                folder = action.metavar == "DIR"
                action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for parser_ in action.choices.values():
                yield from _leaves(parser_)
