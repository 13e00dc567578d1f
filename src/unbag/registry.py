"""Registered names of benchmarks, models, edits ...: unbag's own and those of plug-ins.

A name points at "module:attribute", which is imported only when it is looked up. unbag's own names
are in names.toml; a plug-in declares the same in its entry points, in the groups of PLURALS.
Commands and folders of weights of plug-ins are found here too.
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
"""As `unbag list` and the entry point groups (unbag.benchmarks ...) write the kinds."""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add_subparsers` gives, to which a command adds itself."""

_STUDY = {"lab": "test published claims on the built-in world"}
"""Commands of our own that are installed apart, listed whether they are there or not."""


@dataclass(frozen=True)
class Name:
    """A registered name and where it comes from."""

    name: str
    target: str
    """module:attribute"""
    origin: str
    """"unbag", or the distribution of the plug-in."""
    about: str = ""
    """The line of `unbag list`; empty where the thing itself has one, and for plug-ins."""


def names(kind: Kind) -> dict[str, Name]:
    """Every registered name of a kind, ours first; nothing is imported."""
    ours = _ours().get(kind, {})
    found = {name: Name(name, target, "unbag", *about) for name, (target, *about) in ours.items()}
    for point in _plugins(kind):
        origin = _origin(point)
        if point.name in found:
            raise _registered_twice(point, kind, found[point.name].origin)
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


class Command(Protocol):
    """A module that adds a command to the command line."""

    def add(self, commands: Commands) -> object:
        """Declare the command and its options."""
        ...

    def start(self, options: argparse.Namespace) -> int:
        """Run it; gives the exit code."""
        ...


@cache
def plugin_commands() -> dict[str, str]:
    """Commands of the entry-point group `unbag.commands` with one line about each."""
    found = dict(_STUDY)
    origins: dict[str, str] = {}
    for point in entry_points(group="unbag.commands"):
        origin = _origin(point)
        if point.name in origins:
            raise _registered_twice(point, "command", origins[point.name])
        origins[point.name] = origin
        about = point.dist.metadata["Summary"] if point.dist else None
        found.setdefault(point.name, about or f"from {origin}")
    return found


def load_command(name: str) -> Command:
    """Import the module of a plug-in command; only the one that is called is imported."""
    for point in entry_points(group="unbag.commands", name=name):
        return _command_of(point)
    raise UnbagError(
        f"`unbag {name}` is the command of a distribution that is not installed: unbag-{name}",
        hint=f"in a clone of unbag: pip install ./{name}",
    )


def weight_folders() -> tuple[Path, ...]:
    """Where shipped weights lie: our own, and packages of the entry-point group `unbag.weights`."""
    folders = [Path(__file__).parent / "models" / "weights"]
    for point in entry_points(group="unbag.weights"):
        try:
            spec = find_spec(point.value)
        except ImportError:
            spec = None
        if spec is None or not spec.submodule_search_locations:
            warn(
                f"{_origin(point)} declares weights in {point.value}, and there is no such "
                "package: install it again; its weights are left out",
                stacklevel=2,
            )
            continue
        folders += [Path(place) for place in spec.submodule_search_locations]
    return tuple(folders)


def has_study() -> bool:
    """Whether unbag-lab is installed, which ships more weights."""
    return any(point.name in _STUDY for point in entry_points(group="unbag.weights"))


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "a plug-in"


def _registered_twice(point: EntryPoint, kind: str, first: str) -> UnbagError:
    origin = _origin(point)
    return UnbagError(
        f"{origin} registers the {kind} {point.name!r} of {first} again",
        expected="a name nobody else uses",
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
    for needed in ("add", "start"):
        if not callable(getattr(module, needed, None)):
            raise UnbagError(
                f"the command {point.name!r} of {_origin(point)}: the module {point.value} has no "
                f"{needed}()",
                expected="add(commands), which declares it, and start(options), which runs it",
            )
    command: Command = module
    return command


def _import(target: str, kind: Kind, name: str) -> object:
    module_name, _, path = target.partition(":")
    try:
        thing: object = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise UnbagError(
                f"the {kind} {name!r} needs the package {error.name!r}, which is not installed",
                hint=f"install it, or the extra of unbag that brings it ({error})",
            ) from error
        raise unknown_name(kind, name, names(kind)) from error
    for attribute in path.split("."):
        if not hasattr(thing, attribute):
            public = sorted(n for n in vars(thing) if not n.startswith("_"))[:12]
            raise UnbagError(
                f"the {kind} {name!r}: module {module_name!r} has no {attribute!r}",
                expected=f"one of its public names: {', '.join(public)}",
            )
        thing = getattr(thing, attribute)
    return thing


@cache
def _ours() -> Mapping[str, Mapping[str, list[str]]]:
    """The tables of names.toml, by kind."""
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


@cache
def _plugins(kind: Kind) -> tuple[EntryPoint, ...]:
    plural = next(many for many, one in PLURALS.items() if one == kind)
    return tuple(entry_points(group=f"unbag.{plural}"))
