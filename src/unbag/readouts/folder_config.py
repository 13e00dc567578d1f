"""The folder of a trained model comes in; what its config.json says goes out, or what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unbag.errors import UserError, said_by

CONFIG = "config.json"
_LAST = "last.safetensors"
"""What training goes on from."""


def read_config(folder: Path, *, kind: str, refused: Callable[[str], UserError]) -> dict[str, Any]:
    """Of a folder of this kind; `refused` makes the error for any other, from what is wrong."""
    if not folder.is_dir():
        raise refused("it is a file" if folder.exists() else "there is no such folder")
    file = folder / CONFIG
    if not file.is_file():
        if (folder / _LAST).exists():
            raise UserError(
                f"{folder} holds a training that was stopped before its end",
                expected=f"a folder with {CONFIG}, which the last step writes",
                way_out="give the same `unbag train` command again: it goes on",
            )
        raise refused(f"it has no {CONFIG}")
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise refused(f"its {CONFIG} cannot be read: {said_by(error)}") from error
    found = said.get("kind") if isinstance(said, dict) else None
    if found is None:
        raise refused(f"its {CONFIG} is of something else")
    if found != kind:
        raise refused(f"its {CONFIG} is of the kind {found!r}")
    return dict(said)


def wrong_config(error: Exception) -> str:
    """What is wrong with one that is of the right kind, for people."""
    if isinstance(error, KeyError):
        return f"its {CONFIG} has no {said_by(error)}"
    return f"its {CONFIG} is not as training writes it: {said_by(error)}"
