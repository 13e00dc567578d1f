"""Fine-tune a dual encoder with a recipe: a task of the trainer."""

from __future__ import annotations

import csv
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, log
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.reports.formatting import value_text
from unbag.runs.distributed import Distributed, init_distributed
from unbag.runs.files import TRAINING, open_run_folder, write_text
from unbag.runs.progress import Progress, Silent
from unbag.scorers.cosine import Cosine
from unbag.training.data.batch import Batch, Batches
from unbag.training.data.loader import add_names, load
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze, set_training
from unbag.training.encoders.cached_features import CachedEncoders
from unbag.training.encoders.lora import add_lora
from unbag.training.optim import OptimizerSettings
from unbag.training.recipes import Precision, Recipe
from unbag.training.step import StepPlan, add_gradient
from unbag.training.trainer import Task, Trainer, TrainState
from unbag.types import Benchmark

EVALUATIONS_FOLDER, EVALUATIONS_FILE = "evaluations", "evaluations.csv"
_COLUMNS = ("step", "benchmark", "metric", "value", "low", "high", "n")


@dataclass(frozen=True, eq=False)
class TrainJob:
    """A model, data, a recipe, the folder of the run, and how it is carried out."""

    trainable: Trainable
    batches: Batches
    recipe: Recipe
    out: Path
    seed: int = 0
    device: str = "cpu"
    precision: Precision = "float32"
    micro_batch_size: int | None = None
    workers: int = 0
    benchmarks: Sequence[Benchmark] = ()
    """Measured while training, after every epoch or every `evaluate_every` steps."""
    data: Path | None = None
    """Folder with a subfolder for each benchmark that needs files."""
    evaluate_every: int | None = None
    cache: Path | None = None
    save_minutes: float = 10.0
    uses_tensorboard: bool = False
    wandb_project: str = ""
    command: str = ""
    base: str = ""
    """Name that loads the model; empty: the model's own name, which may be shorter."""


@dataclass(frozen=True)
class Trained:
    """Result of a training run."""

    folder: Path
    state: TrainState
    is_done: bool
    """False if the user stopped it; the same command resumes it."""
    images_skipped: int = 0
    """How often another pair replaced one whose image could not be read."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """The first such images and why they could not be read."""


def train(job: TrainJob, *, progress: Progress | None = None) -> Trained:
    """Train or resume; weights are changed in place and saved in the folder of the run."""
    team = init_distributed(job.device)
    progress = progress if progress is not None and team.is_leader else Silent()
    with open_run_folder(job.out, TRAINING, is_leader=team.is_leader) as folder:
        task = FineTuning(job, team=team, progress=progress)
        trainer = Trainer(
            task,
            team=team,
            progress=progress,
            save_minutes=job.save_minutes,
            uses_tensorboard=job.uses_tensorboard,
            wandb_project=job.wandb_project,
        )
        facts = {
            "data": job.batches.about,
            "device": job.device,
            "command": job.command,
            "steps": task.optimizer.steps,
            "base": job.base or job.trainable.name,
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
        state = trainer.run(folder, facts=facts)
    return Trained(job.out, state, trainer.is_done, task.images_skipped, task.unread)


class FineTuning(Task[Batch]):
    """The encoders of a dual encoder under the losses of a recipe."""

    logs_gradient = True

    def __init__(
        self, job: TrainJob, *, team: Distributed | None = None, progress: Progress | None = None
    ) -> None:
        """Freeze layers and add LoRA as the recipe says."""
        self.job, self.progress = job, progress or Silent()
        self.team = team or Distributed()
        recipe, self.trainable = job.recipe, job.trainable
        self.name, self.module = recipe.name, job.trainable.module
        self.seed, self.device, self.precision = job.seed, job.device, job.precision
        self.steps_per_epoch = job.batches.per_epoch
        self.units_per_step = recipe.batch_size
        self.optimizer = OptimizerSettings(
            steps=len(job.batches),
            learning_rate=recipe.learning_rate,
            warmup_steps=recipe.warmup_steps,
            betas=recipe.betas,
            epsilon=recipe.epsilon,
            weight_decay=recipe.weight_decay,
            clip_norm=recipe.clip_norm,
        )
        self.plan = StepPlan(
            recipe=recipe,
            team=self.team,
            device=job.device,
            precision=job.precision,
            micro_batch_size=job.micro_batch_size,
            seed=job.seed,
            find_truth=job.batches.find_truth,
        )
        self._start_trainable: Trainable | None = None
        """The encoders before training, for losses that compare with them."""
        if recipe.objective.needs_start:
            encoder = self.trainable.encoder("start")
            if isinstance(self.trainable, CachedEncoders):
                self._start_trainable = self.trainable.with_model(encoder)
            else:
                self._start_trainable = make_trainable(encoder, device=job.device)
            self._start_trainable.module.requires_grad_(False).eval()
        summary = apply_freeze(self.trainable, recipe.freeze)
        if recipe.lora is not None:
            torch.manual_seed(job.seed)
            summary = add_lora(self.trainable, recipe.lora)
        if not any(weight.requires_grad for weight in self.module.parameters()):
            raise UnbagError(
                f"both encoders of {self.trainable.name} and the temperature are frozen",
                expected="at least one trainable parameter",
                hint="freeze less, as with --set freeze.text=0",
            )
        self.progress.say(summary)
        self._first_weights = (
            {name: weight.detach().clone() for name, weight in self.parameters().items()}
            if recipe.l2_to_init
            else None
        )
        self.threshold_K = self._first_threshold()
        self.images_skipped = 0
        self.unread: dict[str, str] = {}

    def identity(self) -> dict[str, object]:
        """Return model, recipe, data and what decides the best weights."""
        job = self.job
        return {
            "model": job.trainable.name,
            "model_fingerprint": job.trainable.fingerprint,
            "recipe": job.recipe,
            "data_fingerprint": job.batches.fingerprint,
            "micro": job.micro_batch_size,
            # These decide which weights are the best.
            "benchmarks": [benchmark.name for benchmark in job.benchmarks],
            "evaluate_every": job.evaluate_every,
        }

    def batches(self, first: int) -> Iterator[Batch]:
        """Load batches ahead of time in worker processes."""
        job = self.job
        return load(job.batches, first=first, workers=job.workers, device=job.device)

    def before_step(self, step: int) -> None:
        """Reset the thresholds of rank losses at the start of an epoch, if the recipe says so."""
        rule = self.job.recipe.objective.threshold
        if rule is not None and rule.resets_each_epoch and step % self.job.batches.per_epoch == 0:
            self.threshold_K = self._first_threshold()

    def gradient(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Add the gradient of the whole batch, over all processes and micro-batches."""
        threshold_K = self.threshold_K
        result = add_gradient(
            self.trainable,
            batch,
            self.plan,
            step=step,
            threshold_K=threshold_K,
            start=self._start_trainable,
        )
        numbers = {"loss": result.losses.total.detach(), **result.losses.terms}
        if threshold_K is not None:
            numbers |= {
                f"threshold_{slot.name}": value
                for slot, value in zip(self.job.recipe.negatives, threshold_K.unbind(), strict=True)
            }
        if self._first_weights is not None:
            numbers["to_start"] = self._add_l2_to_init(self._first_weights)
        self.threshold_K = result.threshold_K
        self.images_skipped += batch.skipped
        self.unread = add_names(self.unread, dict(batch.unread))
        return numbers

    def after_update(self) -> dict[str, Tensor]:
        """Clamp the scale as CLIP does: training is unstable above 100 and below 1."""
        scale = self.trainable.temperature[0]
        with torch.no_grad():
            if scale.requires_grad:
                scale.clamp_(0.0, log(self.job.recipe.max_logit_scale))
            return {"scale": scale.exp()}

    def set_training(self, is_training: bool) -> None:
        """Set the mode; frozen modules stay in evaluation mode."""
        if is_training:
            set_training(self.trainable, self.job.recipe.freeze)
        else:
            self.module.eval()

    def extra_state(self) -> dict[str, Any]:
        """Return thresholds of rank losses and the images that could not be read."""
        state: dict[str, Any] = {"images_skipped": self.images_skipped, "unread": self.unread}
        return state if self.threshold_K is None else {**state, "threshold": self.threshold_K}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `extra_state` returned."""
        self.images_skipped, self.unread = state["images_skipped"], state["unread"]
        if "threshold" in state:
            self.threshold_K = state["threshold"].to(self.device)

    def is_evaluated_after(self, step: int) -> bool:
        """Return True after the last step, and after every epoch or `evaluate_every` steps."""
        interval = self.job.evaluate_every or self.job.batches.per_epoch
        is_last = step + 1 == self.optimizer.steps
        return bool(self.job.benchmarks) and ((step + 1) % interval == 0 or is_last)

    def evaluate(self, steps: int) -> float:
        """Measure the weights on the job's benchmarks; returns the mean of the headline metrics."""
        job = self.job
        encoder = self.trainable.encoder(f"{self.trainable.name}+{job.recipe.name}@{steps}")
        finished = run(
            Job(
                scorers=[Cosine(encoder)],
                benchmarks=job.benchmarks,
                out=job.out / EVALUATIONS_FOLDER / f"step-{steps}",
                data=job.data,
                seed=job.seed,
                device=job.device,
                command=job.command,
            ),
            progress=self.progress,
        )
        if finished.problems:
            raise UnbagError(
                f"benchmarks could not be measured after step {steps}: {finished.problems[0]}",
                hint="train with other benchmarks (--bench), or repair the data; the same "
                "command resumes from the last checkpoint",
            )
        # The first result of a benchmark uses the aggregation rule that papers report.
        results = {estimate.benchmark: estimate for estimate in reversed(finished.contents.results)}
        headlines = {
            name: (results[name].headline, results[name].overall[results[name].headline])
            for name in results
        }
        if self.team.is_leader:
            with (job.out / EVALUATIONS_FILE).open("a", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                for name, (metric, estimate) in headlines.items():
                    writer.writerow(
                        (
                            steps,
                            name,
                            metric,
                            estimate.value,
                            estimate.low,
                            estimate.high,
                            estimate.n,
                        )
                    )
        for name, (metric, estimate) in headlines.items():
            self.progress.say(f"step {steps}: {name} {metric} {value_text(estimate)}")
        values = [estimate.value for _, estimate in headlines.values() if not isnan(estimate.value)]
        return sum(values) / len(values) if values else 0.0

    def rewind(self, steps: int) -> None:
        """Delete evaluations of later steps, which will be repeated."""
        folder = self.job.out
        for path in (folder / EVALUATIONS_FOLDER).glob("step-*"):
            step = path.name.removeprefix("step-")
            if step.isdecimal() and int(step) > steps:
                shutil.rmtree(path)
        table = folder / EVALUATIONS_FILE
        lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
        # A kill may have truncated the last line.
        complete_rows = [row for row in csv.reader(lines[1:]) if len(row) == len(_COLUMNS)]
        earlier_rows = [row for row in complete_rows if row[0].isdecimal() and int(row[0]) <= steps]
        rows = [",".join(row) for row in (_COLUMNS, *earlier_rows)]
        if rows != lines:
            write_text(table, "\n".join(rows) + "\n")

    def out_of_memory(self, batch: Batch) -> UnbagError:
        """Return an error whose hint halves the micro-batch size."""
        size = self.job.micro_batch_size or len(batch)
        return UnbagError(
            f"{self.device} has too little memory for {size} images and their captions at once",
            expected="a part of the batch that fits; the gradient is that of the whole batch",
            hint=f"--micro-batch-size {max(1, size // 2)} in a new folder (--out), "
            "or a smaller model",
        )

    def _first_threshold(self) -> Tensor | None:
        rule = self.job.recipe.objective.threshold
        if rule is None:
            return None
        return rule.first(len(self.job.recipe.negatives)).to(self.device)

    def _add_l2_to_init(self, first: Mapping[str, Tensor]) -> Tensor:
        """Add the gradient of the L2 penalty to the first weights; returns the squared distance."""
        parameters = self.parameters()
        distance = torch.zeros((), device=next(iter(parameters.values())).device)
        for name, weight in parameters.items():
            difference = weight.detach() - first[name]
            distance += difference.square().sum()
            gradient = 2 * self.job.recipe.l2_to_init * difference
            weight.grad = gradient if weight.grad is None else weight.grad + gradient
        return distance
