"""A diagnosis comes in; its page and its JSON go out into a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

from unbag.diagnosis.answers import Diagnosis
from unbag.diagnosis.as_json import KIND, to_json
from unbag.diagnosis.page import render_diagnosis
from unbag.engine.atomic import make_folder, write_text
from unbag.errors import UserError

JSON, PAGE = "diagnosis.json", "diagnosis.html"


def write_diagnosis(found: Diagnosis, folder: Path) -> Path:
    """Write both files, each at once; gives the page."""
    make_folder(check_folder(folder), what="diagnosis", way_out="choose another folder")
    try:
        write_text(folder / JSON, to_json(found))
        write_text(folder / PAGE, render_diagnosis(found))
    except OSError as error:
        raise UserError(
            f"cannot write to {folder}: {error.strerror or error}",
            way_out="make room, or choose another folder",
        ) from error
    return folder / PAGE


def check_folder(folder: Path) -> Path:
    """A folder that is new, empty or holds a diagnosis; anything else is not ours to fill."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", expected="a folder", way_out="name another")
    if not folder.is_dir() or _is_diagnosis(folder / JSON) or not any(folder.iterdir()):
        return folder
    raise UserError(
        f"the folder {folder} holds something else than a diagnosis",
        expected="a new or empty folder, or one that a diagnosis was written to",
        way_out="name another",
    )


def _is_diagnosis(path: Path) -> bool:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("kind") == KIND
