"""Measure saved scores: results, comparisons and examples of failures; no model is needed."""

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

MOST = 6
"""Failures kept for each scorer and benchmark."""
_MOST_CAPTIONS = 16
_SIDE = 192
"""Longest side of an image on the page, in pixels."""


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
                        own = (key.benchmark, key.scorer, one.metric)
                        same = [[name] * len(one.units) for name in own]
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
                except UnbagError as error:
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
                    if not (scorer.is_blind or is_variant(scorer)):
                        failures += choose_failures(
                            benchmark.name,
                            scorer.name,
                            found.outcomes[benchmark.headline],
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
    protocol = replace(
        job.protocol,
        errata=errata_name(benchmark, job.errata),
        scoring=scorer.scoring,
        prompt=getattr(scorer, "prompt", ""),
    )
    # Relaxed verdicts in the form of its numbers; flips where the scorer tried several orders.
    metrics = in_form(benchmark.metrics, getattr(scorer, "relaxed_form", "additive"))
    suited = replace(benchmark, metrics=(*metrics, Flips()) if has_orders(cases) else metrics)
    return [
        measure(
            suited,
            cases,
            protocol=replace(protocol, ties=rule),
            seed=job.seed,
            allow_invalid=job.allow_invalid,
        )
        for rule in (reversed(list(rules)) if job.official_first else rules)
    ]


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


def choose_failures(
    benchmark: str,
    scorer: str,
    outcomes: Outcomes,
    cases: Mapping[str, Case],
    *,
    only: Mapping[str, str],
) -> list[Failure]:
    """A sample of the units with no credit: drawn by hash, so neither the worst nor the first.

    `only` holds the tags that count for the headline (see Aggregate.only).
    """
    missed = [
        (unit, tags)
        for unit, tags, value in zip(outcomes.units, outcomes.tags, outcomes.value_U, strict=True)
        if value == 0 and only.items() <= tags.items()
    ]
    missed.sort(key=lambda pair: blake2b(pair[0].encode(), digest_size=8).digest())
    found: dict[str, Failure] = {}
    for unit, tags in missed:
        shown = _shown(unit, cases)
        if shown is None or shown.name in found:
            continue
        images = [thumbnail(image) for image in shown.images]
        if not all(images):
            continue
        found[shown.name] = Failure(
            benchmark=benchmark,
            scorer=scorer,
            item=shown.name,
            metric=outcomes.metric,
            images=tuple(images),
            captions=tuple(map(text_of, shown.captions)),
            kinds=tuple(shown.kinds),
            truth=tuple(tuple(bool(t) for t in row) for row in shown.truth),
            scores=tuple(tuple(float(s) for s in row) for row in shown.scores),
            tags=dict(tags),
        )
        if len(found) == MOST:
            break
    return list(found.values())


class _Shown(NamedTuple):
    """The part of an item that makes its failure plain."""

    name: str
    images: Sequence[ImageSource]
    captions: Sequence[Caption]
    kinds: Sequence[str]
    truth: Sequence[Sequence[bool]] | NDArray[np.generic]
    scores: Sequence[Sequence[float]] | FloatArray


def _shown(unit: str, cases: Mapping[str, Case]) -> _Shown | None:
    """What to show of the item a unit is named after; units read as "item/what number"."""
    name, rest = unit, ""
    while name not in cases and "/" in name:
        name, _, rest = name.rpartition("/")
    if name not in cases:
        return None
    case = cases[name]
    if isinstance(case.item.truth, Sparse):
        direction, _, number = rest.partition(" ")
        return _query(unit, case, case.item.truth, direction, int(number))
    if case.scores.values is None or len(case.item.captions) > _MOST_CAPTIONS:
        return None
    kinds = case.item.kinds or ("",) * len(case.item.captions)
    item = case.item
    return _Shown(name, item.images, item.captions, kinds, case.item.truth, case.scores.values)


def _query(unit: str, case: Case, truth: Sparse, direction: str, query: int) -> _Shown | None:
    """A query of retrieval, one thing it belongs to, and the thing that came first instead."""
    asks_image = direction == "text_to_image"
    ranks = case.scores.text_to_image if asks_image else case.scores.image_to_text
    if ranks is None:
        return None
    asked, wanted = (truth.column_T, truth.row_T) if asks_image else (truth.row_T, truth.column_T)
    true = wanted[asked == query]
    chosen = [int(true[0]), int(ranks.top_QK[query][0])]
    known = dict(zip(ranks.top_QK[query].tolist(), ranks.top_score_QK[query].tolist(), strict=True))
    is_true = [True, chosen[1] in true]
    score = [known.get(i, float("nan")) for i in chosen]
    item = case.item
    if asks_image:
        images = [item.images[i] for i in chosen]
        rows = [[t] for t in is_true], [[s] for s in score]
        return _Shown(unit, images, [item.captions[query]], ["query"], *rows)
    captions = [item.captions[i] for i in chosen]
    return _Shown(unit, [item.images[query]], captions, ["", "first"], [is_true], [score])


def thumbnail(source: ImageSource) -> str:
    """A small copy as a data: address; empty if the image is damaged."""
    try:
        image = source.open()
    except (OSError, ValueError):
        return ""
    if max(image.size) > _SIDE:
        image.thumbnail((_SIDE, _SIDE))
    buffer = BytesIO()
    image.save(buffer, format="JPEG", quality=90, subsampling=0)
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()
