"""`unbag list`: every name of a kind, with a line about it."""

from __future__ import annotations

import argparse

from unbag.registry import PLURALS, Commands, Kind, Name, find, names


def add(commands: Commands) -> None:
    """The kind."""
    text = "names that can be used, ours and those of installed plug-ins"
    parser = commands.add_parser("list", help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument("kind", choices=list(PLURALS), metavar="KIND", help=", ".join(PLURALS))


def start(options: argparse.Namespace) -> int:
    """Print the names of a kind."""
    kinds: str = options.kind
    kind = PLURALS[kinds]
    found = names(kind)
    if not found:
        print(f"no {kinds} yet; a plug-in can add them (entry point group unbag.{kinds})")
        return 0
    width = max(map(len, found))
    for name, entry in found.items():
        origin = "" if entry.origin == "unbag" else f" [{entry.origin}]"
        print(f"{name:<{width}}  {_about(kind, entry)}{origin}")
    return 0


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
