"""`unbag data`: which benchmarks are read from files, and whether a user's files are complete."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unbag.engine.evaluate import benchmark as find_benchmark
from unbag.engine.missing import absent_pictures
from unbag.errors import UserError
from unbag.registry import find, names
from unbag.types import Benchmark

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
