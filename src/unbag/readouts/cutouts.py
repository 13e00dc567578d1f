"""A folder of pictures of single things comes in; the things, cut out, go out by name.

Dimensions: H rows and W columns of pixels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unbag.errors import UserError, said_by
from unbag.types import BoolArray, IntArray

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".png", ".webp", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
PLAIN = 24
"""Levels of a channel by which a pixel may differ from the background and still belong to it."""
_BORDER = 0.9
"""Share of the border that must be background."""
_LEAST = 0.01
"""Share of the picture that must be thing."""
_NUMBER = re.compile(r"[\s_\-]*\(?\d+\)?$")


@dataclass(frozen=True, eq=False)
class Cutout:
    """A thing without its background."""

    name: str
    """As a caption says it: "coffee cup"."""
    image: Image
    """RGBA, no larger than the thing."""


def read_cutouts(folder: Path) -> tuple[Cutout, ...]:
    """All things of a folder, in the order of their file names.

    A thing is called as its file, without numbers at the end: coffee_cup_2.png is a coffee cup.
    Where a picture is transparent around the thing, that is believed; else its background must be
    plain, of the colour that its border has.
    """
    found = tuple(cut_out(path) for path in pictures_in(folder, what="cut-outs"))
    names = sorted({one.name for one in found})
    if len(names) < 2:
        raise UserError(
            f"{folder} shows one sort of thing: {names[0]}",
            expected="two or more, since a composite shows two things",
            way_out="name each file as a caption should call the thing: cup.png, plate_1.png",
        )
    return found


def pictures_in(folder: Path, *, what: str) -> list[Path]:
    """Files with the ending of a picture, below the folder too."""
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in ENDINGS)
    if not paths:
        raise UserError(
            f"no pictures in {folder}",
            expected=f"a folder of {what}: {', '.join(ENDINGS)}",
            way_out="check the path",
        )
    return paths


def cut_out(path: Path) -> Cutout:
    """One thing; UserError where it cannot be told from its background."""
    from PIL import Image as Images
    from PIL import UnidentifiedImageError

    try:
        with Images.open(path) as opened:
            image = opened.convert("RGBA")
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise UserError(f"{path} is no picture that can be opened: {said_by(error)}") from error
    level_HW4 = np.array(image)
    if (level_HW4[..., 3] == 255).all():
        level_HW4[..., 3] = np.where(_is_thing(level_HW4[..., :3], path), 255, 0)
    is_there_HW = level_HW4[..., 3] > 127
    if is_there_HW.mean() < _LEAST:
        raise UserError(
            f"{path}: no thing is left once its background is taken away",
            expected=f"a thing that fills at least {_LEAST:.0%} of the picture",
        )
    row_N, column_N = np.nonzero(is_there_HW)
    box = (int(column_N.min()), int(row_N.min()), int(column_N.max()) + 1, int(row_N.max()) + 1)
    return Cutout(thing_name(path), Images.fromarray(level_HW4).crop(box))


def thing_name(path: Path) -> str:
    """The words of a file name without numbers at its end."""
    name = " ".join(_NUMBER.sub("", path.stem).replace("_", " ").replace("-", " ").lower().split())
    if not name:
        raise UserError(
            f"{path} has no name that a caption could say",
            expected="the name of the thing, such as cup.png or coffee_cup_2.png",
        )
    return name


def _is_thing(level_HW3: IntArray, path: Path) -> BoolArray:
    """Where the picture is not of the colour that its border has."""
    edge = (level_HW3[0], level_HW3[-1], level_HW3[:, 0], level_HW3[:, -1])
    border_N3 = np.concatenate(edge).astype(np.int64)
    colour_3 = np.median(border_N3, axis=0)
    if (np.abs(border_N3 - colour_3).max(axis=1) <= PLAIN).mean() < _BORDER:
        raise UserError(
            f"{path} has no plain background and is not transparent",
            expected=f"a border of one colour, or a PNG with an alpha channel; colours within "
            f"{PLAIN} of 255 levels count as one",
            way_out="cut the thing out with a picture editor and save it as RGBA PNG",
        )
    is_thing_HW: BoolArray = np.abs(level_HW3.astype(np.int64) - colour_3).max(axis=2) > PLAIN
    return is_thing_HW
