"""Captions of a batch come in as integers; which of them also fit another picture goes out.

A caption fits every picture that has a caption saying the same, and every time its own picture is
in the batch. Saying the same is decided on 63 bits of a hash, case, spaces and the final full stop
aside.

Dimensions: B pictures of the whole batch, K negatives of a caption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import torch
from torch import Tensor

from unbag.train.batch import Said, Truth

CAPTION, PICTURE, NEGATIVE = "caption", "picture", "negative"
"""Keys of the code of a batch."""
NONE = -1


def code_of(said: Sequence[Said], pictures: Sequence[str]) -> dict[str, Tensor]:
    """Integers from which `find_equal` works; -1 for a missing negative."""
    negatives = [[_code(text) for text in one.negatives] for one in said]
    return {
        CAPTION: torch.tensor([_code(one.caption) for one in said]),
        PICTURE: torch.tensor([_hash(name) for name in pictures]),
        NEGATIVE: torch.tensor(negatives, dtype=torch.int64).reshape(len(said), -1),
    }


def find_equal(code: Mapping[str, Tensor]) -> Truth:
    """Over the whole batch."""
    caption_B, picture_B, negative_BK = code[CAPTION], code[PICTURE], code[NEGATIVE]
    same_BB = (caption_B[:, None] == caption_B) | (picture_B[:, None] == picture_B)
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
