"""A model before and after training comes in; what was gained and what it cost goes out.

Both are scored in one ordinary run on the same items, so every difference is paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from unbag.engine.job import Job
from unbag.engine.progress import Progress
from unbag.engine.run import Finished, run
from unbag.errors import UserError
from unbag.reports import report
from unbag.scorers import Cosine
from unbag.train.blind_reader import BlindReader
from unbag.train.price_sides import DEFAULT, DRAWINGS, Kind, are_drawings, kind_of
from unbag.types import Benchmark, Comparison, DualEncoder, Estimate, RunContents

Section = Literal[
    "composition",
    "brittleness",
    "mean caption scores",
    "single words",
    "retrieval",
    "classification",
    "agreement with people",
]
BY_METRIC: Mapping[str, Section] = MappingProxyType(
    {
        "brittleness": "brittleness",
        "mean_original": "mean caption scores",
        "mean_positive": "mean caption scores",
        "mean_negative": "mean caption scores",
    }
)
BY_KIND: Mapping[Kind, Section] = MappingProxyType(
    {
        "composition": "composition",
        "words": "single words",
        "retrieval": "retrieval",
        "classification": "classification",
        "agreement": "agreement with people",
    }
)
ALSO = ("original", "augmented", *BY_METRIC, "image_to_text@1")
"""Compared besides the headline of each benchmark."""
BLIND_SECTIONS: tuple[Section, ...] = ("composition", "single words")
"""Where a caption is told from a false one, which may be had by reading alone."""
_HARD_POSITIVES = "no benchmark with hard positives was asked for"
EMPTY: Mapping[Section, str] = MappingProxyType(
    {
        "composition": "no composition benchmark was asked for",
        "brittleness": _HARD_POSITIVES,
        "mean caption scores": _HARD_POSITIVES,
        "retrieval": "no retrieval benchmark was asked for",
        "classification": "no classification benchmark was asked for",
    }
)
"""Said where a section that every table should have holds nothing."""


@dataclass(frozen=True)
class PriceRow:
    """One metric of one benchmark, before and after."""

    section: Section
    before: Estimate
    after: Estimate
    change: Comparison
    """After minus before on the units that both were judged on, with a paired interval."""
    blind: Estimate | None = None
    """Of a reader that sees no picture; only where it is asked for understanding."""

    @property
    def benchmark(self) -> str:
        """Its name."""
        return self.change.benchmark

    @property
    def metric(self) -> str:
        """Its name."""
        return self.change.metric


@dataclass(frozen=True)
class Priced:
    """What training gained and cost."""

    before: str
    after: str
    rows: tuple[PriceRow, ...]
    """By section."""
    folder: Path
    """The run folder with both models' scores and the report."""
    notes: tuple[str, ...] = ()
    """Sections that are empty and why, what could not be measured, what the pictures are."""

    def of(self, section: Section) -> tuple[PriceRow, ...]:
        """The rows of one section."""
        return tuple(row for row in self.rows if row.section == section)


def price(
    before: DualEncoder,
    after: DualEncoder,
    *,
    out: Path,
    benchmarks: Sequence[Benchmark] = (),
    data: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
    batch: int = 256,
    command: str = "",
    progress: Progress | None = None,
    reader: BlindReader | None = None,
) -> Priced:
    """Score both on the same benchmarks (those of the world if none is named) and compare.

    A `reader` is asked the same, and its numbers stand beside theirs.
    `out` becomes an ordinary run folder with `report.html`; a run that was stopped goes on.
    """
    benchmarks = tuple(benchmarks) or DEFAULT
    job = Job(
        scorers=[Cosine(before), Cosine(after), *([reader] if reader else [])],
        benchmarks=benchmarks,
        out=out,
        data=data,
        cache=cache,
        seed=seed,
        batch=batch,
        device=before.device,
        also_compared=ALSO,
        command=command,
    )
    finished = run(job, progress=progress)
    report(finished.contents, finished.folder.report)
    return _priced(finished, (before.name, after.name), benchmarks, reader)


def _priced(
    finished: Finished,
    names: tuple[str, str],
    benchmarks: Sequence[Benchmark],
    reader: BlindReader | None,
) -> Priced:
    contents = finished.contents
    kinds = {benchmark.name: kind_of(benchmark) for benchmark in benchmarks}
    order = {section: at for at, section in enumerate(get_args(Section))}
    blind = reader.name if reader else None
    rows = sorted(_rows(contents, kinds, blind), key=lambda row: order[row.section])
    if not rows:
        raise UserError(
            f"nothing could be compared: {'; '.join(contents.problems) or 'no shared units'}",
            expected="at least one benchmark that both models can be judged on",
        )
    there = {row.section for row in rows}
    notes = [said for section, said in EMPTY.items() if section not in there]
    notes += [reader.about] if reader and any(row.blind for row in rows) else []
    notes += contents.problems
    notes += [DRAWINGS] if are_drawings(benchmarks) else []
    return Priced(*names, tuple(rows), finished.folder.path, tuple(dict.fromkeys(notes)))


def _rows(
    contents: RunContents, kinds: Mapping[str, Kind], reader: str | None
) -> Iterator[PriceRow]:
    for change in contents.comparisons:
        before, after = (
            estimate_of(contents, change, one) for one in (change.first, change.second)
        )
        if before is not None and after is not None:
            section = BY_METRIC.get(change.metric, BY_KIND[kinds[change.benchmark]])
            is_asked = section in BLIND_SECTIONS
            blind = estimate_of(contents, change, reader) if reader and is_asked else None
            yield PriceRow(section, before, after, change, blind)


def estimate_of(contents: RunContents, change: Comparison, scorer: str) -> Estimate | None:
    """A scorer's own value under the averaging rule of a comparison."""
    for result in contents.results:
        is_asked = (result.benchmark, result.scorer, result.aggregate) == (
            change.benchmark,
            scorer,
            change.aggregate,
        )
        if is_asked and change.metric in result.overall:
            return result.overall[change.metric]
    return None
