"""Pictures that are not on disk: found before anything is computed, never dropped in silence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.types import Item, Picture, Sparse

Missing = Literal["error", "skip"]
_SHOWN = 10


def without_missing(
    benchmark: str, items: Sequence[Item], *, missing: Missing, progress: Progress
) -> Sequence[Item]:
    """The items whose pictures are there; all of them, or an error, unless `missing` is skip.

    A gallery for retrieval stays whole: a picture that is not there counts as damaged.
    """
    absent = absent_pictures(items)
    if not absent:
        return items
    if missing == "error":
        shown = "\n".join(f"    {path}" for path in sorted(absent)[:_SHOWN])
        more = f"\n    and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        raise UserError(
            f"{len(absent)} pictures of {benchmark!r} are missing:\n{shown}{more}",
            expected="every picture of the benchmark",
            way_out="complete the folder, or measure what is there with --missing skip",
        )
    kept = [i for i in items if isinstance(i.truth, Sparse) or not _needs(i, absent)]
    progress.say(
        f"{benchmark}: {len(items) - len(kept)} of {len(items)} items are left out, since "
        f"{len(absent)} pictures are missing; the numbers are not those of the whole benchmark"
    )
    return kept


def absent_pictures(items: Sequence[Item]) -> set[Path]:
    """Paths of pictures that are not on disk."""
    paths = {path for item in items for picture in item.pictures if (path := _path(picture))}
    return {path for path in paths if not path.is_file()}


def _needs(item: Item, absent: set[Path]) -> bool:
    return any(_path(picture) in absent for picture in item.pictures)


def _path(picture: Picture) -> Path | None:
    """Where a picture lies, if it is one on disk."""
    path = getattr(picture, "path", None)
    return path if isinstance(path, Path) else None
