"""Registered names of benchmarks, models, edits and so on: built-in ones and those of plug-ins.

A name points at "module:attribute", which is imported only when it is looked up. Built-in names are
in names.toml; a plug-in declares its names as entry points in the groups of PLURALS. This module
also finds the commands and the folders of weights of plug-ins.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias
from warnings import warn

from unbag.errors import UnbagError, unknown_name

if TYPE_CHECKING:
    import argparse


__all__ = [
    "PLURALS",
    "Command",
    "Commands",
    "Kind",
    "Name",
    "find",
    "has_study",
    "load_command",
    "names",
    "plugin_commands",
    "weight_folders",
]


Kind = Literal[
    "benchmark",
    "model",
    "scorer",
    "edit",
    "filter",
    "loss",
    "recipe",
    "readout",
    "probe",
    "tagger",
]

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
"""Kinds by their plural, as in `unbag list` and in entry-point groups (unbag.benchmarks ...)."""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The object that `add_subparsers` returns; a command adds its parser to it."""

_STUDY = {"lab": "test published claims on the built-in world"}
"""Commands of a separate distribution of this project, listed even if it is not installed."""


@dataclass(frozen=True)
class Name:
    """A registered name and where it comes from."""

    name: str
    target: str
    """module:attribute"""
    origin: str
    """"unbag", or the distribution of the plug-in."""
    about: str = ""
    """The line in `unbag list`; empty for plug-ins and where the object has its own."""


def names(kind: Kind) -> dict[str, Name]:
    """Return all registered names of a kind, built-in ones first, without importing anything."""
    own = _builtin_names().get(kind, {})
    entries = {name: Name(name, target, "unbag", *about) for name, (target, *about) in own.items()}
    for point in _plugins(kind):
        origin = _origin(point)
        if point.name in entries:
            raise _registered_twice(point, kind, entries[point.name].origin)
        entries[point.name] = Name(point.name, point.value, origin)
    return entries


def find(kind: Kind, name: str) -> object:
    """Return the object registered as `name`, or the attribute at package.module:NAME."""
    known = names(kind)
    if name in known:
        return _import(known[name].target, kind, name)
    module, colon, attribute = name.partition(":")
    if colon and module and attribute:
        return _import(name, kind, name)
    raise unknown_name(kind, name, known)


class Command(Protocol):
    """A module that adds a command to the command line."""

    def add(self, commands: Commands) -> object:
        """Add the command and its options to the parser."""
        ...

    def start(self, options: argparse.Namespace) -> int:
        """Run the command and return its exit code."""
        ...


@cache
def plugin_commands() -> dict[str, str]:
    """Return the commands of the entry-point group `unbag.commands`, with a line about each."""
    commands = dict(_STUDY)
    origins: dict[str, str] = {}
    for point in entry_points(group="unbag.commands"):
        origin = _origin(point)
        if point.name in origins:
            raise _registered_twice(point, "command", origins[point.name])
        origins[point.name] = origin
        about = point.dist.metadata["Summary"] if point.dist else None
        commands.setdefault(point.name, about or f"from {origin}")
    return commands


def load_command(name: str) -> Command:
    """Import and return the module of a plug-in command; no other command is imported."""
    for point in entry_points(group="unbag.commands", name=name):
        return _command_of(point)
    raise UnbagError(
        f"`unbag {name}` needs the distribution unbag-{name}, which is not installed",
        hint=f"in a clone of unbag: pip install ./{name}",
    )


def weight_folders() -> tuple[Path, ...]:
    """Return the folders of shipped weights: built-in, and of the group `unbag.weights`."""
    folders = [Path(__file__).parent / "models" / "weights"]
    for point in entry_points(group="unbag.weights"):
        try:
            spec = find_spec(point.value)
        except ImportError:
            spec = None
        if spec is None or not spec.submodule_search_locations:
            warn(
                f"{_origin(point)} declares weights in the package {point.value}, which does not "
                f"exist; its weights are skipped. Reinstall {_origin(point)}",
                stacklevel=2,
            )
            continue
        folders += [Path(path) for path in spec.submodule_search_locations]
    return tuple(folders)


def has_study() -> bool:
    """Return whether unbag-lab, which ships more weights, is installed."""
    return any(point.name in _STUDY for point in entry_points(group="unbag.weights"))


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "a plug-in"


def _registered_twice(point: EntryPoint, kind: str, first: str) -> UnbagError:
    origin = _origin(point)
    return UnbagError(
        f"{origin} registers the {kind} {point.name!r}, which {first} already registers",
        expected="a name that no other package uses",
        hint=f"rename it in the entry points of {origin}, or uninstall that package",
    )


def _command_of(point: EntryPoint) -> Command:
    try:
        module = import_module(point.value)
    except ImportError as error:
        raise UnbagError(
            f"the command {point.name!r} of {_origin(point)} cannot be imported: {error}",
            hint=f"install {_origin(point)} again",
        ) from error
    for function in ("add", "start"):
        if not callable(getattr(module, function, None)):
            raise UnbagError(
                f"the command {point.name!r} of {_origin(point)}: the module {point.value} has no "
                f"{function}()",
                expected="add(commands), which declares it, and start(options), which runs it",
            )
    command: Command = module
    return command


def _import(target: str, kind: Kind, name: str) -> object:
    module_name, _, path = target.partition(":")
    try:
        target_object: object = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise UnbagError(
                f"the {kind} {name!r} needs the package {error.name!r}, which is not installed",
                hint=f"install it, or the extra of unbag that brings it ({error})",
            ) from error
        raise unknown_name(kind, name, names(kind)) from error
    for attribute in path.split("."):
        if not hasattr(target_object, attribute):
            public = sorted(key for key in vars(target_object) if not key.startswith("_"))[:12]
            raise UnbagError(
                f"the {kind} {name!r}: module {module_name!r} has no {attribute!r}",
                expected=f"one of its public names: {', '.join(public)}",
            )
        target_object = getattr(target_object, attribute)
    return target_object


@cache
def _builtin_names() -> Mapping[str, Mapping[str, list[str]]]:
    """Return the tables of names.toml by kind."""
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


@cache
def _plugins(kind: Kind) -> tuple[EntryPoint, ...]:
    plural = next(group for group, singular in PLURALS.items() if singular == kind)
    return tuple(entry_points(group=f"unbag.{plural}"))
