"""Run scorers on benchmarks into a run folder: load, plan, embed, score, measure, write.

Scores are saved before anything is measured, and an interrupted run resumes. Several processes
may work together: batches and chunks are planned alike in each and shared out, vectors meet in the
cache and scores in the run folder.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from traceback import format_exception

from unbag.errors import UnbagError, said_by
from unbag.evaluation.embedding import BatchPlan, embed
from unbag.evaluation.loading import Job, Loaded, errata_name, load_all
from unbag.evaluation.measuring import judge
from unbag.evaluation.plan import Plan, make_plan
from unbag.evaluation.references import declared
from unbag.evaluation.scoring import (
    PrecomputingScorer,
    QueryScoring,
    count_bounded,
    count_cut,
    in_chunks,
    said_cut,
    said_unknown,
    score_by_vectors,
    unknown_words,
    with_bounds,
)
from unbag.evaluation.store import (
    EVALUATION,
    EvaluationFolder,
    Key,
    ScoreStore,
    read_contents,
)
from unbag.runs.distributed import Distributed, init_distributed
from unbag.runs.files import is_full, open_run_folder, paused_collector, write_text
from unbag.runs.identity import RunIdentity
from unbag.runs.progress import Progress, Silent
from unbag.types import (
    Benchmark,
    DualEncoder,
    EmbeddingScorer,
    FittedScorer,
    Generator,
    Item,
    RunContents,
    RunRecord,
    Scorer,
)
from unbag.version import __version__

FILE = "tracebacks.txt"


@dataclass(frozen=True)
class Finished:
    """What came of a run."""

    folder: EvaluationFolder
    contents: RunContents

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be scored, measured or compared, and why."""
        return self.contents.problems


def run(job: Job, *, progress: Progress | None = None) -> Finished:
    """Do the job, or what is left of it; together with others, if torchrun started several."""
    progress = progress or Silent()
    team = init_distributed()
    _check(job)
    loaded = load_all(job, progress=progress)
    items = loaded.items
    with paused_collector():
        plan = make_plan(items)
    models = {s.name: s.fingerprint for s in job.scorers}
    identity = RunIdentity(
        scorers=models,
        benchmarks=plan.fingerprints,
        errata={b.name: errata_name(b, job.errata) for b in job.benchmarks},
        protocol=job.protocol,
        seed=job.seed,
        batch_size=job.batch_size,
        # Scores of two versions do not belong in one run.
        version=__version__,
    )
    record = _record(job, models, plan.fingerprints, loaded)
    with open_run_folder(
        job.out, EVALUATION, is_leader=team.is_leader, resumes="scores that are there stay"
    ) as opened:
        folder = EvaluationFolder(opened)
        if not team.is_leader:
            return _assist(job, items, plan, folder, record, progress, team)
        grids, record = folder.begin(identity, record)
        store = ScoreStore(folder.scores, least_seconds=job.save_seconds)
        folder.take_over(store)
        team.wait()
        work = Work(job, items, plan, folder, store, grids, progress, record, team)
        try:
            failed = _score_all(work)
        except KeyboardInterrupt:
            folder.write_state("stopped", work.record)
            raise
        except Exception:
            folder.write_state("failed", work.record)
            raise
        finally:
            store.save()
        record = with_bounds(work.record, store.bounded)
        with paused_collector():
            judged = judge(job, items, store, record, progress=progress, failed=failed)
        judged.write_outcomes(folder.outcomes)
        folder.write_contents(judged.contents)
        folder.write_state("failed" if failed else "done", record)
        folder.remove_vectors()
        team.wait()
    return Finished(folder, judged.contents)


def no_scorer(given: object) -> UnbagError:
    """The error for something else, with what may have been meant."""
    if isinstance(given, str):
        found, hint = f"{given!r} is a name", f"write ub.load_scorer({given!r})"
    elif isinstance(given, type):
        found, hint = f"{given.__name__} is a class", f"make one: {given.__name__}(...)"
    elif isinstance(given, DualEncoder):
        found, hint = f"{given.name!r} is a dual encoder", "write ub.load_scorer(model)"
    elif isinstance(given, Generator):
        found, hint = f"{given.name!r} is a chat model", "write ub.load_scorer(model)"
    else:
        found = f"a {type(given).__name__} was given in place of a scorer"
        hint = (
            'write a name such as "tiny:base", or ub.wrap(encode_image=..., encode_text=..., '
            "preprocess=..., name=...) for functions of your own"
        )
    return UnbagError(
        found,
        expected="a scorer: name, fingerprint, scoring, is_blind and score(queries)",
        hint=hint,
    )


def _check(job: Job) -> None:
    for scorer in job.scorers:
        if not isinstance(scorer, Scorer):
            raise no_scorer(scorer)
    given: Sequence[object] = job.benchmarks
    for benchmark in given:
        if not isinstance(benchmark, Benchmark):
            is_name = isinstance(benchmark, str)
            name = benchmark if is_name else "world-binding"
            raise UnbagError(
                f"{benchmark!r} is a name"
                if is_name
                else f"a {type(benchmark).__name__} was given in place of a benchmark",
                expected="a value of unbag.types.Benchmark",
                hint=f"write ub.load_benchmark({name!r})",
            )
    for what, some in (("model", job.scorers), ("benchmark", job.benchmarks)):
        found = [thing.name for thing in some]
        if not found:
            raise UnbagError(f"no {what} was given", hint=f"name at least one {what}")
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise UnbagError(
                f"the {what} {twice[0]!r} was given twice",
                expected="every name once, since results are kept by name",
                hint=f"leave one of them out, or give one {what} another name",
            )


def _record(
    job: Job, models: Mapping[str, str], benchmarks: Mapping[str, str], loaded: Loaded
) -> RunRecord:
    devices = {s.encoder.device for s in job.scorers if isinstance(s, EmbeddingScorer)}
    return RunRecord(
        command=job.command,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=job.seed,
        device=", ".join(sorted(devices)) or job.device,
        versions=versions(),
        fingerprints={
            **{f"model {name}": print_ for name, print_ in models.items()},
            **{f"benchmark {name}": print_ for name, print_ in benchmarks.items()},
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


def _score_all(work: Work) -> list[str]:
    """One scorer after the other; gives what went wrong, where a job continues without some."""
    job, path = work.job, work.folder.path / FILE
    problems: list[str] = []
    tracebacks = ""
    # Those of an earlier process: its failures are tried again.
    path.unlink(missing_ok=True)
    for scorer in job.scorers:
        try:
            work.score(scorer)
        except Exception as error:
            # In a team the others wait for this process: torchrun ends them when it ends. A disk
            # that is full would fail every scorer alike.
            if not job.keeps_going or work.team.size > 1 or is_full(error):
                raise
            # The error itself is let go, with the memory it holds.
            said, what = _in_a_line(error), str(error)
            work.progress.say(f"{scorer.name} failed ({said}); going on without it")
            if not isinstance(error, UnbagError):
                tracebacks += _whole(f"{scorer.name}\n\n{''.join(format_exception(error))}\n")
                write_text(path, tracebacks)
                what = (
                    f"it failed with {said}\n{''.join(format_exception(error)).rstrip()}"
                    if job.is_temporary
                    else f"it failed with {said}; its traceback is in {path}, and the same command "
                    "again tries only what is missing"
                )
            problems.append(_whole(f"{scorer.name} on {', '.join(work.missing(scorer))}: {what}"))
    every = set(work.items)
    if problems and all(set(work.missing(s)) == every for s in job.scorers):
        raise UnbagError("\n".join(["no model could be scored", *problems]))
    return problems


def _assist(
    job: Job,
    items: Mapping[str, Sequence[Item]],
    plan: Plan,
    folder: EvaluationFolder,
    record: RunRecord,
    progress: Progress,
    team: Distributed,
) -> Finished:
    """The same work without writing the run: the leader measures what all have scored."""
    store = ScoreStore(folder.scores_of(team.rank), least_seconds=job.save_seconds)
    team.wait()
    work = Work(job, items, plan, folder, store, {}, progress, record, team)
    try:
        for scorer in job.scorers:
            work.score(scorer)
    finally:
        store.save()
    team.wait()
    return Finished(folder, read_contents(folder.path))


@dataclass
class Work:
    """A run in progress: what stays the same from scorer to scorer, and the record that grows."""

    job: Job
    items: Mapping[str, Sequence[Item]]
    plan: Plan
    folder: EvaluationFolder
    store: ScoreStore
    grids: dict[str, BatchPlan]
    progress: Progress
    record: RunRecord
    team: Distributed = field(default_factory=Distributed)

    def missing(self, scorer: Scorer) -> list[str]:
        """Benchmarks of which an item is not scored yet."""
        return [
            name
            for name, items in self.items.items()
            if len(self.store.get(Key(name, scorer.name))) < len(items)
        ]

    def score(self, scorer: Scorer) -> None:
        """All benchmarks with one scorer, as far as they are not scored yet."""
        missing = self.team.gather(self.missing(scorer))[0]
        if not missing:
            return
        if self.team.is_leader and (words := unknown_words(scorer, self.plan.prompts)):
            self.progress.say(said_unknown(scorer.name, words))
        if isinstance(scorer, EmbeddingScorer):
            self._by_vectors(scorer, missing)
            return
        if self.team.is_leader:
            self._note(scorer, {}, count_cut(scorer, self.plan.captions))
        if isinstance(scorer, PrecomputingScorer):
            self._show_all(scorer)
        asking = QueryScoring(scorer, tie_eps=self.job.protocol.tie_eps)
        for name in missing:
            self._by_queries(asking, name)

    def _show_all(self, scorer: PrecomputingScorer) -> None:
        """Each process encodes its share; then all have everything, from the cache."""
        plan, team = self.plan, self.team
        cache = self.job.cache or (self.folder.vectors if team.size > 1 else None)
        if team.size > 1:
            images, prompts = team.mine(plan.images), team.mine(plan.prompts)
            scorer.precompute(images, prompts, cache=cache, progress=self.progress)
            team.wait()
        scorer.precompute(plan.images, plan.prompts, cache=cache, progress=self.progress)

    def _by_vectors(self, scorer: EmbeddingScorer, missing: Sequence[str]) -> None:
        is_fitted = isinstance(scorer, FittedScorer)
        vectors = embed(
            scorer.encoder,
            replace(self.plan, captions=(), prompts=()) if is_fitted else self.plan,
            # Processes that share the work meet on disk.
            cache=self.job.cache or (self.folder.vectors if self.team.size > 1 else None),
            grids=self.grids,
            save_grids=lambda: self.folder.save_batches(self.grids),
            batch_size=self.job.batch_size,
            progress=self.progress,
            team=self.team,
            compare=scorer.compare,
        )
        if not self.team.is_leader:
            return
        if isinstance(scorer, FittedScorer):
            own = scorer.caption_vectors(self.plan.captions).numpy()
            vectors = replace(vectors, caption_ND=own)
        self._note(scorer, vectors.damaged, vectors.truncated)
        for benchmark in self.job.benchmarks:
            name = benchmark.name
            if name not in missing:
                continue
            by_id = {item.id: item for item in self.items[name]}
            scored = score_by_vectors(
                scorer,
                self.items[name],
                self.plan.rows[name],
                vectors,
                tie_eps=self.job.protocol.tie_eps,
                compares_captions=benchmark.compares_captions,
            )
            with paused_collector():
                for chunk in scored:
                    self.store.add(Key(name, scorer.name), [(by_id[s.item], s) for s in chunk])

    def _by_queries(self, asking: QueryScoring, name: str) -> None:
        items, rows, key = self.items[name], self.plan.rows[name], Key(name, asking.scorer.name)
        # Items of one image stand together, so that a scorer that is asked can share it.
        order = sorted(range(len(items)), key=lambda n: int(rows[n].image_P[0]))
        done = self.team.gather(set(self.store.get(key)))[0]
        chunks = in_chunks([items[n] for n in order], asking.scorer)
        todo = [chunk for chunk in chunks if any(item.id not in done for item in chunk)]
        mine = self.team.mine(todo)
        with self.progress.task(f"{asking.scorer.name}: {name}", sum(map(len, mine))) as advance:
            for chunk in mine:
                by_id = {item.id: item for item in chunk}
                before = count_bounded(asking.scorer)
                found = asking.chunk(chunk)
                self._note(asking.scorer, asking.damaged, 0)
                bounded = count_bounded(asking.scorer) - before
                self.store.add(key, [(by_id[s.item], s) for s in found], bounded=bounded)
                advance(len(chunk))
        if self.team.size == 1:
            return
        # Wait for the others, and take over what they scored.
        self.store.save()
        damaged = self.team.gather(asking.damaged)
        if self.team.is_leader:
            self._note(asking.scorer, {n: why for one in damaged for n, why in one.items()}, 0)
            self.folder.take_over(self.store)
        self.team.wait()

    def _note(self, scorer: Scorer, damaged: Mapping[str, str], truncated: int) -> None:
        """Say and record what was found, before the scores that depend on it are kept."""
        if not self.team.is_leader:
            return
        new = {name: why for name, why in damaged.items() if name not in self.record.damaged}
        if not new and not truncated:
            return
        for name, reason in new.items():
            self.progress.say(f"image {name} cannot be used ({reason}); its items count as invalid")
        if truncated:
            self.progress.say(said_cut(scorer, truncated))
        self.record = replace(
            self.record,
            damaged=tuple(sorted({*self.record.damaged, *damaged})),
            truncated={**self.record.truncated, **({scorer.name: truncated} if truncated else {})},
        )
        self.folder.write_state("running", self.record)


def _in_a_line(error: Exception) -> str:
    if isinstance(error, UnbagError):
        return error.message.partition("\n")[0]
    kind, said = type(error).__name__, said_by(error)
    return said if said == kind else f"{kind}: {said}"


def _whole(text: str) -> str:
    """Without half characters, which no file could hold."""
    return text.encode(errors="backslashreplace").decode()
