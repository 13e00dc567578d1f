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
For files that need an account or a form, the command explains where to get them.
"""

_SHOWN_FILES, _SHOWN_IMAGES = 12, 10
"""Largest number of lines about files to download, and about missing images."""

_NO_SIZE = "unknown size"
_CLASS_FOLDERS = ("*/*", "**/*")
"""File patterns of benchmarks that are read from class folders of images."""


def add(commands: Commands) -> None:
    """Add the actions list, check and get."""
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
    """Run an action."""
    if options.action == "list":
        return _list()
    if options.action == "check":
        return _check(options.name, options.data)
    return get_data(options.names, options.data, images=options.images)


def _list() -> int:
    """Print all benchmarks that need files: how to get them, image sources and licence."""
    from unbag.types import Benchmark

    registered = [find("benchmark", name) for name in names("benchmark")]
    from_files = [
        benchmark
        for benchmark in registered
        if isinstance(benchmark, Benchmark) and benchmark.files
    ]
    if not from_files:
        print("no benchmark is read from files")
        return 0
    width = max(len(benchmark.name) for benchmark in from_files)
    for benchmark in from_files:
        print(
            f"{benchmark.name:<{width}}  {_download_note(benchmark):<34}  "
            f"images: {', '.join(benchmark.sources)}; licence: {benchmark.licence}"
        )
    print(
        "`unbag data get NAME --data DIR` downloads public files and explains how to get the others"
    )
    print("`unbag data check NAME --data DIR` lists present and missing files")
    return 0


def _download_note(benchmark: Benchmark) -> str:
    """Describe what `data get` can download of a benchmark."""
    kinds = {download.has_images for download in benchmark.downloads}
    if not kinds:
        return "by hand"
    words = {True: "images", False: "files"}
    parts = " + ".join(words[kind] for kind in sorted(kinds))
    return f"download {parts}{', rest by hand' if benchmark.gated else ''}"


def _check(name: str, data: Path) -> int:
    """Print which files of a benchmark are present and missing, and its source."""
    from unbag.benchmarks.names import benchmark

    entry = benchmark(name)
    if not entry.files:
        print(f"{entry.name} generates its own data; no files are needed")
        return 0
    files = _check_files(entry, data)
    _print_files(entry, data, files)
    if files.problem:
        raise UnbagError(
            files.problem,
            expected="the official files, in the layout above",
            hint=_hint(name, data, files),
        )
    return 0


def _check_files(benchmark: Benchmark, data: Path) -> FilesOnDisk:
    """Check for the files of a benchmark, and then for the images that they list."""
    from unbag.evaluation.loading import absent_images

    root = data / benchmark.place
    # A file may be a pattern: classification datasets need any image in any class folder.
    missing = tuple(file for file in benchmark.files if not any(root.glob(file)))
    if missing:
        return FilesOnDisk(len(benchmark.files), missing, 0, ())
    items = benchmark.load(root)
    return FilesOnDisk(len(benchmark.files), (), len(items), tuple(sorted(absent_images(items))))


@dataclass(frozen=True)
class FilesOnDisk:
    """The present and missing files of a benchmark."""

    files: int
    """Number of required files."""
    missing: tuple[str, ...]
    """Missing files."""
    items: int
    absent: tuple[Path, ...]
    """Missing images; only known if no file is missing."""

    @property
    def has_no_classes(self) -> bool:
        """Whether the benchmark is read from class folders and has none."""
        return any(file in _CLASS_FOLDERS for file in self.missing)

    @property
    def problem(self) -> str:
        """Why the benchmark is incomplete; empty if it is complete."""
        if self.has_no_classes:
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


def _hint(name: str, data: Path, files: FilesOnDisk) -> str:
    if files.missing and not files.has_no_classes:
        return f"`unbag data get {name} --data {data}` downloads or explains them"
    get = f"`unbag data get {name} --images --data {data}` downloads or explains them"
    skip = "; `unbag run --missing skip` evaluates on the others" if files.absent else ""
    return get + skip


def _print_files(benchmark: Benchmark, data: Path, files: FilesOnDisk) -> None:
    """Print the summary of a benchmark on disk."""
    print(f"{benchmark.name}: {benchmark.about}")
    print(f"  cite:     {benchmark.cite or 'not stated'}")
    print(f"  licence:  {benchmark.licence or 'not stated'}")
    print(f"  images:   {', '.join(benchmark.sources) or 'not stated'}")
    print(f"  folder:   {data / benchmark.place}")
    for file in benchmark.files:
        name = "class folders" if file in _CLASS_FOLDERS else file
        print(f"  {'missing' if file in files.missing else 'present'}   {name}")
    if not files.missing:
        print(f"  {files.items:,} items are readable")
    for path in files.absent[:_SHOWN_IMAGES]:
        print(f"  missing   {path}")
    if files.problem and benchmark.gated:
        print(f"  by hand:  {benchmark.gated}")
    if not files.problem:
        print("complete")


def get_data(
    names: Sequence[str], data: Path, *, images: bool, patience: Patience | None = None
) -> int:
    """Download files, and images if `images`; return 0 if everything requested is present."""
    from rich.console import Console

    from unbag.benchmarks.names import benchmark
    from unbag.cli.console import DownloadProgress
    from unbag.data.download import PATIENCE, required_downloads

    selected = [benchmark(name) for name in dict.fromkeys(names)]
    benchmarks = [entry for entry in selected if entry.files]
    for entry in selected:
        if not entry.files:
            print(f"{entry.name} generates its own data; no files are needed")
    for entry in benchmarks:
        _print_plan(entry, data, images=images)
    _print_total(required_downloads(benchmarks, images=images), data)
    downloader = _Downloader(
        data, DownloadProgress(Console(stderr=True)).task, patience or PATIENCE
    )
    try:
        downloader.get(required_downloads(benchmarks, images=False))
        if images:
            downloader.get(_image_downloads(benchmarks, data))
    except KeyboardInterrupt:
        print(
            "unbag: stopped. Partial downloads are saved; run the same command to resume",
            file=sys.stderr,
        )
        return 130
    complete = [_print_summary(entry, data, images=images) for entry in benchmarks]
    return 1 if downloader.failed or not all(complete) else 0


def _print_plan(benchmark: Benchmark, data: Path, *, images: bool) -> None:
    from unbag.data.archives import readable
    from unbag.data.download import is_there

    print(benchmark.name)
    print(f"  licence:  {benchmark.licence or 'not stated'}")
    later = [d for d in benchmark.downloads if d.has_images and not images]
    now = [d for d in benchmark.downloads if d not in later]

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
    if benchmark.gated:
        print(f"  by hand:  {benchmark.gated}")
    elif not benchmark.downloads:
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
class _Downloader:
    """Runs downloads one after the other; a failed one does not stop the others."""

    data: Path
    task: ProgressBar
    patience: Patience
    failed: bool = False
    silent_hosts: set[str] = field(default_factory=set)
    """Hosts that did not answer, which are skipped from then on."""

    def get(self, downloads: Iterable[Download]) -> None:
        from unbag.data.download import UnreachableError, obtain

        for download in downloads:
            host = urlsplit(download.url).netloc
            if host in self.silent_hosts:
                self._fail(f"{download.to} was skipped: {host} does not answer")
                continue
            try:
                obtained = obtain(download, self.data, task=self.task, patience=self.patience)
            except UnbagError as error:
                if isinstance(error, UnreachableError):
                    self.silent_hosts.add(host)
                self._fail(str(error))
            else:
                _print_obtained(download, obtained)

    def _fail(self, message: str) -> None:
        self.failed = True
        print(f"unbag: {message}", file=sys.stderr)


def _print_obtained(download: Download, obtained: Obtained) -> None:
    if obtained.was_there or (download.has_images and not download.unpack):
        return
    unpacked = (
        f", {obtained.members:,} files extracted to {download.unpack}" if obtained.members else ""
    )
    known = "as published" if download.sha256 else "no published checksum to compare with"
    print(f"downloaded {download.to}{unpacked}; sha256 {obtained.sha256}, {known}", flush=True)


def _image_downloads(benchmarks: Iterable[Benchmark], data: Path) -> tuple[Download, ...]:
    """List the image downloads of incomplete benchmarks; others have their images already."""
    from unbag.data.download import required_downloads

    incomplete = []
    for entry in benchmarks:
        # Warnings are printed once, with the summary.
        with warnings.catch_warnings(), suppress(UnbagError):
            warnings.simplefilter("ignore")
            if not _check_files(entry, data).problem:
                print(f"present   all images of {entry.name}")
                continue
        incomplete.append(entry)
    downloads = required_downloads(incomplete, images=True)
    return tuple(download for download in downloads if download.has_images)


def _print_summary(benchmark: Benchmark, data: Path, *, images: bool) -> bool:
    """Print the output of `data check`; return whether everything requested is present."""
    try:
        files = _check_files(benchmark, data)
    except UnbagError as error:
        print(f"unbag: {error}", file=sys.stderr)
        return False
    _print_files(benchmark, data, files)
    if not files.problem:
        return True
    can_get = files.absent and not images and any(d.has_images for d in benchmark.downloads)
    print(f"{files.problem}{'; --images downloads them' if can_get else ''}")
    return not files.missing and not images
