"""`unbag data`: which benchmarks are read from files, and whether a user's files are complete."""

from __future__ import annotations

from pathlib import Path

from unbag.engine.evaluate import benchmark as find_benchmark
from unbag.engine.missing import absent_pictures
from unbag.errors import UserError
from unbag.registry import find, names
from unbag.types import Benchmark


def list_data() -> int:
    """Every benchmark that needs files, with its pictures and its licence."""
    found = [find("benchmark", name) for name in names("benchmark")]
    needy = [one for one in found if isinstance(one, Benchmark) and one.files]
    if not needy:
        print("no benchmark needs files")
        return 0
    width = max(len(one.name) for one in needy)
    for one in needy:
        print(f"{one.name:<{width}}  pictures: {', '.join(one.sources)}; licence: {one.licence}")
    print("`unbag data check NAME --data DIR` says what is there and what is missing")
    return 0


def check_data(name: str, data: Path) -> int:
    """What is there, what is missing, where it comes from and how to lay it out."""
    one = find_benchmark(name)
    if not one.files:
        print(f"{one.name} makes its own data; nothing is needed")
        return 0
    root = data / (one.folder or one.name)
    print(f"{one.name}: {one.about}")
    print(f"  cite:     {one.cite or 'not stated'}")
    print(f"  licence:  {one.licence or 'not stated'}")
    print(f"  pictures: {', '.join(one.sources) or 'not stated'}")
    print(f"  folder:   {root}")
    # A file may be a pattern: class sets need any picture in any folder.
    missing = [file for file in one.files if not any(root.glob(file))]
    for file in one.files:
        print(f"  {'missing' if file in missing else 'there  '}   {file}")
    if missing:
        return _incomplete(f"{len(missing)} of {len(one.files)} files are missing")
    items = one.load(root)
    absent = sorted(absent_pictures(items))
    print(f"  {len(items):,} items can be read")
    for path in absent[:10]:
        print(f"  missing   {path}")
    if absent:
        return _incomplete(f"{len(absent):,} pictures are missing")
    print("complete")
    return 0


def _incomplete(what: str) -> int:
    raise UserError(
        what,
        expected="the official files, laid out as above",
        way_out="put them there; `unbag run --missing skip` measures what is complete",
    )
