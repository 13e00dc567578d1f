"""A name, or the folder of a training run or an export, comes in; the name of a model goes out."""

from __future__ import annotations

import json
from pathlib import Path

from unbag.errors import UserError
from unbag.train.export import RECORD
from unbag.train.exported import Agreement, Folder


def model_name(name: str) -> str:
    """What `load_model` takes: for a folder the first form that was exported there.

    A training run keeps its export in `export`. Anything that is no such folder is a name already.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return name
    for place in (folder, folder / "export"):
        if (place / RECORD).is_file():
            return _first(place)
    raise UserError(
        f"the folder {folder} holds no {RECORD}",
        expected="a finished training run or an export",
        way_out="finish it with the command it was begun with; a folder of another library has a "
        "prefix, such as hf: or open_clip:local-dir:",
    )


def _first(place: Path) -> str:
    try:
        folders = json.loads((place / RECORD).read_text(encoding="utf-8"))["folders"]
        below, said = next(iter(folders.items()))
        return Folder(said["library"], below, Agreement(0.0), ()).model_name(place)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise UserError(
            f"{place / RECORD} cannot be read: {error!r}",
            expected="the record that `unbag export` writes",
        ) from error
