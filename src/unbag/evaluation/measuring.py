"""Compute results, comparisons and examples of failures from saved scores, without a model."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job, errata_name, warnings_of
from unbag.evaluation.references import model_of, overlap_warnings, references
from unbag.evaluation.store import Key, ScoreStore
from unbag.metrics.aggregate import Measured, measure
from unbag.metrics.choice import Flips, has_orders
from unbag.metrics.compare import Contest, compare_all, correct
from unbag.metrics.pairs import in_form
from unbag.runs.files import write_atomically
from unbag.runs.progress import Progress
from unbag.types import (
    Benchmark,
    Caption,
    Case,
    Comparison,
    Failure,
    FloatArray,
    ImageSource,
    Item,
    Outcomes,
    Reference,
    Result,
    RunContents,
    RunRecord,
    Scorer,
    Sparse,
)
from unbag.types.items import text_of

MAX_FAILURES = 6
"""Failures stored for each scorer and benchmark."""
_MAX_CAPTIONS = 16
_SIDE = 192
"""Longest side of an image in the report, in pixels."""


@dataclass(frozen=True, eq=False)
class RunMeasurements:
    """All measurements of a run."""

    contents: RunContents
    measured: Mapping[Key, Measured]

    def write_outcomes(self, path: Path) -> None:
        """Write the credit of every unit to a Parquet file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = ("benchmark", "scorer", "metric", "unit", "cluster")
        types: dict[str, pa.DataType] = dict.fromkeys(names, pa.string())
        schema = pa.schema({**types, "value": pa.float64()})

        def write(to: Path) -> None:
            # One metric at a time: order-free retrieval on COCO has three million units.
            with pq.ParquetWriter(to, schema, compression="zstd") as writer:
                for key, measurement in self.measured.items():
                    for outcome in measurement.outcomes.values():
                        labels = (key.benchmark, key.scorer, outcome.metric)
                        label_columns = [[label] * len(outcome.units) for label in labels]
                        parts = [*label_columns, outcome.units, outcome.clusters, outcome.value_U]
                        columns = dict(zip(schema.names, parts, strict=True))
                        writer.write_table(pa.table(columns, schema=schema))

        write_atomically(path, write)


def measure_run(
    job: Job,
    items: Mapping[str, Sequence[Item]],
    store: ScoreStore,
    record: RunRecord,
    *,
    progress: Progress,
    failed: Sequence[str] = (),
) -> RunMeasurements:
    """Measure every scorer on every benchmark; errors become problems and do not stop the others.

    `failed` says why scores are missing; partly scored benchmarks are then not measured.
    """
    measured: dict[Key, Measured] = {}
    results: list[Result] = []
    failures: list[Failure] = []
    problems = list(failed)
    all_references: list[Reference] = []
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
                    measurement, *others = _measure(job, benchmark, scorer, cases)
                except UnbagError as error:
                    problems.append(f"{scorer.name} on {benchmark.name}: {error}")
                else:
                    measured[key] = measurement
                    new_results = [
                        result
                        for m in (measurement, *others)
                        for result in m.results(scorer.name, is_blind=scorer.is_blind, run=record)
                    ]
                    results += new_results
                    if not is_variant(scorer):
                        all_references += references(
                            benchmark,
                            new_results,
                            model=model_of(scorer, job.published_as),
                            incomplete=record.incomplete.get(benchmark.name, ()),
                        )
                    if not (scorer.is_blind or is_variant(scorer)):
                        failures += choose_failures(
                            benchmark.name,
                            scorer.name,
                            measurement.outcomes[benchmark.headline],
                            {case.item.id: case for case in cases},
                            only=dict(benchmark.aggregates[0].only),
                        )
                advance(1)
    comparisons: list[Comparison] = []
    for contest in _contests(job, measured):
        try:
            comparisons += compare_all([contest], protocol=job.protocol, seed=job.seed)
        except UnbagError as error:
            problems.append(f"{' and '.join(contest.names)} on {contest.benchmark}: {error}")
    contents = RunContents(
        record,
        tuple(results),
        correct(comparisons),
        tuple(failures),
        tuple(problems),
        references=tuple(all_references),
        warnings=(
            *warnings_of(record.incomplete, record.notes),
            *overlap_warnings(record.trained_on, job.benchmarks),
        ),
    )
    return RunMeasurements(contents, measured)


def _measure(
    job: Job, benchmark: Benchmark, scorer: Scorer, cases: Sequence[Case]
) -> list[Measured]:
    """Measure under our tie rule and, if it differs, under the benchmark's official one."""
    rules = dict.fromkeys([job.protocol.ties, benchmark.official_ties or job.protocol.ties])
    protocol = replace(
        job.protocol,
        errata=errata_name(benchmark, job.errata),
        scoring=scorer.scoring,
        prompt=getattr(scorer, "prompt", ""),
    )
    # `relaxed` in the form of the scorer's numbers; flips if the scorer used several orders.
    metrics = in_form(benchmark.metrics, getattr(scorer, "relaxed_form", "additive"))
    extended = replace(benchmark, metrics=(*metrics, Flips()) if has_orders(cases) else metrics)
    return [
        measure(
            extended,
            cases,
            protocol=replace(protocol, ties=rule),
            seed=job.seed,
            allow_invalid=job.allow_invalid,
        )
        for rule in (reversed(list(rules)) if job.official_first else rules)
    ]


def is_variant(scorer: Scorer) -> bool:
    """Whether a scorer is another's model under another prompt: reported, but not compared."""
    return bool(getattr(scorer, "is_variant", False))


def _contests(job: Job, measured: Mapping[Key, Measured]) -> list[Contest]:
    """The first seeing model against every other one, on headlines and `also_compared`."""
    seeing = [s.name for s in job.scorers if not s.is_blind and not is_variant(s)]
    contests = []
    for benchmark in job.benchmarks:
        for other in seeing[1:]:
            first, second = (measured.get(Key(benchmark.name, n)) for n in (seeing[0], other))
            if first is None or second is None:
                continue
            metrics = dict.fromkeys([benchmark.headline, *job.also_compared])
            contests += [
                Contest(
                    benchmark.name,
                    (seeing[0], other),
                    first.outcomes[metric],
                    second.outcomes[metric],
                    benchmark.aggregates[0],
                )
                for metric in metrics
                if metric in first.outcomes and metric in second.outcomes
            ]
    return contests


def choose_failures(
    benchmark: str,
    scorer: str,
    outcomes: Outcomes,
    cases: Mapping[str, Case],
    *,
    only: Mapping[str, str],
) -> list[Failure]:
    """A sample of the units without credit, drawn by hash: neither the worst nor the first ones.

    `only` holds the tags of the units in the headline number (see Aggregate.only).
    """
    failed_units = [
        (unit, tags)
        for unit, tags, value in zip(outcomes.units, outcomes.tags, outcomes.value_U, strict=True)
        if value == 0 and only.items() <= tags.items()
    ]
    failed_units.sort(key=lambda pair: blake2b(pair[0].encode(), digest_size=8).digest())
    failures: dict[str, Failure] = {}
    for unit, tags in failed_units:
        view = _failure_view(unit, cases)
        if view is None or view.name in failures:
            continue
        images = [thumbnail(image) for image in view.images]
        if not all(images):
            continue
        failures[view.name] = Failure(
            benchmark=benchmark,
            scorer=scorer,
            item=view.name,
            metric=outcomes.metric,
            images=tuple(images),
            captions=tuple(map(text_of, view.captions)),
            kinds=tuple(view.kinds),
            truth=tuple(tuple(bool(t) for t in row) for row in view.truth),
            scores=tuple(tuple(float(s) for s in row) for row in view.scores),
            tags=dict(tags),
        )
        if len(failures) == MAX_FAILURES:
            break
    return list(failures.values())


class _FailureView(NamedTuple):
    """The part of an item that shows its failure."""

    name: str
    images: Sequence[ImageSource]
    captions: Sequence[Caption]
    kinds: Sequence[str]
    truth: Sequence[Sequence[bool]] | NDArray[np.generic]
    scores: Sequence[Sequence[float]] | FloatArray


def _failure_view(unit: str, cases: Mapping[str, Case]) -> _FailureView | None:
    """What to show of a unit's item; unit names have the form "<item>/<kind> <number>"."""
    name, rest = unit, ""
    while name not in cases and "/" in name:
        name, _, rest = name.rpartition("/")
    if name not in cases:
        return None
    case = cases[name]
    if isinstance(case.item.truth, Sparse):
        direction, _, number = rest.partition(" ")
        return _query_view(unit, case, case.item.truth, direction, int(number))
    if case.scores.values is None or len(case.item.captions) > _MAX_CAPTIONS:
        return None
    kinds = case.item.kinds or ("",) * len(case.item.captions)
    item = case.item
    return _FailureView(
        name, item.images, item.captions, kinds, case.item.truth, case.scores.values
    )


def _query_view(
    unit: str, case: Case, truth: Sparse, direction: str, query: int
) -> _FailureView | None:
    """A retrieval query, one of its true candidates, and the false candidate that came first."""
    asks_image = direction == "text_to_image"
    ranks = case.scores.text_to_image if asks_image else case.scores.image_to_text
    if ranks is None:
        return None
    query_T, target_T = (
        (truth.column_T, truth.row_T) if asks_image else (truth.row_T, truth.column_T)
    )
    true = target_T[query_T == query]
    chosen = [int(true[0]), int(ranks.top_QK[query][0])]
    score_of = dict(
        zip(ranks.top_QK[query].tolist(), ranks.top_score_QK[query].tolist(), strict=True)
    )
    is_true = [True, chosen[1] in true]
    score = [score_of.get(i, float("nan")) for i in chosen]
    item = case.item
    if asks_image:
        images = [item.images[i] for i in chosen]
        rows = [[t] for t in is_true], [[s] for s in score]
        return _FailureView(unit, images, [item.captions[query]], ["query"], *rows)
    captions = [item.captions[i] for i in chosen]
    return _FailureView(unit, [item.images[query]], captions, ["", "first"], [is_true], [score])


def thumbnail(source: ImageSource) -> str:
    """A small copy as a data: URL; empty if the image is damaged."""
    try:
        image = source.open()
    except (OSError, ValueError):
        return ""
    if max(image.size) > _SIDE:
        image.thumbnail((_SIDE, _SIDE))
    buffer = BytesIO()
    image.save(buffer, format="JPEG", quality=90, subsampling=0)
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()
