"""`unbag list`: print registered names with descriptions."""

from __future__ import annotations

import argparse
import sys

from unbag.cli.options import add_command
from unbag.registry import PLURALS, Commands

_ABOUT = "List the registered names of unbag and of installed plug-ins, with descriptions."

_EXAMPLES = """\
examples:
  unbag list               all names, by kind
  unbag list benchmarks
  unbag list recipes       for `unbag train --recipe`
  unbag list readouts      for `unbag train --readout`
"""


def add(commands: Commands) -> None:
    """Add the option: the kind of names."""
    text = "list benchmarks, models, recipes, probes and other names"
    parser = add_command(commands, "list", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = f"{', '.join(PLURALS)} (default: all)"
    parser.add_argument("kind", nargs="?", choices=list(PLURALS), metavar="KIND", help=text)


def start(options: argparse.Namespace) -> int:
    """Print the names of one kind, or of all."""
    if options.kind:
        _print_names(options.kind, indent="")
        return 0
    for at, kinds in enumerate(PLURALS):
        print(f"{'' if at == 0 else chr(10)}{kinds}")
        _print_names(kinds, indent="  ")
        # Benchmarks and edits are slow to import, so print each kind at once.
        sys.stdout.flush()
    return 0


def _print_names(kinds: str, *, indent: str) -> None:
    from unbag.api.names import listing

    table = listing(PLURALS[kinds])
    if not table:
        print(f"{indent}no {kinds}; a plug-in can add them (entry point group unbag.{kinds})")
        return
    print("\n".join(f"{indent}{line}" for line in repr(table).splitlines()))
