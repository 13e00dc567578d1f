"""What the user wrote for one or many files comes in; the paths go out, in order."""

from __future__ import annotations

import re
from pathlib import Path

from unbag.errors import UserError

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def expand(text: str) -> list[Path]:
    """A file; all shards of a folder; or a pattern: part-{000..017}.tar, part-*.tar."""
    path = Path(text)
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(path.glob("*.tar"))
    if _RANGE.search(text):
        return [_there(Path(one), text) for one in _ranges(text)]
    pattern = str(path.relative_to(path.anchor))
    return sorted(found for found in Path(path.anchor).glob(pattern) if found.is_file())


def _ranges(text: str) -> list[str]:
    """Every {first..last} written out; the number of digits is kept."""
    found = _RANGE.search(text)
    if not found:
        return [text]
    first, last = found.groups()
    numbers = range(int(first), int(last) + 1)
    head, tail = text[: found.start()], _ranges(text[found.end() :])
    return [f"{head}{n:0{len(first)}}{rest}" for n in numbers for rest in tail]


def _there(path: Path, pattern: str) -> Path:
    if not path.is_file():
        raise UserError(
            f"there is no file {path}",
            expected=f"every file of {pattern}",
            way_out="get the missing file, or name the ones that are there",
        )
    return path
