"""Writing into the folder of a run; where the disk is full, a message that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path

from unbag.errors import UserError

_SAID = ("os error 28", "os error 122", "No space left")
"""By libraries that hide the number of the error."""


def is_full(error: BaseException) -> bool:
    """Whether an error says that the disk is full."""
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        return True
    return any(said in str(error) for said in _SAID)


@contextmanager
def told_when_full(
    folder: Path, *, goes_on: str = "it goes on from the last checkpoint"
) -> Iterator[None]:
    """Turn the error of the system into a UserError; other errors pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or not is_full(error):
            raise
        raise UserError(
            f"no room is left on the disk of {folder}",
            way_out=f"make room, then give the same command again: {goes_on}",
        ) from error
