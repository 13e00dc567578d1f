"""Run what the published numbers of a model need, and set ours beside them (`unbag verify`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unbag.errors import UnbagError
from unbag.evaluation.loading import ErrataChoice, Job, load_items, without_missing
from unbag.evaluation.references import model_of
from unbag.evaluation.run import run
from unbag.published.lookup import is_same
from unbag.runs.progress import Progress, Silent
from unbag.types import Benchmark, Published, Reference, RunContents

FOLDERS: tuple[tuple[str, ErrataChoice], ...] = (("as-is", "none"), ("mended", "all"))
"""Folder of a run and what it mends: a published number is compared with the run like it."""


@dataclass(frozen=True)
class Verified:
    """Ours beside every published number that could be run."""

    model: str
    """As papers call it."""
    runs: tuple[RunContents, ...]
    references: tuple[Reference, ...]
    skipped: tuple[Skipped, ...]

    @property
    def is_reproduced(self) -> bool:
        """Nothing that can be compared lies outside."""
        return not any(r.is_comparable and r.is_inside is False for r in self.references)


@dataclass(frozen=True)
class Skipped:
    """A benchmark with published numbers that could not be run."""

    benchmark: str
    why: str
    hint: str


def verify(job: Job, *, progress: Progress | None = None) -> Verified:
    """Run what the published numbers of the job's one model need, of the job's benchmarks.

    Runs go to folders below `job.out`; ties are those of each benchmark's official code.
    """
    progress = progress or Silent()
    (scorer,) = job.scorers
    model = model_of(scorer, job.published_as)
    wanted = [one for one in job.benchmarks if _numbers(one, model)]
    if not wanted:
        raise nobody_published(model, job.benchmarks)
    there, skipped = _there(wanted, job)
    runs, beside = [], []
    for folder, errata in FOLDERS:
        is_mended = errata == "all"
        some = [b for b in there if any(_mends(p, b) == is_mended for p in _numbers(b, model))]
        if not some:
            continue
        part = replace(
            job, benchmarks=some, out=job.out / folder, errata=errata, official_first=True
        )
        contents = run(part, progress=progress).contents
        runs.append(contents)
        by_name = {b.name: b for b in some}
        beside += [
            r
            for r in contents.references
            if r.is_same_model and _mends(r.published, by_name[r.benchmark]) == is_mended
        ]
    return Verified(model, tuple(runs), tuple(beside), tuple(skipped))


def _there(benchmarks: Sequence[Benchmark], job: Job) -> tuple[list[Benchmark], list[Skipped]]:
    """Those whose files and images are on disk, and the others with the reason."""
    there, skipped = [], []
    for one in benchmarks:
        images = ""
        try:
            items = load_items(one, job.data, errata="none", progress=Silent())
            images = "--images "
            without_missing(one.name, items, missing=job.missing, progress=Silent())
        except UnbagError as error:
            get = f"get {one.name} {images}" if one.downloads else f"check {one.name} "
            command = f"unbag data {get}--data {job.data or 'DIR'}"
            skipped.append(Skipped(one.name, str(error).splitlines()[0], command))
        else:
            there.append(one)
    return there, skipped


def _numbers(benchmark: Benchmark, model: str) -> list[Published]:
    return [number for number in benchmark.published if is_same(number.model, model)]


def _mends(number: Published, benchmark: Benchmark) -> bool:
    """Whether the run that is like the source's mends errors; some benchmarks have none."""
    return number.has_errata and benchmark.errata is not None


def nobody_published(model: str, benchmarks: Sequence[Benchmark]) -> UnbagError:
    """The error for a model of which no number is known."""
    known = known_models(benchmarks)
    shown = "\n".join(f"    {name}" for name in known) or "    (none for these benchmarks)"
    return UnbagError(
        f"no published number of {model!r} is known",
        expected=f"a model known by one of these names:\n{shown}",
        hint='say which of them it is, as in --as "CLIP ViT-B/32 (openai)"',
    )


def known_models(benchmarks: Sequence[Benchmark]) -> list[str]:
    """Every model with a published number, by name."""
    return sorted({p.model for b in benchmarks for p in b.published}, key=str.casefold)
