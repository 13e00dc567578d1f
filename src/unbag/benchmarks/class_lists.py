"""A reader of a data set that lists its pictures comes in; a loader of its items goes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from unbag.benchmarks.classes import lines_of, one_of, templates_of
from unbag.benchmarks.files import Folder
from unbag.errors import UserError
from unbag.metrics.classify import check_names
from unbag.types import Ensemble, Item, Picture


class Labelled(NamedTuple):
    """A picture, what to call it, and the number of its class."""

    id: str
    picture: Picture
    label: int


@dataclass(frozen=True)
class Classes:
    """Everything a data set for classification says."""

    names: tuple[str, ...]
    pictures: Sequence[Labelled]


@dataclass(frozen=True)
class ClassList:
    """Loads a data set through its own reader; call it with the folder.

    classnames.txt (one name a line, in the order of the classes) and templates.txt beside the
    files are used where they are there.
    """

    name: str
    read: Callable[[Folder], Classes]
    templates: tuple[str, ...]

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """One item a picture, with all classes as captions."""
        folder = Folder.of(root, self.name)
        found = self.read(folder)
        names = _names(folder, found.names)
        templates = templates_of(folder, self.templates)
        captions = tuple(
            Ensemble(name, tuple(template.replace("{}", name) for template in templates))
            for name in names
        )
        truths = [one_of(at, len(names)) for at in range(len(names))]
        return [
            Item(
                id=name,
                pictures=(picture,),
                captions=captions,
                truth=truths[label],
                tags={"class": names[label]},
            )
            for name, picture, label in found.pictures
        ]


def _names(folder: Folder, usual: tuple[str, ...]) -> list[str]:
    names = list(usual)
    if folder.has("classnames.txt"):
        names = lines_of(folder, "classnames.txt")
    if len(names) != len(usual):
        raise UserError(
            f"classnames.txt of {folder.benchmark}: {len(names)} names, {len(usual)} classes",
            expected="a line for each class, in their order",
            way_out="complete the file, or remove it to use the usual names",
        )
    check_names(names)
    return names


def checked(folder: Folder, file: str, names: Sequence[str], found: Sequence[Labelled]) -> Classes:
    """What was read, if it is anything."""
    if len(names) < 2 or not found:
        raise UserError(
            f"{file} of {folder.benchmark} gives {len(found)} pictures of {len(names)} classes",
            expected="pictures of at least two classes",
            way_out="check that the files are whole and lie where they belong",
        )
    return Classes(tuple(names), found)


def no_line(folder: Folder, file: str, line: str, expected: str) -> UserError:
    """The error for a line or entry that does not fit."""
    return UserError(
        f"{file} of {folder.benchmark}: {line!r}",
        expected=expected,
        way_out="check that it is the official file, whole",
    )
