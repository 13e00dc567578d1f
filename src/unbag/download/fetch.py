"""A public file to its place on disk: resumed where it broke off, checked before it is named."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from unbag.download.answer import CHUNK, Answer, BeyondTheEndError, BrokenError, ask, check_address
from unbag.download.part import Part
from unbag.download.showing import Task, readable, unseen
from unbag.errors import UserError
from unbag.types import Download


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for."""

    attempts: int = 5
    """In a row without a single new byte."""
    timeout: float = 60.0
    """Seconds of silence."""
    pause: float = 1.0
    """Seconds before the second attempt; doubles with each."""
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Fetched:
    """A file that is there and checked."""

    path: Path
    size: int
    sha256: str
    was_there: bool


PATIENCE = Patience()


class UnreachableError(UserError):
    """A server that did not answer however long it was waited for."""


def fetch(
    download: Download, target: Path, *, task: Task = unseen, patience: Patience = PATIENCE
) -> Fetched:
    """Fetch one file; nothing is asked of the server if the right one is there already.

    Whatever stops it, NAME.part keeps the bytes that came, and the next call goes on from there.
    """
    check_address(download.url)
    if target.exists():
        return _there(download, target, task)
    part = Part(target, download.url)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.locked():
            digest = _checked(part, download, task, patience)
            size = part.size
            part.finish()
    except OSError as error:
        # Those of the network became errors of their own where they happened.
        raise _unwritable(target, error) from error
    return Fetched(target, size, digest, was_there=False)


def matches(download: Download, path: Path, *, task: Task = unseen) -> bool:
    """Whether a file has the size and checksum that are known of it."""
    if not path.is_file() or (download.size and path.stat().st_size != download.size):
        return False
    return not download.sha256 or digest_of(path, task) == download.sha256


def digest_of(path: Path, task: Task = unseen) -> str:
    """The sha256 of a file."""
    found = sha256()
    with task(f"check {path.name}", path.stat().st_size) as advance, path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
            advance(len(chunk))
    return found.hexdigest()


def _there(download: Download, target: Path, task: Task) -> Fetched:
    """The user's own file is never replaced: it may be another release, kept on purpose."""
    if not matches(download, target, task=task):
        found = f"sha256 {digest_of(target)}" if target.is_file() else "it is no file"
        raise UserError(
            f"{target} is there and is not the file at {download.url}: {found}",
            expected=_expected(download),
            way_out="move it away if it is not meant to be another release, then run this again",
        )
    size = target.stat().st_size
    return Fetched(target, size, download.sha256 or digest_of(target, task), was_there=True)


def _checked(part: Part, download: Download, task: Task, patience: Patience) -> str:
    """Complete the part; its sha256 if it is right, else an error and no part."""
    while True:
        is_pieced = _complete(part, download, task, patience)
        digest, size = digest_of(part.path, task), part.size
        wrong_size = bool(download.size) and size != download.size
        if not wrong_size and digest == (download.sha256 or digest):
            return digest
        part.discard()
        # Pieces of two calls may be of two versions: the whole at once is the fair test.
        if not is_pieced:
            raise UserError(
                f"{download.url} gave a wrong file of {size:,} bytes: sha256 {digest}",
                expected=_expected(download),
                way_out="it was removed; try again, and if it stays so the authors changed the "
                "file: see their page, and put the release you want there by hand",
            )


def _complete(part: Part, download: Download, task: Task, patience: Patience) -> bool:
    """Ask until everything has come; whether it came in more than one piece."""
    is_pieced = part.size > 0
    failures = 0
    while not (download.size and part.size == download.size):
        before = part.size
        try:
            _receive(part, download, task, patience.timeout)
            return is_pieced
        except BrokenError as error:
            is_pieced |= part.size > 0
            failures = 0 if part.size > before else failures + 1
            if failures >= patience.attempts:
                raise UnreachableError(
                    f"{download.url}: {error.what}, {failures} times",
                    expected="a server that answers",
                    way_out=f"run this again later{_kept(part)}",
                ) from error
            patience.sleep(max(error.wait, patience.pause * 2 ** max(failures - 1, 0)))
    return is_pieced


def _kept(part: Part) -> str:
    return f"; {readable(part.size)} are kept in {part.path}" if part.size else ""


def _receive(part: Part, download: Download, task: Task, timeout: float) -> None:
    """One connection: add what comes to the part."""
    if download.size and part.size > download.size:
        part.discard()
    # Without a mark or a checksum nothing would tell that the file changed in between.
    start = part.size if part.mark or download.sha256 else 0
    try:
        with ask(download.url, start=start, mark=part.mark, timeout=timeout) as answer:
            _check_size(part, download, answer)
            _place(part, answer, start)
            _check_space(part, answer)
            _append(part, download, answer, task)
    except BeyondTheEndError as end:
        if end.total != part.size:
            part.discard()
            raise BrokenError("the server has less of the file than was fetched") from end


def _place(part: Part, answer: Answer, start: int) -> None:
    """Make the part end where the answer begins."""
    is_same = not (answer.mark and part.mark) or answer.mark == part.mark
    if answer.start == 0:
        part.begin(answer.mark)
    elif answer.start != start or not is_same:
        part.discard()
        raise BrokenError("the file changed on the server")


def _append(part: Part, download: Download, answer: Answer, task: Task) -> None:
    total = answer.total or download.size
    with task(part.target.name, total) as advance, part.path.open("ab") as file:
        advance(answer.start)
        position = answer.start
        for chunk in answer.chunks():
            file.write(chunk)
            position += len(chunk)
            advance(len(chunk))
            if download.size and position > download.size:
                return  # Too much already; the check of the size says so.


def _check_size(part: Part, download: Download, answer: Answer) -> None:
    if download.size and answer.total not in (None, download.size):
        part.discard()
        raise UserError(
            f"{download.url} has {answer.total:,} bytes now",
            expected=_expected(download),
            way_out="the authors changed the file: see their page, and put it there by hand",
        )


def _check_space(part: Part, answer: Answer) -> None:
    check_space(part.path.parent, (answer.total or 0) - answer.start, what=part.target.name)


def check_space(folder: Path, needed: int, *, what: str) -> None:
    """An error before anything is written, not after hours."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{what} needs {readable(needed)} more, and {folder} has {readable(free)} free",
            expected="enough room on the disk",
            way_out="free some, or choose another disk with --data",
        )


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot write {path}: {error.strerror or error}",
        expected="a folder that can be written, with room",
        way_out="free some room or mend the rights, then run this again: it goes on from there",
    )


def _expected(download: Download) -> str:
    known = []
    if download.size:
        known.append(f"{download.size:,} bytes")
    if download.sha256:
        known.append(f"sha256 {download.sha256}")
    return ", ".join(known) or "a file"
