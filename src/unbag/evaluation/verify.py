"""Reproduce the published numbers of a model and compare ours with them (`unbag verify`)."""

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

RUN_FOLDERS: tuple[tuple[str, ErrataChoice], ...] = (("as-is", "none"), ("mended", "all"))
"""Folder of each run and its errata; a published number is compared with the matching run."""


@dataclass(frozen=True)
class Verified:
    """Our numbers next to every published one that could be reproduced."""

    model: str
    """Name of the model in papers."""
    runs: tuple[RunContents, ...]
    references: tuple[Reference, ...]
    skipped: tuple[Skipped, ...]

    @property
    def is_reproduced(self) -> bool:
        """Whether every comparable number is inside our interval."""
        return not any(r.is_comparable and r.is_inside is False for r in self.references)


@dataclass(frozen=True)
class Skipped:
    """A benchmark with published numbers that could not be run."""

    benchmark: str
    why: str
    hint: str


def verify(job: Job, *, progress: Progress | None = None) -> Verified:
    """Run the benchmarks of the job for which numbers of its one model are published.

    Runs are written to folders below `job.out`; ties follow each benchmark's official code.
    """
    progress = progress or Silent()
    (scorer,) = job.scorers
    model = model_of(scorer, job.published_as)
    published = [benchmark for benchmark in job.benchmarks if _numbers(benchmark, model)]
    if not published:
        raise no_published_numbers(model, job.benchmarks)
    available, skipped = _split_available(published, job)
    runs, all_references = [], []
    for folder, errata in RUN_FOLDERS:
        is_mended = errata == "all"
        benchmarks = [
            b for b in available if any(_uses_errata(p, b) == is_mended for p in _numbers(b, model))
        ]
        if not benchmarks:
            continue
        part_job = replace(
            job, benchmarks=benchmarks, out=job.out / folder, errata=errata, official_first=True
        )
        contents = run(part_job, progress=progress).contents
        runs.append(contents)
        by_name = {b.name: b for b in benchmarks}
        all_references += [
            r
            for r in contents.references
            if r.is_same_model and _uses_errata(r.published, by_name[r.benchmark]) == is_mended
        ]
    return Verified(model, tuple(runs), tuple(all_references), tuple(skipped))


def _split_available(
    benchmarks: Sequence[Benchmark], job: Job
) -> tuple[list[Benchmark], list[Skipped]]:
    """The benchmarks whose files and images exist, and the others with the reason."""
    available, skipped = [], []
    for benchmark in benchmarks:
        images = ""
        try:
            items = load_items(benchmark, job.data, errata="none", progress=Silent())
            images = "--images "
            without_missing(benchmark.name, items, missing=job.missing, progress=Silent())
        except UnbagError as error:
            get = (
                f"get {benchmark.name} {images}"
                if benchmark.downloads
                else f"check {benchmark.name} "
            )
            command = f"unbag data {get}--data {job.data or 'DIR'}"
            skipped.append(Skipped(benchmark.name, str(error).splitlines()[0], command))
        else:
            available.append(benchmark)
    return available, skipped


def _numbers(benchmark: Benchmark, model: str) -> list[Published]:
    return [number for number in benchmark.published if is_same(number.model, model)]


def _uses_errata(number: Published, benchmark: Benchmark) -> bool:
    """Whether the source of a number used the benchmark's corrections, if it has any."""
    return number.has_errata and benchmark.errata is not None


def no_published_numbers(model: str, benchmarks: Sequence[Benchmark]) -> UnbagError:
    """The error for a model without known published numbers."""
    known = known_models(benchmarks)
    listed = "\n".join(f"    {name}" for name in known) or "    (none for these benchmarks)"
    return UnbagError(
        f"no published number of {model!r} is known",
        expected=f"a model known by one of these names:\n{listed}",
        hint='say which of them it is, as in --as "CLIP ViT-B/32 (openai)"',
    )


def known_models(benchmarks: Sequence[Benchmark]) -> list[str]:
    """The names of all models with published numbers."""
    return sorted({p.model for b in benchmarks for p in b.published}, key=str.casefold)
