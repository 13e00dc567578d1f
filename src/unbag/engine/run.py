"""From scorers and benchmarks to a run folder: load, plan, embed, score, measure, write.

Everything dear is saved before anything is measured, and a run that was stopped goes on.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from unbag.engine.bounds import with_bounds
from unbag.engine.collector import paused_collector
from unbag.engine.errata import errata_name
from unbag.engine.folder import Asked, RunFolder, State, read_contents
from unbag.engine.full_disk import is_full, told_when_full
from unbag.engine.given import no_benchmark, no_scorer
from unbag.engine.job import Job
from unbag.engine.judge import Judgement, judge
from unbag.engine.loading import Loaded, load_all
from unbag.engine.overlap import declared
from unbag.engine.plan import Plan, make_plan
from unbag.engine.progress import Progress, Silent
from unbag.engine.store import ScoreStore
from unbag.engine.team import Team, join_team
from unbag.engine.unscored import Unscored
from unbag.engine.work import Work
from unbag.errors import UserError
from unbag.types import (
    Benchmark,
    EmbeddingScorer,
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
        """What could not be scored, measured or compared, and why."""
        return self.contents.problems


def run(job: Job, *, progress: Progress | None = None) -> Finished:
    """Do the job, or what is left of it; together with others, if torchrun started several."""
    progress = progress or Silent()
    team = join_team()
    _check_kinds(job)
    _check_names(job)
    loaded = load_all(job, progress=progress)
    items = loaded.items
    with paused_collector():
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
    if not team.is_leader:
        return _assist(job, items, plan, folder, asked, progress, team)
    with folder.locked(), told_when_full(job.out, goes_on="scores that are there stay"):
        grids, record = folder.begin(asked, _record(job, asked, loaded))
        store = ScoreStore(folder.scores, least_seconds=job.save_seconds)
        folder.take_over(store)
        team.wait()
        work = Work(job, items, plan, folder, asked, store, grids, progress, record, team)
        try:
            failed = _score_all(work)
        except KeyboardInterrupt:
            folder.write_state("stopped", asked, work.record)
            raise
        except Exception:
            folder.write_state("failed", asked, work.record)
            raise
        finally:
            store.save()
        record = with_bounds(work.record, store.bounded)
        with paused_collector():
            judged = judge(job, items, store, record, progress=progress, failed=failed)
        _write(folder, judged, asked, record, state="failed" if failed else "done")
        folder.remove_vectors()
        team.wait()
    return Finished(folder, judged.contents)


def _score_all(work: Work) -> list[str]:
    """One scorer after the other; gives what went wrong, where a job goes on without some."""
    job = work.job
    unscored = Unscored(work.folder.path, work.progress)
    for scorer in job.scorers:
        try:
            work.score(scorer)
        except Exception as error:
            # In a team the others wait for this process: torchrun ends them when it ends. A disk
            # that is full would fail every scorer alike.
            if not job.keeps_going or work.team.size > 1 or is_full(error):
                raise
            unscored.add(scorer.name, work.missing(scorer), error)
    every = set(work.items)
    if unscored.problems and all(set(work.missing(s)) == every for s in job.scorers):
        raise UserError("\n".join(["no model could be scored", *unscored.problems]))
    return unscored.problems


def _assist(
    job: Job,
    items: Mapping[str, Sequence[Item]],
    plan: Plan,
    folder: RunFolder,
    asked: Asked,
    progress: Progress,
    team: Team,
) -> Finished:
    """The same work without writing the run: the leader measures what all have scored."""
    store = ScoreStore(folder.scores_of(team.rank), least_seconds=job.save_seconds)
    team.wait()
    record = _record(job, asked, Loaded())
    work = Work(job, items, plan, folder, asked, store, {}, progress, record, team)
    try:
        for scorer in job.scorers:
            work.score(scorer)
    finally:
        store.save()
    team.wait()
    return Finished(folder, read_contents(folder.path))


def _write(
    folder: RunFolder, judged: Judgement, asked: Asked, record: RunRecord, *, state: State
) -> None:
    judged.write_outcomes(folder.outcomes)
    folder.write_contents(judged.contents)
    folder.write_state(state, asked, record)


def _check_kinds(job: Job) -> None:
    for scorer in job.scorers:
        if not isinstance(scorer, Scorer):
            raise no_scorer(scorer)
    for benchmark in job.benchmarks:
        if not isinstance(benchmark, Benchmark):
            raise no_benchmark(benchmark)


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
                way_out=f"leave one of them out, or give one {what} another name",
            )


def _record(job: Job, asked: Asked, loaded: Loaded) -> RunRecord:
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
        left_out=loaded.left_out,
        notes=loaded.notes,
        incomplete=loaded.incomplete,
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
