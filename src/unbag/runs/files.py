"""Files and folders of long jobs: atomic writes, a lock per folder, messages for a full disk."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import IO
from uuid import uuid4
from weakref import ref

from unbag.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""

    def put(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, put)


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to disk, then rename it.

    A reader sees the old file or the new one, never a part of it.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        mode = mode_of_new(temporary)
        write(temporary)
        settle(temporary, mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def mode_of_new(path: Path) -> int:
    """Make an empty file and give its mode.

    Made, since a umask can only be read by changing it, for all threads.
    """
    path.touch()
    return path.stat().st_mode


def settle(path: Path, mode: int) -> None:
    """Flush a file to disk and give it the mode that `open` would have given it.

    Safetensors makes files that nobody else can read, whatever the umask.
    """
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    if path.stat().st_mode != mode:
        path.chmod(mode)


def make_folder(path: Path, *, what: str, way_out: str) -> Path:
    """Create a folder if needed and make sure that files can be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write-{uuid4().hex[:8]}"
        probe.touch()
        # Another process of the same run may have tidied up in between.
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write to the {what} {path}: {error.strerror or error}",
            expected="a folder that can be written",
            way_out=way_out,
        ) from error
    return path


@contextmanager
def locked_folder(folder: Path, taken: UserError) -> Iterator[None]:
    """Only one process at a time; the system drops the lock if that process dies.

    `taken` is raised where another process holds it.
    """
    with (folder / ".lock").open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _keep_from_children(file)
        except ImportError:  # pragma: no cover - not on this system
            pass
        except OSError as error:
            raise taken from error
        yield


def _keep_from_children(file: IO[str]) -> None:
    """A worker that outlives a killed process must not hold the lock of that process."""
    known = ref(file)

    def close() -> None:
        if (found := known()) is not None:
            found.close()

    os.register_at_fork(after_in_child=close)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process left half written; only while nobody else writes there."""
    for path in (*folder.glob(".*.part"), *folder.glob(".write-*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


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


def is_full(error: BaseException) -> bool:
    """Whether an error says that the disk is full."""
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        return True
    return any(said in str(error) for said in _SAID)


_SAID = ("os error 28", "os error 122", "No space left")
"""By libraries that hide the number of the error."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Hold the cyclic collector for a while; it takes half the time of loading 400,000 items."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
