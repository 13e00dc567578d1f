"""A joined model comes in; a folder with its connector and what else was trained goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.models.joined_files import read_joined, write_joined
from unbag.train.clip_tokens import ORDINARY

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.joined import Joined

JOINED = "joined"
_TRIED = 8
"""Captions of a table that an export is tried on."""


def write_and_read(encoder: Joined, folder: Path) -> Joined:
    """Written, and the same again from the folder."""
    folder.mkdir()
    write_joined(encoder, folder)
    return read_joined(folder, name=encoder.name, device=encoder.device)


def captions_of(encoder: Joined) -> Sequence[str]:
    """Captions that it can read: a table of features has only its own."""
    rows: Mapping[str, int] | None = getattr(encoder.text.reads, "row_of", None)
    return ORDINARY if rows is None else list(rows)[:_TRIED]


def said_of_joined(encoder: Joined) -> str:
    """For the card: what the folder holds, and what must be found beside it."""
    changed = encoder.changed
    inside = _trained(f" and of {encoder.origin.picture}", changed.picture)
    inside += _trained(f" and of {encoder.origin.text}", changed.text)
    origin = encoder.origin
    return (
        f"The folder holds the connector{inside}. It needs both parts beside it, by the names in "
        f"joined.json: `{origin.picture}` ({origin.picture_fingerprint}) and `{origin.text}` "
        f"({origin.text_fingerprint}); others are refused."
    )


def _trained(what: str, weights: Mapping[str, Tensor]) -> str:
    numbers = sum(weight.numel() for weight in weights.values())
    return f"{what} {numbers:,} numbers that were trained" if weights else ""
