"""A benchmark's downloads to files where its loader looks for them; what is there stays."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from lzma import LZMAError
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO
from zipfile import BadZipFile, ZipFile, ZipInfo, is_zipfile

from unbag.data.http import PATIENCE, Fetched, Patience, Task, check_space, fetch, readable, unseen
from unbag.errors import UserError
from unbag.types import Benchmark, Download

# An archive to files below one folder and nowhere else, going on where it was stopped.

CHUNK = 1 << 20
# The last three are what the standard library lets through when headers are cut or changed.
_DAMAGE = (
    *(BadZipFile, tarfile.TarError, EOFError, zlib.error, LZMAError),
    *(ValueError, TypeError, struct.error),
)


@dataclass(frozen=True)
class Limits:
    """What an honest archive stays below; photographs hardly shrink, text by ten times."""

    ratio: int = 100
    """Bytes unpacked for one packed."""
    free: int = 50_000_000
    """Bytes that may always be unpacked, however small the archive."""
    members: int = 2_000_000

    def most(self, packed: int) -> int:
        """Bytes that an archive of this size may hold."""
        return max(self.free, self.ratio * packed)


LIMITS = Limits()


class DamagedError(UserError):
    """An archive that is not whole, or no archive."""


@dataclass(frozen=True)
class Member:
    """A file that an archive holds."""

    name: str
    """Below the folder, with /."""
    size: int


@dataclass(frozen=True)
class _Entry:
    """What stands in the archive, before it is believed."""

    name: str
    size: int
    kind: str
    """file, folder, or what else it is."""
    packed: int
    """Bytes of the archive up to the end of this entry, or an estimate of it."""
    open: Callable[[], IO[bytes] | None]
    """Only while the entry is the last one given."""


@dataclass
class _Counted:
    """What has been seen of the archive so far."""

    archive: Path
    limits: Limits
    names: set[str] = field(default_factory=set)
    size: int = 0

    def add(self, entry: _Entry, name: str) -> None:
        """Refuse what no honest archive has."""
        most = self.limits.most(self.archive.stat().st_size)
        self.size += entry.size
        if self.size > most or len(self.names) >= self.limits.members:
            raise _refused(
                self.archive,
                f"holds more than {readable(most)} or {self.limits.members:,} files",
                f"at most {self.limits.ratio} times its own size",
            )
        if name in self.names:
            raise _refused(self.archive, f"holds {name!r} twice", "each file once")
        self.names.add(name)


def unpack(
    archive: Path, folder: Path, *, task: Task = unseen, limits: Limits = LIMITS
) -> tuple[Member, ...]:
    """Unpack a zip or tar archive; files that are there with the right size are left alone.

    Each file is written under another name and renamed, so that one that is there is whole.
    Links, devices and names that lead out of the folder are refused.
    """
    with _read(archive) as entries:
        return _write(archive, folder, entries, task, limits)


def _write(
    archive: Path, folder: Path, entries: Iterator[_Entry], task: Task, limits: Limits
) -> tuple[Member, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    counted = _Counted(archive, limits)
    found: list[Member] = []
    done = 0
    with task(f"unpack {archive.name}", archive.stat().st_size) as advance:
        for entry in entries:
            name = _safe(archive, entry)
            if entry.kind == "file":
                counted.add(entry, name)
                _put(archive, folder / name, folder, entry)
                found.append(Member(name, entry.size))
            advance(max(entry.packed - done, 0))
            done = max(entry.packed, done)
    return tuple(found)


def _safe(archive: Path, entry: _Entry) -> str:
    """The name of an entry, if it stays below the folder."""
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


def _put(archive: Path, path: Path, folder: Path, entry: _Entry) -> None:
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
        _copy(archive, entry, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _copy(archive: Path, entry: _Entry, to: Path) -> None:
    content = entry.open()
    assert content is not None
    # A link that waits under the temporary name would be followed; a new file never is.
    to.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with content, os.fdopen(os.open(to, flags, 0o644), "wb") as file:
        shutil.copyfileobj(content, file, CHUNK)
        size = file.tell()
    if size != entry.size:
        raise _damaged(archive, f"{entry.name} has {size:,} of {entry.size:,} bytes")


@contextmanager
def _read(archive: Path) -> Iterator[Iterator[_Entry]]:
    """The entries of an archive, each to be read before the next."""
    try:
        if is_zipfile(archive):
            with ZipFile(archive) as file:
                yield _zip_entries(file)
        else:
            with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as tar:
                yield _tar_entries(tar, raw)
    except _DAMAGE as error:
        raise _damaged(archive, str(error) or type(error).__name__) from error
    except (NotImplementedError, RuntimeError) as error:
        raise _refused(archive, f"cannot be read: {error}", "a plain zip or tar archive") from error
    except OSError as error:
        # gzip reports damage as an OSError without a number.
        if error.errno is None:
            raise _damaged(archive, str(error)) from error
        raise UserError(
            f"cannot unpack {archive}: {error.strerror} ({error.filename})",
            expected="a folder that can be written, with room",
            way_out="mend that and run this again: it goes on from there",
        ) from error


def _zip_entries(file: ZipFile) -> Iterator[_Entry]:
    packed = 0
    for info in file.infolist():
        packed += info.compress_size
        yield _Entry(
            info.filename, info.file_size, _zip_kind(info), packed, partial(file.open, info)
        )


def _zip_kind(info: ZipInfo) -> str:
    if info.is_dir():
        return "folder"
    mode = stat.S_IFMT(info.external_attr >> 16)
    # Zip files of other systems than Unix have no mode at all.
    return "file" if mode in (0, stat.S_IFREG) else "a link or device"


def _tar_entries(tar: tarfile.TarFile, raw: IO[bytes]) -> Iterator[_Entry]:
    for info in tar:
        kind = "file" if info.isreg() else "folder" if info.isdir() else "a link or device"
        yield _Entry(info.name, info.size, kind, raw.tell(), partial(tar.extractfile, info))


def _refused(archive: Path, what: str, expected: str) -> UserError:
    return UserError(
        f"{archive} {what}",
        expected=expected,
        way_out="unpack it by hand if you trust it",
    )


def _damaged(archive: Path, what: str) -> DamagedError:
    return DamagedError(
        f"{archive} is damaged: {what}",
        expected="a whole zip or tar archive",
        way_out="remove it and fetch it again",
    )


_NAMES = "surrogateescape"
"""Names in old archives are not always UTF-8; they must come back as they were."""


@dataclass(frozen=True)
class Obtained:
    """What came of one download."""

    sha256: str
    """Of the file, or of the archive it came in."""
    members: int
    """Files unpacked; 0 if it is no archive."""
    was_there: bool


def wanted(benchmarks: Iterable[Benchmark], *, pictures: bool) -> tuple[Download, ...]:
    """What to fetch for these benchmarks, each file once; pictures only if asked for."""
    found: dict[str, Download] = {}
    for benchmark in benchmarks:
        for download in benchmark.downloads:
            if download.has_pictures and not pictures:
                continue
            known = found.setdefault(download.to, download)
            if known.url != download.url:
                raise UserError(
                    f"{benchmark.name} wants {download.url} as {download.to}, which is "
                    f"{known.url} for another benchmark",
                    expected="one source for a file",
                    way_out="fetch them into two data folders",
                )
    return tuple(found.values())


def is_there(download: Download, data: Path) -> bool:
    """Whether it looks complete: by name and size, without reading the bytes."""
    target = below(data, download.to)
    if download.unpack:
        return _kept(download, data) is not None
    return target.is_file() and target.stat().st_size == (download.size or target.stat().st_size)


def obtain(
    download: Download, data: Path, *, task: Task = unseen, patience: Patience = PATIENCE
) -> Obtained:
    """Fetch, check and unpack one download; an archive is removed once it is unpacked."""
    target = below(data, download.to)
    if not download.unpack:
        fetched = fetch(download, target, task=task, patience=patience)
        return Obtained(fetched.sha256, 0, fetched.was_there)
    if kept := _kept(download, data):
        return Obtained(kept.sha256, len(kept.members), was_there=True)
    fetched = fetch(download, target, task=task, patience=patience)
    try:
        members = unpack(target, below(data, download.unpack), task=task)
    except DamagedError as error:
        target.unlink(missing_ok=True)
        raise UserError(
            f"{download.url}: {error.found}",
            expected=error.expected,
            way_out="it was removed; run this again to fetch it anew",
        ) from error
    _keep(download, fetched, members)
    target.unlink()
    return Obtained(fetched.sha256, len(members), was_there=False)


def below(data: Path, name: str) -> Path:
    """A place below the data folder; a plug-in may not name one elsewhere."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive:
        raise UserError(
            f"a download would go to {name!r}",
            expected="a place below the data folder",
            way_out="mend the benchmark's downloads",
        )
    return data / path


@dataclass(frozen=True)
class _Kept:
    """What an archive that is gone held."""

    sha256: str
    members: tuple[Member, ...]


def _list_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.contents")


def _keep(download: Download, fetched: Fetched, members: Iterable[Member]) -> None:
    """Write down what an archive held, so that it can go and is not fetched again."""
    path = _list_of(fetched.path)
    temporary = path.with_name(f".{path.name}.part")
    lines = [fetched.sha256, download.url, *(f"{one.size}\t{one.name}" for one in members)]
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8", errors=_NAMES)
    temporary.replace(path)


def _kept(download: Download, data: Path) -> _Kept | None:
    """What the archive held, if all of it is still there."""
    try:
        text = _list_of(below(data, download.to)).read_text(encoding="utf-8", errors=_NAMES)
        digest, _, *lines = text.splitlines()
        cells = [line.partition("\t") for line in lines]
        members = tuple(Member(name, int(size)) for size, _, name in cells)
    except (OSError, ValueError):
        return None
    folder = below(data, download.unpack)
    if digest != (download.sha256 or digest) or not members:
        return None
    return _Kept(digest, members) if all(_is_whole(folder, one) for one in members) else None


def _is_whole(folder: Path, member: Member) -> bool:
    try:
        return (folder / member.name).stat().st_size == member.size
    except OSError:
        return False
