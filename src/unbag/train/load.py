"""Steps come in; batches, made ahead of time by worker processes, go out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from torch.utils.data import DataLoader, Dataset

from unbag.errors import UserError
from unbag.train.batch import Batch
from unbag.train.batches import Batches

AHEAD = 4
"""Batches that each worker makes ahead."""


@dataclass(frozen=True, eq=False)
class _Refused:
    """An error of a worker. PyTorch would raise it again with a traceback for its text."""

    error: UserError


class _Rest(Dataset[Batch | _Refused]):
    """The steps that are still to be taken."""

    def __init__(self, batches: Batches, first: int) -> None:
        self.batches = batches
        self.first = first

    def __len__(self) -> int:
        return len(self.batches) - self.first

    def __getitem__(self, at: int) -> Batch | _Refused:
        if at >= len(self):
            raise IndexError(at)
        try:
            return self.batches[self.first + at]
        except UserError as error:
            return _Refused(error)


@dataclass
class Waiting:
    """How long the device waited for data."""

    seconds: float = 0.0

    def taken(self) -> float:
        """What came together since it was last asked."""
        found, self.seconds = self.seconds, 0.0
        return found


def load(
    batches: Batches, *, first: int, workers: int, device: str, waiting: Waiting
) -> Iterator[Batch]:
    """From a step on, in order."""
    loader = DataLoader(
        _Rest(batches, first),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        pin_memory=device.startswith("cuda"),
    )
    flow = iter(loader)
    while True:
        start = perf_counter()
        try:
            found = next(flow)
        except StopIteration:
            return
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise UserError(
                f"a process that read data died: {str(error).splitlines()[0]}",
                expected="workers that live as long as the run; too little memory kills them",
                way_out="give the same command again, with fewer --workers: it goes on from the "
                "last checkpoint",
            ) from error
        if isinstance(found, _Refused):
            raise found.error
        waiting.seconds += perf_counter() - start
        yield found
