"""`unbag list`: every registered name of a kind, with a line about it."""

from __future__ import annotations

import argparse
import sys

from unbag.cli.options import add_command
from unbag.registry import PLURALS, Commands, Kind, Name, find, names

_ABOUT = "List registered names: those of unbag and those of installed plug-ins."

_EXAMPLES = """\
examples:
  unbag list               everything, by kind
  unbag list benchmarks
  unbag list recipes       for `unbag train --recipe`
  unbag list readouts      for `unbag train --readout`
"""


def add(commands: Commands) -> None:
    """The kind."""
    text = "list benchmarks, models, recipes, probes and other names"
    parser = add_command(commands, "list", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = f"{', '.join(PLURALS)} (default: all)"
    parser.add_argument("kind", nargs="?", choices=list(PLURALS), metavar="KIND", help=text)


def start(options: argparse.Namespace) -> int:
    """Print the names of a kind, or of all."""
    if options.kind:
        _print_names(options.kind, indent="")
        return 0
    for at, kinds in enumerate(PLURALS):
        print(f"{'' if at == 0 else chr(10)}{kinds}")
        _print_names(kinds, indent="  ")
        # Benchmarks and edits are slow to import, so what is known is shown already.
        sys.stdout.flush()
    return 0


def _print_names(kinds: str, *, indent: str) -> None:
    kind = PLURALS[kinds]
    found = names(kind)
    if not found:
        print(f"{indent}no {kinds}; a plug-in can add them (entry point group unbag.{kinds})")
        return
    width = max(map(len, found))
    for name, entry in found.items():
        origin = "" if entry.origin == "unbag" else f" [{entry.origin}]"
        print(f"{indent}{name:<{width}}  {_about(kind, entry)}{origin}")


def _about(kind: Kind, entry: Name) -> str:
    """Benchmarks and edits say it themselves."""
    if kind == "benchmark":
        from unbag.types import Benchmark

        benchmark = find(kind, entry.name)
        return benchmark.about if isinstance(benchmark, Benchmark) else ""
    if kind == "edit":
        from unbag.edits import kinds

        edit = find(kind, entry.name)
        if not isinstance(edit, kinds.Kind):
            return ""
        what = "positive" if edit.is_positive else "negative"
        return f"[{what}{'' if edit.is_default else ', off by default'}] {edit.about}"
    return entry.about
