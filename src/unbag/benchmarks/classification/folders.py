"""Classification from class folders, <root>/<class>/<image>, with one or several prompts per class.

The root may also hold classnames.txt (one name per line, in the sorted order of the folders, or
folder, tab, name) and templates.txt (one prompt per line, with {} for the name). Without them the
prompts and names of published numbers are used, from classes.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from unbag.benchmarks.files import Folder
from unbag.errors import UnbagError
from unbag.metrics.choice import check_names
from unbag.types import BoolArray, Ensemble, Item

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm"})
TEMPLATES = ("a photo of a {}.",)
"""Used if there is no templates.txt."""


@dataclass(frozen=True)
class ClassFolder:
    """Loader of a dataset in class folders."""

    name: str
    templates: tuple[str, ...] = TEMPLATES
    parts: tuple[str, ...] = ("val", "test")
    """Possible folders of the split; if none exists, the class folders are in the root itself."""
    is_training: bool = False
    """One of `parts` must then exist, because the root could be the test split."""
    names: tuple[tuple[str, str], ...] = ()
    """(folder, class name) where the two differ; classnames.txt takes precedence."""
    codes: str = ""
    """Folder names of this pattern are codes, not names: classnames.txt is then required."""
    may_repeat: bool = False
    """Whether two classes may share a name, as in ImageNet's published names. They always tie."""

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load one item per image, with all classes as captions."""
        folder = Folder.of(root, self.name)
        present = [folder.root / part for part in self.parts if (folder.root / part).is_dir()]
        if self.is_training and not present:
            raise UnbagError(
                f"{folder.root} has no folder {' or '.join(self.parts)}",
                expected="the training split, in class folders as the test split",
                hint="lay it out beside the test split; a linear probe is fitted to it",
            )
        top = present[0] if present else folder.root
        classes = _folders(top)
        if len(classes) < 2:
            raise UnbagError(
                f"{top} of {self.name} has {len(classes)} class folders",
                expected="one folder of images for each class",
                hint="lay the images out as <root>/<class name>/<image>",
            )
        names = _names(folder, classes, dict(self.names), self.codes)
        if not self.may_repeat:
            check_names(names)
        captions = class_captions(folder, names, self.templates)
        items: list[Item] = []
        for label, (place, name) in enumerate(zip(classes, names, strict=True)):
            truth = class_truth(label, len(classes))
            tag = name if names.count(name) == 1 else f"{name} ({place})"
            for image in _images(top / place):
                items.append(
                    Item(
                        id=f"{place}/{image}",
                        images=(folder.image(top / place, image, f"{place}/{image}"),),
                        captions=captions,
                        truth=truth,
                        tags={"class": tag},
                    )
                )
        return items


def split_folder(root: Path, parts: Sequence[str]) -> list[str]:
    """The sorted class folders of the first part that exists, or of the root."""
    top = next((root / part for part in parts if (root / part).is_dir()), root)
    return _folders(top)


def _folders(top: Path) -> list[str]:
    return sorted(
        place.name
        for place in (top.iterdir() if top.is_dir() else ())
        if place.is_dir() and not place.name.startswith(".")
    )


def _images(place: Path) -> list[str]:
    images = sorted(path.name for path in place.iterdir() if path.suffix.lower() in ENDINGS)
    if not images:
        raise UnbagError(
            f"the class folder {place} has no images",
            expected=f"files ending in {', '.join(sorted(ENDINGS))}",
            hint="fill or remove the folder",
        )
    return images


def _names(
    folder: Folder, classes: Sequence[str], usual: Mapping[str, str], codes: str
) -> list[str]:
    """The name of each class: from classnames.txt, else the usual name, else the folder's name."""
    if not folder.has("classnames.txt"):
        unnamed = [place for place in classes if place not in usual]
        if codes and unnamed and all(re.fullmatch(codes, place) for place in unnamed):
            raise UnbagError(
                f"the class folders of {folder.benchmark} are named by codes such as {classes[0]}",
                expected="classnames.txt with a name for each, which the captions are made of",
                hint="write it: one name a line in their sorted order, or folder<tab>name",
            )
        names = [usual.get(place, place.replace("_", " ")) for place in classes]
    else:
        lines = nonempty_lines(folder, "classnames.txt")
        by_folder = _by_folder(lines)
        names = [by_folder[c] for c in classes if c in by_folder] if by_folder else lines
        if len(names) != len(classes):
            raise UnbagError(
                f"classnames.txt of {folder.benchmark}: {len(names)} names, {len(classes)} folders",
                expected="a line for each class folder, in their sorted order, or folder<tab>name",
                hint="complete the file, or remove it to use the names of the folders",
            )
    return names


def _by_folder(lines: Sequence[str]) -> Mapping[str, str]:
    """Names by folder, if every line holds both; else empty."""
    pairs = [line.partition("\t") for line in lines]
    if not all(tab for _, tab, _ in pairs):
        return {}
    return {place.strip(): name.strip() for place, _, name in pairs}


def nonempty_lines(folder: Folder, file: str) -> list[str]:
    """The lines of a file that are not empty."""
    return [line.strip() for line in folder.text(file).splitlines() if line.strip()]


def class_captions(
    folder: Folder, names: Sequence[str], usual: tuple[str, ...]
) -> tuple[Ensemble, ...]:
    """Each class name in the prompts of templates.txt, or in the usual ones without that file."""
    templates = usual
    if folder.has("templates.txt"):
        templates = tuple(nonempty_lines(folder, "templates.txt"))
    invalid = [template for template in templates if "{}" not in template]
    if invalid or not templates:
        content = repr(invalid[0]) if invalid else "nothing"
        raise UnbagError(
            f"templates.txt of {folder.benchmark} holds {content}",
            expected="prompts with {} for the class name, one a line",
            hint="write it as 'a photo of a {}.'",
        )
    return tuple(
        Ensemble(name, tuple(prompt.replace("{}", name) for prompt in templates)) for name in names
    )


def class_truth(label: int, classes: int) -> BoolArray:
    """The truth matrix that all images of a class share."""
    truth: BoolArray = np.zeros((1, classes), dtype=np.bool_)
    truth[0, label] = True
    truth.flags.writeable = False
    return truth


def usual_templates(name: str) -> tuple[str, ...]:
    """The prompts of a dataset's published numbers."""
    return tuple(_classes()[name]["templates"])


def usual_names(name: str) -> tuple[str, ...]:
    """The class names of a dataset, in the order of their labels."""
    return tuple(_classes()[name]["names"])


def names_by_folder(name: str) -> tuple[tuple[str, str], ...]:
    """(folder, class name) for the classes of a dataset whose folder has another name."""
    return tuple(_classes()[name].get("names", {}).items())


@cache
def _classes() -> Mapping[str, Any]:
    path = Path(__file__).parent / "classes.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
