"""The trainer: takes the steps of a task, saves checkpoints, writes the log, stops and resumes.

A task defines its parameters, the batch of a step and the loss of a batch. The trainer does what
all kinds of training share. The batch of a step and all its randomness depend only on the task's
data, seed and step. So a killed run resumes from its last checkpoint and, on a CPU, ends with the
same bits as an uninterrupted run.

The smallest task:

    class Straight(Task[Tensor]):
        name = "a straight line"

        def __init__(self, x_N, y_N):
            self.x_N, self.y_N, self.module = x_N, y_N, nn.Linear(1, 1)
            self.optimizer = OptimizerSettings(steps=100, learning_rate=0.1)

        def batch(self, step):
            rng = np.random.default_rng((self.seed, step))
            return torch.from_numpy(rng.choice(len(self.x_N), 8))

        def loss(self, batch, step):
            return (self.module(self.x_N[batch, None])[:, 0] - self.y_N[batch]).square().mean()

    with open_run_folder(out, TRAINING) as folder:
        Trainer(Straight(x_N, y_N)).run(folder)

A step is `before_step`, `gradient` (by default `loss` and its backward pass), clipping, the
optimizer's update, `after_update`, and a row of the log. A checkpoint is saved after each
evaluation, after each epoch and every `save_minutes`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.runs.checkpoint import (
    BEST,
    LAST,
    PREVIOUS,
    Checkpoint,
    latest_checkpoint,
    load_checkpoint,
    load_optimizer_state,
    optimizer_state,
    save_checkpoint,
)
from unbag.runs.distributed import ALONE, Distributed
from unbag.runs.files import TRAINING, RunFolder, read_run
from unbag.runs.identity import RunIdentity
from unbag.runs.progress import Progress, Silent, Stopping, stops_gently
from unbag.training.logging import Log, NotFiniteError, open_log, tensorboard, wandb
from unbag.training.optim import (
    Memory,
    OptimizerSettings,
    Recorded,
    lr_factor,
    make_optimizer,
    set_lr,
)
from unbag.training.recipes import Precision

_WEIGHTS, _OPTIMIZER, _EXTRA = "weights", "optimizer", "extra"
B = TypeVar("B")


class Task(Generic[B]):
    """One kind of training: a subclass sets the attributes and defines `batch` and `loss`.

    The defaults of all other methods fit a single process and a plain loss.
    """

    name: str
    """Shown beside the progress bar and in messages."""
    module: nn.Module
    """Holds all weights that a checkpoint saves."""
    optimizer: OptimizerSettings
    seed: int = 0
    device: str = "cpu"
    precision: Precision = "float32"
    """Precision of matrix products inside `loss`; weights are float32."""
    is_recorded: bool = False
    """Whether steps are recorded as CUDA graphs and replayed; see `static_batch`."""
    logs_gradient: bool = False
    """Whether the norm of the gradient is logged even without clipping."""
    steps_per_epoch: int | None = None
    """A checkpoint is saved after each epoch; None: there are no epochs."""
    units_per_step: int = 1
    """What a step adds to the progress bar, such as images."""

    def batch(self, step: int) -> B:
        """Return the batch of a step: a pure function of data, seed and step."""
        raise NotImplementedError

    def loss(self, batch: B, step: int) -> Tensor:
        """Return the loss of a batch, with gradient; torch's generators are seeded by the step."""
        raise NotImplementedError

    def identity(self) -> dict[str, object]:
        """Return what decides the weights besides name, seed, precision and number of processes."""
        return {"optimizer": asdict(self.optimizer)}

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the trainable parameters by name."""
        return {n: w for n, w in self.module.named_parameters() if w.requires_grad}

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the weights that a checkpoint saves."""
        state: Mapping[str, Tensor] = self.module.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; RuntimeError where names or shapes differ."""
        self.module.load_state_dict(dict(state))

    def batches(self, first: int) -> Iterator[B]:
        """Yield the batches from a step on; worker processes may load them ahead of time."""
        return (self.batch(step) for step in range(first, self.optimizer.steps))

    def gradient(self, batch: B, step: int) -> dict[str, Tensor]:
        """Add the gradient of a batch to the parameters; returns numbers to log, `loss` first."""
        with autocast(self.device, self.precision):
            loss = self.loss(batch, step)
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach()}

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        o = self.optimizer
        return o.learning_rate * lr_factor(
            step, steps=o.steps, warmup_steps=o.warmup_steps, schedule=o.schedule
        )

    def before_step(self, step: int) -> None:
        """Run before the gradient of a step, for example to freeze parameters for some steps."""

    def after_update(self) -> dict[str, Tensor]:
        """Run after the optimizer update, for example to clamp a scale; returns numbers to log."""
        return {}

    def set_training(self, is_training: bool) -> None:
        """Set training or evaluation mode."""
        self.module.train(is_training)

    def running(self) -> AbstractContextManager[object]:
        """Return a context that is entered around all steps, for example to compile layers."""
        return nullcontext()

    def static_batch(self, batch: B) -> tuple[Hashable, B] | None:
        """Copy a batch into the memory that a recorded step reads; returns its key and the copy.

        A CUDA graph always computes on the same memory. Batches that need another graph, such as
        those of another length, have another key. None: the step of this batch is not recorded.
        """
        return None

    def recorded_tensors(self) -> tuple[Tensor, ...]:
        """Return tensors other than weights that a recorded step changes in place.

        Recording takes a step; its changes to weights, optimizer state and these are undone.
        """
        return ()

    def extra_state(self) -> dict[str, Any]:
        """Return what the next steps need besides weights and optimizer state: tensors or JSON."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `extra_state` returned."""

    def is_evaluated_after(self, step: int) -> bool:
        """Return whether `evaluate` is called after a step."""
        return False

    def evaluate(self, steps: int) -> float:
        """Score the weights after `steps` steps, larger is better; the best weights are saved."""
        raise NotImplementedError

    def rewind(self, steps: int) -> None:
        """Run when a run starts or resumes: delete what was written for steps after `steps`."""

    def out_of_memory(self, batch: B) -> UnbagError:
        """Return the error for a batch that does not fit into the device's memory."""
        return UnbagError(
            f"{self.device} has too little memory for a batch of {self.name}",
            expected="a batch that fits",
            hint="a smaller batch (--set batch_size=...), or a smaller model",
        )


@dataclass(frozen=True)
class TrainState:
    """The progress of a run, besides its tensors."""

    step: int = 0
    """Number of steps taken."""
    best: float | None = None
    """Highest score of an evaluation so far."""
    best_step: int | None = None
    seconds: float = 0.0
    """Time spent on steps, over all starts, without evaluations and saving."""
    waited: float = 0.0
    """Part of it that was spent waiting for data."""


OnStep = Callable[[TrainState, Mapping[str, Tensor]], bool]
"""Called after each step with its numbers, which are still on the device; True stops the run."""


class Trainer(Generic[B]):
    """Runs the steps of one task."""

    def __init__(
        self,
        task: Task[B],
        *,
        team: Distributed = ALONE,
        progress: Progress | None = None,
        save_minutes: float = 10.0,
        uses_tensorboard: bool = False,
        wandb_project: str = "",
        memory: Memory | None = None,
    ) -> None:
        """Make the optimizer; nothing is trained yet.

        Args:
            task: What is trained.
            team: The processes that share the batches.
            progress: Shows bars and messages.
            save_minutes: Time between checkpoints.
            uses_tensorboard: Write TensorBoard events into the run folder.
            wandb_project: Log to this project of Weights & Biases.
            memory: What `shared_memory` returned, for trainers whose recorded steps take turns on
                a GPU.
        """
        self.task, self.team = task, team
        self.progress = progress or Silent()
        self.state = TrainState()
        self.parameters = task.parameters()
        if not self.parameters:
            raise UnbagError(
                f"everything of {task.name} is frozen", expected="at least one trainable parameter"
            )
        capturable = task.device if task.is_recorded else ""
        self.optimizer = make_optimizer(self.parameters, task.optimizer, capturable=capturable)
        self._save_minutes = save_minutes
        self._writers = (uses_tensorboard, wandb_project)
        self._memory = memory
        self._recorded: dict[Hashable, Recorded] = {}
        self._saved_at = perf_counter()
        self._saved_step = 0
        self._is_updating = False

    @property
    def is_done(self) -> bool:
        """True after the last step."""
        return self.state.step >= self.task.optimizer.steps

    @property
    def identity(self) -> RunIdentity:
        """Everything that decides the weights."""
        task = self.task
        return RunIdentity(
            task=task.name,
            **task.identity(),
            seed=task.seed,
            precision=task.precision,
            processes=self.team.size,
        )

    def run(
        self,
        folder: RunFolder | None = None,
        *,
        facts: Mapping[str, object] | None = None,
        on_step: OnStep | None = None,
    ) -> TrainState:
        """Take all remaining steps, or until the user stops the run.

        With a folder, the run resumes from the checkpoint there and saves its own; without one, it
        only changes the weights.

        Args:
            folder: Of `open_run_folder`, of the kind TRAINING.
            facts: Written to run.json with the identity.
            on_step: Called after each step.

        Raises:
            KeyboardInterrupt: The user stopped the run during its last step. Training is complete,
                but the caller should not continue.
        """
        is_stopped = False
        if folder is not None:
            self._begin(folder, facts or {})
        if not self.is_done:
            with ExitStack() as stack:
                log = self._open_log(folder)
                stack.callback(log.close)
                stack.enter_context(self.task.running())
                # Without a folder there is nothing to save: a signal ends the caller at once.
                stopping = Stopping(self.team)
                if folder is not None:
                    stopping = stack.enter_context(stops_gently(self.team))
                try:
                    is_stopped = self._take_steps(folder, log, stopping, on_step)
                    self._save_last(folder, log)
                except NotFiniteError as error:
                    self._set_state(folder, "stopped")
                    raise self._not_finite(error, folder) from error
                except UnbagError:
                    # From data, an evaluation, or a batch that does not fit. The steps before it
                    # are saved, unless the weights are in the middle of an update.
                    if not self._is_updating:
                        with suppress(UnbagError, NotFiniteError):
                            self._save_last(folder, log)
                    raise
        self.task.set_training(False)
        self._set_state(folder, "done" if self.is_done else "stopped")
        if folder is not None and self.is_done and self.team.is_leader:
            (folder.path / PREVIOUS).unlink(missing_ok=True)
        self.team.wait()
        if self.is_done and is_stopped:
            raise KeyboardInterrupt
        return self.state

    def train_step(self, batch: B) -> dict[str, Tensor]:
        """Take one step and return its numbers, which stay on the device."""
        task, step = self.task, self.state.step
        task.before_step(step)
        set_lr(self.optimizer, task.learning_rate(step))
        # The dropout of a step does not depend on whether the run was stopped before it.
        seed = task.seed * 1_000_003 + step
        keyed_batch = task.static_batch(batch) if task.is_recorded else None
        if keyed_batch is not None and keyed_batch[0] not in self._recorded:
            key, static = keyed_batch
            self._is_updating = True
            # Recording takes a step too, so it has its own random draws. The step number 0 becomes
            # part of the recording: a recorded gradient cannot depend on the step.
            with seeded_draws(task.device, seed):
                self._recorded[key] = Recorded(
                    lambda: self._update(static, 0),
                    self.optimizer,
                    device=task.device,
                    other_tensors=task.recorded_tensors(),
                    memory=self._memory,
                )
        with seeded_draws(task.device, seed):
            numbers = (
                self._update(batch, step)
                if keyed_batch is None
                else self._recorded[keyed_batch[0]]()
            )
        self.state = replace(self.state, step=step + 1)
        self._is_updating = False
        return numbers

    def save(
        self, path: Path, *, with_optimizer: bool = True, previous: Path | None = None
    ) -> None:
        """Write weights, optimizer state and the task's extra state to a checkpoint."""
        extra = self.task.extra_state()
        tensors = {name: value for name, value in extra.items() if isinstance(value, Tensor)}
        plain = {name: value for name, value in extra.items() if name not in tensors}
        header = {
            "step": self.state.step,
            "state": asdict(self.state),
            "identity": self.identity.fields,
            "extra": plain,
        }
        groups: dict[str, Mapping[str, Tensor]] = {_WEIGHTS: self.task.state_dict()}
        if with_optimizer:
            groups[_OPTIMIZER] = optimizer_state(self.parameters, self.optimizer)
            groups[_EXTRA] = tensors
        save_checkpoint(path, header, groups, previous=previous)

    def resume(self, path: Path) -> None:
        """Restore what `save` wrote; UnbagError for a checkpoint of another run."""
        checkpoint = load_checkpoint(path)
        earlier = RunIdentity.of_json(checkpoint.header["identity"])
        self.identity.require_same(earlier, folder=path.parent, kind=TRAINING)
        if not checkpoint.group(_OPTIMIZER):
            raise UnbagError(
                f"{path} holds no optimizer state, so the steps after it would differ",
                expected=f"a {LAST} that this run saved; {BEST} holds weights only",
                hint=f"delete {path} to resume from {PREVIOUS}, if that is there, or to start "
                "again",
            )
        load_weights(self.task, checkpoint, name=self.task.name)
        load_optimizer_state(self.parameters, self.optimizer, checkpoint.group(_OPTIMIZER))
        self.task.load_extra_state({**checkpoint.header["extra"], **checkpoint.group(_EXTRA)})
        self.state = state_of(checkpoint)
        # A recording refers to the old memory of the optimizer state.
        self._recorded.clear()

    def _update(self, batch: B, step: int) -> dict[str, Tensor]:
        """Compute the gradient of a batch and update the weights with it."""
        task, clip_norm = self.task, self.task.optimizer.clip_norm
        numbers = task.gradient(batch, step)
        self._is_updating = True
        if clip_norm is not None or task.logs_gradient:
            weights = self.parameters.values()
            norm = nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
            if clip_norm is not None:
                nn.utils.clip_grads_with_norm_(weights, clip_norm, norm)
            numbers["gradient"] = norm
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return numbers | task.after_update()

    def _take_steps(
        self, folder: RunFolder | None, log: Log, stopping: Stopping, on_step: OnStep | None
    ) -> bool:
        """Take the remaining steps; returns whether the user asked to stop."""
        task, steps = self.task, self.task.optimizer.steps
        first = self.state.step
        task.set_training(True)
        batches = task.batches(first)
        total = (steps - first) * task.units_per_step
        with (
            self.progress.task(f"training {task.name}", total) as advance,
            # Worker processes end with the loop, not when the traceback of an error is released.
            closing(batches) if isinstance(batches, Generator) else nullcontext(),
        ):
            for step in range(first, steps):
                started = perf_counter()
                batch = next(batches)
                waited = perf_counter() - started
                rate = task.learning_rate(step)
                try:
                    numbers = self.train_step(batch)
                except torch.OutOfMemoryError as error:
                    raise task.out_of_memory(batch) from error
                state = self.state
                row: dict[str, float] = {"learning_rate": rate, "waited": state.waited + waited}
                if task.steps_per_epoch:
                    row = {"epoch": step / task.steps_per_epoch, **row}
                log.add(step, {**row, **numbers})
                self.state = replace(
                    state,
                    seconds=state.seconds + perf_counter() - started,
                    waited=state.waited + waited,
                )
                advance(task.units_per_step)
                is_evaluated = folder is not None and task.is_evaluated_after(step)
                if is_evaluated:
                    self._evaluate(folder, log)
                if is_evaluated or self._is_save_due(step):
                    self._save_last(folder, log)
                if on_step is not None:
                    if on_step(self.state, numbers):
                        log.flush()
                        return False
                    # The caller may have set evaluation mode.
                    task.set_training(True)
                if stopping.agreed():
                    return True
        return False

    def _is_save_due(self, step: int) -> bool:
        """Return whether to save: after an epoch or `save_minutes`; only the leader writes."""
        per_epoch = self.task.steps_per_epoch
        if per_epoch and (step + 1) % per_epoch == 0:
            return True
        return perf_counter() - self._saved_at > 60 * self._save_minutes

    def _save_last(self, folder: RunFolder | None, log: Log) -> None:
        """Write the log and, unless this step is already saved, the checkpoint."""
        # The log first: it raises for losses that are not finite, whose weights must not be saved.
        log.flush()
        if folder is not None and self.team.is_leader and self._saved_step < self.state.step:
            self.save(folder.path / LAST, previous=folder.path / PREVIOUS)
        self._saved_at, self._saved_step = perf_counter(), self.state.step

    def _evaluate(self, folder: RunFolder | None, log: Log) -> None:
        """Evaluate, and save the weights if they are the best so far."""
        log.flush()
        score = self.task.evaluate(self.state.step)
        if self.state.best is None or score > self.state.best:
            previous_state = self.state
            self.state = replace(previous_state, best=score, best_step=previous_state.step)
            try:
                if folder is not None and self.team.is_leader:
                    self.save(folder.path / BEST, with_optimizer=False)
            except UnbagError:
                # The checkpoint that is saved next must not name best weights that do not exist.
                self.state = previous_state
                raise

    def _begin(self, folder: RunFolder, facts: Mapping[str, object]) -> None:
        """Check the identity of the folder, then restore its last checkpoint."""
        if self.team.is_leader:
            folder.begin(self.identity, facts)
        self.team.wait()
        path = latest_checkpoint(folder.path)
        if path is not None:
            self.resume(path)
            self._saved_step = self.state.step
            steps = self.task.optimizer.steps
            self.progress.say(f"resuming after step {self.state.step} of {steps}")
        if len(set(self.team.gather(self.state.step))) > 1:
            raise UnbagError(
                f"processes found different checkpoints in {folder.path}",
                expected="one folder that all processes of the run see",
                hint="name a folder on a shared disk with --out",
            )
        if self.team.is_leader:
            self.task.rewind(self.state.step)
        self.team.wait()

    def _open_log(self, folder: RunFolder | None) -> Log:
        if folder is None or not self.team.is_leader:
            return Log()
        uses_tensorboard, project = self._writers
        writers = []
        if uses_tensorboard:
            writers.append(tensorboard(folder.path, step=self.state.step))
        if project:
            settings = {"task": self.task.name, "seed": self.task.seed}
            writers.append(wandb(project, name=folder.path.name, settings=settings))
        return open_log(folder.path, step=self.state.step, writers=tuple(writers))

    def _set_state(self, folder: RunFolder | None, state: str) -> None:
        if folder is not None and self.team.is_leader:
            folder.set_state(state)

    def _not_finite(self, error: NotFiniteError, folder: RunFolder | None) -> UnbagError:
        path = None if folder is None else latest_checkpoint(folder.path)
        checkpoint_text = "no checkpoint was saved before"
        if path is not None:
            step = load_checkpoint(path).header["step"]
            checkpoint_text = f"the checkpoint of step {step} is whole: {path}"
        return UnbagError(
            f"{error.term!r} of {self.task.name} became {error.value} at step {error.step}; "
            f"{checkpoint_text}",
            expected="finite numbers",
            hint="start again in another folder with a smaller learning rate "
            f"(--set learning_rate={self.task.optimizer.learning_rate / 10:g}) or in "
            "--precision float32",
        )


def check_earlier(folder: RunFolder, **fields: object) -> None:
    """Refuse the folder of another run or a damaged checkpoint before any long computation.

    `fields` are the fields of the run's identity that need no data; `Trainer.run` compares all.
    """
    record = read_run(folder.path, folder.kind)
    if record is None:
        return
    earlier = RunIdentity.of_json({name: record["identity"].get(name) for name in fields})
    RunIdentity(**fields).require_same(earlier, folder=folder.path, kind=folder.kind)
    if (path := latest_checkpoint(folder.path)) is not None:
        load_checkpoint(path)


def load_weights(holder: Task[Any] | nn.Module, checkpoint: Checkpoint, *, name: str) -> None:
    """Load the weights of a checkpoint; UnbagError if they are those of another model."""
    try:
        holder.load_state_dict(dict(checkpoint.group(_WEIGHTS)))
    except RuntimeError as error:
        raise UnbagError(
            f"the weights in the checkpoint do not match those of {name}",
            expected="a checkpoint of this model with the same frozen layers and LoRA",
            hint="delete it to start again, or name another folder with --out",
        ) from error


def state_of(checkpoint: Checkpoint) -> TrainState:
    """Return the state of the run when a checkpoint was saved."""
    return TrainState(**checkpoint.header["state"])


def autocast(device: str, precision: Precision) -> AbstractContextManager[object]:
    """Return a context for matrix products in bfloat16; float32 changes nothing."""
    if precision == "float32":
        # Even a disabled autocast context takes a tenth of a very small step.
        return nullcontext()
    return torch.autocast(device.partition(":")[0], torch.bfloat16)


@contextmanager
def seeded_draws(device: str, seed: int) -> Iterator[None]:
    """Seed torch's generators inside the context and restore them after it.

    `torch.random.fork_rng` and `torch.manual_seed` handle every device and library and take longer;
    this takes a hundredth of a step, since generator states are in CPU memory.
    """
    generators = [torch.default_generator]
    if device.startswith("cuda"):
        index = torch.device(device).index
        generators.append(
            torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]
        )
    states = [generator.get_state() for generator in generators]
    for generator in generators:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
