"""Files and folders of long jobs: atomic writes, locks and run folders."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from pathlib import Path
from time import time
from typing import IO, Any
from uuid import uuid4
from weakref import ref

from unbag.errors import UnbagError, said_by
from unbag.runs.identity import RunIdentity
from unbag.version import __version__

RUN_FILE = "run.json"
"""File in the folder of every long job with its kind, state, identity and other facts."""
_LOCK = ".lock"
TRAINING = "training run"
"""Kind of the run folders of training jobs."""


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
    """Create an empty file and return its mode.

    This reveals the umask, which can otherwise only be read by changing it for all threads.
    """
    path.touch()
    return path.stat().st_mode


def settle(path: Path, mode: int) -> None:
    """Flush a file to disk and set the mode that `open` would have set.

    Safetensors ignores the umask and creates files that only the owner can read.
    """
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    if path.stat().st_mode != mode:
        path.chmod(mode)


def make_folder(path: Path, *, what: str, hint: str) -> Path:
    """Create a folder if needed and check that it is writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write-{uuid4().hex[:8]}"
        probe.touch()
        # Another process of the same run may have removed leftovers in between.
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise UnbagError(
            f"cannot write to the {what} {path}: {error.strerror or error}",
            expected="a writable folder",
            hint=hint,
        ) from error
    return path


@contextmanager
def open_run_folder(
    path: Path, kind: str, *, is_leader: bool = True, resumes: str = ""
) -> Iterator[RunFolder]:
    """Open the folder of a long job: check, create and lock it, and remove temporary files.

    Of several processes of a run only the leader locks and writes. A full disk inside the context
    raises a UnbagError that says how to resume. A new folder in which nothing was written is
    removed at the end.

    Args:
        path: New, empty, or the folder of an earlier run of this kind.
        kind: Such as "training run"; it is written to run.json, or must match an existing one.
        is_leader: False in the other processes of a distributed run.
        resumes: How the run resumes after an interruption, for the message of a full disk.
    """
    check_run_folder(path, kind)
    new_folders = [place for place in (path, *path.parents) if not place.exists()]
    make_folder(path, what=f"folder of the {kind}", hint="name another folder with --out")
    folder = RunFolder(path, kind)
    if not is_leader:
        yield folder
        return
    with _locked(path), explain_full_disk(path, resumes=resumes):
        remove_leftovers(path)
        try:
            yield folder
        finally:
            _remove_empty(new_folders)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove new folders that hold nothing but a lock, innermost first."""
    for folder in folders:
        try:
            if all(path.name == _LOCK for path in folder.iterdir()):
                (folder / _LOCK).unlink(missing_ok=True)
                folder.rmdir()
        except OSError:
            # Another process removed it, or writes to it.
            return


@dataclass(frozen=True)
class RunFolder:
    """The open folder of a long job, with run.json."""

    path: Path
    kind: str

    def earlier(self, identity: RunIdentity) -> dict[str, Any] | None:
        """Return run.json if there is a run to resume; UnbagError if its identity differs."""
        record = read_run(self.path, self.kind)
        if record is not None:
            earlier = RunIdentity.of_json(record["identity"])
            identity.require_same(earlier, folder=self.path, kind=self.kind)
        return record

    def begin(self, identity: RunIdentity, facts: Mapping[str, object]) -> dict[str, Any] | None:
        """Start a run, or return run.json of the run to resume if its identity is the same.

        run.json is the first file of a run, so that a killed run is recognized.
        """
        record = self.earlier(identity)
        content = {"kind": self.kind, "state": "running", "version": __version__}
        self._write(content | {"identity": identity.fields} | dict(facts))
        return record

    def set_state(self, state: str, **facts: object) -> None:
        """Set the state, such as "stopped" or "done", and other facts in run.json."""
        record = read_run(self.path, self.kind)
        assert record is not None
        self._write(record | {"state": state} | facts)

    def _write(self, content: Mapping[str, object]) -> None:
        write_text(self.path / RUN_FILE, json.dumps(content, indent=1) + "\n")


def read_run(path: Path, kind: str) -> dict[str, Any] | None:
    """Return run.json; None if there is none, UnbagError if it is of another kind."""
    file = path / RUN_FILE
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UnbagError(
            f"{file} cannot be read: {said_by(error)}",
            expected=f"the record of the {kind}",
            hint="name another folder with --out, or delete this one",
        ) from error
    record = record if isinstance(record, dict) else {}
    found_kind = record.get("kind")
    if found_kind == kind and isinstance(record.get("identity"), dict):
        return record
    content = f"a run of the kind {found_kind!r}"
    if found_kind in (None, kind):
        content = f"a {RUN_FILE} without kind or identity"
    raise UnbagError(
        f"the folder {path} holds {content}",
        expected=f"an empty or new folder, or that of the {kind}, written by this version of unbag",
        hint="name another folder with --out",
    )


def check_run_folder(path: Path, kind: str) -> None:
    """Raise UnbagError unless the folder is new, empty, or holds a run of this kind.

    Hidden files do not count: they are locks or temporary files of a killed process.
    """
    if path.exists() and not path.is_dir():
        raise UnbagError(f"{path} is a file", expected="a folder", hint="name another with --out")
    try:
        is_empty = all(entry.name.startswith(".") for entry in path.iterdir())
    except OSError:
        # It is new; other problems are reported by `make_folder`.
        return
    # Read after listing the folder: another process of the same run may start in between.
    if not is_empty and read_run(path, kind) is None:
        raise UnbagError(
            f"the folder {path} is not empty and holds no {kind}",
            expected=f"an empty or new folder, or the folder of the {kind} to resume",
            hint="name another folder with --out",
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder; the system releases the lock if the process dies."""
    with (folder / _LOCK).open("w") as file:
        lock_file(
            file,
            UnbagError(
                f"another process is writing to {folder}",
                expected="one process at a time in a folder",
                hint="wait until it is done, or name another folder with --out",
            ),
        )
        yield


def lock_file(file: IO[Any], taken: UnbagError) -> None:
    """Lock an open file until it is closed; raises `taken` if another process has locked it."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _close_in_children(file)
    except ImportError:  # pragma: no cover - not on this system
        pass
    except OSError as error:
        raise taken from error


def _close_in_children(file: IO[Any]) -> None:
    """Close the file in forked workers, which may outlive this process and keep its lock."""
    reference = ref(file)

    def close() -> None:
        if (open_file := reference()) is not None:
            open_file.close()

    os.register_at_fork(after_in_child=close)


def remove_leftovers(folder: Path, *, hours: float = 0) -> None:
    """Delete temporary files of killed processes.

    Args:
        folder: A folder that no other process writes to, unless `hours` is given.
        hours: Minimum age of the files since the last write.
    """
    newest = time() - 3600 * hours
    # Only names that unbag makes: .part files of the user stay.
    unique = "[0-9a-f]" * 8
    for path in (*folder.glob(f".*.{unique}.part"), *folder.glob(f".write-{unique}")):
        with suppress(FileNotFoundError):
            if hours and path.stat().st_mtime > newest:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


@contextmanager
def explain_full_disk(folder: Path, *, resumes: str = "") -> Iterator[None]:
    """Convert the error of a full disk to a UnbagError; other errors pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UnbagError) or not is_full(error):
            raise
        raise UnbagError(
            f"no room is left on the disk of {folder}",
            hint="make room, then give the same command again: "
            + (resumes or "it resumes from the last checkpoint"),
        ) from error


def is_full(error: BaseException) -> bool:
    """Return whether an error is caused by a full disk."""
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        return True
    if isinstance(error, UnbagError) and error.__cause__ is not None:
        return is_full(error.__cause__)
    return any(phrase in str(error) for phrase in _FULL_DISK_PHRASES)


_FULL_DISK_PHRASES = ("os error 28", "os error 122", "No space left")
"""Messages of libraries that hide the error number."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector; it takes half the time of loading 400,000 items."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
