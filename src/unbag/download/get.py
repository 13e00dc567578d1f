"""A benchmark's downloads to files where its loader looks for them; what is there stays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from unbag.download.fetch import PATIENCE, Fetched, Patience, fetch
from unbag.download.showing import Task, unseen
from unbag.download.unpack import DamagedError, Member, unpack
from unbag.errors import UserError
from unbag.types import Benchmark, Download

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
