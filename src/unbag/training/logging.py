"""The log of a training run: log.jsonl, and optionally TensorBoard or Weights & Biases.

Numbers stay on the device until `READ_EVERY` steps are collected: reading them at every step would
make the device wait for Python.
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
"""Steps whose numbers are copied from the device together."""


@dataclass(eq=False)
class Log:
    """Rows of numbers, one per step; every process collects them, only the leader writes them."""

    folder: Path | None = None
    """Where log.jsonl is written; None only checks that the numbers are finite."""
    writers: tuple[Any, ...] = ()
    """Of TensorBoard and Weights & Biases."""
    last: dict[str, float] = field(default_factory=dict)
    """The last row that was read from the device."""
    _rows: list[tuple[int, dict[str, float | Tensor]]] = field(default_factory=list)
    _error: UnbagError | None = None

    def add(self, step: int, numbers: Mapping[str, float | Tensor]) -> None:
        """Add a row; every `READ_EVERY` rows are read and written."""
        self._rows.append(
            (step, {k: v.detach() if isinstance(v, Tensor) else v for k, v in numbers.items()})
        )
        if len(self._rows) >= READ_EVERY:
            self.flush()

    def flush(self) -> None:
        """Read and write the collected rows; NotFiniteError at the first that is not finite."""
        if self._error is not None:
            # No checkpoint may be saved while steps before it are missing from the log.
            raise self._error
        collected, self._rows = self._rows, []
        if not collected:
            return
        tensors = [v for _, row in collected for v in row.values() if isinstance(v, Tensor)]
        if tensors:
            # All of them in one transfer.
            device = tensors[0].device
            values = iter(torch.stack([v.float().reshape(()).to(device) for v in tensors]).tolist())
            collected = [
                (step, {k: next(values) if isinstance(v, Tensor) else v for k, v in row.items()})
                for step, row in collected
            ]
        rows = [(step, {k: float(v) for k, v in row.items()}) for step, row in collected]
        try:
            self._write(rows)
        except UnbagError as error:
            self._error = error
            raise
        self.last = rows[-1][1]
        for step, row in rows:
            bad_names = [name for name, value in row.items() if not math.isfinite(value)]
            if bad_names:
                # A single term says more than the total, which comes first.
                name = next((n for n in bad_names if n not in ("loss", "gradient")), bad_names[0])
                raise NotFiniteError(step, name, row[name])

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
                    # JSON has no NaN and no infinity.
                    numbers = {
                        k: float(f"{v:.6g}") if math.isfinite(v) else None for k, v in row.items()
                    }
                    file.write(json.dumps({"step": step, **numbers}) + "\n")
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
    """Start a log, or continue it at a step: rows of steps that will be repeated are dropped."""
    path = folder / LOG_FILE
    lines = []
    if step > 0 and path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            # The last line of a killed run may be half written; its step is then repeated.
            with suppress(ValueError):
                if json.loads(line)["step"] < step:
                    lines.append(line)
    write_text(path, "".join(f"{line}\n" for line in lines))
    return Log(folder, writers)


class NotFiniteError(Exception):
    """A logged number is infinite or NaN; names the number and the step."""

    def __init__(self, step: int, term: str, value: float) -> None:
        super().__init__(f"{term} became {value} at step {step}")
        self.step, self.term, self.value = step, term, value


def tensorboard(folder: Path, *, step: int) -> Any:
    """Return a TensorBoard writer; events of an earlier start after `step` are ignored."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UnbagError(
            "TensorBoard logs were asked for, and tensorboard is not installed",
            hint=f"pip install 'unbag[train]', or leave --tensorboard out; {LOG_FILE} has it all",
        ) from error
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step)


def wandb(project: str, *, name: str, settings: Mapping[str, object]) -> Wandb:
    """Start or resume a run of Weights & Biases."""
    try:
        import wandb as library  # type: ignore[import-not-found]
    except ImportError as error:
        raise UnbagError(
            "Weights & Biases logs were asked for, and wandb is not installed",
            hint=f"pip install wandb, or leave --wandb out; {LOG_FILE} has it all",
        ) from error
    # A fixed id, so that a resumed run stays one run there too.
    known = blake2b(f"{name} {sorted(settings.items())}".encode(), digest_size=8).hexdigest()
    run = library.init(project=project, name=name, id=known, config=dict(settings), resume="allow")
    return Wandb(run)


@dataclass(frozen=True, eq=False)
class Wandb:
    """A run of Weights & Biases with the interface of a TensorBoard writer."""

    run: Any

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Log a number."""
        self.run.log({name: value}, step=step)

    def close(self) -> None:
        """End the run."""
        self.run.finish()
