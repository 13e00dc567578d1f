"""A batch of images, captions and edits as the encoders take it, and the protocol of batches.

Every string of a batch is encoded once, however often it occurs. Strings of similar length are
encoded together, so that little padding is needed. A missing edit has no string and no row.

Dimensions: B batch, K negatives, P positives of a caption, U unique strings, G strings of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from unbag.errors import UnbagError

Inputs: TypeAlias = Mapping[str, Tensor]
"""Arguments of a text encoder by name."""
PASS_COST = 256
"""Cost of one more pass of a text encoder on a CPU, in tokens."""
PASS_COST_CUDA = 8_192
"""The same on a GPU, where a pass over few tokens takes as long as Python needs to launch it."""
MAX_GROUPS = 8
CAPTION, IMAGE, NEGATIVE = "caption", "picture", "negative"
"""Keys of `Batch.code`."""
_NO_TEXT = -1


class Batches(Protocol):
    """The batches of a run, made from files or from the world, in any order and by any worker.

    The batch of a step depends only on recipe, seed, share and step. The object is sent to worker
    processes.
    """

    @property
    def about(self) -> str:
        """The training data and the number of pairs, for the model card."""

    @property
    def fingerprint(self) -> str:
        """Differs whenever any batch differs; a run resumes only with the same."""

    @property
    def per_epoch(self) -> int:
        """Steps per epoch."""

    @property
    def find_truth(self) -> FindTruth | None:
        """Finds captions that also fit other images; None masks nothing."""

    def __len__(self) -> int:
        """Return the steps of all epochs."""

    def __getitem__(self, step: int) -> Batch:
        """Return this process's part of the batch of a step."""


@dataclass(frozen=True)
class Share:
    """Which part of each batch belongs to this process."""

    rank: int = 0
    of: int = 1

    def part(self, batch_size: int) -> slice:
        """Return this process's part of a batch of `batch_size` images."""
        if batch_size % self.of:
            raise UnbagError(
                f"a batch of {batch_size} cannot be shared by {self.of} processes",
                expected="a multiple of the number of processes",
                hint=f"--set batch_size={(batch_size // self.of + 1) * self.of}",
            )
        size = batch_size // self.of
        return slice(self.rank * size, (self.rank + 1) * size)


@dataclass(frozen=True, eq=False)
class Batch:
    """One step of one process."""

    pixels: Pixels
    caption_B: Tensor
    """The caption of each image, as a row among the unique strings."""
    negative_BK: Tensor
    """The negatives, as rows; -1 where there is none."""
    positive_BP: Tensor
    """The positives, likewise."""
    groups: tuple[CaptionGroup, ...]
    place_U: Tensor
    """Position of each unique string in the concatenated groups."""
    code: Mapping[str, Tensor]
    """Integers, first dimension B, from which the truth of the batch is computed; may be {}."""
    unread: tuple[tuple[str, str], ...] = ()
    """Images that could not be read, with the reason, once for each time another pair of the data
    replaced them."""

    @property
    def skipped(self) -> int:
        """How often another pair replaced one that could not be read."""
        return len(self.unread)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.pixels)

    def pin_memory(self) -> Batch:
        """Copy the tensors to pinned memory, from which a device can read; called by the loader."""
        groups = tuple(CaptionGroup(g.row_G, _pinned(g.inputs)) for g in self.groups)
        return replace(
            self,
            pixels=self.pixels.pin_memory() if isinstance(self.pixels, Tensor) else self.pixels,
            caption_B=self.caption_B.pin_memory(),
            negative_BK=self.negative_BK.pin_memory(),
            positive_BP=self.positive_BP.pin_memory(),
            place_U=self.place_U.pin_memory(),
            groups=groups,
            code=_pinned(self.code),
        )


@dataclass(frozen=True, eq=False)
class CaptionGroup:
    """Strings of similar length."""

    row_G: Tensor
    """Their rows among the unique strings."""
    inputs: Inputs


@dataclass(frozen=True)
class CaptionTexts:
    """Caption and edits of one image."""

    caption: str
    negatives: tuple[str | None, ...] = ()
    positives: tuple[str | None, ...] = ()


class Pixels(Protocol):
    """Prepared images: a tensor, or scenes that are drawn on the device."""

    def __len__(self) -> int:
        """Return the number of images."""

    def __getitem__(self, part: slice, /) -> Pixels:
        """Return some of the images."""

    def to(self, device: str, /, *, non_blocking: bool = False) -> Tensor:
        """Return the images [N, ...] on the device."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Which captions also fit images other than their own; they are no negatives of those."""

    also_true_BB: Tensor
    """Caption j fits image i although i != j."""
    negative_true_BBK: Tensor | None = None
    """Negative k of caption j fits image i."""


class FindTruth(Protocol):
    """Computes the truth of the whole batch from the gathered codes of all processes."""

    def __call__(self, code: Mapping[str, Tensor], /) -> Truth:
        """Compute the truth from integers, one row per image."""


def make_batch(
    pixels: Pixels,
    texts: Sequence[CaptionTexts],
    *,
    tokenize: Callable[[Sequence[str]], Inputs],
    count_tokens: Callable[[Sequence[str]], list[int]],
    code: Mapping[str, Tensor] | None = None,
    max_group_size: int | None = None,
    unread: tuple[tuple[str, str], ...] = (),
) -> Batch:
    """Make a batch: number the unique strings, group them by length and tokenize them.

    `max_group_size` is the largest number of strings in a group.
    """
    row_of: dict[str, int] = {}
    caption_B = torch.tensor([row_of.setdefault(text.caption, len(row_of)) for text in texts])
    negative_BK = _rows([text.negatives for text in texts], row_of)
    positive_BP = _rows([text.positives for text in texts], row_of)
    strings = list(row_of)
    length_U = torch.tensor(count_tokens(strings))
    groups = tuple(
        CaptionGroup(row_G, tokenize([strings[at] for at in row_G.tolist()]))
        for row_G in by_length(length_U, max_group_size)
    )
    return Batch(
        pixels,
        caption_B,
        negative_BK,
        positive_BP,
        groups,
        torch.argsort(torch.cat([group.row_G for group in groups])),
        code or {},
        unread,
    )


def by_length(length_U: Tensor, max_group_size: int | None = None) -> list[Tensor]:
    """Split rows into groups of similar length, none larger than `max_group_size`.

    If everything fits into one group, the split minimizes the number of tokens, each group padded
    to its longest string, plus a cost per group, by dynamic programming over lengths.
    """
    order_U = torch.argsort(length_U, stable=True)
    if max_group_size is not None and len(order_U) > max_group_size:
        return list(torch.tensor_split(order_U, -(-len(order_U) // max_group_size)))
    pass_cost = PASS_COST_CUDA if torch.cuda.is_available() else PASS_COST
    lengths, counts = (counted.tolist() for counted in torch.unique(length_U, return_counts=True))
    # best[j]: the lowest cost of the first j lengths, and the sizes of its groups.
    best: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    for j, longest in enumerate(lengths, start=1):
        splits = [
            (best[i][0] + pass_cost + longest * sum(counts[i:j]), (*best[i][1], sum(counts[i:j])))
            for i in range(j)
            if len(best[i][1]) < MAX_GROUPS
        ]
        best.append(min(splits))
    return list(torch.split(order_U, list(best[-1][1])))


def _rows(texts: Sequence[Sequence[str | None]], row_of: dict[str, int]) -> Tensor:
    rows = [[-1 if s is None else row_of.setdefault(s, len(row_of)) for s in row] for row in texts]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(texts), -1)


def _pinned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.pin_memory() for name, value in tensors.items()}


def code_of(texts: Sequence[CaptionTexts], images: Sequence[str]) -> dict[str, Tensor]:
    """Return the integers that `find_equal` needs; -1 for a missing negative."""
    negatives = [[_code(negative) for negative in text.negatives] for text in texts]
    return {
        CAPTION: torch.tensor([_code(text.caption) for text in texts]),
        IMAGE: torch.tensor([_hash(name) for name in images]),
        NEGATIVE: torch.tensor(negatives, dtype=torch.int64).reshape(len(texts), -1),
    }


def find_equal(code: Mapping[str, Tensor]) -> Truth:
    """Find captions and negatives of the whole batch that also fit another image.

    A caption fits every image that has an equal caption, and every repetition of its own image in
    the batch. Captions are equal if 63 bits of a hash are, ignoring case, spaces and the final full
    stop.
    """
    caption_B, image_B, negative_BK = code[CAPTION], code[IMAGE], code[NEGATIVE]
    same_BB = (caption_B[:, None] == caption_B) | (image_B[:, None] == image_B)
    same_BB.fill_diagonal_(False)
    if not negative_BK.shape[1]:
        return Truth(same_BB)
    return Truth(same_BB, caption_B[:, None, None] == negative_BK)


def plain(text: str) -> str:
    """Normalize case and spaces, and remove the final full stop."""
    return " ".join(text.casefold().split()).removesuffix(".").rstrip()


def _code(text: str | None) -> int:
    return _NO_TEXT if text is None else _hash(plain(text))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
