"""One batch of images, captions and edits as the encoders take it, and the sources of batches.

Every string of a batch is encoded once, however often it occurs, and strings of like length run
together, so that none is padded to the longest. A missing edit has no string and no row.

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
"""What a text encoder takes, by argument."""
PASS_COST = 256
"""Tokens whose time one more pass of a text encoder is worth on a CPU."""
PASS_COST_CUDA = 8_192
"""The same on a GPU, where a pass over few tokens takes as long as Python needs to ask for it."""
MOST_GROUPS = 8
CAPTION, IMAGE, NEGATIVE = "caption", "picture", "negative"
"""Keys of the code of a batch."""
NONE = -1


class Batches(Protocol):
    """All steps of a run, made when they are asked for, in any order and by any worker.

    Batches are made from files or from the world; that of a step depends on the step alone.

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

    def part(self, batch_size: int) -> slice:
        """Of a batch of so many images."""
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
    """Rows among the unique strings."""
    negative_BK: Tensor
    """Rows, -1 where there is none."""
    positive_BP: Tensor
    groups: tuple[CaptionGroup, ...]
    place_U: Tensor
    """Where each unique string stands among those of the groups, one after the other."""
    code: Mapping[str, Tensor]
    """Integers, first dimension B, from which the truth of the whole batch follows; may be {}."""
    unread: tuple[tuple[str, str], ...] = ()
    """Images that could not be read, with the reason; each replaced by another pair of the data,
    and named as often as that was done."""

    @property
    def skipped(self) -> int:
        """How often another pair stood in for one that could not be read."""
        return len(self.unread)

    def __len__(self) -> int:
        """Images."""
        return len(self.pixels)

    def pin_memory(self) -> Batch:
        """With tensors where a device can fetch them by itself; called by the loader."""
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
    """Strings of like length."""

    row_G: Tensor
    """Which of the unique strings they are."""
    inputs: Inputs


@dataclass(frozen=True)
class CaptionTexts:
    """The strings that belong to one image."""

    caption: str
    negatives: tuple[str | None, ...] = ()
    positives: tuple[str | None, ...] = ()


class Pixels(Protocol):
    """Prepared images: a tensor, or scenes that are drawn where they are needed."""

    def __len__(self) -> int:
        """Images."""

    def __getitem__(self, part: slice, /) -> Pixels:
        """Some of them."""

    def to(self, device: str, /, *, non_blocking: bool = False) -> Tensor:
        """[N, ...] on the device."""


@dataclass(frozen=True, eq=False)
class Truth:
    """What fits whom beside the pairs; such captions are no negatives of that image."""

    also_true_BB: Tensor
    """Caption j fits image i although i != j."""
    negative_true_BBK: Tensor | None = None
    """Negative k of caption j fits image i."""


class FindTruth(Protocol):
    """Finds it for the whole batch, after codes of all processes have been gathered."""

    def __call__(self, code: Mapping[str, Tensor], /) -> Truth:
        """From integers, one row an image, that say all that truth needs."""


def make_batch(
    pixels: Pixels,
    said: Sequence[CaptionTexts],
    *,
    tokenize: Callable[[Sequence[str]], Inputs],
    count_tokens: Callable[[Sequence[str]], list[int]],
    code: Mapping[str, Tensor] | None = None,
    largest: int | None = None,
    unread: tuple[tuple[str, str], ...] = (),
) -> Batch:
    """Number the strings, sort them by length and tokenize them; `largest` bounds a group."""
    row: dict[str, int] = {}
    caption_B = torch.tensor([row.setdefault(one.caption, len(row)) for one in said])
    negative_BK = _rows([one.negatives for one in said], row)
    positive_BP = _rows([one.positives for one in said], row)
    strings = list(row)
    length_U = torch.tensor(count_tokens(strings))
    groups = tuple(
        CaptionGroup(row_G, tokenize([strings[at] for at in row_G.tolist()]))
        for row_G in by_length(length_U, largest)
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


def by_length(length_U: Tensor, largest: int | None = None) -> list[Tensor]:
    """Rows in parts of like length, none larger than `largest`.

    Where memory does not ask for more parts, they are cut where the tokens of all, padded to the
    longest of their part, and a cost for each part come to the least: by dynamic programming over
    lengths.
    """
    order_U = torch.argsort(length_U, stable=True)
    if largest is not None and len(order_U) > largest:
        return list(torch.tensor_split(order_U, -(-len(order_U) // largest)))
    pass_cost = PASS_COST_CUDA if torch.cuda.is_available() else PASS_COST
    lengths, counts = (found.tolist() for found in torch.unique(length_U, return_counts=True))
    # best[j]: the least cost of the first j lengths, and the sizes that lead to it.
    best: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    for j, longest in enumerate(lengths, start=1):
        every = [
            (best[i][0] + pass_cost + longest * sum(counts[i:j]), (*best[i][1], sum(counts[i:j])))
            for i in range(j)
            if len(best[i][1]) < MOST_GROUPS
        ]
        best.append(min(every))
    return list(torch.split(order_U, list(best[-1][1])))


def _rows(every: Sequence[Sequence[str | None]], row: dict[str, int]) -> Tensor:
    found = [[-1 if s is None else row.setdefault(s, len(row)) for s in one] for one in every]
    return torch.tensor(found, dtype=torch.int64).reshape(len(every), -1)


def _pinned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.pin_memory() for name, value in tensors.items()}


def code_of(said: Sequence[CaptionTexts], images: Sequence[str]) -> dict[str, Tensor]:
    """Integers from which `find_equal` works; -1 for a missing negative."""
    negatives = [[_code(text) for text in one.negatives] for one in said]
    return {
        CAPTION: torch.tensor([_code(one.caption) for one in said]),
        IMAGE: torch.tensor([_hash(name) for name in images]),
        NEGATIVE: torch.tensor(negatives, dtype=torch.int64).reshape(len(said), -1),
    }


def find_equal(code: Mapping[str, Tensor]) -> Truth:
    """Captions and negatives of the whole batch that also fit another image.

    A caption fits every image that has a caption saying the same, and every time its own image
    is in the batch. Saying the same is decided on 63 bits of a hash, case, spaces and the final
    full stop aside.
    """
    caption_B, image_B, negative_BK = code[CAPTION], code[IMAGE], code[NEGATIVE]
    same_BB = (caption_B[:, None] == caption_B) | (image_B[:, None] == image_B)
    same_BB.fill_diagonal_(False)
    if not negative_BK.shape[1]:
        return Truth(same_BB)
    return Truth(same_BB, caption_B[:, None, None] == negative_BK)


def plain(text: str) -> str:
    """Case, spaces and the final full stop aside."""
    return " ".join(text.casefold().split()).removesuffix(".").rstrip()


def _code(text: str | None) -> int:
    return NONE if text is None else _hash(plain(text))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
