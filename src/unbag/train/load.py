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


class _Rest(Dataset[Batch]):
    """The steps that are still to be taken."""

    def __init__(self, batches: Batches, first: int) -> None:
        self.batches = batches
        self.first = first

    def __len__(self) -> int:
        return len(self.batches) - self.first

    def __getitem__(self, at: int) -> Batch:
        return self.batches[self.first + at]


@dataclass
class Waiting:
    """How long the device waited for data."""

    seconds: float = 0.0


def load(
    batches: Batches, *, first: int, workers: int, device: str, waiting: Waiting
) -> Iterator[Batch]:
    """From a step on, in order."""
    loader = DataLoader(
        _Rest(batches, first),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        pin_memory=device != "cpu",
    )
    flow = iter(loader)
    while True:
        start = perf_counter()
        try:
            batch = next(flow)
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
        waiting.seconds += perf_counter() - start
        yield batch
