"""Pictures, captions and edits of one step come in; tensors that the towers take go out.

Every string of a batch is encoded once, however often it occurs, and strings of like length run
together, so that none is padded to the longest. A missing edit has no string and no row.

Dimensions: B batch, K negatives, P positives of a caption, U unique strings, G strings of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

Inputs: TypeAlias = Mapping[str, Tensor]
"""What a text tower takes, by argument."""

GROUPS = 4
"""Parts of a batch by length, where memory asks for no more: each is one pass of the tower."""


class Pixels(Protocol):
    """Prepared pictures: a tensor, or scenes that are drawn where they are needed."""

    def __len__(self) -> int:
        """Pictures."""

    def __getitem__(self, part: slice, /) -> Pixels:
        """Some of them."""

    def to(self, device: str, /, *, non_blocking: bool = False) -> Tensor:
        """[N, ...] on the device."""


@dataclass(frozen=True, eq=False)
class Group:
    """Strings of like length."""

    row_G: Tensor
    """Which of the unique strings they are."""
    inputs: Inputs


@dataclass(frozen=True, eq=False)
class Truth:
    """What fits whom beside the pairs; such captions are no negatives of that picture."""

    also_true_BB: Tensor
    """Caption j fits picture i although i != j."""
    negative_true_BBK: Tensor | None = None
    """Negative k of caption j fits picture i."""


class FindTruth(Protocol):
    """Finds it for the whole batch, after codes of all processes have been gathered."""

    def __call__(self, code: Mapping[str, Tensor], /) -> Truth:
        """From integers, one row a picture, that say all that truth needs."""


@dataclass(frozen=True, eq=False)
class Batch:
    """One step of one process."""

    pixels: Pixels
    caption_B: Tensor
    """Rows among the unique strings."""
    negative_BK: Tensor
    """Rows, -1 where there is none."""
    positive_BP: Tensor
    groups: tuple[Group, ...]
    count: int
    """Unique strings."""
    code: Mapping[str, Tensor]
    """Integers, first dimension B, from which the truth of the whole batch follows; may be {}."""
    skipped: int = 0
    """Pictures that could not be read, each replaced by another pair of the data."""

    def __len__(self) -> int:
        """Pictures."""
        return len(self.pixels)

    def pin_memory(self) -> Batch:
        """With pixels where a device can fetch them by itself; called by the loader."""
        if not isinstance(self.pixels, Tensor):
            return self
        return replace(self, pixels=self.pixels.pin_memory())


@dataclass(frozen=True)
class Said:
    """The strings that belong to one picture."""

    caption: str
    negatives: tuple[str | None, ...] = ()
    positives: tuple[str | None, ...] = ()


def make_batch(
    pixels: Pixels,
    said: Sequence[Said],
    *,
    tokenize: Callable[[Sequence[str]], Inputs],
    count_tokens: Callable[[Sequence[str]], list[int]],
    code: Mapping[str, Tensor] | None = None,
    largest: int | None = None,
    skipped: int = 0,
) -> Batch:
    """Number the strings, sort them by length and tokenize them; `largest` bounds a group."""
    row: dict[str, int] = {}
    caption_B = torch.tensor([row.setdefault(one.caption, len(row)) for one in said])
    negative_BK = _rows([one.negatives for one in said], row)
    positive_BP = _rows([one.positives for one in said], row)
    strings = list(row)
    length_U = torch.tensor(count_tokens(strings))
    groups = tuple(
        Group(row_G, tokenize([strings[at] for at in row_G.tolist()]))
        for row_G in by_length(length_U, largest)
    )
    return Batch(
        pixels,
        caption_B,
        negative_BK,
        positive_BP,
        groups,
        len(strings),
        code or {},
        skipped,
    )


def by_length(length_U: Tensor, largest: int | None = None) -> list[Tensor]:
    """Rows in parts of like length, none larger than `largest`."""
    order_U = torch.argsort(length_U, stable=True)
    parts = min(GROUPS, len(order_U))
    if largest is not None:
        parts = max(parts, -(-len(order_U) // largest))
    return list(torch.tensor_split(order_U, parts))


def _rows(every: Sequence[Sequence[str | None]], row: dict[str, int]) -> Tensor:
    found = [[-1 if s is None else row.setdefault(s, len(row)) for s in one] for one in every]
    return torch.tensor(found, dtype=torch.int64).reshape(len(every), -1)
