"""False negatives of a batch by its strings: captions and negatives in, boolean masks out.

Dimensions: B batch, K negatives of a caption; [i, j] is picture i with caption j.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def equal_captions(captions: Sequence[str]) -> Tensor:
    """[B, B], True where two captions say the same but for case, spaces and a final stop.

    True on the diagonal, which the losses never leave out.
    """
    return _equal([_plain(caption) for caption in captions])


def same_pictures(keys: Sequence[str]) -> Tensor:
    """[B, B], True where two rows show the same picture, so that each caption fits both."""
    return _equal(keys)


def negative_equal(captions: Sequence[str], negatives: Sequence[Sequence[str | None]]) -> Tensor:
    """[B, B, K], True where negative k of caption j says what caption i says, and i is not j."""
    import torch

    number: dict[str, int] = {}
    number_B = torch.tensor([number.setdefault(_plain(c), len(number)) for c in captions])
    rows = [[-1 if n is None else number.get(_plain(n), -1) for n in row] for row in negatives]
    equal_BBK = number_B[:, None, None] == torch.tensor(rows, dtype=torch.long)[None]
    is_own = torch.eye(len(number_B), dtype=torch.bool)
    return equal_BBK & ~is_own[:, :, None]


def _equal(keys: Sequence[str]) -> Tensor:
    import torch

    number: dict[str, int] = {}
    number_B = torch.tensor([number.setdefault(key, len(number)) for key in keys])
    return number_B[:, None] == number_B[None, :]


def _plain(caption: str) -> str:
    return " ".join(caption.casefold().split()).rstrip(". ")
