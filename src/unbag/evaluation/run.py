"""Run scorers on benchmarks: load, plan, embed, score, measure, and write a run folder.

Scores are saved before anything is measured, and an interrupted run resumes. Several processes may
share a run: each plans the same batches and chunks and computes its part. Vectors are exchanged
through the cache, scores through the run folder.
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
from unbag.evaluation.measuring import measure_run
from unbag.evaluation.plan import Plan, make_plan
from unbag.evaluation.references import declared
from unbag.evaluation.scoring import (
    PrecomputingScorer,
    QueryScoring,
    count_bounded,
    count_truncated,
    in_chunks,
    score_by_vectors,
    truncation_message,
    unknown_words,
    unknown_words_message,
    with_bound_notes,
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

TRACEBACKS = "tracebacks.txt"


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its contents."""

    folder: EvaluationFolder
    contents: RunContents

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be scored, measured or compared, with reasons."""
        return self.contents.problems


def run(job: Job, *, progress: Progress | None = None) -> Finished:
    """Do the job, or the rest of it; several processes of torchrun share the work."""
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
        # A run must not mix scores of two versions.
        version=__version__,
    )
    record = _record(job, models, plan.fingerprints, loaded)
    with open_run_folder(
        job.out, EVALUATION, is_leader=team.is_leader, resumes="scores that are there stay"
    ) as opened:
        folder = EvaluationFolder(opened)
        if not team.is_leader:
            return _run_as_helper(job, items, plan, folder, record, progress, team)
        batch_plans, record = folder.begin(identity, record)
        store = ScoreStore(folder.scores, min_seconds=job.save_seconds)
        folder.take_over(store)
        team.wait()
        work = Work(job, items, plan, folder, store, batch_plans, progress, record, team)
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
        record = with_bound_notes(work.record, store.bounded)
        with paused_collector():
            measurements = measure_run(job, items, store, record, progress=progress, failed=failed)
        measurements.write_outcomes(folder.outcomes)
        folder.write_contents(measurements.contents)
        folder.write_state("failed" if failed else "done", record)
        folder.remove_vectors()
        team.wait()
    return Finished(folder, measurements.contents)


def no_scorer(value: object) -> UnbagError:
    """The error for a value that is not a scorer, with a hint by its type."""
    if isinstance(value, str):
        problem, hint = f"{value!r} is a name", f"write ub.load_scorer({value!r})"
    elif isinstance(value, type):
        problem, hint = f"{value.__name__} is a class", f"make one: {value.__name__}(...)"
    elif isinstance(value, DualEncoder):
        problem, hint = f"{value.name!r} is a dual encoder", "write ub.load_scorer(model)"
    elif isinstance(value, Generator):
        problem, hint = f"{value.name!r} is a chat model", "write ub.load_scorer(model)"
    else:
        problem = f"a {type(value).__name__} was given in place of a scorer"
        hint = (
            'write a name such as "tiny:base", or ub.wrap(encode_image=..., encode_text=..., '
            "preprocess=..., name=...) for functions of your own"
        )
    return UnbagError(
        problem,
        expected="a scorer: name, fingerprint, scoring, is_blind and score(queries)",
        hint=hint,
    )


def _check(job: Job) -> None:
    for scorer in job.scorers:
        if not isinstance(scorer, Scorer):
            raise no_scorer(scorer)
    benchmarks: Sequence[object] = job.benchmarks
    for benchmark in benchmarks:
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
    for kind, values in (("model", job.scorers), ("benchmark", job.benchmarks)):
        names = [value.name for value in values]
        if not names:
            raise UnbagError(f"no {kind} was given", hint=f"name at least one {kind}")
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise UnbagError(
                f"the {kind} {repeated[0]!r} was given twice",
                expected="every name once, because results are stored by name",
                hint=f"leave one of them out, or give one {kind} another name",
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
            **{f"model {name}": fingerprint for name, fingerprint in models.items()},
            **{f"benchmark {name}": fingerprint for name, fingerprint in benchmarks.items()},
        },
        left_out=loaded.left_out,
        notes=loaded.notes,
        incomplete=loaded.incomplete,
        trained_on={
            s.name: collections
            for s in job.scorers
            if (collections := (*declared(s), *job.trained_on.get(s.name, ())))
        },
    )


def versions() -> dict[str, str]:
    """Versions of everything that could change a number."""
    installed = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("unbag", "numpy", "torch", "pillow", "pyarrow", "scipy"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = "not installed"
    return installed


def _score_all(work: Work) -> list[str]:
    """Run all scorers in turn; returns the failures if the job tolerates them."""
    job, path = work.job, work.folder.path / TRACEBACKS
    problems: list[str] = []
    tracebacks = ""
    # Remove the tracebacks of an earlier process: its failures are tried again.
    path.unlink(missing_ok=True)
    for scorer in job.scorers:
        try:
            work.score(scorer)
        except Exception as error:
            # Other processes wait for this one, and torchrun ends them if it fails. A full disk
            # would make every scorer fail.
            if not job.keeps_going or work.team.size > 1 or is_full(error):
                raise
            # Store text only: the error object would keep memory alive.
            summary, reason = _one_line(error), str(error)
            work.progress.say(f"{scorer.name} failed ({summary}); going on without it")
            if not isinstance(error, UnbagError):
                tracebacks += _printable(f"{scorer.name}\n\n{''.join(format_exception(error))}\n")
                write_text(path, tracebacks)
                reason = (
                    f"it failed with {summary}\n{''.join(format_exception(error)).rstrip()}"
                    if job.is_temporary
                    else f"it failed with {summary}; its traceback is in {path}, and the same "
                    "command again tries only what is missing"
                )
            problems.append(
                _printable(f"{scorer.name} on {', '.join(work.missing(scorer))}: {reason}")
            )
    all_benchmarks = set(work.items)
    if problems and all(set(work.missing(s)) == all_benchmarks for s in job.scorers):
        raise UnbagError("\n".join(["no model could be scored", *problems]))
    return problems


def _run_as_helper(
    job: Job,
    items: Mapping[str, Sequence[Item]],
    plan: Plan,
    folder: EvaluationFolder,
    record: RunRecord,
    progress: Progress,
    team: Distributed,
) -> Finished:
    """Score as a helper process, which does not write the run; the leader measures all scores."""
    store = ScoreStore(folder.scores_of(team.rank), min_seconds=job.save_seconds)
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
    """State of a run in progress."""

    job: Job
    items: Mapping[str, Sequence[Item]]
    plan: Plan
    folder: EvaluationFolder
    store: ScoreStore
    batch_plans: dict[str, BatchPlan]
    progress: Progress
    record: RunRecord
    team: Distributed = field(default_factory=Distributed)

    def missing(self, scorer: Scorer) -> list[str]:
        """Benchmarks with unscored items."""
        return [
            name
            for name, items in self.items.items()
            if len(self.store.get(Key(name, scorer.name))) < len(items)
        ]

    def score(self, scorer: Scorer) -> None:
        """Score all benchmarks with one scorer, unless they are already scored."""
        missing = self.team.gather(self.missing(scorer))[0]
        if not missing:
            return
        if self.team.is_leader and (words := unknown_words(scorer, self.plan.prompts)):
            self.progress.say(unknown_words_message(scorer.name, words))
        if isinstance(scorer, EmbeddingScorer):
            self._score_by_vectors(scorer, missing)
            return
        if self.team.is_leader:
            self._report_problems(scorer, {}, count_truncated(scorer, self.plan.captions))
        if isinstance(scorer, PrecomputingScorer):
            self._precompute(scorer)
        scoring = QueryScoring(scorer, tie_eps=self.job.protocol.tie_eps)
        for name in missing:
            self._score_by_queries(scoring, name)

    def _precompute(self, scorer: PrecomputingScorer) -> None:
        """Encode the share of this process; then read the rest from the cache."""
        plan, team = self.plan, self.team
        cache = self.job.cache or (self.folder.vectors if team.size > 1 else None)
        if team.size > 1:
            images, prompts = team.mine(plan.images), team.mine(plan.prompts)
            scorer.precompute(images, prompts, cache=cache, progress=self.progress)
            team.wait()
        scorer.precompute(plan.images, plan.prompts, cache=cache, progress=self.progress)

    def _score_by_vectors(self, scorer: EmbeddingScorer, missing: Sequence[str]) -> None:
        is_fitted = isinstance(scorer, FittedScorer)
        vectors = embed(
            scorer.encoder,
            replace(self.plan, captions=(), prompts=()) if is_fitted else self.plan,
            # Several processes exchange vectors on disk.
            cache=self.job.cache or (self.folder.vectors if self.team.size > 1 else None),
            batch_plans=self.batch_plans,
            save_batch_plans=lambda: self.folder.save_batches(self.batch_plans),
            batch_size=self.job.batch_size,
            progress=self.progress,
            team=self.team,
            compare=scorer.compare,
        )
        if not self.team.is_leader:
            return
        if isinstance(scorer, FittedScorer):
            caption_ND = scorer.caption_vectors(self.plan.captions).numpy()
            vectors = replace(vectors, caption_ND=caption_ND)
        self._report_problems(scorer, vectors.damaged, vectors.truncated)
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

    def _score_by_queries(self, scoring: QueryScoring, name: str) -> None:
        items, rows, key = self.items[name], self.plan.rows[name], Key(name, scoring.scorer.name)
        # Items of one image are adjacent, so that a scorer can encode it once.
        order = sorted(range(len(items)), key=lambda i: int(rows[i].image_P[0]))
        done = self.team.gather(set(self.store.get(key)))[0]
        chunks = in_chunks([items[i] for i in order], scoring.scorer)
        pending = [chunk for chunk in chunks if any(item.id not in done for item in chunk)]
        own_chunks = self.team.mine(pending)
        with self.progress.task(
            f"{scoring.scorer.name}: {name}", sum(map(len, own_chunks))
        ) as advance:
            for chunk in own_chunks:
                by_id = {item.id: item for item in chunk}
                before = count_bounded(scoring.scorer)
                scores = scoring.chunk(chunk)
                self._report_problems(scoring.scorer, scoring.damaged, 0)
                bounded = count_bounded(scoring.scorer) - before
                self.store.add(key, [(by_id[s.item], s) for s in scores], bounded=bounded)
                advance(len(chunk))
        if self.team.size == 1:
            return
        # Wait for the other processes, and import their scores.
        self.store.save()
        damaged = self.team.gather(scoring.damaged)
        if self.team.is_leader:
            all_damaged = {image: reason for part in damaged for image, reason in part.items()}
            self._report_problems(scoring.scorer, all_damaged, 0)
            self.folder.take_over(self.store)
        self.team.wait()

    def _report_problems(self, scorer: Scorer, damaged: Mapping[str, str], truncated: int) -> None:
        """Show and record damaged images and cut captions, before the scores are saved."""
        if not self.team.is_leader:
            return
        new = {name: reason for name, reason in damaged.items() if name not in self.record.damaged}
        if not new and not truncated:
            return
        for name, reason in new.items():
            self.progress.say(f"image {name} cannot be used ({reason}); its items count as invalid")
        if truncated:
            self.progress.say(truncation_message(scorer, truncated))
        self.record = replace(
            self.record,
            damaged=tuple(sorted({*self.record.damaged, *damaged})),
            truncated={**self.record.truncated, **({scorer.name: truncated} if truncated else {})},
        )
        self.folder.write_state("running", self.record)


def _one_line(error: Exception) -> str:
    if isinstance(error, UnbagError):
        return error.message.partition("\n")[0]
    kind, message = type(error).__name__, said_by(error)
    return message if message == kind else f"{kind}: {message}"


def _printable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace").decode()
