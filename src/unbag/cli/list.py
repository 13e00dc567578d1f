"""`unbag list`: every name of a kind, with a line about it."""

from __future__ import annotations

from unbag.registry import PLURALS, Kind, Name, find, names
from unbag.types import Benchmark


def show_names(kinds: str) -> int:
    """Print the names of a kind."""
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
    if kind == "benchmark":
        thing = find(kind, entry.name)
        return thing.about if isinstance(thing, Benchmark) else ""
    if kind == "edit":
        return _about_edit(find(kind, entry.name))
    return entry.about


def _about_edit(thing: object) -> str:
    from unbag.edits.kinds import Kind as Edit

    if not isinstance(thing, Edit):
        return ""
    what = "positive" if thing.keeps_meaning else "negative"
    return f"[{what}{'' if thing.is_default else ', off by default'}] {thing.about}"
