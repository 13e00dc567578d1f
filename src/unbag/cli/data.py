"""`unbag data`: which benchmarks are read from files, and whether a user's files are complete."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from unbag.benchmarks.names import benchmark as find_benchmark
from unbag.cli.console import ShownBytes
from unbag.data.archives import readable
from unbag.data.download import (
    PATIENCE,
    Obtained,
    Patience,
    UnreachableError,
    is_there,
    obtain,
    wanted,
)
from unbag.errors import UserError
from unbag.evaluation.loading import absent_pictures
from unbag.registry import find, names
from unbag.runs.progress import Task
from unbag.types import Benchmark, Download

_SHOWN = 10
_CLASS_FOLDERS = ("*/*", "**/*")
"""Patterns of benchmarks that are read from folders of pictures, one a class."""


def list_data() -> int:
    """Every benchmark that needs files: how to get them, its pictures and its licence."""
    found = [find("benchmark", name) for name in names("benchmark")]
    needy = [one for one in found if isinstance(one, Benchmark) and one.files]
    if not needy:
        print("no benchmark needs files")
        return 0
    width = max(len(one.name) for one in needy)
    for one in needy:
        print(
            f"{one.name:<{width}}  {_way(one):<34}  pictures: {', '.join(one.sources)}; "
            f"licence: {one.licence}"
        )
    print(
        "`unbag data get NAME --data DIR` fetches what has a public address and explains the rest"
    )
    print("`unbag data check NAME --data DIR` says what is there and what is missing")
    return 0


def _way(one: Benchmark) -> str:
    """What `data get` can do for a benchmark."""
    kinds = {download.has_pictures for download in one.downloads}
    if not kinds:
        return "by hand"
    whole = {True: "pictures", False: "files"}
    got = " + ".join(whole[kind] for kind in sorted(kinds))
    return f"get {got}{', rest by hand' if one.gated else ''}"


@dataclass(frozen=True)
class Found:
    """What is on disk of a benchmark."""

    files: int
    """How many it needs."""
    missing: tuple[str, ...]
    """Files that are not there."""
    items: int
    absent: tuple[Path, ...]
    """Pictures that are not there; only known once no file is missing."""

    @property
    def lacks_classes(self) -> bool:
        """It is read from class folders, and there are none."""
        return any(file in _CLASS_FOLDERS for file in self.missing)

    @property
    def problem(self) -> str:
        """Why it cannot be measured as a whole; empty if it can."""
        if self.lacks_classes:
            return "there are no class folders"
        if self.missing:
            return f"{len(self.missing)} of {self.files} files are missing"
        return f"{len(self.absent):,} pictures are missing" if self.absent else ""


def look(one: Benchmark, data: Path) -> Found:
    """Look for the files of a benchmark, then for the pictures that they name."""
    root = data / one.place
    # A file may be a pattern: class sets need any picture in any folder.
    missing = tuple(file for file in one.files if not any(root.glob(file)))
    if missing:
        return Found(len(one.files), missing, 0, ())
    items = one.load(root)
    return Found(len(one.files), (), len(items), tuple(sorted(absent_pictures(items))))


def check_data(name: str, data: Path) -> int:
    """What is there, what is missing, where it comes from and how to lay it out."""
    one = find_benchmark(name)
    if not one.files:
        print(f"{one.name} makes its own data; nothing is needed")
        return 0
    found = look(one, data)
    print_found(one, data, found)
    if found.problem:
        raise UserError(
            found.problem,
            expected="the official files, laid out as above",
            way_out=_way_out(name, data, found),
        )
    return 0


def _way_out(name: str, data: Path, found: Found) -> str:
    if found.missing and not found.lacks_classes:
        return f"`unbag data get {name} --data {data}` fetches or explains them"
    get = f"`unbag data get {name} --pictures --data {data}` fetches or explains them"
    skip = "; `unbag run --missing skip` measures what is there" if found.absent else ""
    return get + skip


def _readable(file: str) -> str:
    return "class folders" if file in _CLASS_FOLDERS else file


def print_found(one: Benchmark, data: Path, found: Found) -> None:
    """The summary of a benchmark on disk."""
    print(f"{one.name}: {one.about}")
    print(f"  cite:     {one.cite or 'not stated'}")
    print(f"  licence:  {one.licence or 'not stated'}")
    print(f"  pictures: {', '.join(one.sources) or 'not stated'}")
    print(f"  folder:   {data / one.place}")
    for file in one.files:
        print(f"  {'missing' if file in found.missing else 'there  '}   {_readable(file)}")
    if not found.missing:
        print(f"  {found.items:,} items can be read")
    for path in found.absent[:_SHOWN]:
        print(f"  missing   {path}")
    if found.problem and one.gated:
        print(f"  by hand:  {one.gated}")
    if not found.problem:
        print("complete")


# `unbag data get`: say what will come, fetch what has a public address, explain the rest.

_GET_SHOWN = 12


def get_data(
    names: Sequence[str], data: Path, *, pictures: bool, patience: Patience = PATIENCE
) -> int:
    """Fetch files, and pictures if asked for; 0 if everything asked for is there in the end."""
    found = [find_benchmark(name) for name in dict.fromkeys(names)]
    benchmarks = [one for one in found if one.files]
    for one in found:
        if not one.files:
            print(f"{one.name} makes its own data; nothing is needed")
    for one in benchmarks:
        _print_plan(one, data, pictures=pictures)
    _print_total(wanted(benchmarks, pictures=pictures), data)
    work = _Work(data, ShownBytes(Console(stderr=True)).task, patience)
    try:
        work.get(wanted(benchmarks, pictures=False))
        if pictures:
            work.get(_pictures(benchmarks, data))
    except KeyboardInterrupt:
        print(
            "unbag: stopped. What came is kept; the same command goes on from the .part file",
            file=sys.stderr,
        )
        return 130
    complete = [_summed_up(one, data, pictures=pictures) for one in benchmarks]
    return 1 if work.failed or not all(complete) else 0


@dataclass
class _Work:
    """Gets one download after the other; one that fails stops no other."""

    data: Path
    task: Task
    patience: Patience
    failed: bool = False
    silent: set[str] = field(default_factory=set)
    """Hosts that did not answer: hundreds of small files must not wait for each anew."""

    def get(self, downloads: Iterable[Download]) -> None:
        for download in downloads:
            host = urlsplit(download.url).netloc
            if host in self.silent:
                self._fail(f"{download.to} was not tried: {host} did not answer")
                continue
            try:
                got = obtain(download, self.data, task=self.task, patience=self.patience)
            except UserError as error:
                if isinstance(error, UnreachableError):
                    self.silent.add(host)
                self._fail(str(error))
            else:
                _print_got(download, got)

    def _fail(self, message: str) -> None:
        self.failed = True
        print(f"unbag: {message}", file=sys.stderr)


def _pictures(benchmarks: Iterable[Benchmark], data: Path) -> tuple[Download, ...]:
    """Pictures of the benchmarks that lack some: what was unpacked by hand is not fetched again."""
    lacking = []
    for one in benchmarks:
        if _has_pictures(one, data):
            print(f"there     all pictures of {one.name}")
        else:
            lacking.append(one)
    return tuple(download for download in wanted(lacking, pictures=True) if download.has_pictures)


def _has_pictures(one: Benchmark, data: Path) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # They are said once, with the summary.
            return not look(one, data).problem
    except UserError:
        return False


def _print_plan(one: Benchmark, data: Path, *, pictures: bool) -> None:
    print(f"{one.name}")
    print(f"  licence:  {one.licence or 'not stated'}")
    later = [d for d in one.downloads if d.has_pictures and not pictures]
    now = [d for d in one.downloads if d not in later]
    for download in now[:_GET_SHOWN]:
        print(f"  {'there   ' if is_there(download, data) else 'to fetch'}  {_described(download)}")
    if len(now) > _GET_SHOWN:
        print(f"            and {len(now) - _GET_SHOWN} more")
    for download in later[:_GET_SHOWN]:
        print(f"  pictures  {_described(download)}: only with --pictures")
    if len(later) > _GET_SHOWN:
        print(f"  pictures  and {len(later) - _GET_SHOWN} more")
    if one.gated:
        print(f"  by hand:  {one.gated}")
    elif not one.downloads:
        print("  by hand:  no public address is known; see the page of its authors")


def _described(download: Download) -> str:
    size = readable(download.size) if download.size else "size not known"
    return f"{download.to} ({size})"


def _print_total(downloads: Sequence[Download], data: Path) -> None:
    pending = [download for download in downloads if not is_there(download, data)]
    unknown = sum(not download.size for download in pending)
    known = sum(download.size for download in pending)
    more = f" and {unknown} files whose size is not known" if unknown and known else ""
    size = readable(known) if known or not unknown else "size not known"
    files = "1 file" if len(pending) == 1 else f"{len(pending)} files"
    print(f"{files} to fetch into {data} ({size}{more})", flush=True)


def _print_got(download: Download, got: Obtained) -> None:
    if got.was_there or (download.has_pictures and not download.unpack):
        return
    unpacked = f", {got.members:,} files unpacked to {download.unpack}" if got.members else ""
    known = "as it should be" if download.sha256 else "none is published to compare it with"
    print(f"fetched   {download.to}{unpacked}; sha256 {got.sha256}, {known}", flush=True)


def _summed_up(one: Benchmark, data: Path, *, pictures: bool) -> bool:
    """Print what `data check` prints; whether everything that was asked for is there."""
    try:
        found = look(one, data)
    except UserError as error:
        print(f"unbag: {error}", file=sys.stderr)
        return False
    print_found(one, data, found)
    if not found.problem:
        return True
    can_get = found.absent and not pictures and any(d.has_pictures for d in one.downloads)
    print(f"{found.problem}{'; --pictures fetches them' if can_get else ''}")
    return not found.missing and not pictures
