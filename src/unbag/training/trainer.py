"""The training loop: takes the steps of a job, saves checkpoints, writes logs, resumes.

The batch of a step depends on (data, recipe, seed, step) alone, and all randomness of a step on
(seed, step). So a run that was killed resumes from its last checkpoint and ends, on a CPU, with the
same bits as one that was not.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.runs.distributed import Team, join_team
from unbag.runs.files import (
    locked_folder,
    make_folder,
    remove_leftovers,
    told_when_full,
    write_text,
)
from unbag.runs.progress import Progress, Silent, Stopping, stops_gently
from unbag.scorers.cosine import Cosine
from unbag.training import checkpoint
from unbag.training.checkpoint import BEST, LAST, Standing
from unbag.training.data.batch import Batch
from unbag.training.data.loader import Waiting, load, with_names
from unbag.training.job import (
    TrainJob,
    TrainRecord,
    check_begun,
    check_same,
    identity_of,
    read_record,
    write_record,
)
from unbag.training.logging import (
    Log,
    NotFiniteError,
    columns,
    device_numbers,
    known_numbers,
    open_log,
    tensorboard,
    wandb,
)
from unbag.training.optim import change_weights, make_optimiser, open_weights
from unbag.training.step import StepPlan, add_gradient
from unbag.training.towers.adapters import make_trainable
from unbag.training.towers.base import Trainable, apply_locks, set_training
from unbag.training.towers.cached_features import OnFeatures
from unbag.training.towers.lora import add_lora

EVALUATIONS_FOLDER, EVALUATIONS_FILE = "evaluations", "evaluations.csv"
_COLUMNS = ("step", "benchmark", "metric", "value", "low", "high", "n")


def train(job: TrainJob, *, progress: Progress | None = None) -> Trained:
    """Train, or resume; weights are changed in place and saved in the folder of the run."""
    team = join_team(job.device)
    progress = progress if progress is not None and team.is_leader else Silent()
    check_begun(job.out)
    make_folder(job.out, what="folder of the run", way_out="name another folder with --out")
    if not team.is_leader:
        return _TrainRun(job, team, progress).go()
    taken = UserError(
        f"another process trains in {job.out}",
        way_out="wait until it is done, or name another folder with --out",
    )
    with locked_folder(job.out, taken), told_when_full(job.out):
        remove_leftovers(job.out)
        return _TrainRun(job, team, progress).go()


@dataclass(frozen=True)
class Trained:
    """Result of a training run."""

    folder: Path
    standing: Standing
    is_done: bool
    """False if somebody stopped it; the same command goes on."""


class _TrainRun:
    """One run in progress: `go` resumes, takes the steps, and saves."""

    def __init__(self, job: TrainJob, team: Team, progress: Progress) -> None:
        self.job, self.team, self.progress = job, team, progress
        asked = identity_of(job, processes=team.size)
        before = read_record(job.out)
        self.is_new = before is None
        if before is not None:
            check_same(before, asked, folder=job.out)
        self.record = TrainRecord(
            asked=asked,
            state="running",
            data=job.batches.about,
            device=job.device,
            command=job.command,
            steps=job.steps,
            base=job.base or job.trainable.name,
            torch=torch.__version__,
        )
        self.start = _frozen_copy(job) if job.recipe.objective.needs_start else None
        progress.say(_open_towers(job))
        self.first: Mapping[str, Tensor] | None = None
        if job.recipe.to_start:
            weights = open_weights(job.trainable)
            self.first = {name: weight.detach().clone() for name, weight in weights.items()}
        self.optimiser = make_optimiser(job.trainable, job.recipe)
        self.plan = StepPlan(
            recipe=job.recipe,
            team=team,
            device=job.device,
            precision=job.precision,
            micro=job.micro,
            seed=job.seed,
            find_truth=job.batches.find_truth,
        )
        self.standing = Standing()
        self.threshold_K: Tensor | None = self._first_threshold()
        self.waiting = Waiting()
        self.saved_at = perf_counter()
        self.saved_step = 0

    def go(self) -> Trained:
        """From where it stands to the end, or until somebody stops it."""
        job = self.job
        if self.is_new:
            # Before any other file: a run that is killed knows its folder by it.
            self._write_record("running")
        self._go_back_to_checkpoint()
        if self.standing.step >= job.steps:
            return self._ended(is_done=True)
        self._write_record("running")
        self.log = self._open_log()
        try:
            with stops_gently(self.team) as stopping:
                self._take_steps(stopping)
            self._save()
        except NotFiniteError as error:
            raise self._not_finite(error) from error
        except UserError:
            # Raised between two steps, by data or a benchmark: the steps before it are not lost.
            with suppress(UserError, NotFiniteError):
                self._save()
            raise
        finally:
            self.log.close()
        return self._ended(is_done=self.standing.step == job.steps)

    def _take_steps(self, stopping: Stopping) -> None:
        job = self.job
        first = self.standing.step
        total = (job.steps - first) * job.recipe.batch
        batches = load(
            job.batches,
            first=first,
            workers=job.workers,
            device=job.device,
            waiting=self.waiting,
        )
        set_training(job.trainable, job.recipe.locks)
        began = perf_counter()
        with closing(batches), self.progress.task("training", total) as advance:
            for step, batch in enumerate(batches, start=first):
                self._one_step(step, batch)
                self._count(batch, seconds=perf_counter() - began)
                began = perf_counter()
                self.log.flush_sometimes()
                advance(job.recipe.batch)
                if self._evaluates_after(step):
                    self._evaluate()
                    began = perf_counter()
                if self._saves_after(step):
                    self._save()
                    began = perf_counter()
                if stopping.agreed():
                    return

    def _one_step(self, step: int, batch: Batch) -> None:
        job = self.job
        rule = job.recipe.objective.threshold
        if rule is not None and rule.resets_each_epoch and step % job.batches.per_epoch == 0:
            self.threshold_K = self._first_threshold()
        try:
            taken = add_gradient(
                job.trainable,
                batch,
                self.plan,
                step=step,
                threshold_K=self.threshold_K,
                start=self.start,
            )
        except torch.OutOfMemoryError as error:
            raise _too_large(job, batch) from error
        length, away = change_weights(
            job.trainable,
            self.optimiser,
            job.recipe,
            step=step,
            steps=job.steps,
            first=self.first,
        )
        known = known_numbers(job, step, waited=self.standing.waited + self.waiting.seconds)
        used_K = self.threshold_K
        self.log.add(
            step, known, device_numbers(job, taken, used_K=used_K, length=length, away=away)
        )
        self.threshold_K = taken.threshold_K

    def _count(self, batch: Batch, *, seconds: float) -> None:
        """One more step; `seconds` are from batch to batch, waiting included."""
        before = self.standing
        self.standing = replace(
            before,
            step=before.step + 1,
            seconds=before.seconds + seconds,
            waited=before.waited + self.waiting.taken(),
            pictures_skipped=before.pictures_skipped + batch.skipped,
            unread=with_names(before.unread, dict(batch.unread)),
        )

    def _evaluates_after(self, step: int) -> bool:
        every = self.job.evaluate_every or self.job.batches.per_epoch
        is_last = step + 1 == self.job.steps
        return bool(self.job.benchmarks) and ((step + 1) % every == 0 or is_last)

    def _saves_after(self, step: int) -> bool:
        """By the clock, and after every evaluation and epoch."""
        if self._evaluates_after(step) or (step + 1) % self.job.batches.per_epoch == 0:
            return True
        # Processes need not agree: one of them saves, and the others wait for nothing.
        return perf_counter() - self.saved_at > 60 * self.job.save_minutes

    def _evaluate(self) -> None:
        self.log.flush()
        step = self.standing.step
        score = evaluate_weights(self.job, step, progress=self.progress, team=self.team)
        if self.standing.best is None or score > self.standing.best:
            better = replace(self.standing, best=score, best_step=step)
            if self.team.is_leader:
                checkpoint.save(self.job.out / BEST, self.job.trainable, better)
            self.standing = better

    def _save(self) -> None:
        # What is not finite must not replace a checkpoint that is.
        self.log.flush()
        if self.team.is_leader and self.saved_step < self.standing.step:
            checkpoint.save(
                self.job.out / LAST,
                self.job.trainable,
                self.standing,
                optimiser=self.optimiser,
                threshold_K=self.threshold_K,
            )
        self.saved_at, self.saved_step = perf_counter(), self.standing.step

    def _go_back_to_checkpoint(self) -> None:
        path = self.job.out / LAST
        if path.exists():
            found = checkpoint.load(path)
            checkpoint.restore(found, self.job.trainable, self.optimiser)
            self.standing, self.saved_step = found.standing, found.standing.step
            if found.threshold_K is not None:
                self.threshold_K = found.threshold_K.to(self.job.device)
            self.progress.say(f"going on after step {self.standing.step} of {self.job.steps}")
        if len(set(self.team.gather(self.standing.step))) > 1:
            raise UserError(
                f"processes found different checkpoints in {self.job.out}",
                expected="one folder that all processes of the run see",
                way_out="name a folder on a shared disk with --out",
            )
        if self.team.is_leader:
            _forget_later(self.job.out, self.standing.step)
        self.team.wait()

    def _open_log(self) -> Log:
        job, step = self.job, self.standing.step
        if not self.team.is_leader:
            return Log(None, ())
        writers = []
        if job.uses_tensorboard:
            writers.append(tensorboard(job.out, step=step))
        if job.wandb_project:
            settings = {"recipe": job.recipe.name, "model": job.trainable.name, "seed": job.seed}
            writers.append(wandb(job.wandb_project, name=job.out.name, settings=settings))
        return open_log(job.out, columns(job), step=step, writers=tuple(writers))

    def _first_threshold(self) -> Tensor | None:
        rule = self.job.recipe.objective.threshold
        if rule is None:
            return None
        return rule.first(len(self.job.recipe.negatives)).to(self.job.device)

    def _write_record(self, state: str) -> None:
        if self.team.is_leader:
            write_record(self.job.out, replace(self.record, state=state))  # type: ignore[arg-type]

    def _ended(self, *, is_done: bool) -> Trained:
        self._write_record("done" if is_done else "stopped")
        self.team.wait()
        return Trained(self.job.out, self.standing, is_done)

    def _not_finite(self, error: NotFiniteError) -> UserError:
        path = self.job.out / LAST
        kept = "no checkpoint was saved before"
        if path.exists():
            kept = f"the checkpoint of step {checkpoint.load(path).standing.step} is whole: {path}"
        self._write_record("stopped")
        return UserError(
            f"{error.term!r} became {error.value} at step {error.step}; {kept}",
            expected="finite numbers",
            way_out="begin again in another folder with a smaller learning rate "
            "(--set learning_rate=...) or in --precision float32",
        )


def _open_towers(job: TrainJob) -> str:
    """Lock layers and add LoRA as the recipe says; gives what is trained, in words."""
    said = apply_locks(job.trainable, job.recipe.locks)
    if job.recipe.lora is not None:
        torch.manual_seed(job.seed)
        said = add_lora(job.trainable, job.recipe.lora)
    return said


def _frozen_copy(job: TrainJob) -> Trainable:
    """The weights before training, for losses that compare with them."""
    encoder = job.trainable.encoder("start")
    if isinstance(job.trainable, OnFeatures):
        start: Trainable = job.trainable.beside(encoder)
    else:
        start = make_trainable(encoder, device=job.device)
    start.module.requires_grad_(False).eval()
    return start


def _too_large(job: TrainJob, batch: Batch) -> UserError:
    """The error for a batch that a device has no room for."""
    now = job.micro or len(batch)
    return UserError(
        f"{job.device} has no room for {now} pictures and their captions at once",
        expected="a part of the batch that fits; the gradient is that of the whole batch",
        way_out=f"--micro {max(1, now // 2)} in a new folder (--out), or a smaller model",
    )


def evaluate_weights(job: TrainJob, step: int, *, progress: Progress, team: Team) -> float:
    """Score the weights as they are on the job's benchmarks; gives the mean of the headlines."""
    encoder = job.trainable.encoder(f"{job.trainable.name}+{job.recipe.name}@{step}")
    finished = run(
        Job(
            scorers=[Cosine(encoder)],
            benchmarks=job.benchmarks,
            out=job.out / EVALUATIONS_FOLDER / f"step-{step}",
            data=job.data,
            seed=job.seed,
            device=job.device,
            command=job.command,
        ),
        progress=progress,
    )
    if finished.problems:
        raise UserError(
            f"benchmarks could not be measured after step {step}: {finished.problems[0]}",
            way_out="train with other benchmarks (--bench), or mend the data; the same command "
            "goes on from the last checkpoint",
        )
    # The first result of a benchmark follows the rule that the field publishes.
    first = {one.benchmark: one for one in reversed(finished.contents.results)}
    found = {
        name: (first[name].headline, first[name].overall[first[name].headline]) for name in first
    }
    if team.is_leader:
        with (job.out / EVALUATIONS_FILE).open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for name, (metric, one) in found.items():
                writer.writerow((step, name, metric, one.value, one.low, one.high, one.n))
    for name, (metric, one) in found.items():
        value = "nothing" if one.value is None else f"{100 * one.value:.1f}"
        progress.say(f"step {step}: {name} {metric} {value}")
    values = [one.value for _, one in found.values() if one.value is not None]
    return sum(values) / len(values) if values else 0.0


def _forget_later(folder: Path, step: int) -> None:
    """Drop what was measured after a step, since those steps are taken again."""
    for path in (folder / EVALUATIONS_FOLDER).glob("step-*"):
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)
    table = folder / EVALUATIONS_FILE
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    whole = [line for line in lines[1:] if line.count(",") == len(_COLUMNS) - 1]
    kept = [
        ",".join(_COLUMNS),
        *(row for row in whole if int(row.partition(",")[0]) <= step),
    ]
    if kept != lines:
        write_text(table, "\n".join(kept) + "\n")
