"""Pictures that are not on disk: found before anything is computed, never dropped in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.types import Item, Picture, Sparse

Missing = Literal["error", "skip"]
_SHOWN = 10


def without_missing(
    benchmark: str, items: Sequence[Item], *, missing: Missing, progress: Progress
) -> Sequence[Item]:
    """The items whose pictures are there; all of them, or an error, unless `missing` is skip.

    Of a gallery for retrieval the missing pictures are left out, with the captions that describe
    no other.
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
    kept = [
        _smaller(item, item.truth, absent) if isinstance(item.truth, Sparse) else item
        for item in items
        if isinstance(item.truth, Sparse) or not _needs(item, absent)
    ]
    what = (
        f"{len(items) - len(kept)} of {len(items)} items are left out"
        if len(kept) < len(items)
        else "its galleries are smaller"
    )
    progress.say(
        f"{benchmark}: {what}, since {len(absent)} pictures are missing; the numbers are not those "
        "of the whole benchmark"
    )
    return kept


def _smaller(item: Item, truth: Sparse, absent: set[Path]) -> Item:
    """A gallery without the missing pictures, and without captions that are left alone."""
    is_there_P = np.array([_path(picture) not in absent for picture in item.pictures])
    is_kept_T = is_there_P[truth.row_T]
    has_picture_C = np.zeros(truth.shape[1], dtype=np.bool_)
    has_picture_C[truth.column_T[is_kept_T]] = True
    # A caption that never had a true picture stays: it is part of the gallery.
    had_picture_C = np.zeros(truth.shape[1], dtype=np.bool_)
    had_picture_C[truth.column_T] = True
    is_kept_C = has_picture_C | ~had_picture_C
    if not is_there_P.any() or not is_kept_C.any():
        raise UserError(
            f"no picture of the gallery {item.id!r} is there",
            expected="at least one picture with a caption",
            way_out="check --data and where the pictures lie",
        )
    row_P, column_C = np.cumsum(is_there_P) - 1, np.cumsum(is_kept_C) - 1
    kinds = [kind for kind, is_kept in zip(item.kinds, is_kept_C, strict=False) if is_kept]
    return replace(
        item,
        pictures=tuple(p for p, there in zip(item.pictures, is_there_P, strict=True) if there),
        captions=tuple(c for c, kept in zip(item.captions, is_kept_C, strict=True) if kept),
        kinds=tuple(kinds),
        truth=Sparse(
            (int(is_there_P.sum()), int(is_kept_C.sum())),
            row_P[truth.row_T[is_kept_T]],
            column_C[truth.column_T[is_kept_T]],
        ),
    )


def absent_pictures(items: Sequence[Item]) -> set[Path]:
    """Paths of pictures that are not on disk."""
    paths = {path for item in items for picture in item.pictures if (path := _path(picture))}
    return {path for path in paths if not _is_file(path)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # A path that no file system can hold, or a folder that may not be read.


def _needs(item: Item, absent: set[Path]) -> bool:
    return any(_path(picture) in absent for picture in item.pictures)


def _path(picture: Picture) -> Path | None:
    """Where a picture lies, if it is one on disk."""
    path = getattr(picture, "path", None)
    return path if isinstance(path, Path) else None
