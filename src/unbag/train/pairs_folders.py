"""A folder for each class comes in; its pictures, with a caption made of the class, go out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unbag.errors import UserError
from unbag.train.packed import Row

FOLDERS = "folders"
ABOUT = "class folders"
TEMPLATE = "a photo of a {}."
"""The first of CLIP's templates."""
_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"})


def folder_rows(root: Path) -> Iterator[Row]:
    """One row a picture, in the order of names; the name of a folder is that of its class."""
    classes = sorted(one for one in root.iterdir() if one.is_dir() and one.name[0] != ".")
    if not classes:
        raise UserError(
            f"{root} holds neither shards nor a folder for each class",
            expected="files that end in .tar, or folders named after classes",
            way_out="name the file of captions itself",
        )
    for one in classes:
        caption = TEMPLATE.format(one.name.replace("_", " "))
        names = sorted(p.name for p in one.iterdir() if p.suffix.lower() in _PICTURES)
        if not names:
            raise UserError(
                f"the class folder {one} holds no pictures",
                expected=f"files that end in {', '.join(sorted(_PICTURES))}",
                way_out="fill it, or remove it",
            )
        for name in names:
            yield Row(f"{one.name}/{name}", f"{one.name}/{name}", (caption,))
