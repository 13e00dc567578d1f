"""Unpack zip and tar archives safely: nothing is written outside the target folder."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from lzma import LZMAError
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO
from zipfile import BadZipFile, ZipFile, is_zipfile

from unbag.errors import UnbagError
from unbag.runs.progress import ProgressBar, unseen

CHUNK = 1 << 20

# The standard library raises the last three when headers are truncated or altered.
_DAMAGE_ERRORS = (
    *(BadZipFile, tarfile.TarError, EOFError, zlib.error, LZMAError),
    *(ValueError, TypeError, struct.error),
)


@dataclass(frozen=True)
class Limits:
    """Bounds against archive bombs. Photographs hardly compress, text by a factor of ten."""

    ratio: int = 100
    """Largest ratio of unpacked to packed bytes."""
    free: int = 50_000_000
    """Bytes that may be unpacked whatever the size of the archive."""
    members: int = 2_000_000

    def max_size(self, packed: int) -> int:
        """Largest unpacked size in bytes of an archive of this size."""
        return max(self.free, self.ratio * packed)


LIMITS = Limits()


def unpack(
    archive: Path, folder: Path, *, task: ProgressBar = unseen, limits: Limits = LIMITS
) -> tuple[Member, ...]:
    """Unpack a zip or tar archive; existing files of the right size are not written again.

    Each file is written under a temporary name and renamed, so files are never partial. Links,
    devices and names that lead out of the folder raise UnbagError.
    """
    with _read(archive) as entries:
        folder.mkdir(parents=True, exist_ok=True)
        total = _Total(archive, limits)
        members: list[Member] = []
        done = 0
        with task(f"unpack {archive.name}", archive.stat().st_size) as advance:
            for entry in entries:
                name = _checked_name(archive, entry)
                if entry.kind == "file":
                    total.add(entry, name)
                    _extract(archive, folder / name, folder, entry)
                    members.append(Member(name, entry.size))
                advance(max(entry.packed - done, 0))
                done = max(entry.packed, done)
        return tuple(members)


@dataclass(frozen=True)
class Member:
    """A file in an archive."""

    name: str
    """Path relative to the archive, with /."""
    size: int


class DamagedError(UnbagError):
    """The archive is damaged, or not an archive."""


def check_space(folder: Path, needed: int, *, what: str) -> None:
    """Raise UnbagError if the disk of `folder` has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UnbagError(
            f"{what} needs {readable(needed)} more, and {folder} has {readable(free)} free",
            expected="enough room on the disk",
            hint="free some, or choose another disk with --data",
        )


def readable(size: int) -> str:
    """Format a size in bytes, such as 815.6 MB, with decimal units."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.95:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _checked_name(archive: Path, entry: _ArchiveEntry) -> str:
    """Return the normalized name of an entry; UnbagError if it leads out of the folder."""
    name = entry.name.replace("\\", "/")
    path = PurePosixPath(name)
    if (
        path.is_absolute()
        or PureWindowsPath(name).drive
        or ".." in path.parts
        or any(ord(character) < 32 for character in name)
        or (not path.parts and entry.kind != "folder")
    ):
        raise _refused(archive, f"holds {entry.name!r}", "names that stay below the folder")
    if entry.kind not in ("file", "folder"):
        raise _refused(archive, f"holds {entry.name!r}, {entry.kind}", "plain files and folders")
    return path.as_posix()


def _extract(archive: Path, path: Path, folder: Path, entry: _ArchiveEntry) -> None:
    if path.is_file() and path.stat().st_size == entry.size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise _refused(
            archive, f"would be unpacked through the link {path.parent}", "a folder of its own"
        )
    check_space(path.parent, entry.size, what=path.name)
    temporary = path.with_name(f".{path.name}.part")
    try:
        content = entry.open()
        assert content is not None
        # Opening an existing link would follow it; O_EXCL creates a new file or fails.
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with content, os.fdopen(os.open(temporary, flags, 0o644), "wb") as file:
            shutil.copyfileobj(content, file, CHUNK)
            size = file.tell()
        if size != entry.size:
            raise _damaged(archive, f"{entry.name} has {size:,} of {entry.size:,} bytes")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass
class _Total:
    """Counts the names and bytes of an archive and enforces its limits."""

    archive: Path
    limits: Limits
    names: set[str] = field(default_factory=set)
    size: int = 0

    def add(self, entry: _ArchiveEntry, name: str) -> None:
        """Count a file; UnbagError above the limits or for a repeated name."""
        max_size = self.limits.max_size(self.archive.stat().st_size)
        self.size += entry.size
        if self.size > max_size or len(self.names) >= self.limits.members:
            raise _refused(
                self.archive,
                f"holds more than {readable(max_size)} or {self.limits.members:,} files",
                f"at most {self.limits.ratio} times its own size",
            )
        if name in self.names:
            raise _refused(self.archive, f"holds {name!r} twice", "each file once")
        self.names.add(name)


@contextmanager
def _read(archive: Path) -> Iterator[Iterator[_ArchiveEntry]]:
    """Open an archive and yield its entries, each to be read before the next."""
    try:
        if is_zipfile(archive):
            with ZipFile(archive) as file:
                yield _zip_entries(file)
        else:
            with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as tar:
                yield _tar_entries(tar, raw)
    except _DAMAGE_ERRORS as error:
        raise _damaged(archive, str(error) or type(error).__name__) from error
    except (NotImplementedError, RuntimeError) as error:
        raise _refused(archive, f"cannot be read: {error}", "a plain zip or tar archive") from error
    except OSError as error:
        # gzip reports damage as an OSError without an errno.
        if error.errno is None:
            raise _damaged(archive, str(error)) from error
        raise UnbagError(
            f"cannot unpack {archive}: {error.strerror} ({error.filename})",
            expected="a folder that can be written, with room",
            hint="fix this and run the command again: it resumes from there",
        ) from error


def _zip_entries(file: ZipFile) -> Iterator[_ArchiveEntry]:
    packed = 0
    for info in file.infolist():
        packed += info.compress_size
        # Zip files made on other systems than Unix have no file mode.
        is_file = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
        kind = "folder" if info.is_dir() else "file" if is_file else "a link or device"
        yield _ArchiveEntry(info.filename, info.file_size, kind, packed, partial(file.open, info))


def _tar_entries(tar: tarfile.TarFile, raw: IO[bytes]) -> Iterator[_ArchiveEntry]:
    for info in tar:
        kind = "file" if info.isreg() else "folder" if info.isdir() else "a link or device"
        yield _ArchiveEntry(info.name, info.size, kind, raw.tell(), partial(tar.extractfile, info))


def _refused(archive: Path, what: str, expected: str) -> UnbagError:
    return UnbagError(
        f"{archive} {what}",
        expected=expected,
        hint="unpack it by hand if you trust it",
    )


def _damaged(archive: Path, what: str) -> DamagedError:
    return DamagedError(
        f"{archive} is damaged: {what}",
        expected="a whole zip or tar archive",
        hint="remove it and download it again",
    )


@dataclass(frozen=True)
class _ArchiveEntry:
    """An entry as the archive declares it, not yet validated."""

    name: str
    size: int
    kind: str
    """file, folder, or a description of anything else."""
    packed: int
    """Bytes of the archive up to the end of this entry, possibly estimated; for progress."""
    open: Callable[[], IO[bytes] | None]
    """Valid until the next entry is requested."""
