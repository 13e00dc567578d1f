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
from unbag.engine.folder import Asked, RunFolder, read_contents
from unbag.engine.job import Job
from unbag.engine.judge import Judgement, judge
from unbag.engine.loading import Loaded, load_all
from unbag.engine.overlap import declared
from unbag.engine.plan import Plan, make_plan
from unbag.engine.progress import Progress, Silent
from unbag.engine.store import ScoreStore
from unbag.engine.team import Team, join_team
from unbag.engine.work import Work
from unbag.errors import UserError
from unbag.types import (
    EmbeddingScorer,
    Item,
    RunContents,
    RunRecord,
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
    """Do the job, or what is left of it; together with others, if torchrun started several."""
    progress = progress or Silent()
    team = join_team()
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
    with folder.locked():
        grids, record = folder.begin(asked, _record(job, asked, loaded))
        store = ScoreStore(folder.scores, least_seconds=job.save_seconds)
        folder.take_over(store)
        team.wait()
        work = Work(job, items, plan, folder, asked, store, grids, progress, record, team)
        try:
            for scorer in job.scorers:
                work.score(scorer)
        except KeyboardInterrupt:
            folder.write_state("stopped", asked, work.record)
            raise
        finally:
            store.save()
        record = with_bounds(work.record, store.bounded)
        with paused_collector():
            judged = judge(job, items, store, record, progress=progress)
        _write(folder, judged, asked, record)
        folder.remove_vectors()
        team.wait()
    return Finished(folder, judged.contents)


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
