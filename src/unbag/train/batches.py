"""Where batches come from: files, or the world. The batch of a step depends on the step alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from unbag.errors import UserError

if TYPE_CHECKING:
    from unbag.train.batch import Batch, FindTruth


class Batches(Protocol):
    """All steps of a run, made when they are asked for, in any order and by any worker.

    Made for one recipe, seed and share of the work; sent to worker processes whole.
    """

    @property
    def about(self) -> str:
        """For the model card: what was trained on and how many pairs."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a batch could; a run is continued only with the same."""

    @property
    def per_epoch(self) -> int:
        """Steps of one epoch."""

    @property
    def find_truth(self) -> FindTruth | None:
        """Finds captions that also fit; None where nothing is masked."""

    def __len__(self) -> int:
        """Steps of all epochs."""

    def __getitem__(self, step: int) -> Batch:
        """This process's part of the batch of a step."""


@dataclass(frozen=True)
class Share:
    """Which part of each batch is ours."""

    rank: int = 0
    of: int = 1

    def part(self, batch: int) -> slice:
        """Of a batch of so many pictures."""
        if batch % self.of:
            raise UserError(
                f"a batch of {batch} cannot be shared by {self.of} processes",
                expected="a multiple of the number of processes",
                way_out=f"--set batch={(batch // self.of + 1) * self.of}",
            )
        size = batch // self.of
        return slice(self.rank * size, (self.rank + 1) * size)
