"""`unbag data`: list, check and download the files of benchmarks."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from unbag.cli.options import add_command
from unbag.errors import UnbagError
from unbag.registry import Commands, find, names

if TYPE_CHECKING:
    from unbag.data.download import Obtained, Patience
    from unbag.runs.progress import ProgressBar
    from unbag.types import Benchmark, Download


_ABOUT = "List, check and download the files of benchmarks."

_EXAMPLES = """\
examples:
  unbag data list
  unbag data get sugarcrepe --images --data data
  unbag data check sugarcrepe --data data
"""

_ABOUT_GET = """\
Download the public files of benchmarks and verify their checksums. An interrupted download resumes.
For files behind an account or a form, the command explains where to get them.
"""

_SHOWN_FILES, _SHOWN_IMAGES = 12, 10
"""Lines about files to fetch, and about missing images."""

_NO_SIZE = "unknown size"
_CLASS_FOLDERS = ("*/*", "**/*")
"""Patterns of benchmarks that are read from folders of images, one a class."""


def add(commands: Commands) -> None:
    """List, check and get."""
    text = "list, check and download the files of benchmarks"
    data = add_command(commands, "data", text=text, about=_ABOUT, examples=_EXAMPLES)
    actions = data.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "list the benchmarks that are read from files"
    add_command(actions, "list", text=text, about=f"{text[0].upper()}{text[1:]}.")
    text = "list present and missing files of a benchmark"
    check = add_command(actions, "check", text=text, about=f"{text[0].upper()}{text[1:]}.")
    check.add_argument("name", metavar="NAME", help="a benchmark")
    text = "download the files of benchmarks"
    get = add_command(actions, "get", text=text, about=_ABOUT_GET)
    get.add_argument("names", nargs="+", metavar="NAME", help="benchmarks")
    text = "also download the images, often gigabytes (default: annotation files only)"
    get.add_argument("--images", action="store_true", help=text)
    for action in (check, get):
        text = "data folder, with one subfolder per benchmark"
        action.add_argument("--data", type=Path, required=True, metavar="DIR", help=text)


def start(options: argparse.Namespace) -> int:
    """One of the three."""
    if options.action == "list":
        return _list()
    if options.action == "check":
        return _check(options.name, options.data)
    return get_data(options.names, options.data, images=options.images)


def _list() -> int:
    """Every benchmark that needs files: how to get them, its images and its licence."""
    from unbag.types import Benchmark

    found = [find("benchmark", name) for name in names("benchmark")]
    needy = [one for one in found if isinstance(one, Benchmark) and one.files]
    if not needy:
        print("no benchmark is read from files")
        return 0
    width = max(len(one.name) for one in needy)
    for one in needy:
        print(
            f"{one.name:<{width}}  {_way(one):<34}  images: {', '.join(one.sources)}; "
            f"licence: {one.licence}"
        )
    print(
        "`unbag data get NAME --data DIR` downloads public files and explains how to get the others"
    )
    print("`unbag data check NAME --data DIR` lists present and missing files")
    return 0


def _way(one: Benchmark) -> str:
    """What `data get` can do for a benchmark."""
    kinds = {download.has_images for download in one.downloads}
    if not kinds:
        return "by hand"
    whole = {True: "images", False: "files"}
    got = " + ".join(whole[kind] for kind in sorted(kinds))
    return f"download {got}{', rest by hand' if one.gated else ''}"


def _check(name: str, data: Path) -> int:
    """What is there, what is missing, where it comes from and how to lay it out."""
    from unbag.benchmarks.names import benchmark

    one = benchmark(name)
    if not one.files:
        print(f"{one.name} generates its own data; no files are needed")
        return 0
    found = _look(one, data)
    _print_found(one, data, found)
    if found.problem:
        raise UnbagError(
            found.problem,
            expected="the official files, in the layout above",
            hint=_hint(name, data, found),
        )
    return 0


def _look(one: Benchmark, data: Path) -> Found:
    """Look for the files of a benchmark, then for the images that they name."""
    from unbag.evaluation.loading import absent_images

    root = data / one.place
    # A file may be a pattern: class sets need any image in any folder.
    missing = tuple(file for file in one.files if not any(root.glob(file)))
    if missing:
        return Found(len(one.files), missing, 0, ())
    items = one.load(root)
    return Found(len(one.files), (), len(items), tuple(sorted(absent_images(items))))


@dataclass(frozen=True)
class Found:
    """What is on disk of a benchmark."""

    files: int
    """How many it needs."""
    missing: tuple[str, ...]
    """Files that are not there."""
    items: int
    absent: tuple[Path, ...]
    """Images that are not there; only known once no file is missing."""

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
        if not self.absent:
            return ""
        return (
            "1 image is missing"
            if len(self.absent) == 1
            else f"{len(self.absent):,} images are missing"
        )


def _hint(name: str, data: Path, found: Found) -> str:
    if found.missing and not found.lacks_classes:
        return f"`unbag data get {name} --data {data}` downloads or explains them"
    get = f"`unbag data get {name} --images --data {data}` downloads or explains them"
    skip = "; `unbag run --missing skip` evaluates on the others" if found.absent else ""
    return get + skip


def _print_found(one: Benchmark, data: Path, found: Found) -> None:
    """The summary of a benchmark on disk."""
    print(f"{one.name}: {one.about}")
    print(f"  cite:     {one.cite or 'not stated'}")
    print(f"  licence:  {one.licence or 'not stated'}")
    print(f"  images:   {', '.join(one.sources) or 'not stated'}")
    print(f"  folder:   {data / one.place}")
    for file in one.files:
        shown = "class folders" if file in _CLASS_FOLDERS else file
        print(f"  {'missing' if file in found.missing else 'present'}   {shown}")
    if not found.missing:
        print(f"  {found.items:,} items are readable")
    for path in found.absent[:_SHOWN_IMAGES]:
        print(f"  missing   {path}")
    if found.problem and one.gated:
        print(f"  by hand:  {one.gated}")
    if not found.problem:
        print("complete")


def get_data(
    names: Sequence[str], data: Path, *, images: bool, patience: Patience | None = None
) -> int:
    """Fetch files, and images if asked for; 0 if everything asked for is there in the end."""
    from rich.console import Console

    from unbag.benchmarks.names import benchmark
    from unbag.cli.console import ShownBytes
    from unbag.data.download import PATIENCE, required_downloads

    found = [benchmark(name) for name in dict.fromkeys(names)]
    benchmarks = [one for one in found if one.files]
    for one in found:
        if not one.files:
            print(f"{one.name} generates its own data; no files are needed")
    for one in benchmarks:
        _print_plan(one, data, images=images)
    _print_total(required_downloads(benchmarks, images=images), data)
    work = _Work(data, ShownBytes(Console(stderr=True)).task, patience or PATIENCE)
    try:
        work.get(required_downloads(benchmarks, images=False))
        if images:
            work.get(_images(benchmarks, data))
    except KeyboardInterrupt:
        print(
            "unbag: stopped. Partial downloads are kept; the same command resumes them",
            file=sys.stderr,
        )
        return 130
    complete = [_summed_up(one, data, images=images) for one in benchmarks]
    return 1 if work.failed or not all(complete) else 0


def _print_plan(one: Benchmark, data: Path, *, images: bool) -> None:
    from unbag.data.archives import readable
    from unbag.data.download import is_there

    print(one.name)
    print(f"  licence:  {one.licence or 'not stated'}")
    later = [d for d in one.downloads if d.has_images and not images]
    now = [d for d in one.downloads if d not in later]

    def described(download: Download) -> str:
        return f"{download.to} ({readable(download.size) if download.size else _NO_SIZE})"

    for download in now[:_SHOWN_FILES]:
        print(f"  {'present ' if is_there(download, data) else 'download'}  {described(download)}")
    if len(now) > _SHOWN_FILES:
        print(f"            and {len(now) - _SHOWN_FILES} more")
    for download in later[:_SHOWN_FILES]:
        print(f"  images    {described(download)}: only with --images")
    if len(later) > _SHOWN_FILES:
        print(f"  images    and {len(later) - _SHOWN_FILES} more")
    if one.gated:
        print(f"  by hand:  {one.gated}")
    elif not one.downloads:
        print("  by hand:  no public download is known; see the page of the authors")


def _print_total(downloads: Sequence[Download], data: Path) -> None:
    from unbag.data.archives import readable
    from unbag.data.download import is_there

    pending = [download for download in downloads if not is_there(download, data)]
    unknown = sum(not download.size for download in pending)
    known = sum(download.size for download in pending)
    more = f" and {unknown} files of unknown size" if unknown and known else ""
    size = readable(known) if known or not unknown else _NO_SIZE
    files = "1 file" if len(pending) == 1 else f"{len(pending)} files"
    print(f"{files} to download into {data} ({size}{more})", flush=True)


@dataclass
class _Work:
    """Gets one download after the other; one that fails stops no other."""

    data: Path
    task: ProgressBar
    patience: Patience
    failed: bool = False
    silent: set[str] = field(default_factory=set)
    """Hosts that did not answer: hundreds of small files must not wait for each anew."""

    def get(self, downloads: Iterable[Download]) -> None:
        from unbag.data.download import UnreachableError, obtain

        for download in downloads:
            host = urlsplit(download.url).netloc
            if host in self.silent:
                self._fail(f"{download.to} was skipped: {host} does not answer")
                continue
            try:
                got = obtain(download, self.data, task=self.task, patience=self.patience)
            except UnbagError as error:
                if isinstance(error, UnreachableError):
                    self.silent.add(host)
                self._fail(str(error))
            else:
                _print_got(download, got)

    def _fail(self, message: str) -> None:
        self.failed = True
        print(f"unbag: {message}", file=sys.stderr)


def _print_got(download: Download, got: Obtained) -> None:
    if got.was_there or (download.has_images and not download.unpack):
        return
    unpacked = f", {got.members:,} files extracted to {download.unpack}" if got.members else ""
    known = "as published" if download.sha256 else "no published checksum to compare with"
    print(f"downloaded {download.to}{unpacked}; sha256 {got.sha256}, {known}", flush=True)


def _images(benchmarks: Iterable[Benchmark], data: Path) -> tuple[Download, ...]:
    """Images of the benchmarks that lack some: what was unpacked by hand is not fetched again."""
    from unbag.data.download import required_downloads

    lacking = []
    for one in benchmarks:
        # Warnings are said once, with the summary.
        with warnings.catch_warnings(), suppress(UnbagError):
            warnings.simplefilter("ignore")
            if not _look(one, data).problem:
                print(f"present   all images of {one.name}")
                continue
        lacking.append(one)
    downloads = required_downloads(lacking, images=True)
    return tuple(download for download in downloads if download.has_images)


def _summed_up(one: Benchmark, data: Path, *, images: bool) -> bool:
    """Print what `data check` prints; whether everything that was asked for is there."""
    try:
        found = _look(one, data)
    except UnbagError as error:
        print(f"unbag: {error}", file=sys.stderr)
        return False
    _print_found(one, data, found)
    if not found.problem:
        return True
    can_get = found.absent and not images and any(d.has_images for d in one.downloads)
    print(f"{found.problem}{'; --images downloads them' if can_get else ''}")
    return not found.missing and not images
