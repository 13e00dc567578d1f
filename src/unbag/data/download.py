"""Download the files of benchmarks to where their loaders look for them.

An interrupted download resumes. A file gets its final name after its size and checksum were
verified. Existing files are never replaced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath, PureWindowsPath

from unbag.data.archives import DamagedError, Member, check_space, readable, unpack
from unbag.data.http import CHUNK, BeyondTheEndError, BrokenError, HttpAnswer, ask, check_address
from unbag.errors import UnbagError
from unbag.runs.files import lock_file
from unbag.runs.progress import ProgressBar, unseen
from unbag.types import Benchmark, Download


@dataclass(frozen=True)
class Patience:
    """Retries and timeouts."""

    attempts: int = 5
    """Consecutive attempts without new bytes before giving up."""
    timeout: float = 60.0
    """Seconds without data before an attempt fails."""
    pause: float = 1.0
    """Seconds before the second attempt; doubles with each attempt."""
    sleep: Callable[[float], None] = time.sleep


PATIENCE = Patience()
_NAME_ERRORS = "surrogateescape"
"""Names in old archives are not always UTF-8; this error handler restores their bytes."""


def required_downloads(benchmarks: Iterable[Benchmark], *, images: bool) -> tuple[Download, ...]:
    """List the downloads of benchmarks, each file once; `images` includes those with images."""
    downloads: dict[str, Download] = {}
    for benchmark in benchmarks:
        for download in benchmark.downloads:
            if download.has_images and not images:
                continue
            known = downloads.setdefault(download.to, download)
            if known.url != download.url:
                raise UnbagError(
                    f"{benchmark.name} needs {download.url} as {download.to}, which is "
                    f"{known.url} for another benchmark",
                    expected="one source for each file",
                    hint="download them into two data folders",
                )
    return tuple(downloads.values())


def is_there(download: Download, data: Path) -> bool:
    """Return whether a download looks complete, by name and size."""
    target = below(data, download.to)
    if download.unpack:
        return _read_contents(download, data) is not None
    return target.is_file() and target.stat().st_size == (download.size or target.stat().st_size)


def obtain(
    download: Download, data: Path, *, task: ProgressBar = unseen, patience: Patience = PATIENCE
) -> Obtained:
    """Fetch, verify and unpack one download; an archive is deleted after unpacking."""
    target = below(data, download.to)
    if not download.unpack:
        fetched = fetch(download, target, task=task, patience=patience)
        return Obtained(fetched.sha256, 0, fetched.was_there)
    if contents := _read_contents(download, data):
        return Obtained(contents.sha256, len(contents.members), was_there=True)
    fetched = fetch(download, target, task=task, patience=patience)
    try:
        members = unpack(target, below(data, download.unpack), task=task)
    except DamagedError as error:
        target.unlink(missing_ok=True)
        raise UnbagError(
            f"{download.url}: {error.message}",
            expected=error.expected,
            hint="it was removed; run the command again to download it again",
        ) from error
    # A list of the members replaces the archive, so that it is not downloaded again.
    path = _contents_path(target)
    temporary = path.with_name(f".{path.name}.part")
    lines = [fetched.sha256, download.url, *(f"{member.size}\t{member.name}" for member in members)]
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8", errors=_NAME_ERRORS)
    temporary.replace(path)
    target.unlink()
    return Obtained(fetched.sha256, len(members), was_there=False)


@dataclass(frozen=True)
class Obtained:
    """The result of one download."""

    sha256: str
    """Of the file, or of the archive it was unpacked from."""
    members: int
    """Number of unpacked files; 0 if the download is not an archive."""
    was_there: bool


def below(data: Path, name: str) -> Path:
    """Return a path inside the data folder; UnbagError if `name` leads out of it."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive:
        raise UnbagError(
            f"a download would go to {name!r}",
            expected="a path inside the data folder",
            hint="fix the downloads of the benchmark",
        )
    return data / path


@dataclass(frozen=True)
class _Contents:
    """Members of an archive that was deleted after unpacking."""

    sha256: str
    members: tuple[Member, ...]


def _read_contents(download: Download, data: Path) -> _Contents | None:
    """Return the members of an unpacked archive if all of them still exist."""
    try:
        text = _contents_path(below(data, download.to)).read_text(
            encoding="utf-8", errors=_NAME_ERRORS
        )
        digest, _, *lines = text.splitlines()
        cells = [line.partition("\t") for line in lines]
        members = tuple(Member(name, int(size)) for size, _, name in cells)
        if digest != (download.sha256 or digest) or not members:
            return None
        folder = below(data, download.unpack)
        is_whole = all((folder / member.name).stat().st_size == member.size for member in members)
    except (OSError, ValueError):
        return None
    return _Contents(digest, members) if is_whole else None


def _contents_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.contents")


def fetch(
    download: Download, target: Path, *, task: ProgressBar = unseen, patience: Patience = PATIENCE
) -> Fetched:
    """Fetch one file; without a request if the right file exists.

    If it is interrupted, NAME.part keeps the bytes received, and the next call resumes from there.
    """
    check_address(download.url)
    if target.exists():
        return _check_existing(download, target, task)
    part = PartialFile(target, download.url)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.locked():
            digest = _fetch_checked(part, download, task, patience)
            size = part.size
            part.finish()
    except OSError as error:
        # Network errors are not OSErrors here: `http` converts them.
        raise UnbagError(
            f"cannot write {target}: {error.strerror or error}",
            expected="a writable folder with enough disk space",
            hint="free disk space or fix the permissions, then run the command again to resume",
        ) from error
    return Fetched(target, size, digest, was_there=False)


@dataclass(frozen=True)
class Fetched:
    """A file that exists and was verified."""

    path: Path
    size: int
    sha256: str
    was_there: bool


class UnreachableError(UnbagError):
    """The server did not answer after all attempts."""


def matches(download: Download, path: Path, *, task: ProgressBar = unseen) -> bool:
    """Return whether a file has the expected size and checksum, as far as they are known."""
    if not path.is_file() or (download.size and path.stat().st_size != download.size):
        return False
    return not download.sha256 or digest_of(path, task) == download.sha256


def digest_of(path: Path, task: ProgressBar = unseen) -> str:
    """Return the sha256 of a file."""
    digest = sha256()
    with task(f"check {path.name}", path.stat().st_size) as advance, path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    return digest.hexdigest()


def _check_existing(download: Download, target: Path, task: ProgressBar) -> Fetched:
    """Verify an existing file; it is never replaced, since it may be another release."""
    if not matches(download, target, task=task):
        actual = f"sha256 {digest_of(target)}" if target.is_file() else "it is not a file"
        raise UnbagError(
            f"{target} exists and differs from the file at {download.url}: {actual}",
            expected=_expected(download),
            hint="move it away unless it is another release on purpose, then run the command again",
        )
    size = target.stat().st_size
    return Fetched(target, size, download.sha256 or digest_of(target, task), was_there=True)


def _fetch_checked(
    part: PartialFile, download: Download, task: ProgressBar, patience: Patience
) -> str:
    """Complete the partial file and return its sha256; UnbagError if size or checksum differ."""
    while True:
        is_pieced = _receive_all(part, download, task, patience)
        digest, size = digest_of(part.path, task), part.size
        wrong_size = bool(download.size) and size != download.size
        if not wrong_size and digest == (download.sha256 or digest):
            return digest
        part.discard()
        # Pieces may be of two versions, so fetch the whole file at once before failing.
        if not is_pieced:
            raise UnbagError(
                f"{download.url} gave a wrong file of {size:,} bytes: sha256 {digest}",
                expected=_expected(download),
                hint="it was removed; try again, and if it stays so the authors changed the "
                "file: see their page, and put the release you need there by hand",
            )


def _receive_all(
    part: PartialFile, download: Download, task: ProgressBar, patience: Patience
) -> bool:
    """Request until the file is complete; return whether it came in more than one piece."""
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
                size = part.size
                saved = f"; {readable(size)} are saved in {part.path}" if size else ""
                raise UnreachableError(
                    f"{download.url}: {error.what}, {failures} times",
                    expected="a server that answers",
                    hint=f"run this again later{saved}",
                ) from error
            patience.sleep(max(error.wait, patience.pause * 2 ** max(failures - 1, 0)))
    return is_pieced


def _receive(part: PartialFile, download: Download, task: ProgressBar, timeout: float) -> None:
    """Send one request and append the response to the partial file."""
    if download.size and part.size > download.size:
        part.discard()
    # Without a version or a checksum, a change of the file between requests would go unnoticed.
    start = part.size if part.mark or download.sha256 else 0
    try:
        with ask(download.url, start=start, mark=part.mark, timeout=timeout) as answer:
            if download.size and answer.total not in (None, download.size):
                part.discard()
                raise UnbagError(
                    f"{download.url} has {answer.total:,} bytes now",
                    expected=_expected(download),
                    hint="the authors changed the file: see their page, and put it there by hand",
                )
            # The partial file must end where the response begins.
            is_same = not (answer.mark and part.mark) or answer.mark == part.mark
            if answer.start == 0:
                part.begin(answer.mark)
            elif answer.start != start or not is_same:
                part.discard()
                raise BrokenError("the file changed on the server")
            needed = (answer.total or 0) - answer.start
            check_space(part.path.parent, needed, what=part.target.name)
            _append(part, download, answer, task)
    except BeyondTheEndError as end:
        if end.total != part.size:
            part.discard()
            raise BrokenError("the server has less of the file than was fetched") from end


def _append(part: PartialFile, download: Download, answer: HttpAnswer, task: ProgressBar) -> None:
    total = answer.total or download.size
    with task(part.target.name, total) as advance, part.path.open("ab") as file:
        advance(answer.start)
        position = answer.start
        for chunk in answer.chunks():
            file.write(chunk)
            position += len(chunk)
            advance(len(chunk))
            if download.size and position > download.size:
                return  # Too long; the size check reports it.


def _expected(download: Download) -> str:
    size = f"{download.size:,} bytes" if download.size else ""
    digest = f"sha256 {download.sha256}" if download.sha256 else ""
    return ", ".join(filter(None, (size, digest))) or "a file"


@dataclass(frozen=True)
class PartialFile:
    """NAME.part next to the target file, and NAME.part.version with the server's version mark."""

    target: Path
    url: str

    @property
    def path(self) -> Path:
        """Path of the partial file."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def _version(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part.version")

    @property
    def size(self) -> int:
        """Bytes received so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def mark(self) -> str:
        """The server's mark of this version (ETag or date); empty if it gave none."""
        try:
            url, _, mark = self._version.read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return ""
        return mark.strip() if url == self.url else ""

    def begin(self, mark: str) -> None:
        """Start over with version `mark`."""
        self.discard()
        self._version.write_text(f"{self.url}\n{mark}\n", encoding="utf-8")

    def discard(self) -> None:
        """Delete the bytes. The empty file stays, since it carries the lock."""
        if self.path.exists():
            os.truncate(self.path, 0)
        self._version.unlink(missing_ok=True)

    def finish(self) -> None:
        """Rename the complete file to its target name."""
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
        self.path.replace(self.target)
        self._version.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file for one process; the system releases the lock if that process dies."""
        with self.path.open("ab") as file:
            # Where files cannot be locked, the checksum still detects a mixed file.
            lock_file(
                file,
                UnbagError(
                    f"another process is fetching {self.target}",
                    expected="one process per file",
                    hint="wait for it, or stop it",
                ),
            )
            try:
                yield
            finally:
                if not self.size:
                    self.path.unlink(missing_ok=True)
