"""From saved scores to results, comparisons and failures; no model is needed any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unbag.engine.atomic import write_atomically
from unbag.engine.errata import protocol_of
from unbag.engine.gallery import choose_failures
from unbag.engine.job import Job
from unbag.engine.loading import warnings_of
from unbag.engine.overlap import overlap_warnings
from unbag.engine.progress import Progress
from unbag.engine.references import model_of, references
from unbag.engine.store import Key, ScoreStore
from unbag.errors import UserError
from unbag.metrics.compare import Contest, compare_all, correct
from unbag.metrics.flips import Flips, has_orders
from unbag.metrics.measure import Measured, measure
from unbag.metrics.relaxed_pairs import in_form
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

        names = ("benchmark", "scorer", "metric", "unit", "cluster")
        types: dict[str, pa.DataType] = dict.fromkeys(names, pa.string())
        schema = pa.schema({**types, "value": pa.float64()})

        def write(to: Path) -> None:
            # A metric at a time: order-free retrieval on COCO has three million units.
            with pq.ParquetWriter(to, schema, compression="zstd") as writer:
                for key, found in self.measured.items():
                    for one in found.outcomes.values():
                        same = [
                            [name] * len(one.units)
                            for name in (key.benchmark, key.scorer, one.metric)
                        ]
                        parts = [*same, one.units, one.clusters, one.value_U]
                        columns = dict(zip(schema.names, parts, strict=True))
                        writer.write_table(pa.table(columns, schema=schema))

        write_atomically(path, write)


def judge(
    job: Job,
    items: Mapping[str, Sequence[Item]],
    store: ScoreStore,
    record: RunRecord,
    *,
    progress: Progress,
    failed: Sequence[str] = (),
) -> Judgement:
    """Measure every scorer on every benchmark; one that cannot be measured stops no other.

    `failed` says why some scores are missing; what is scored in part is not measured.
    """
    measured: dict[Key, Measured] = {}
    results: list[Result] = []
    failures: list[Failure] = []
    problems = list(failed)
    beside: list[Reference] = []
    with progress.task("measuring", len(job.benchmarks) * len(job.scorers)) as advance:
        for benchmark in job.benchmarks:
            for scorer in job.scorers:
                key = Key(benchmark.name, scorer.name)
                scores = store.get(key)
                if failed and len(scores) < len(items[benchmark.name]):
                    advance(1)
                    continue
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
                    if not is_variant(scorer):
                        beside += references(
                            benchmark,
                            ours,
                            model=model_of(scorer, job.published_as),
                            incomplete=record.incomplete.get(benchmark.name, ()),
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
        warnings=(
            *warnings_of(record.incomplete, record.notes),
            *overlap_warnings(record.trained_on, job.benchmarks),
        ),
    )
    return Judgement(contents, measured)


def _measure(
    job: Job, benchmark: Benchmark, scorer: Scorer, cases: Sequence[Case]
) -> list[Measured]:
    """Under our tie rule and, where it is another, under the benchmark's official one."""
    rules = dict.fromkeys([job.protocol.ties, benchmark.official_ties or job.protocol.ties])
    ordered = reversed(list(rules)) if job.official_first else rules
    protocol = protocol_of(benchmark, job.protocol, job.errata)
    prompt = getattr(scorer, "prompt", "")
    return [
        measure(
            _suited(benchmark, scorer, cases),
            cases,
            protocol=replace(protocol, scoring=scorer.scoring, prompt=prompt, ties=rule),
            seed=job.seed,
            allow_invalid=job.allow_invalid,
        )
        for rule in ordered
    ]


def _suited(benchmark: Benchmark, scorer: Scorer, cases: Sequence[Case]) -> Benchmark:
    """Relaxed verdicts in the form of its numbers; flips where the scorer tried several orders."""
    metrics = in_form(benchmark.metrics, getattr(scorer, "relaxed_form", "additive"))
    return replace(benchmark, metrics=(*metrics, Flips()) if has_orders(cases) else metrics)


def _failures(
    benchmark: Benchmark, scorer: Scorer, measured: Measured, cases: Sequence[Case]
) -> list[Failure]:
    if scorer.is_blind or is_variant(scorer):
        return []
    by_id = {case.item.id: case for case in cases}
    outcomes = measured.outcomes[benchmark.headline]
    only = dict(benchmark.aggregates[0].only)
    return choose_failures(benchmark.name, scorer.name, outcomes, by_id, only=only)


def is_variant(scorer: Scorer) -> bool:
    """The same model under another prompt: reported, but no rival and no source of failures."""
    return bool(getattr(scorer, "is_variant", False))


def _contests(job: Job, measured: Mapping[Key, Measured]) -> list[Contest]:
    """The first model against each other one that sees: on headlines and what else was asked."""
    seeing = [s.name for s in job.scorers if not s.is_blind and not is_variant(s)]
    found = []
    for benchmark in job.benchmarks:
        for other in seeing[1:]:
            first, second = (measured.get(Key(benchmark.name, n)) for n in (seeing[0], other))
            if first is None or second is None:
                continue
            wanted = dict.fromkeys([benchmark.headline, *job.also_compared])
            found += [
                Contest(
                    benchmark.name,
                    (seeing[0], other),
                    first.outcomes[metric],
                    second.outcomes[metric],
                    benchmark.aggregates[0],
                )
                for metric in wanted
                if metric in first.outcomes and metric in second.outcomes
            ]
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
