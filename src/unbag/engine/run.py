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
from warnings import catch_warnings, simplefilter

from unbag.engine.asking import CHUNK, QueryScoring
from unbag.engine.collector import paused_collector
from unbag.engine.embed import Grid, embed
from unbag.engine.errata import ErrataChoice, errata_name, loader_of
from unbag.engine.folder import Asked, RunFolder
from unbag.engine.job import Job
from unbag.engine.judge import Judgement, judge
from unbag.engine.missing import without_missing
from unbag.engine.overlap import declared
from unbag.engine.plan import Plan, check_items, make_plan
from unbag.engine.progress import Progress, Silent
from unbag.engine.scoring import score_by_vectors
from unbag.engine.store import Key, ScoreStore
from unbag.errors import UserError
from unbag.types import (
    Benchmark,
    EmbeddingScorer,
    FittedScorer,
    Item,
    RunContents,
    RunRecord,
    Scorer,
)
from unbag.version import __version__


@dataclass(frozen=True)
class Finished:
    """What came of a run."""

    folder: RunFolder
    contents: RunContents

    @property
    def problems(self) -> tuple[str, ...]:
        """What was scored but could not be measured or compared, and why."""
        return self.contents.problems


def run(job: Job, *, progress: Progress | None = None) -> Finished:
    """Do the job, or what is left of it."""
    progress = progress or Silent()
    _check_names(job)
    loaded = {
        b.name: load_items(b, job.data, errata=job.errata, progress=progress)
        for b in job.benchmarks
    }
    items = {name: _present(name, some, job, progress) for name, some in loaded.items()}
    left_out = {name: n for name in items if (n := len(loaded[name]) - len(items[name]))}
    plan = make_plan(items)
    folder = RunFolder(job.out)
    asked = Asked(
        scorers={s.name: s.fingerprint for s in job.scorers},
        benchmarks=plan.fingerprints,
        errata={b.name: errata_name(b, job.errata) for b in job.benchmarks},
        protocol=job.protocol,
        seed=job.seed,
        batch=job.batch,
        version=__version__,
    )
    with folder.locked():
        grids, record = folder.begin(asked, _record(job, asked, left_out))
        store = ScoreStore(folder.scores, least_seconds=job.save_seconds)
        work = _Work(job, items, plan, folder, asked, store, grids, progress, record)
        try:
            for scorer in job.scorers:
                work.score(scorer)
        except KeyboardInterrupt:
            folder.write_state("stopped", asked, work.record)
            raise
        finally:
            store.save()
        judged = judge(job, items, store, work.record, progress=progress)
        _write(folder, judged, asked, work.record)
    return Finished(folder, judged.contents)


def _present(name: str, items: Sequence[Item], job: Job, progress: Progress) -> Sequence[Item]:
    found = items
    # Scorers that never look need no pictures: a blind score can be had from annotations alone.
    if job.missing == "skip" or not all(scorer.is_blind for scorer in job.scorers):
        found = without_missing(name, items, missing=job.missing, progress=progress)
    check_items(name, found)
    return found


def load_items(
    benchmark: Benchmark,
    data: Path | None,
    *,
    errata: ErrataChoice = "published",
    progress: Progress,
) -> Sequence[Item]:
    """The items of a benchmark, from its folder if it needs one; what a loader warns of is said."""
    with catch_warnings(record=True) as warned, paused_collector():
        simplefilter("always")
        # Kept as they are: a lazy sequence would make new pictures at every look.
        items = tuple(loader_of(benchmark, errata)(folder_of(benchmark, data)))
    for warning in warned:
        progress.say(f"{benchmark.name}: {warning.message}")
    return items


def folder_of(benchmark: Benchmark, data: Path | None) -> Path | None:
    """Where a benchmark's files lie; None if it makes its own data."""
    if not benchmark.files:
        return None
    name = benchmark.folder or benchmark.name
    if data is None:
        raise UserError(
            f"benchmark {benchmark.name!r} is read from files",
            expected=f"a folder {name} with {', '.join(benchmark.files)}",
            way_out="say with --data where the benchmark folders are",
        )
    if not (data / name).is_dir():
        raise UserError(
            f"there is no folder {data / name}",
            expected=f"a folder with {', '.join(benchmark.files)}",
            way_out="check --data; it names the folder above the benchmark's own",
        )
    return data / name


@dataclass
class _Work:
    """A run in progress: what stays the same from scorer to scorer, and the record that grows."""

    job: Job
    items: Mapping[str, Sequence[Item]]
    plan: Plan
    folder: RunFolder
    asked: Asked
    store: ScoreStore
    grids: dict[str, Grid]
    progress: Progress
    record: RunRecord

    @property
    def compares_captions(self) -> frozenset[str]:
        """Benchmarks that also need the similarity of captions with each other."""
        return frozenset(b.name for b in self.job.benchmarks if b.compares_captions)

    def score(self, scorer: Scorer) -> None:
        """All benchmarks with one scorer, as far as they are not scored yet."""
        missing = [
            name
            for name, items in self.items.items()
            if len(self.store.get(Key(name, scorer.name))) < len(items)
        ]
        if not missing:
            return
        if isinstance(scorer, EmbeddingScorer):
            self._by_vectors(scorer, missing)
            return
        asking = QueryScoring(scorer, tie_eps=self.job.protocol.tie_eps)
        for name in missing:
            self._by_queries(asking, name)

    def _by_vectors(self, scorer: EmbeddingScorer, missing: Sequence[str]) -> None:
        is_fitted = isinstance(scorer, FittedScorer)
        vectors = embed(
            scorer.encoder,
            replace(self.plan, captions=(), prompts=()) if is_fitted else self.plan,
            cache=self.job.cache,
            grids=self.grids,
            save_grids=lambda: self.folder.save_batches(self.grids),
            batch=self.job.batch,
            progress=self.progress,
        )
        if isinstance(scorer, FittedScorer):
            own = scorer.caption_vectors(self.plan.captions).numpy()
            vectors = replace(vectors, caption_ND=own)
        self._note(scorer, vectors.damaged, vectors.truncated)
        eps = self.job.protocol.tie_eps
        for name in missing:
            by_id = {item.id: item for item in self.items[name]}
            rows = self.plan.rows[name]
            scored = score_by_vectors(
                scorer,
                self.items[name],
                rows,
                vectors,
                tie_eps=eps,
                compares_captions=name in self.compares_captions,
            )
            for chunk in scored:
                self.store.add(Key(name, scorer.name), [(by_id[s.item], s) for s in chunk])

    def _by_queries(self, asking: QueryScoring, name: str) -> None:
        items, key = self.items[name], Key(name, asking.scorer.name)
        done = self.store.get(key)
        with self.progress.task(f"{asking.scorer.name}: {name}", len(items)) as advance:
            for start in range(0, len(items), CHUNK):
                chunk = items[start : start + CHUNK]
                if any(item.id not in done for item in chunk):
                    by_id = {item.id: item for item in chunk}
                    found = asking.chunk(chunk)
                    self._note(asking.scorer, asking.damaged, 0)
                    self.store.add(key, [(by_id[s.item], s) for s in found])
                advance(len(chunk))

    def _note(self, scorer: Scorer, damaged: Mapping[str, str], truncated: int) -> None:
        """Say and record what was found, before the scores that depend on it are kept."""
        new = {name: why for name, why in damaged.items() if name not in self.record.damaged}
        if not new and not truncated:
            return
        for name, reason in new.items():
            self.progress.say(
                f"picture {name} cannot be opened ({reason}); its items count as invalid"
            )
        if truncated:
            self.progress.say(f"{scorer.name} cut {truncated} captions to its context length")
        self.record = replace(
            self.record,
            damaged=tuple(sorted({*self.record.damaged, *damaged})),
            truncated={**self.record.truncated, **({scorer.name: truncated} if truncated else {})},
        )
        self.folder.write_state("running", self.asked, self.record)


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


def _record(job: Job, asked: Asked, left_out: Mapping[str, int]) -> RunRecord:
    devices = {s.encoder.device for s in job.scorers if isinstance(s, EmbeddingScorer)}
    return RunRecord(
        command=job.command,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=job.seed,
        device=", ".join(sorted(devices)) or job.device,
        versions=versions(),
        fingerprints={
            **{f"model {name}": print_ for name, print_ in asked.scorers.items()},
            **{f"benchmark {name}": print_ for name, print_ in asked.benchmarks.items()},
        },
        left_out=left_out,
        trained_on={
            s.name: seen
            for s in job.scorers
            if (seen := (*declared(s), *job.trained_on.get(s.name, ())))
        },
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
