"""Writing into the folder of a run; where the disk is full, a message that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path

from unbag.errors import UserError


@contextmanager
def told_when_full(folder: Path) -> Iterator[None]:
    """Turn the error of the system into a UserError; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        raise UserError(
            f"no room is left on the disk of {folder}",
            way_out="make room, then give the same command again: it goes on from the last "
            "checkpoint",
        ) from error
