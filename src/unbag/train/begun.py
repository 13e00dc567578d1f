"""The folder of a training comes in; an error goes out where it holds what no training wrote."""

from __future__ import annotations

from pathlib import Path

from unbag.errors import UserError
from unbag.train.job import read_record


def check_begun(folder: Path) -> None:
    """Raise UserError for a folder in which `unbag train` has not begun, unless it is empty.

    The record comes first of all that a run writes, so a run that was killed has it or nothing.
    """
    try:
        check_empty(folder, what="training run")
    except UserError:
        # Read after the look at the folder: another process of the same run may begin meanwhile.
        if read_record(folder) is None:
            raise


def check_empty(folder: Path, *, what: str) -> None:
    """Raise UserError if the folder holds anything, such as somebody's pictures.

    Hidden files do not count: locks and what a killed process left half written.
    """
    try:
        is_empty = all(path.name.startswith(".") for path in folder.iterdir())
    except OSError:
        # It is new, or what is wrong with it is told by whoever makes it.
        return
    if not is_empty:
        raise UserError(
            f"the folder {folder} is not empty and holds no {what}",
            expected="an empty or new folder, or the folder of a run to go on with",
            way_out="choose another with --out",
        )
