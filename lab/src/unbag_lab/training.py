"""Trains one task to its end, or several side by side on the same batches."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from unbag.models.tiny import Tiny, TinyNetwork, read, write
from unbag.runs.files import TRAINING, RunFolder, open_run_folder, write_atomically
from unbag.runs.progress import Silent
from unbag.training.encoders.adapters import TinyTrainable
from unbag.training.recipes import Precision
from unbag.training.trainer import Trainer, TrainState
from unbag_lab.plan import Say
from unbag_lab.questions import Questions
from unbag_lab.results import ArmResult, find_same, read_results, write_result

B = TypeVar("B")


class SaysLines(Silent):
    """Progress without bars; messages go to a function."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def say(self, message: str) -> None:
        """Pass a message on."""
        self._say(message)


@contextmanager
def training_folder(path: Path) -> Iterator[RunFolder]:
    """Folder for checkpoints of a training; removed when the context ends without an error."""
    with open_run_folder(path, TRAINING) as folder:
        yield folder
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        # The parent may hold folders of other trainings.
        path.parent.rmdir()


def run_to_end(
    trainer: Trainer[B],
    folder: RunFolder | None = None,
    *,
    say: Say | None = None,
    every: int = 250,
) -> float | None:
    """Take all remaining steps and return the last loss, or None if no step remained.

    Raises KeyboardInterrupt if the run was stopped: a half-trained arm must not be measured.

    Args:
        trainer: The trainer of one task.
        folder: Where to save checkpoints and resume from; None for neither.
        say: Receives lines with the loss and the remaining time.
        every: Steps between two lines.
    """
    steps, started = trainer.task.optimizer.steps, time.monotonic()
    last_loss: list[Tensor] = []
    first_step: list[int] = []

    def on_step(state: TrainState, numbers: Mapping[str, Tensor]) -> bool:
        last_loss[:] = [numbers["loss"]]
        if not first_step:
            first_step.append(state.step - 1)
        if say is not None and ((state.step - 1) % every == 0 or state.step == steps):
            rate = (state.step - first_step[0]) / (time.monotonic() - started)
            seconds_left = (steps - state.step) / rate
            value = last_loss[0].item()
            at = state.step - 1
            say(f"step {at:5d}  loss {value:.4f}  {rate:.3g} steps/s  {seconds_left:.0f} s left")
        return False

    trainer.run(folder, on_step=on_step)
    if not trainer.is_done:
        raise KeyboardInterrupt
    return last_loss[0].item() if last_loss else None


def train_together(
    trainers: Mapping[str, Trainer[B]],
    batches: Iterable[Mapping[str, B]],
    *,
    say: Say,
    after_step: Callable[[int], None] = lambda steps: None,
) -> dict[str, float]:
    """Train several tasks side by side, step by step on shared batches; return the last losses.

    A task whose checkpoint is ahead of the others waits for them. This loop replaces the loops of
    the trainers, which would draw the batches once for each task.

    Args:
        trainers: By name.
        batches: For each step, the batch of every task by name; starts at the first step that is
            missing in any task.
        say: Receives lines with the losses.
        after_step: Called with the number of steps taken.
    """
    first = min(trainer.state.step for trainer in trainers.values())
    steps = max(trainer.task.optimizer.steps for trainer in trainers.values())
    loss: dict[str, Tensor] = {}
    started = resumed = time.monotonic()
    waited = 0.0
    for step, step_batches in enumerate(batches, start=first):
        waited += time.monotonic() - resumed
        for name, trainer in trainers.items():
            if trainer.state.step == step:
                loss[name] = trainer.train_step(step_batches[name])["loss"]
        if step % 100 == 99 or step + 1 == steps:
            # Reading the losses synchronizes with the device.
            losses_text = "  ".join(f"{name} {value.item():.3f}" for name, value in loss.items())
            elapsed = time.monotonic() - started
            seconds_per_step = elapsed / (step + 1 - first)
            say(
                f"step {step + 1}, {1000 * seconds_per_step:.0f} ms each, "
                f"{100 * waited / elapsed:.0f} % waiting, "
                f"{seconds_per_step * (steps - step - 1):.0f} s left  {losses_text}"
            )
        after_step(step + 1)
        resumed = time.monotonic()
    return {name: value.item() for name, value in loss.items()}


def precision_of(device: str) -> Precision:
    """Return the precision of a training step on a device."""
    return "float32" if device == "cpu" else "bfloat16"


@dataclass(frozen=True, eq=False)
class TrainedArm:
    """An arm after its last step, before it is measured."""

    network: TinyNetwork
    loss: float
    seconds: float | None
    """Its share of the time of all arms trained with it; None if the training was resumed."""
    numbers: Mapping[str, Mapping[str, float]]
    """Numbers recorded during training."""


def ask(encoder: Tiny, questions: Questions, *, device: str) -> dict[str, dict[str, float]]:
    """Return the metrics of a tiny model on all benchmarks."""
    trainable = TinyTrainable(encoder, device=device)
    trainable.module.eval()
    return questions.answers(trainable, device=device)


def run_arms(
    results: Sequence[ArmResult],
    folder: Path,
    train: Callable[[Sequence[ArmResult]], Mapping[str, TrainedArm]],
    questions: Callable[[], Questions],
    *,
    device: str,
    say: Say,
) -> None:
    """Train and measure the arms of a base whose results are not in the folder.

    The weights of all arms are written before the first arm is measured. An arm that is trained
    but not measured has a file ARM.state with its result so far.
    """
    base = results[0].base if results else folder.name
    missing = [
        result for result in results if find_same(result, folder / f"{result.arm}.json") is None
    ]
    if not missing:
        say(f"{base}: every arm is in {folder}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    state_paths = {result.arm: folder / f"{result.arm}.state" for result in missing}
    untrained = [result for result in missing if find_same(result, state_paths[result.arm]) is None]
    trained = train(untrained) if untrained else {}
    for result in untrained:
        arm = trained[result.arm]
        weights = folder / f"{result.arm}.safetensors"
        write_atomically(weights, partial(write, arm.network))
        trained_result = replace(result, loss=arm.loss, seconds=arm.seconds, numbers=arm.numbers)
        write_result(state_paths[result.arm], trained_result)
    for arm_name, path in state_paths.items():
        start = time.monotonic()
        (result,) = read_results(path)
        # Measure the saved file, which has half precision, not the model in memory.
        tiny = read(folder / f"{arm_name}.safetensors", name=arm_name)
        numbers = {**result.numbers, **ask(tiny, questions(), device=device)}
        training_seconds = result.seconds
        seconds = None if training_seconds is None else training_seconds + time.monotonic() - start
        write_result(folder / f"{arm_name}.json", replace(result, numbers=numbers, seconds=seconds))
        path.unlink()
        say(f"{base}: {arm_name} measured")
