"""Files and folders of long jobs: atomic writes, and one way to open the folder of a run."""

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
"""In the folder of every long job: its kind, state, identity and further facts."""
_LOCK = ".lock"
TRAINING = "training run"
"""The kind of a folder in which anything is trained."""


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


def make_folder(path: Path, *, what: str, hint: str) -> Path:
    """Create a folder if needed and make sure that files can be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write-{uuid4().hex[:8]}"
        probe.touch()
        # Another process of the same run may have tidied up in between.
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise UnbagError(
            f"cannot write to the {what} {path}: {error.strerror or error}",
            expected="a folder that can be written",
            hint=hint,
        ) from error
    return path


@contextmanager
def open_run_folder(
    path: Path, kind: str, *, is_leader: bool = True, resumes: str = ""
) -> Iterator[RunFolder]:
    """Open the folder of a long job: check, make and lock it, and remove left-overs of a kill.

    Of several processes of one run only the leader locks and writes. A full disk inside the context
    becomes a UnbagError that says how to continue. A new folder in which nothing was written is
    removed at the end.

    Args:
        path: New, empty, or the folder of an earlier run of this kind.
        kind: Such as "training run"; written to run.json and compared with what is there.
        is_leader: False in the other processes of a distributed run.
        resumes: How the run continues after an interruption, for the message of a full disk.
    """
    check_run_folder(path, kind)
    made = [one for one in (path, *path.parents) if not one.exists()]
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
            _remove_empty(made)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove new folders, the innermost first, that hold nothing but a lock."""
    for folder in folders:
        try:
            if all(one.name == _LOCK for one in folder.iterdir()):
                (folder / _LOCK).unlink(missing_ok=True)
                folder.rmdir()
        except OSError:
            # Somebody else removed it, or writes there.
            return


@dataclass(frozen=True)
class RunFolder:
    """The folder of a long job while it is open; run.json says what it holds."""

    path: Path
    kind: str

    def earlier(self, identity: RunIdentity) -> dict[str, Any] | None:
        """The content of run.json if there is a run to resume; UnbagError if it is another one."""
        found = read_run(self.path, self.kind)
        if found is not None:
            earlier = RunIdentity.of_json(found["identity"])
            identity.require_same(earlier, folder=self.path, kind=self.kind)
        return found

    def begin(self, identity: RunIdentity, facts: Mapping[str, object]) -> dict[str, Any] | None:
        """Start a run, or give the record of the run to resume if its identity is the same.

        run.json is the first file of a run, so that a killed run still knows its folder.
        """
        found = self.earlier(identity)
        content = {"kind": self.kind, "state": "running", "version": __version__}
        self._write(content | {"identity": identity.fields} | dict(facts))
        return found

    def set_state(self, state: str, **facts: object) -> None:
        """Change the state, such as "stopped" or "done", and other facts of run.json."""
        found = read_run(self.path, self.kind)
        assert found is not None
        self._write(found | {"state": state} | facts)

    def _write(self, content: Mapping[str, object]) -> None:
        write_text(self.path / RUN_FILE, json.dumps(content, indent=1) + "\n")


def read_run(path: Path, kind: str) -> dict[str, Any] | None:
    """The content of run.json; None if there is none, UnbagError if it is not of this kind."""
    file = path / RUN_FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UnbagError(
            f"{file} cannot be read: {said_by(error)}",
            expected=f"the record of the {kind}",
            hint="name another folder with --out, or delete this one",
        ) from error
    found = found if isinstance(found, dict) else {}
    said = found.get("kind")
    if said == kind and isinstance(found.get("identity"), dict):
        return found
    odd = f"a {RUN_FILE} without kind or identity"
    raise UnbagError(
        f"the folder {path} holds {odd if said in (None, kind) else f'a run of the kind {said!r}'}",
        expected=f"an empty or new folder, or that of the {kind}, begun by this version of unbag",
        hint="name another folder with --out",
    )


def check_run_folder(path: Path, kind: str) -> None:
    """Raise UnbagError unless the folder is new, empty, or holds a run of this kind.

    Hidden files do not count: locks, and what a killed process left half written.
    """
    if path.exists() and not path.is_dir():
        raise UnbagError(f"{path} is a file", expected="a folder", hint="name another with --out")
    try:
        is_empty = all(one.name.startswith(".") for one in path.iterdir())
    except OSError:
        # It is new; what else may be wrong with it, `make_folder` reports.
        return
    # Read after the look at the folder: another process of the same run may begin in between.
    if not is_empty and read_run(path, kind) is None:
        raise UnbagError(
            f"the folder {path} is not empty and holds no {kind}",
            expected=f"an empty or new folder, or the folder of the {kind} to resume",
            hint="name another folder with --out",
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process at a time; the system drops the lock if that process dies."""
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
        _keep_from_children(file)
    except ImportError:  # pragma: no cover - not on this system
        pass
    except OSError as error:
        raise taken from error


def _keep_from_children(file: IO[Any]) -> None:
    """A worker that outlives a killed process must not hold the lock of that process."""
    known = ref(file)

    def close() -> None:
        if (found := known()) is not None:
            found.close()

    os.register_at_fork(after_in_child=close)


def remove_leftovers(folder: Path, *, hours: float = 0) -> None:
    """Delete what a killed process left half written.

    Args:
        folder: One in which nobody else writes now; or anybody may, with `hours`.
        hours: Only files that nobody wrote to for so long, and that nobody will finish.
    """
    newest = time() - 3600 * hours
    # Named as we name them: somebody's own .part files stay.
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
    """Turn the system's error for a full disk into a UnbagError; other errors pass."""
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
    """Whether an error says that the disk is full."""
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        return True
    if isinstance(error, UnbagError) and error.__cause__ is not None:
        return is_full(error.__cause__)
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
