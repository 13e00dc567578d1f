"""The trainer: takes the steps of a task, saves checkpoints, writes the log, stops and resumes.

A task says what is trained: its parameters, the batch of a step, the loss of a batch. The trainer
does everything that all kinds of training share. The batch of a step and all its randomness depend
on the task's data, seed and step alone. So a run that was killed resumes from its last checkpoint
and ends, on a CPU, with the same bits as one that was not.

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
optimizer's update, `after_update`, and a row of the log. Between steps come evaluations, and
checkpoints after them, after epochs and every `save_minutes`.
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
    """One kind of training. A subclass sets the attributes and defines `batch` and `loss`.

    Every other method has a default that fits a single process and a plain loss.
    """

    name: str
    """Shown beside the progress bar and in messages."""
    module: nn.Module
    """Every weight that a checkpoint holds."""
    optimizer: OptimizerSettings
    seed: int = 0
    device: str = "cpu"
    precision: Precision = "float32"
    """Of the products inside `loss`; weights are float32."""
    is_recorded: bool = False
    """Whether steps are recorded as CUDA graphs and replayed; see `static_batch`."""
    logs_gradient: bool = False
    """Whether the length of the gradient is logged where nothing needs it."""
    steps_per_epoch: int | None = None
    """A checkpoint is saved after each epoch, where there are epochs."""
    units_per_step: int = 1
    """What a step adds to the progress bar, such as images."""

    def batch(self, step: int) -> B:
        """The batch of a step: a pure function of data, seed and step."""
        raise NotImplementedError

    def loss(self, batch: B, step: int) -> Tensor:
        """The loss of a batch, with gradient; draws come from torch's seeded generator."""
        raise NotImplementedError

    def identity(self) -> dict[str, object]:
        """What decides the weights, besides name, seed, precision and number of processes."""
        return {"optimizer": asdict(self.optimizer)}

    def parameters(self) -> dict[str, nn.Parameter]:
        """What the optimizer changes, by name."""
        return {n: w for n, w in self.module.named_parameters() if w.requires_grad}

    def state_dict(self) -> Mapping[str, Tensor]:
        """The weights that a checkpoint holds."""
        found: Mapping[str, Tensor] = self.module.state_dict()
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` gave; RuntimeError where names or shapes differ."""
        self.module.load_state_dict(dict(state))

    def batches(self, first: int) -> Iterator[B]:
        """The batches from a step on; workers may make them ahead of time."""
        return (self.batch(step) for step in range(first, self.optimizer.steps))

    def gradient(self, batch: B, step: int) -> dict[str, Tensor]:
        """Add the gradient of a batch to the parameters; gives the numbers to log, `loss` first."""
        with autocast(self.device, self.precision):
            loss = self.loss(batch, step)
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach()}

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step."""
        o = self.optimizer
        return o.learning_rate * lr_factor(
            step, steps=o.steps, warmup_steps=o.warmup_steps, schedule=o.schedule
        )

    def before_step(self, step: int) -> None:
        """Called before the gradient of a step, such as to freeze parameters for a while."""

    def after_update(self) -> dict[str, Tensor]:
        """Called after the optimizer's update, such as to clamp a scale; gives numbers to log."""
        return {}

    def set_training(self, is_training: bool) -> None:
        """Put the modules into training or evaluation mode."""
        self.module.train(is_training)

    def running(self) -> AbstractContextManager[object]:
        """A context around all steps between a start and a stop, such as for compiled layers."""
        return nullcontext()

    def static_batch(self, batch: B) -> tuple[Hashable, B] | None:
        """Where steps are recorded: the batch in the memory that a recorded step reads, and a key.

        A CUDA graph always computes on the same memory, so each batch is copied there. Batches
        that need another graph, such as those of another length, have another key. None for a
        batch that cannot be recorded: its step is computed as usual.
        """
        return None

    def recorded_beside(self) -> tuple[Tensor, ...]:
        """Tensors other than weights that a recorded step changes in place.

        Recording takes a step, whose changes of weights, optimizer state and these are undone.
        """
        return ()

    def extra_state(self) -> dict[str, Any]:
        """What the next steps need besides weights and optimizer state: tensors or JSON."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `extra_state` gave."""

    def is_evaluated_after(self, step: int) -> bool:
        """Whether `evaluate` is called after a step."""
        return False

    def evaluate(self, steps: int) -> float:
        """A score of the weights after so many steps, larger is better; the best are saved too."""
        raise NotImplementedError

    def rewind(self, steps: int) -> None:
        """Called before the first step of a start: forget what was written after so many steps."""

    def out_of_memory(self, batch: B) -> UnbagError:
        """The error for a batch that the device has no room for."""
        return UnbagError(
            f"{self.device} has no room for a batch of {self.name}",
            expected="a batch that fits",
            hint="a smaller batch (--set batch=...), or a smaller model",
        )


@dataclass(frozen=True)
class TrainState:
    """The state of a run, besides its tensors."""

    step: int = 0
    """Steps that were taken."""
    best: float | None = None
    """Highest score of an evaluation so far."""
    best_step: int | None = None
    seconds: float = 0.0
    """Spent on steps, over all starts, without evaluations and saving."""
    waited: float = 0.0
    """Of these, until data was there."""


OnStep = Callable[[TrainState, Mapping[str, Tensor]], bool]
"""Called after each step with its numbers, still on the device; True stops the run."""


class Trainer(Generic[B]):
    """Takes the steps of one task."""

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
            memory: What `shared_memory` gave, for trainers whose recorded steps take turns on a
                GPU.
        """
        self.task, self.team = task, team
        self.progress = progress or Silent()
        self.state = TrainState()
        self.parameters = task.parameters()
        if not self.parameters:
            raise UnbagError(
                f"everything of {task.name} is frozen", expected="something that is left to train"
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
        """Whether the last step was taken."""
        return self.state.step >= self.task.optimizer.steps

    @property
    def identity(self) -> RunIdentity:
        """What decides the weights."""
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
        """Take all steps that are left, or those until somebody stops the run.

        With a folder, the run resumes from the checkpoint there and saves its own; without, it only
        changes the weights.

        Args:
            folder: Of `open_run_folder`, of the kind TRAINING.
            facts: Written to run.json beside the identity.
            on_step: Called after each step.

        Raises:
            KeyboardInterrupt: Somebody stopped the run during its last step: there is nothing left
                to resume here, but the caller should not go on.
        """
        is_stopped = False
        if folder is not None:
            self._begin(folder, facts or {})
        if not self.is_done:
            with ExitStack() as stack:
                log = self._open_log(folder)
                stack.callback(log.close)
                stack.enter_context(self.task.running())
                # Without a folder nothing could be saved: a signal then ends the caller too.
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
                    # By data, an evaluation, or a batch that does not fit: steps before it are
                    # saved, unless the weights are in the middle of an update.
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
        """Take one step; gives its numbers, which stay on the device."""
        task, step = self.task, self.state.step
        task.before_step(step)
        set_lr(self.optimizer, task.learning_rate(step))
        # Dropout of a step is the same whether the run was stopped before it or not.
        seed = task.seed * 1_000_003 + step
        placed = task.static_batch(batch) if task.is_recorded else None
        if placed is not None and placed[0] not in self._recorded:
            key, static = placed
            self._is_updating = True
            # With draws of its own, since recording takes a step too. The number of that step stays
            # in the recording, so that a recorded gradient cannot depend on it.
            with seeded_draws(task.device, seed):
                self._recorded[key] = Recorded(
                    lambda: self._update(static, 0),
                    self.optimizer,
                    device=task.device,
                    beside=task.recorded_beside(),
                    memory=self._memory,
                )
        with seeded_draws(task.device, seed):
            numbers = self._update(batch, step) if placed is None else self._recorded[placed[0]]()
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
        """Restore what `save` wrote; a checkpoint of another run is refused."""
        found = load_checkpoint(path)
        earlier = RunIdentity.of_json(found.header["identity"])
        self.identity.require_same(earlier, folder=path.parent, kind=TRAINING)
        if not found.group(_OPTIMIZER):
            raise UnbagError(
                f"{path} holds no optimizer state, so the steps after it would be other ones",
                expected=f"a {LAST} that this run saved; {BEST} holds weights only",
                hint=f"delete {path} to resume from {PREVIOUS}, if that is there, or to start "
                "again",
            )
        load_weights(self.task, found, name=self.task.name)
        load_optimizer_state(self.parameters, self.optimizer, found.group(_OPTIMIZER))
        self.task.load_extra_state({**found.header["extra"], **found.group(_EXTRA)})
        self.state = state_of(found)
        # A recording knows weights and optimizer state by where they were.
        self._recorded.clear()

    def _update(self, batch: B, step: int) -> dict[str, Tensor]:
        """The gradient of a batch, and the optimizer's update with it."""
        task, clip_norm = self.task, self.task.optimizer.clip_norm
        numbers = task.gradient(batch, step)
        self._is_updating = True
        if clip_norm is not None or task.logs_gradient:
            weights = self.parameters.values()
            length = nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
            if clip_norm is not None:
                nn.utils.clip_grads_with_norm_(weights, clip_norm, length)
            numbers["gradient"] = length
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return numbers | task.after_update()

    def _take_steps(
        self, folder: RunFolder | None, log: Log, stopping: Stopping, on_step: OnStep | None
    ) -> bool:
        """Gives whether somebody asked to stop."""
        task, steps = self.task, self.task.optimizer.steps
        first = self.state.step
        task.set_training(True)
        flow = task.batches(first)
        total = (steps - first) * task.units_per_step
        with (
            self.progress.task(f"training {task.name}", total) as advance,
            # Worker processes end with the loop, not when somebody lets go of an error.
            closing(flow) if isinstance(flow, Generator) else nullcontext(),
        ):
            for step in range(first, steps):
                began = perf_counter()
                batch = next(flow)
                waited = perf_counter() - began
                rate = task.learning_rate(step)
                try:
                    numbers = self.train_step(batch)
                except torch.OutOfMemoryError as error:
                    raise task.out_of_memory(batch) from error
                state = self.state
                known: dict[str, float] = {"learning_rate": rate, "waited": state.waited + waited}
                if task.steps_per_epoch:
                    known = {"epoch": step / task.steps_per_epoch, **known}
                log.add(step, {**known, **numbers})
                self.state = replace(
                    state,
                    seconds=state.seconds + perf_counter() - began,
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
                    # The caller may have evaluated.
                    task.set_training(True)
                if stopping.agreed():
                    return True
        return False

    def _is_save_due(self, step: int) -> bool:
        """After each epoch and by the clock; processes need not agree, since one of them saves."""
        per_epoch = self.task.steps_per_epoch
        if per_epoch and (step + 1) % per_epoch == 0:
            return True
        return perf_counter() - self._saved_at > 60 * self._save_minutes

    def _save_last(self, folder: RunFolder | None, log: Log) -> None:
        """Write the log and, unless this step is saved already, the checkpoint."""
        # First, since it raises for losses that are not finite: those weights must not be saved.
        log.flush()
        if folder is not None and self.team.is_leader and self._saved_step < self.state.step:
            self.save(folder.path / LAST, previous=folder.path / PREVIOUS)
        self._saved_at, self._saved_step = perf_counter(), self.state.step

    def _evaluate(self, folder: RunFolder | None, log: Log) -> None:
        """Evaluate, and save the weights if they are the best so far."""
        log.flush()
        score = self.task.evaluate(self.state.step)
        if self.state.best is None or score > self.state.best:
            before = self.state
            self.state = replace(before, best=score, best_step=before.step)
            try:
                if folder is not None and self.team.is_leader:
                    self.save(folder.path / BEST, with_optimizer=False)
            except UnbagError:
                # The checkpoint of this step is saved next and must not name a best that is lost.
                self.state = before
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
        before = "no checkpoint was saved before"
        if path is not None:
            step = load_checkpoint(path).header["step"]
            before = f"the checkpoint of step {step} is whole: {path}"
        return UnbagError(
            f"{error.term!r} of {self.task.name} became {error.value} at step {error.step}; "
            f"{before}",
            expected="finite numbers",
            hint="start again in another folder with a smaller learning rate "
            f"(--set learning_rate={self.task.optimizer.learning_rate / 10:g}) or in "
            "--precision float32",
        )


def check_earlier(folder: RunFolder, **known: object) -> None:
    """Refuse another run's folder, or a damaged checkpoint, before anything long is computed.

    `known` are those fields of the run's identity that need no data; `Trainer.run` compares all.
    """
    found = read_run(folder.path, folder.kind)
    if found is None:
        return
    earlier = RunIdentity.of_json({name: found["identity"].get(name) for name in known})
    RunIdentity(**known).require_same(earlier, folder=folder.path, kind=folder.kind)
    if (path := latest_checkpoint(folder.path)) is not None:
        load_checkpoint(path)


def load_weights(holder: Task[Any] | nn.Module, found: Checkpoint, *, name: str) -> None:
    """Put the weights of a checkpoint back; weights of another model are refused."""
    try:
        holder.load_state_dict(dict(found.group(_WEIGHTS)))
    except RuntimeError as error:
        raise UnbagError(
            f"the checkpoint holds other weights than {name} has",
            expected="a checkpoint of this model with the same frozen layers and LoRA",
            hint="delete it to start again, or name another folder with --out",
        ) from error


def state_of(found: Checkpoint) -> TrainState:
    """The state of the run when a checkpoint was saved."""
    return TrainState(**found.header["state"])


def autocast(device: str, precision: Precision) -> AbstractContextManager[object]:
    """Products in bfloat16, where asked for."""
    if precision == "float32":
        # Entering a context that does nothing takes a tenth of a very small step.
        return nullcontext()
    return torch.autocast(device.partition(":")[0], torch.bfloat16)


@contextmanager
def seeded_draws(device: str, seed: int) -> Iterator[None]:
    """Random draws of a seed inside, and generators as they were after it.

    What `torch.random.fork_rng` and `torch.manual_seed` do for every device and library, in a
    hundredth of a step: states of generators lie in the memory of the processor.
    """
    every = [torch.default_generator]
    if device.startswith("cuda"):
        at = torch.device(device).index
        every.append(
            torch.cuda.default_generators[torch.cuda.current_device() if at is None else at]
        )
    before = [one.get_state() for one in every]
    for one in every:
        one.manual_seed(seed)
    try:
        yield
    finally:
        for one, state in zip(every, before, strict=True):
            one.set_state(state)
