"""The log of a training run: log.csv, and TensorBoard or Weights & Biases where wanted.

Numbers stay on the device until `FLUSH_EVERY` steps have come together: reading one at a time would
make the device wait for Python at every step.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unbag.errors import UserError, said_by
from unbag.runs.files import write_text
from unbag.training.job import TrainJob
from unbag.training.optim import share_of_rate
from unbag.training.step import StepResult

LOG_FILE = "log.csv"
FLUSH_EVERY = 20
"""Steps between two readings."""


def open_log(
    folder: Path, columns: tuple[str, ...], *, step: int, writers: tuple[Any, ...] = ()
) -> Log:
    """Begin, or go on at a step: rows that will be written again are dropped."""
    path = folder / LOG_FILE
    header = ",".join(("step", *columns))
    kept: list[str] = []
    if path.exists() and step > 0:
        lines = path.read_text(encoding="utf-8").splitlines()
        # The last line of a killed run may be half written; its step is then done again.
        whole = [line for line in lines[1:] if line.count(",") == len(columns)]
        kept = [line for line in whole if int(line.partition(",")[0]) < step]
    write_text(path, "\n".join([header, *kept]) + "\n")
    return Log(folder, columns, writers)


@dataclass(eq=False)
class Log:
    """Open while a run trains; one process of a team writes."""

    folder: Path | None
    """None in the processes that do not write."""
    columns: tuple[str, ...]
    """Columns of the CSV file after `step`."""
    writers: tuple[Any, ...] = ()
    _held: list[tuple[int, dict[str, float], list[str], Tensor]] = field(default_factory=list)
    last: dict[str, float] = field(default_factory=dict)
    """The row that was read last, for the progress bar."""

    def add(self, step: int, known: Mapping[str, float], found: Mapping[str, Tensor]) -> None:
        """Keep a row: plain numbers, and numbers that are still on the device."""
        values = torch.stack([value.detach().float().reshape(()) for value in found.values()])
        self._held.append((step, dict(known), list(found), values))

    def flush_sometimes(self) -> None:
        """Flush when enough steps have come together."""
        if len(self._held) >= FLUSH_EVERY:
            self.flush()

    def flush(self) -> None:
        """Read and write what is held; raises NotFiniteError at the first number that is none."""
        rows = []
        bad: NotFiniteError | None = None
        for step, known, names, values in self._held:
            row = known | dict(zip(names, values.tolist(), strict=True))
            bad = bad or _first_not_finite(step, names, row)
            rows.append((step, row))
        if rows:
            self._write(rows)
            self.last = rows[-1][1]
        # Not before they are written: no checkpoint may be saved whose steps the log lacks.
        self._held.clear()
        if bad is not None:
            raise bad

    def close(self) -> None:
        """End the other logs."""
        for writer in self.writers:
            with suppress(AttributeError):
                writer.close()

    def _write(self, rows: list[tuple[int, dict[str, float]]]) -> None:
        if self.folder is None:
            return
        path = self.folder / LOG_FILE
        try:
            with path.open("a", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                for step, row in rows:
                    writer.writerow([step, *(_text(row.get(name)) for name in self.columns)])
        except OSError as error:
            raise UserError(
                f"cannot write {path}: {said_by(error)}",
                way_out="make room, then give the same command again: it goes on from the last "
                "checkpoint",
            ) from error
        for other in self.writers:
            for step, row in rows:
                for name, value in row.items():
                    other.add_scalar(name, value, step)


class NotFiniteError(Exception):
    """A number that is no number; says which and when."""

    def __init__(self, step: int, term: str, value: float) -> None:
        super().__init__(f"{term} became {value} at step {step}")
        self.step, self.term, self.value = step, term, value


def columns(job: TrainJob) -> tuple[str, ...]:
    """Columns of the log after `step`."""
    objective = job.recipe.objective
    terms = [term.name for term in objective.terms if term.weight]
    thresholds = _thresholds(job) if objective.threshold is not None else []
    held = ["to_start"] if job.recipe.to_start else []
    known = ["epoch", "learning_rate", "waited", "loss", "gradient", "scale"]
    return (*known, *terms, *thresholds, *held)


def known_numbers(job: TrainJob, step: int, *, waited: float) -> dict[str, float]:
    """Numbers of a row that need no device."""
    recipe = job.recipe
    share = share_of_rate(step, steps=job.steps, warm_up=recipe.warm_up)
    return {
        "epoch": step / job.batches.per_epoch,
        "learning_rate": recipe.learning_rate * share,
        "waited": waited,
    }


def device_numbers(
    job: TrainJob, taken: StepResult, *, used_K: Tensor | None, length: Tensor, away: Tensor
) -> dict[str, Tensor]:
    """Numbers of a row that are still on the device; `used_K` are the thresholds of this step."""
    found = {"loss": taken.losses.total, "gradient": length, **taken.losses.terms}
    found["scale"] = job.trainable.temperature[0].exp()
    if used_K is not None:
        found |= dict(zip(_thresholds(job), used_K.unbind(), strict=True))
    if job.recipe.to_start:
        found["to_start"] = away
    return {name: value.to(length.device) for name, value in found.items()}


def _thresholds(job: TrainJob) -> list[str]:
    return [f"threshold_{slot.name}" for slot in job.recipe.negatives]


def tensorboard(folder: Path, *, step: int) -> Any:
    """A writer of TensorBoard events; events after `step` of an earlier start are left out."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError(
            "TensorBoard logs were asked for, and tensorboard is not installed",
            way_out="pip install 'unbag[train]', or leave --tensorboard out; log.csv has it all",
        ) from error
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step)


def wandb(project: str, *, name: str, settings: Mapping[str, object]) -> Wandb:
    """A run of Weights & Biases, if it is installed."""
    try:
        import wandb as library  # type: ignore[import-not-found]
    except ImportError as error:
        raise UserError(
            "Weights & Biases logs were asked for, and wandb is not installed",
            way_out="pip install wandb, or leave --wandb out; log.csv has it all",
        ) from error
    # An id of its own, so that a run that goes on stays one run there too.
    known = blake2b(f"{name} {sorted(settings.items())}".encode(), digest_size=8).hexdigest()
    run = library.init(project=project, name=name, id=known, config=dict(settings), resume="allow")
    return Wandb(run)


@dataclass(frozen=True, eq=False)
class Wandb:
    """Weights & Biases behind the one method of a writer that is used here."""

    run: Any

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """One number."""
        self.run.log({name: value}, step=step)

    def close(self) -> None:
        """End the run."""
        self.run.finish()


def _first_not_finite(
    step: int, names: list[str], row: Mapping[str, float]
) -> NotFiniteError | None:
    bad = [name for name in names if not math.isfinite(row[name])]
    # A term tells more than the sum, which comes first.
    named = next((name for name in bad if name not in ("loss", "gradient")), None)
    name = named or (bad[0] if bad else None)
    return None if name is None else NotFiniteError(step, name, row[name])


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
