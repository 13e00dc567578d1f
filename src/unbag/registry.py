"""From a name to the thing it names: our own, a plug-in's (entry point) or package.module:NAME."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from unbag.errors import UserError, unknown_name
from unbag.registered import OURS, Kind
from unbag.registered_about import ABOUT

__all__ = ["ABOUT", "PLURALS", "Kind", "Name", "find", "names"]

PLURALS: Mapping[str, Kind] = {
    "benchmarks": "benchmark",
    "models": "model",
    "scorers": "scorer",
    "edits": "edit",
    "filters": "filter",
    "losses": "loss",
    "recipes": "recipe",
    "readouts": "readout",
    "probes": "probe",
    "taggers": "tagger",
}
"""As `unbag list` and the entry point groups (unbag.benchmarks ...) write the kinds."""


@dataclass(frozen=True)
class Name:
    """A registered name and where it comes from."""

    name: str
    target: str
    """module:attribute"""
    origin: str
    """"unbag", or the distribution of the plug-in."""


def names(kind: Kind) -> dict[str, Name]:
    """Every registered name of a kind, ours first; nothing is imported."""
    found = {name: Name(name, to, "unbag") for name, to in OURS.get(kind, {}).items()}
    for point in _plugins(kind):
        origin = point.dist.name if point.dist else "a plug-in"
        if point.name in found:
            raise UserError(
                f"{origin} registers the {kind} {point.name!r} of {found[point.name].origin} again",
                expected="a name nobody else uses",
                way_out=f"rename it in the entry points of {origin}, or uninstall that package",
            )
        found[point.name] = Name(point.name, point.value, origin)
    return found


def find(kind: Kind, name: str) -> object:
    """The thing called `name`, or the attribute that package.module:NAME points at."""
    known = names(kind)
    if name in known:
        return _import(known[name].target, kind, name)
    module, colon, attribute = name.partition(":")
    if colon and module and attribute:
        return _import(name, kind, name)
    raise unknown_name(kind, name, known)


@cache
def _plugins(kind: Kind) -> tuple[EntryPoint, ...]:
    plural = next(many for many, one in PLURALS.items() if one == kind)
    return tuple(entry_points(group=f"unbag.{plural}"))


def _import(target: str, kind: Kind, name: str) -> object:
    module_name, _, path = target.partition(":")
    try:
        thing: object = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise UserError(
                f"the {kind} {name!r} needs the package {error.name!r}, which is not installed",
                way_out=f"install it, or the extra of unbag that brings it ({error})",
            ) from error
        raise unknown_name(kind, name, names(kind)) from error
    for attribute in path.split("."):
        if not hasattr(thing, attribute):
            raise UserError(
                f"the {kind} {name!r}: module {module_name!r} has no {attribute!r}",
                expected=f"one of its public names: {', '.join(_public(thing))}",
            )
        thing = getattr(thing, attribute)
    return thing


def _public(thing: object) -> list[str]:
    return sorted(n for n in vars(thing) if not n.startswith("_"))[:12]
