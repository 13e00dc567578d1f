"""The log of a training run: log.jsonl, and TensorBoard or Weights & Biases where wanted.

Numbers stay on the device until `READ_EVERY` steps are collected: reading one at a time would make
the device wait for Python at every step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unbag.errors import UnbagError, said_by
from unbag.runs.files import write_text

LOG_FILE = "log.jsonl"
READ_EVERY = 20
"""Steps between two readings of numbers from the device."""


@dataclass(eq=False)
class Log:
    """Rows of numbers, one a step; every process collects them, the leader writes them."""

    folder: Path | None = None
    """None writes no file, and numbers are only checked."""
    writers: tuple[Any, ...] = ()
    """TensorBoard and Weights & Biases, as far as wanted."""
    last: dict[str, float] = field(default_factory=dict)
    """The row that was read last."""
    _rows: list[tuple[int, dict[str, float | Tensor]]] = field(default_factory=list)
    _error: UnbagError | None = None

    def add(self, step: int, numbers: Mapping[str, float | Tensor]) -> None:
        """Collect a row; reads and writes the collected ones when there are enough."""
        self._rows.append(
            (step, {k: v.detach() if isinstance(v, Tensor) else v for k, v in numbers.items()})
        )
        if len(self._rows) >= READ_EVERY:
            self.flush()

    def flush(self) -> None:
        """Read and write the collected rows; NotFiniteError at the first number that is not."""
        if self._error is not None:
            # No checkpoint may be saved whose steps the log lacks.
            raise self._error
        rows, self._rows = self._rows, []
        if not rows:
            return
        tensors = [v for _, row in rows for v in row.values() if isinstance(v, Tensor)]
        if tensors:
            # In one transfer.
            device = tensors[0].device
            read = iter(torch.stack([v.float().reshape(()).to(device) for v in tensors]).tolist())
            rows = [
                (step, {k: next(read) if isinstance(v, Tensor) else v for k, v in row.items()})
                for step, row in rows
            ]
        plain = [(step, {k: float(v) for k, v in row.items()}) for step, row in rows]
        try:
            self._write(plain)
        except UnbagError as error:
            self._error = error
            raise
        self.last = plain[-1][1]
        for step, row in plain:
            bad = [name for name, value in row.items() if not math.isfinite(value)]
            if bad:
                # A term says more than the sum, which comes first.
                term = next((name for name in bad if name not in ("loss", "gradient")), bad[0])
                raise NotFiniteError(step, term, row[term])

    def close(self) -> None:
        """Close the writers."""
        for writer in self.writers:
            with suppress(AttributeError):
                writer.close()

    def _write(self, rows: list[tuple[int, dict[str, float]]]) -> None:
        if self.folder is None:
            return
        path = self.folder / LOG_FILE
        try:
            with path.open("a", encoding="utf-8") as file:
                for step, row in rows:
                    # What is not a number is not JSON either.
                    written = {
                        k: float(f"{v:.6g}") if math.isfinite(v) else None for k, v in row.items()
                    }
                    file.write(json.dumps({"step": step, **written}) + "\n")
        except OSError as error:
            raise UnbagError(
                f"cannot write {path}: {said_by(error)}",
                hint="make room, then give the same command again: it resumes from the last "
                "checkpoint",
            ) from error
        for writer in self.writers:
            for step, row in rows:
                for name, value in row.items():
                    writer.add_scalar(name, value, step)


def open_log(folder: Path, *, step: int, writers: tuple[Any, ...] = ()) -> Log:
    """Start a log, or continue it at a step: rows of steps that are taken again are dropped."""
    path = folder / LOG_FILE
    rows = []
    if step > 0 and path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            # The last line of a killed run may be half written; its step is then taken again.
            with suppress(ValueError):
                if json.loads(line)["step"] < step:
                    rows.append(line)
    write_text(path, "".join(f"{line}\n" for line in rows))
    return Log(folder, writers)


class NotFiniteError(Exception):
    """A number that is infinite or not a number; says which and when."""

    def __init__(self, step: int, term: str, value: float) -> None:
        super().__init__(f"{term} became {value} at step {step}")
        self.step, self.term, self.value = step, term, value


def tensorboard(folder: Path, *, step: int) -> Any:
    """A writer of TensorBoard events; events after `step` of an earlier start are left out."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UnbagError(
            "TensorBoard logs were asked for, and tensorboard is not installed",
            hint=f"pip install 'unbag[train]', or leave --tensorboard out; {LOG_FILE} has it all",
        ) from error
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step)


def wandb(project: str, *, name: str, settings: Mapping[str, object]) -> Wandb:
    """A run of Weights & Biases, if it is installed."""
    try:
        import wandb as library  # type: ignore[import-not-found]
    except ImportError as error:
        raise UnbagError(
            "Weights & Biases logs were asked for, and wandb is not installed",
            hint=f"pip install wandb, or leave --wandb out; {LOG_FILE} has it all",
        ) from error
    # An id of its own, so that a resumed run stays one run there too.
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
