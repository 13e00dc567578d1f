"""What a listener of a long download gives: a bar for so many bytes, and a way to move it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

Advance: TypeAlias = Callable[[int], None]
Task: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]
"""The `task` of the engine's `Progress`: what is done, and how many bytes it is; 0 if unknown."""


@contextmanager
def unseen(what: str, total: int) -> Iterator[Advance]:
    """Shows nothing."""
    yield lambda steps: None


def readable(size: int) -> str:
    """A number of bytes as people read it: 815.6 MB, in powers of 1,000 as disks are sold."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.95:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
