"""From saved scores to results, comparisons and failures; no model is needed any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unbag.engine.atomic import write_atomically
from unbag.engine.errata import protocol_of
from unbag.engine.gallery import choose_failures
from unbag.engine.job import Job
from unbag.engine.overlap import overlap_warnings
from unbag.engine.progress import Progress
from unbag.engine.references import model_of, references
from unbag.engine.store import Key, ScoreStore
from unbag.errors import UserError
from unbag.metrics.compare import Contest, compare_all, correct
from unbag.metrics.measure import Measured, measure
from unbag.types import (
    Benchmark,
    Case,
    Comparison,
    Failure,
    Item,
    Reference,
    Result,
    RunContents,
    RunRecord,
    Scorer,
)


@dataclass(frozen=True, eq=False)
class Judgement:
    """Everything that was measured in a run."""

    contents: RunContents
    measured: Mapping[Key, Measured]

    def write_outcomes(self, path: Path) -> None:
        """The credit of every unit, as a table that any tool can read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: dict[str, list[object]] = {
            name: [] for name in ("benchmark", "scorer", "metric", "unit", "cluster")
        }
        values: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
        for key, found in self.measured.items():
            for outcomes in found.outcomes.values():
                count = len(outcomes.units)
                columns["benchmark"] += [key.benchmark] * count
                columns["scorer"] += [key.scorer] * count
                columns["metric"] += [outcomes.metric] * count
                columns["unit"] += outcomes.units
                columns["cluster"] += outcomes.clusters
                values.append(outcomes.value_U)
        table = pa.table({**columns, "value": np.concatenate(values) if values else []})
        write_atomically(path, lambda to: pq.write_table(table, to, compression="zstd"))


def judge(
    job: Job,
    items: Mapping[str, Sequence[Item]],
    store: ScoreStore,
    record: RunRecord,
    *,
    progress: Progress,
) -> Judgement:
    """Measure every scorer on every benchmark; one that cannot be measured stops no other."""
    measured: dict[Key, Measured] = {}
    results: list[Result] = []
    failures: list[Failure] = []
    problems: list[str] = []
    beside: list[Reference] = []
    with progress.task("measuring", len(job.benchmarks) * len(job.scorers)) as advance:
        for benchmark in job.benchmarks:
            for scorer in job.scorers:
                key = Key(benchmark.name, scorer.name)
                scores = store.get(key)
                cases = [Case(item, scores[item.id]) for item in items[benchmark.name]]
                try:
                    found, *others = _measure(job, benchmark, scorer, cases)
                except UserError as error:
                    problems.append(f"{scorer.name} on {benchmark.name}: {error}")
                else:
                    measured[key] = found
                    ours = [
                        result
                        for one in (found, *others)
                        for result in one.results(scorer.name, is_blind=scorer.is_blind, run=record)
                    ]
                    results += ours
                    beside += references(
                        benchmark,
                        ours,
                        model=model_of(scorer, job.published_as),
                        left_out=record.left_out.get(benchmark.name, 0),
                    )
                    failures += _failures(benchmark, scorer, found, cases)
                advance(1)
    comparisons = _compare(job, _contests(job, measured), problems)
    contents = RunContents(
        record,
        tuple(results),
        comparisons,
        tuple(failures),
        tuple(problems),
        references=tuple(beside),
        warnings=tuple(overlap_warnings(record.trained_on, job.benchmarks)),
    )
    return Judgement(contents, measured)


def _measure(
    job: Job, benchmark: Benchmark, scorer: Scorer, cases: Sequence[Case]
) -> list[Measured]:
    """Under our tie rule and, where it is another, under the benchmark's official one."""
    rules = dict.fromkeys([job.protocol.ties, benchmark.official_ties or job.protocol.ties])
    ordered = reversed(list(rules)) if job.official_first else rules
    protocol = protocol_of(benchmark, job.protocol, job.errata)
    return [
        measure(
            benchmark,
            cases,
            protocol=replace(protocol, scoring=scorer.scoring, ties=rule),
            seed=job.seed,
            allow_invalid=job.allow_invalid,
        )
        for rule in ordered
    ]


def _failures(
    benchmark: Benchmark, scorer: Scorer, measured: Measured, cases: Sequence[Case]
) -> list[Failure]:
    if scorer.is_blind:
        return []
    by_id = {case.item.id: case for case in cases}
    outcomes = measured.outcomes[benchmark.headline]
    only = dict(benchmark.aggregates[0].only)
    return choose_failures(benchmark.name, scorer.name, outcomes, by_id, only=only)


def _contests(job: Job, measured: Mapping[Key, Measured]) -> list[Contest]:
    """The first model against each other one that sees, on the headline of each benchmark."""
    seeing = [scorer.name for scorer in job.scorers if not scorer.is_blind]
    found = []
    for benchmark in job.benchmarks:
        for other in seeing[1:]:
            first, second = (measured.get(Key(benchmark.name, n)) for n in (seeing[0], other))
            if first is None or second is None:
                continue
            found.append(
                Contest(
                    benchmark.name,
                    (seeing[0], other),
                    first.outcomes[benchmark.headline],
                    second.outcomes[benchmark.headline],
                    benchmark.aggregates[0],
                )
            )
    return found


def _compare(job: Job, contests: Sequence[Contest], problems: list[str]) -> tuple[Comparison, ...]:
    """All that can be compared, with Holm's correction; one that cannot be stops no other."""
    found: list[Comparison] = []
    for contest in contests:
        try:
            found += compare_all([contest], protocol=job.protocol, seed=job.seed)
        except UserError as error:
            problems.append(f"{' and '.join(contest.names)} on {contest.benchmark}: {error}")
    return correct(found)
