"""Benchmarks come in; their items go out, with what a reader must know about how whole they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from warnings import catch_warnings, simplefilter

from unbag.engine.collector import paused_collector
from unbag.engine.errata import ErrataChoice, errata_name, loader_of
from unbag.engine.job import Job
from unbag.engine.missing import without_missing
from unbag.engine.plan import check_items, equal_captions
from unbag.engine.progress import Progress
from unbag.errors import IncompleteWarning, UserError
from unbag.types import Benchmark, Item


@dataclass
class Loaded:
    """The items of a job's benchmarks, by name."""

    items: dict[str, Sequence[Item]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    """Items without their pictures."""
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What loaders said."""
    incomplete: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Why a benchmark is not the one that papers report on."""


def load_all(job: Job, *, progress: Progress) -> Loaded:
    """Every benchmark of a job, checked, without items whose pictures are missing if so asked."""
    found = Loaded()
    for benchmark in job.benchmarks:
        items, said = _heard(benchmark, job.data, job.errata)
        kept = _present(benchmark.name, items, job, progress)
        check_items(benchmark.name, kept)
        wanting = [str(one) for one in said if isinstance(one, IncompleteWarning)]
        wanting += _wrong_size(benchmark, len(items), job.errata)
        notes = [str(one) for one in said if not isinstance(one, IncompleteWarning)]
        for note in (*notes, *wanting):
            progress.say(f"{benchmark.name}: {note}")
        left_out = _left_out(items, kept)
        if left_out:
            found.left_out[benchmark.name] = left_out
            wanting.append(f"{left_out:,} items or pictures are left out: pictures are missing")
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


def folder_of(benchmark: Benchmark, data: Path | None) -> Path | None:
    """Where a benchmark's files lie; None if it makes its own data."""
    if not benchmark.files:
        return None
    if data is None:
        raise UserError(
            f"benchmark {benchmark.name!r} is read from files",
            expected=f"a folder {benchmark.place} with {', '.join(benchmark.files)}",
            way_out="say with --data where the benchmark folders are",
        )
    if not (data / benchmark.place).is_dir():
        raise UserError(
            f"there is no folder {data / benchmark.place}",
            expected=f"a folder with {', '.join(benchmark.files)}",
            way_out="check --data; it names the folder above the benchmark's own",
        )
    return data / benchmark.place


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


def _heard(
    benchmark: Benchmark, data: Path | None, errata: ErrataChoice
) -> tuple[Sequence[Item], list[Warning]]:
    with catch_warnings(record=True) as warned, paused_collector():
        simplefilter("always")
        # Kept as they are: a lazy sequence would make new pictures at every look.
        items = tuple(loader_of(benchmark, errata)(folder_of(benchmark, data)))
    heard = [one.message for one in warned]
    if equal := equal_captions(items):
        heard.append(UserWarning(equal))
    return items, [one if isinstance(one, Warning) else UserWarning(one) for one in heard]


def _present(name: str, items: Sequence[Item], job: Job, progress: Progress) -> Sequence[Item]:
    # Scorers that never look need no pictures: a blind score can be had from annotations alone.
    if job.missing != "skip" and all(scorer.is_blind for scorer in job.scorers):
        return items
    return without_missing(name, items, missing=job.missing, progress=progress)


def _left_out(items: Sequence[Item], kept: Sequence[Item]) -> int:
    """Items that were left out, and pictures that were taken out of galleries."""
    before = {item.id: len(item.pictures) for item in items}
    after = {item.id: len(item.pictures) for item in kept}
    return sum(1 if name not in after else count - after[name] for name, count in before.items())


def _wrong_size(benchmark: Benchmark, found: int, errata: ErrataChoice) -> list[str]:
    """Only where errata are as published: others change the number of items."""
    is_published = errata_name(benchmark, errata) == errata_name(benchmark, "published")
    if not benchmark.size or not is_published or found == benchmark.size:
        return []
    return [f"it has {found:,} items here, {benchmark.size:,} as published"]
