"""A name, or the folder of a training run or an export, comes in; the name of a model goes out."""

from __future__ import annotations

import json
from pathlib import Path

from unbag.errors import UserError

RECORD = "unbag.json"
"""In the folder of an export: what forms it holds."""
_PREFIXES = {"open_clip": "open_clip:local-dir:", "transformers": "hf:"}
"""By library; forms of our own are named after their kind."""
_WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


def name_of_form(library: str, place: str) -> str:
    """One form of an export as `--model` takes it."""
    return _PREFIXES.get(library, f"{library}:") + place


def model_name(name: str) -> str:
    """For a folder the first form that was exported there.

    A training run keeps its export in `export`. Anything that is no such folder is a name already.
    """
    folder = Path(name).expanduser()
    if folder.suffix in _WEIGHTS and folder.is_file():
        raise UserError(
            f"{name} is a file of weights, and nothing says of which architecture",
            expected="a kind before it",
            way_out=f"open_clip:ARCH@{name}, such as open_clip:ViT-B-32@{name}",
        )
    if not folder.is_dir():
        return name
    for place in (folder, folder / "export"):
        if (place / RECORD).is_file():
            return _first(place)
    raise UserError(
        f"the folder {folder} holds no {RECORD}",
        expected="a finished training run or an export",
        way_out="finish it with the command it was begun with; a folder of another library has a "
        f"prefix, such as hf: or open_clip:local-dir:; a read-out is --scorer NAME@{folder}",
    )


def _first(place: Path) -> str:
    try:
        folders = json.loads((place / RECORD).read_text(encoding="utf-8"))["folders"]
        below, said = next(iter(folders.items()))
        return name_of_form(said["library"], f"{place}/{below}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise UserError(
            f"{place / RECORD} cannot be read: {error!r}",
            expected="the record that `unbag export` writes",
        ) from error
