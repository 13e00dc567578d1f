"""A photo model comes in; one file with its heads, and the parts that were trained, goes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from unbag.models import photo
from unbag.models.photo_parts import caption_part, parts_said, picture_part

if TYPE_CHECKING:
    from unbag.models.photo import Photo

PHOTO = "photo.safetensors"
_PARTS = {"picture": "EfficientNet-Lite0", "caption": "MiniLM"}


def trained_parts(encoder: Photo) -> tuple[str, ...]:
    """Towers whose part is no longer as its package has it."""
    towers = encoder.towers
    found = []
    for name, now, first in (
        ("picture", towers.picture.part, picture_part()),
        ("caption", towers.caption.part, caption_part()[0]),
    ):
        before = first.state_dict()
        if any(not torch.equal(w.cpu(), before[key]) for key, w in now.state_dict().items()):
            found.append(name)
    return tuple(found)


def write_photo(encoder: Photo, path: Path) -> None:
    """In full precision; a part as it is installed is left out."""
    photo.write(encoder.towers, path, parts=trained_parts(encoder), dtype=torch.float32)


def read_photo(path: Path, encoder: Photo) -> Photo:
    """The same again, from the file."""
    return photo.read(path, name=encoder.name, device=encoder.device)


def said_of_parts(encoder: Photo) -> str:
    """For the card: what the file holds, and what must be installed beside it."""
    trained = trained_parts(encoder)
    inside = "".join(f", {_PARTS[one]} as it was trained" for one in trained)
    beside = [name for one, name in _PARTS.items() if one not in trained]
    rest = (
        f" {' and '.join(beside)} {'is' if len(beside) == 1 else 'are'} not in it."
        if beside
        else ""
    )
    return f"The file holds two heads{inside}.{rest} It needs unbag[photo]: {parts_said()}."
