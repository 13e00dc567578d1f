"""Load batches ahead of time in worker processes and yield them in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from unbag.errors import UnbagError, said_by
from unbag.reports.formatting import count_text

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

AHEAD = 4
"""Batches that each worker prepares in advance."""
MAX_NAMES = 100
"""Unreadable images that a run remembers: a million dead links must not fill a checkpoint."""
MAX_SHOWN = 5


class BatchSource(Protocol[T_co]):
    """The batches of all steps, such as `unbag.training.data.batch.Batches`."""

    def __len__(self) -> int:
        """Return the number of steps."""

    def __getitem__(self, step: int) -> T_co:
        """Return the batch of a step."""


def load(batches: BatchSource[T], *, first: int, workers: int, device: str) -> Generator[T]:
    """Yield the batches from step `first` on, in order."""
    loader = DataLoader(
        _RemainingSteps(batches, first),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        pin_memory=device.startswith("cuda"),
        worker_init_fn=_ignore_interrupts,
        # Without its own generator, the loader would draw from the global one.
        generator=torch.Generator(),
    )
    iterator = _start(loader)
    try:
        while True:
            try:
                batch = next(iterator)
            except StopIteration:
                return
            except (RuntimeError, OSError, EOFError) as error:
                if not workers or not _is_worker_death(error):
                    raise
                raise UnbagError(
                    f"a process that read data died: {said_by(error)}",
                    expected="workers that live as long as the run; too little memory kills them",
                    hint="give the same command again, with fewer --workers: it resumes from "
                    "the last checkpoint",
                ) from error
            if isinstance(batch, _WorkerError):
                raise batch.error
            yield batch
    finally:
        # End the workers now, not when the traceback of an error is released.
        del iterator


@dataclass(frozen=True, eq=False)
class _WorkerError:
    """An error of a worker, passed on as a value: PyTorch would add a traceback to its message."""

    error: UnbagError


class _RemainingSteps(Dataset[T | _WorkerError], Generic[T]):
    """The batches of the remaining steps."""

    def __init__(self, batches: BatchSource[T], first: int) -> None:
        self.batches = batches
        self.first = first

    def __len__(self) -> int:
        return len(self.batches) - self.first

    def __getitem__(self, at: int) -> T | _WorkerError:
        if at >= len(self):
            raise IndexError(at)
        try:
            return self.batches[self.first + at]
        except UnbagError as error:
            return _WorkerError(error)


def _start(loader: DataLoader[T | _WorkerError]) -> Iterator[T | _WorkerError]:
    """Start a loader without PyTorch's signal handler, which raises within a step if a worker dies.

    Asking for the next batch raises too, but between two steps, where a checkpoint can be saved.
    """
    signal_number = getattr(signal, "SIGCHLD", None)
    if signal_number is None or threading.current_thread() is not threading.main_thread():
        return iter(loader)
    handler = signal.getsignal(signal_number)
    if getattr(handler, "__module__", "").startswith("torch."):
        # Set by another loader of this process; PyTorch never removes it.
        handler = signal.SIG_DFL
    iterator = iter(loader)
    signal.signal(signal_number, handler or signal.SIG_DFL)
    return iterator


def _ignore_interrupts(_: int) -> None:
    """Ignore Ctrl-C, which reaches workers too: the run finishes its step and needs data for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_worker_death(error: Exception) -> bool:
    """Return whether an error means that a worker died or that the connection to it is closed."""
    message = str(error)
    if message.startswith("Caught "):
        # An error in the data, which PyTorch raises again with the traceback of the worker.
        return False
    connection_errors = ConnectionError | EOFError | FileNotFoundError
    return "DataLoader worker" in message or isinstance(error, connection_errors)


def add_names(names: Mapping[str, str], new_names: Mapping[str, str]) -> dict[str, str]:
    """Merge two mappings of names to reasons, up to `MAX_NAMES` entries."""
    return dict(list({**names, **new_names}.items())[:MAX_NAMES])


def left_out_lines(reasons: Mapping[str, str], *, is_all: bool = True) -> list[str]:
    """Describe unreadable images: their number, the first with reasons, and how many more.

    `is_all` is False where more of them exist than were remembered.
    """
    if not reasons:
        return []
    prefix = "" if is_all else "at least "
    verb = "is" if len(reasons) == 1 and is_all else "are"
    images = count_text(len(reasons), "image")
    lines = [f"{prefix}{images} cannot be read and {verb} left out"]
    lines += [f"  left out: {name}: {reason}" for name, reason in list(reasons.items())[:MAX_SHOWN]]
    if len(reasons) > MAX_SHOWN:
        lines.append(f"  and {prefix}{len(reasons) - MAX_SHOWN:,} more")
    return lines
