"""The configuration of a run (`Job`), and loading of its benchmarks.

Missing images are found before anything is computed, and never dropped silently.
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
"""`published` makes the corrections of published numbers (VALSE's rejected rows), `none` uses the
files unchanged, `all` corrects every known error."""
Missing = Literal["error", "skip"]
_MAX_LISTED = 10


@dataclass(frozen=True)
class Job:
    """What to run and where to put it."""

    scorers: Sequence[Scorer]
    benchmarks: Sequence[Benchmark]
    out: Path
    data: Path | None = None
    """Folder with one folder for each benchmark that needs files."""
    cache: Path | None = None
    """Folder of cached embeddings; None keeps them in memory only."""
    protocol: EvalProtocol = field(default_factory=EvalProtocol)
    seed: int = 0
    batch_size: int = 256
    allow_invalid: bool = False
    official_first: bool = False
    """Make each benchmark's official tie rule the headline; the other rule is still reported."""
    errata: ErrataChoice = "published"
    """The known errors of benchmarks to correct; part of every result's key."""
    trained_on: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Image collections that models were trained on, in addition to what they declare."""
    published_as: Mapping[str, str] = field(default_factory=dict)
    """Name of the model in papers, by scorer name, if neither the scorer nor unbag knows it."""
    missing: Missing = "error"
    """What to do if images are missing: raise an error, or leave their items out."""
    also_compared: tuple[str, ...] = ()
    """Metrics on which models are compared besides the headlines, if a benchmark has them."""
    keeps_going: bool = False
    """If a scorer fails, go on with the others; the failure becomes a problem of the finished run.
    Only with a single process, because others would wait for the failed one."""
    is_temporary: bool = False
    """The folder is deleted after the run, so problems contain tracebacks, not file names."""
    device: str = "cpu"
    save_seconds: float = 5.0
    """Minimum time between two saves of the scores, and so the most that a kill can lose."""
    command: str = field(default_factory=lambda: shlex.join(sys.argv))
    """The command line, for the record of the run."""


@dataclass
class Loaded:
    """The items of a job's benchmarks, by benchmark name."""

    items: dict[str, Sequence[Item]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of items or images left out because images are missing."""
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Warnings of loaders."""
    incomplete: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Reasons why a benchmark differs from the published one."""


def load_all(job: Job, *, progress: Progress) -> Loaded:
    """Load and check every benchmark of a job, without items whose images are missing if asked."""
    loaded = Loaded()
    for benchmark in job.benchmarks:
        items, messages = _load(benchmark, job.data, job.errata)
        remaining: Sequence[Item] = items
        # Blind scorers need only the annotations.
        if job.missing == "skip" or not all(scorer.is_blind for scorer in job.scorers):
            remaining = without_missing(
                benchmark.name, items, missing=job.missing, progress=progress
            )
        check_items(benchmark.name, remaining)
        reasons = [str(message) for message in messages if isinstance(message, IncompleteWarning)]
        # Errata may change the number of items.
        is_published = errata_name(benchmark, job.errata) == errata_name(benchmark, "published")
        if benchmark.size and is_published and len(items) != benchmark.size:
            reasons.append(f"it has {len(items):,} items here, {benchmark.size:,} as published")
        notes = [str(message) for message in messages if not isinstance(message, IncompleteWarning)]
        for note in (*notes, *reasons):
            progress.say(f"{benchmark.name}: {note}")
        before = {item.id: len(item.images) for item in items}
        after = {item.id: len(item.images) for item in remaining}
        # Counts whole items, and missing images of galleries.
        left_out = sum(count - after.get(name, count - 1) for name, count in before.items())
        if left_out:
            loaded.left_out[benchmark.name] = left_out
            reasons.append(f"{left_out:,} items or images are left out: images are missing")
        loaded.items[benchmark.name] = remaining
        loaded.notes |= {benchmark.name: tuple(notes)} if notes else {}
        loaded.incomplete |= {benchmark.name: tuple(reasons)} if reasons else {}
    return loaded


def load_items(
    benchmark: Benchmark,
    data: Path | None,
    *,
    errata: ErrataChoice = "published",
    progress: Progress,
) -> Sequence[Item]:
    """The items of a benchmark, from its folder if it needs one; shows the loader's warnings."""
    items, messages = _load(benchmark, data, errata)
    for message in messages:
        progress.say(f"{benchmark.name}: {message}")
    return items


def _load(
    benchmark: Benchmark, data: Path | None, errata: ErrataChoice
) -> tuple[Sequence[Item], list[Warning]]:
    with catch_warnings(record=True) as caught, paused_collector():
        simplefilter("always")
        # As a tuple: a lazy sequence would make new image objects at every access.
        items = tuple(loader_of(benchmark, errata)(folder_of(benchmark, data)))
    messages = [message.message for message in caught]
    if note := equal_captions(items):
        messages.append(UserWarning(note))
    return items, [
        message if isinstance(message, Warning) else UserWarning(message) for message in messages
    ]


def warnings_of(
    incomplete: Mapping[str, Sequence[str]], notes: Mapping[str, Sequence[str]]
) -> list[str]:
    """Warnings for the top of a report: incomplete benchmarks first, then notes of loaders."""
    lines = [
        f"{name} is incomplete: {reason}; its numbers are not those of the published benchmark"
        for name, reasons in incomplete.items()
        for reason in reasons
    ]
    return lines + [f"{name}: {note}" for name, messages in notes.items() for note in messages]


def folder_of(benchmark: Benchmark, data: Path | None) -> Path | None:
    """The folder of a benchmark's files; None if it generates its data."""
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
    """Name of the corrections in use; empty if there are none."""
    errata = benchmark.errata
    if errata is None or choice == "none" or (choice == "published" and not errata.is_published):
        return ""
    return errata.name


def loader_of(benchmark: Benchmark, choice: ErrataChoice) -> Loader:
    """The loader for a choice of errata."""
    if benchmark.errata is None or not errata_name(benchmark, choice):
        return benchmark.load
    return benchmark.errata.load


def without_missing(
    benchmark: str, items: Sequence[Item], *, missing: Missing, progress: Progress
) -> Sequence[Item]:
    """The items whose images exist; if any is missing it is an error, unless `missing` is skip.

    A retrieval gallery loses only the missing images, and the captions that describe no other
    image.
    """
    absent = absent_images(items)
    if not absent:
        return items
    if missing == "error":
        shown = "\n".join(f"    {path}" for path in sorted(absent)[:_MAX_LISTED])
        more = f"\n    and {len(absent) - _MAX_LISTED} more" if len(absent) > _MAX_LISTED else ""
        raise UnbagError(
            f"{len(absent)} images of {benchmark!r} are missing:\n{shown}{more}",
            expected="every image of the benchmark",
            hint="complete the folder, or measure what is there with --missing skip "
            '(missing="skip" in Python)',
        )
    remaining = [
        _without_images(item, item.truth, absent) if isinstance(item.truth, Sparse) else item
        for item in items
        if isinstance(item.truth, Sparse) or not any(_path(p) in absent for p in item.images)
    ]
    effect = (
        f"{len(items) - len(remaining)} of {len(items)} items are left out"
        if len(remaining) < len(items)
        else "its galleries are smaller"
    )
    progress.say(
        f"{benchmark}: {effect}, since {len(absent)} images are missing; the numbers are not those "
        "of the whole benchmark"
    )
    return remaining


def _without_images(item: Item, truth: Sparse, absent: set[Path]) -> Item:
    """A gallery without the missing images, and without captions whose images are all missing."""
    is_there_P = np.array([_path(image) not in absent for image in item.images])
    is_present_T = is_there_P[truth.row_T]
    has_image_C = np.zeros(truth.shape[1], dtype=np.bool_)
    has_image_C[truth.column_T[is_present_T]] = True
    # A caption without any true image stays: it is a distractor of the gallery.
    had_image_C = np.zeros(truth.shape[1], dtype=np.bool_)
    had_image_C[truth.column_T] = True
    stays_C = has_image_C | ~had_image_C
    if not is_there_P.any() or not stays_C.any():
        raise UnbagError(
            f"all images of the gallery {item.id!r} are missing",
            expected="at least one image with a caption",
            hint="check --data and the location of the images",
        )
    row_P, column_C = np.cumsum(is_there_P) - 1, np.cumsum(stays_C) - 1
    kinds = [kind for kind, stays in zip(item.kinds, stays_C, strict=False) if stays]
    return replace(
        item,
        images=tuple(p for p, present in zip(item.images, is_there_P, strict=True) if present),
        captions=tuple(c for c, stays in zip(item.captions, stays_C, strict=True) if stays),
        kinds=tuple(kinds),
        truth=Sparse(
            (int(is_there_P.sum()), int(stays_C.sum())),
            row_P[truth.row_T[is_present_T]],
            column_C[truth.column_T[is_present_T]],
        ),
    )


def absent_images(items: Sequence[Item]) -> set[Path]:
    """Paths of images that do not exist."""
    paths = {path for item in items for image in item.images if (path := _path(image))}
    return {path for path in paths if not _is_file(path)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # A path that is too long, or an unreadable folder.


def _path(image: ImageSource) -> Path | None:
    """The path of an image, if it is a file."""
    path = getattr(image, "path", None)
    return path if isinstance(path, Path) else None
