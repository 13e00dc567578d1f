"""What a run is asked to do (`Job`), and loading the items of its benchmarks.

Images that are not on disk are found before anything is computed, and never dropped in silence.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from warnings import catch_warnings, simplefilter

import numpy as np

from unbag.errors import IncompleteWarning, UnbagError
from unbag.evaluation.plan import check_items, equal_captions
from unbag.runs.files import paused_collector
from unbag.runs.progress import Progress
from unbag.types import Benchmark, EvalProtocol, ImageSource, Item, Loader, Scorer, Sparse

ErrataChoice = Literal["published", "none", "all"]
"""`published` mends what the field's numbers have mended (VALSE's rejected rows), `none` takes the
files as they are, `all` mends every known error."""
Missing = Literal["error", "skip"]
_SHOWN = 10


@dataclass(frozen=True)
class Job:
    """What to run and where to put it."""

    scorers: Sequence[Scorer]
    benchmarks: Sequence[Benchmark]
    out: Path
    data: Path | None = None
    """Folder with one folder for each benchmark that needs files."""
    cache: Path | None = None
    """Where embeddings are kept; None keeps them in memory only."""
    protocol: EvalProtocol = field(default_factory=EvalProtocol)
    seed: int = 0
    batch_size: int = 256
    allow_invalid: bool = False
    official_first: bool = False
    """Make each benchmark's official tie rule the headline; the other rule is still reported."""
    errata: ErrataChoice = "published"
    """Which known errors of the benchmarks are mended; part of every result's key."""
    trained_on: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Collections that models were trained on, by model, beside what they declare themselves."""
    published_as: Mapping[str, str] = field(default_factory=dict)
    """What papers call a model, by the scorer's name, where neither it nor we know."""
    missing: Missing = "error"
    """What to do about images that are not on disk: refuse to run, or leave their items out."""
    also_compared: tuple[str, ...] = ()
    """Metrics on which models are compared besides each headline, where a benchmark has them."""
    keeps_going: bool = False
    """Score the other models where one fails, and measure what there is; the failure is a problem
    of the finished run instead of an error. One process only: others would wait for the one."""
    is_temporary: bool = False
    """The folder is deleted after the run: problems hold tracebacks, not the name of their file."""
    device: str = "cpu"
    save_seconds: float = 5.0
    """Least time between two writes of the scores; what is lost by a kill is at most this much."""
    command: str = field(default_factory=lambda: shlex.join(sys.argv))
    """What was typed, for the record of the run."""


@dataclass
class Loaded:
    """The items of a job's benchmarks, by name."""

    items: dict[str, Sequence[Item]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    """Items without their images."""
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What loaders said."""
    incomplete: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Why a benchmark is not the one that papers report on."""


def load_all(job: Job, *, progress: Progress) -> Loaded:
    """Every benchmark of a job, checked, without items whose images are missing if so asked."""
    found = Loaded()
    for benchmark in job.benchmarks:
        items, said = _heard(benchmark, job.data, job.errata)
        kept: Sequence[Item] = items
        # Scorers that never look need no images: a blind score needs only the annotations.
        if job.missing == "skip" or not all(scorer.is_blind for scorer in job.scorers):
            kept = without_missing(benchmark.name, items, missing=job.missing, progress=progress)
        check_items(benchmark.name, kept)
        wanting = [str(one) for one in said if isinstance(one, IncompleteWarning)]
        # Other errata change the number of items.
        is_published = errata_name(benchmark, job.errata) == errata_name(benchmark, "published")
        if benchmark.size and is_published and len(items) != benchmark.size:
            wanting.append(f"it has {len(items):,} items here, {benchmark.size:,} as published")
        notes = [str(one) for one in said if not isinstance(one, IncompleteWarning)]
        for note in (*notes, *wanting):
            progress.say(f"{benchmark.name}: {note}")
        before = {item.id: len(item.images) for item in items}
        after = {item.id: len(item.images) for item in kept}
        # Whole items, and the missing images of galleries.
        left_out = sum(count - after.get(name, count - 1) for name, count in before.items())
        if left_out:
            found.left_out[benchmark.name] = left_out
            wanting.append(f"{left_out:,} items or images are left out: images are missing")
        found.items[benchmark.name] = kept
        found.notes |= {benchmark.name: tuple(notes)} if notes else {}
        found.incomplete |= {benchmark.name: tuple(wanting)} if wanting else {}
    return found


def load_items(
    benchmark: Benchmark,
    data: Path | None,
    *,
    errata: ErrataChoice = "published",
    progress: Progress,
) -> Sequence[Item]:
    """The items of a benchmark, from its folder if it needs one; what a loader warns of is said."""
    items, said = _heard(benchmark, data, errata)
    for one in said:
        progress.say(f"{benchmark.name}: {one}")
    return items


def _heard(
    benchmark: Benchmark, data: Path | None, errata: ErrataChoice
) -> tuple[Sequence[Item], list[Warning]]:
    with catch_warnings(record=True) as warned, paused_collector():
        simplefilter("always")
        # Kept as they are: a lazy sequence would make new images at every look.
        items = tuple(loader_of(benchmark, errata)(folder_of(benchmark, data)))
    heard = [one.message for one in warned]
    if equal := equal_captions(items):
        heard.append(UserWarning(equal))
    return items, [one if isinstance(one, Warning) else UserWarning(one) for one in heard]


def warnings_of(
    incomplete: Mapping[str, Sequence[str]], notes: Mapping[str, Sequence[str]]
) -> list[str]:
    """For the top of a report: what is not whole first, then what loaders said."""
    found = [
        f"{name} is not whole: {why}; its numbers are not those of the published benchmark"
        for name, reasons in incomplete.items()
        for why in reasons
    ]
    return found + [f"{name}: {note}" for name, said in notes.items() for note in said]


def folder_of(benchmark: Benchmark, data: Path | None) -> Path | None:
    """Where a benchmark's files lie; None if it makes its own data."""
    if not benchmark.files:
        return None
    if data is None:
        raise UnbagError(
            f"benchmark {benchmark.name!r} is read from files",
            expected=f"a folder {benchmark.place} with {', '.join(benchmark.files)}",
            hint="say with --data (data_dir= in Python) where the benchmark folders are",
        )
    if not (data / benchmark.place).is_dir():
        raise UnbagError(
            f"there is no folder {data / benchmark.place}",
            expected=f"a folder with {', '.join(benchmark.files)}",
            hint="check --data (data_dir=); it names the folder above the benchmark's own",
        )
    return data / benchmark.place


def errata_name(benchmark: Benchmark, choice: ErrataChoice) -> str:
    """Name of what is mended; empty if nothing is."""
    errata = benchmark.errata
    if errata is None or choice == "none" or (choice == "published" and not errata.is_published):
        return ""
    return errata.name


def loader_of(benchmark: Benchmark, choice: ErrataChoice) -> Loader:
    """The load function that follows the choice."""
    if benchmark.errata is None or not errata_name(benchmark, choice):
        return benchmark.load
    return benchmark.errata.load


def without_missing(
    benchmark: str, items: Sequence[Item], *, missing: Missing, progress: Progress
) -> Sequence[Item]:
    """The items whose images are there; all of them, or an error, unless `missing` is skip.

    Of a gallery for retrieval the missing images are left out, with the captions that describe
    no other.
    """
    absent = absent_images(items)
    if not absent:
        return items
    if missing == "error":
        shown = "\n".join(f"    {path}" for path in sorted(absent)[:_SHOWN])
        more = f"\n    and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        raise UnbagError(
            f"{len(absent)} images of {benchmark!r} are missing:\n{shown}{more}",
            expected="every image of the benchmark",
            hint="complete the folder, or measure what is there with --missing skip "
            '(missing="skip" in Python)',
        )
    kept = [
        _smaller(item, item.truth, absent) if isinstance(item.truth, Sparse) else item
        for item in items
        if isinstance(item.truth, Sparse) or not any(_path(p) in absent for p in item.images)
    ]
    what = (
        f"{len(items) - len(kept)} of {len(items)} items are left out"
        if len(kept) < len(items)
        else "its galleries are smaller"
    )
    progress.say(
        f"{benchmark}: {what}, since {len(absent)} images are missing; the numbers are not those "
        "of the whole benchmark"
    )
    return kept


def _smaller(item: Item, truth: Sparse, absent: set[Path]) -> Item:
    """A gallery without the missing images, and without captions that are left alone."""
    is_there_P = np.array([_path(image) not in absent for image in item.images])
    is_kept_T = is_there_P[truth.row_T]
    has_image_C = np.zeros(truth.shape[1], dtype=np.bool_)
    has_image_C[truth.column_T[is_kept_T]] = True
    # A caption that never had a true image stays: it is part of the gallery.
    had_image_C = np.zeros(truth.shape[1], dtype=np.bool_)
    had_image_C[truth.column_T] = True
    is_kept_C = has_image_C | ~had_image_C
    if not is_there_P.any() or not is_kept_C.any():
        raise UnbagError(
            f"no image of the gallery {item.id!r} is there",
            expected="at least one image with a caption",
            hint="check --data and where the images lie",
        )
    row_P, column_C = np.cumsum(is_there_P) - 1, np.cumsum(is_kept_C) - 1
    kinds = [kind for kind, is_kept in zip(item.kinds, is_kept_C, strict=False) if is_kept]
    return replace(
        item,
        images=tuple(p for p, there in zip(item.images, is_there_P, strict=True) if there),
        captions=tuple(c for c, kept in zip(item.captions, is_kept_C, strict=True) if kept),
        kinds=tuple(kinds),
        truth=Sparse(
            (int(is_there_P.sum()), int(is_kept_C.sum())),
            row_P[truth.row_T[is_kept_T]],
            column_C[truth.column_T[is_kept_T]],
        ),
    )


def absent_images(items: Sequence[Item]) -> set[Path]:
    """Paths of images that are not on disk."""
    paths = {path for item in items for image in item.images if (path := _path(image))}
    return {path for path in paths if not _is_file(path)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # A path that no file system can hold, or a folder that may not be read.


def _path(image: ImageSource) -> Path | None:
    """Where an image lies, if it is one on disk."""
    path = getattr(image, "path", None)
    return path if isinstance(path, Path) else None
