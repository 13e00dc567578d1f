"""Make batches ahead of time in worker processes, and give them in order."""

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
"""Batches that each worker makes ahead."""
MOST = 100
"""Names that a run remembers: a collection with a million dead links must not fill a checkpoint."""
_SHOWN = 5


class BatchSource(Protocol[T_co]):
    """The batches of all steps, such as `unbag.training.data.batch.Batches`."""

    def __len__(self) -> int:
        """Steps."""

    def __getitem__(self, step: int) -> T_co:
        """The batch of a step."""


def load(batches: BatchSource[T], *, first: int, workers: int, device: str) -> Generator[T]:
    """Batches from step `first` on, in order."""
    loader = DataLoader(
        _Rest(batches, first),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        pin_memory=device.startswith("cuda"),
        worker_init_fn=_ignore_interrupts,
        # Else it would draw from the generator of the caller.
        generator=torch.Generator(),
    )
    flow = _started(loader)
    try:
        while True:
            try:
                found = next(flow)
            except StopIteration:
                return
            except (RuntimeError, OSError, EOFError) as error:
                if not workers or not _is_death(error):
                    raise
                raise UnbagError(
                    f"a process that read data died: {said_by(error)}",
                    expected="workers that live as long as the run; too little memory kills them",
                    hint="give the same command again, with fewer --workers: it resumes from "
                    "the last checkpoint",
                ) from error
            if isinstance(found, _Refused):
                raise found.error
            yield found
    finally:
        # Ends the workers now, not when somebody lets go of the error that is on its way.
        del flow


@dataclass(frozen=True, eq=False)
class _Refused:
    """An error of a worker. PyTorch would raise it again with a traceback for its text."""

    error: UnbagError


class _Rest(Dataset[T | _Refused], Generic[T]):
    """The steps that are still to be taken."""

    def __init__(self, batches: BatchSource[T], first: int) -> None:
        self.batches = batches
        self.first = first

    def __len__(self) -> int:
        return len(self.batches) - self.first

    def __getitem__(self, at: int) -> T | _Refused:
        if at >= len(self):
            raise IndexError(at)
        try:
            return self.batches[self.first + at]
        except UnbagError as error:
            return _Refused(error)


def _started(loader: DataLoader[T | _Refused]) -> Iterator[T | _Refused]:
    """Start a loader without the handler of PyTorch, which raises within a step if a worker dies.

    The next batch finds it out as well, between two steps, where all that was done can be saved.
    """
    number = getattr(signal, "SIGCHLD", None)
    if number is None or threading.current_thread() is not threading.main_thread():
        return iter(loader)
    before = signal.getsignal(number)
    if getattr(before, "__module__", "").startswith("torch."):
        # Left by another loader of this process: PyTorch sets it once and for all.
        before = signal.SIG_DFL
    flow = iter(loader)
    signal.signal(number, before or signal.SIG_DFL)
    return flow


def _ignore_interrupts(_: int) -> None:
    """Ctrl-C reaches workers too, and the run still needs data for the step that it finishes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_death(error: Exception) -> bool:
    """Whether an error says that a worker died, or that the connection to it is closed."""
    said = str(error)
    if said.startswith("Caught "):
        # An error of the data, which PyTorch raises again with the traceback of the worker.
        return False
    lost = ConnectionError | EOFError | FileNotFoundError
    return "DataLoader worker" in said or isinstance(error, lost)


def with_names(known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Names and reasons of both, at most `MOST`."""
    return dict(list({**known, **more}.items())[:MOST])


def left_out_lines(found: Mapping[str, str], *, is_all: bool = True) -> list[str]:
    """How many, the first by name and reason, and how many more; `is_all` if none was forgotten."""
    if not found:
        return []
    least = "" if is_all else "at least "
    verb = "is" if len(found) == 1 and is_all else "are"
    images = count_text(len(found), "image")
    lines = [f"{least}{images} cannot be read and {verb} left out"]
    lines += [f"  left out: {name}: {why}" for name, why in list(found.items())[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {least}{len(found) - _SHOWN:,} more")
    return lines
