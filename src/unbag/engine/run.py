"""From scorers and benchmarks to a run folder: load, plan, embed, score, measure, write.

Everything dear is saved before anything is measured, and a run that was stopped goes on.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from unbag.engine.embed import Embeddings, embed
from unbag.engine.folder import Asked, RunFolder
from unbag.engine.job import Job
from unbag.engine.judge import Judgement, judge
from unbag.engine.plan import Plan, check_items, make_plan
from unbag.engine.progress import Progress, Silent
from unbag.engine.scoring import CHUNK, QueryScoring, score_by_vectors
from unbag.engine.store import Key, ScoreStore
from unbag.errors import UserError
from unbag.types import (
    Benchmark,
    EmbeddingScorer,
    Item,
    RunContents,
    RunRecord,
    Scorer,
    Scores,
)


@dataclass(frozen=True)
class Finished:
    """What came of a run."""

    folder: RunFolder
    contents: RunContents
    problems: tuple[str, ...]
    """Benchmarks that could be scored but not measured, and why."""


def run(job: Job, *, progress: Progress | None = None) -> Finished:
    """Do the job, or what is left of it."""
    progress = progress or Silent()
    _check_names(job)
    items = {b.name: load_items(b, job.data) for b in job.benchmarks}
    plan = make_plan(items)
    folder = RunFolder(job.out)
    asked = Asked(
        scorers={s.name: s.fingerprint for s in job.scorers},
        benchmarks=plan.fingerprints,
        protocol=job.protocol,
        seed=job.seed,
        batch=job.batch,
    )
    record = _record(job, asked)
    with folder.locked():
        grids, record = folder.begin(asked, record)
        store = ScoreStore(folder.scores, least_seconds=job.save_seconds)
        try:
            for scorer in job.scorers:
                record = _score(scorer, job, items, plan, store, folder, grids, record, progress)
        except KeyboardInterrupt:
            folder.write_state("stopped", asked, record)
            raise
        finally:
            store.save()
        judged = judge(job, items, store, record, progress=progress)
        _write(folder, judged, asked, record)
    return Finished(folder, judged.contents, judged.problems)


def load_items(benchmark: Benchmark, data: Path | None) -> Sequence[Item]:
    """The items of a benchmark, from its folder if it needs one."""
    root = None
    if benchmark.files:
        if data is None:
            raise UserError(
                f"benchmark {benchmark.name!r} is read from files",
                expected=f"a folder {benchmark.name} with {', '.join(benchmark.files)}",
                way_out="say with --data where the benchmark folders are",
            )
        root = data / benchmark.name
        if not root.is_dir():
            raise UserError(
                f"there is no folder {root}",
                expected=f"a folder with {', '.join(benchmark.files)}",
                way_out="check --data; it names the folder above the benchmark's own",
            )
    items = benchmark.load(root)
    check_items(benchmark.name, items)
    return items


def _score(
    scorer: Scorer,
    job: Job,
    items: Mapping[str, Sequence[Item]],
    plan: Plan,
    store: ScoreStore,
    folder: RunFolder,
    grids: dict[str, list[list[str]]],
    record: RunRecord,
    progress: Progress,
) -> RunRecord:
    """All benchmarks with one scorer; gives the record with what was found on the way."""
    missing = [
        name for name, some in items.items() if len(store.get(Key(name, scorer.name))) < len(some)
    ]
    if not missing:
        return record
    if isinstance(scorer, EmbeddingScorer):
        vectors = embed(
            scorer.encoder,
            plan,
            cache=job.cache,
            grids=grids,
            save_grids=lambda: folder.save_batches(grids),
            batch=job.batch,
            progress=progress,
        )
        _by_vectors(scorer, missing, items, plan, vectors, store, tie_eps=job.protocol.tie_eps)
        return _note(record, scorer, vectors.damaged, vectors.truncated, progress)
    asking = QueryScoring(scorer, tie_eps=job.protocol.tie_eps)
    for name in missing:
        _by_queries(asking, name, items[name], store, progress)
    return _note(record, scorer, asking.damaged, 0, progress)


def _by_vectors(
    scorer: EmbeddingScorer,
    missing: Sequence[str],
    items: Mapping[str, Sequence[Item]],
    plan: Plan,
    vectors: Embeddings,
    store: ScoreStore,
    *,
    tie_eps: float,
) -> None:
    for name in missing:
        by_id = {item.id: item for item in items[name]}
        for chunk in score_by_vectors(
            scorer, items[name], plan.rows[name], vectors, tie_eps=tie_eps
        ):
            store.add(Key(name, scorer.name), [(by_id[s.item], s) for s in chunk])


def _by_queries(
    asking: QueryScoring, name: str, items: Sequence[Item], store: ScoreStore, progress: Progress
) -> None:
    key = Key(name, asking.scorer.name)
    done = store.get(key)
    with progress.task(f"{asking.scorer.name}: {name}", len(items)) as advance:
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            if any(item.id not in done for item in chunk):
                by_id = {item.id: item for item in chunk}
                found: list[Scores] = asking.chunk(chunk)
                store.add(key, [(by_id[s.item], s) for s in found])
            advance(len(chunk))


def _note(
    record: RunRecord,
    scorer: Scorer,
    damaged: Mapping[str, str],
    truncated: int,
    progress: Progress,
) -> RunRecord:
    for name, reason in damaged.items():
        progress.say(f"picture {name} cannot be opened ({reason}); its items count as invalid")
    if truncated:
        progress.say(f"{scorer.name} cut {truncated} captions to its context length")
    return replace(
        record,
        damaged=tuple(sorted({*record.damaged, *damaged})),
        truncated={**record.truncated, **({scorer.name: truncated} if truncated else {})},
    )


def _write(folder: RunFolder, judged: Judgement, asked: Asked, record: RunRecord) -> None:
    judged.write_outcomes(folder.outcomes)
    folder.write_contents(judged.contents)
    folder.write_state("done", asked, record)


def _check_names(job: Job) -> None:
    for what, some in (("model", job.scorers), ("benchmark", job.benchmarks)):
        found = [thing.name for thing in some]
        if not found:
            raise UserError(f"no {what} was given", way_out=f"name at least one {what}")
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise UserError(
                f"the {what} {twice[0]!r} was given twice",
                expected="every name once, since results are kept by name",
            )


def _record(job: Job, asked: Asked) -> RunRecord:
    return RunRecord(
        command=job.command,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=job.seed,
        device=job.device,
        versions=versions(),
        fingerprints={**asked.scorers, **asked.benchmarks},
    )


def versions() -> dict[str, str]:
    """Of everything that could change a number."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("unbag", "numpy", "torch", "pillow", "pyarrow", "scipy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
