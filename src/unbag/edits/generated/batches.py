"""Batches of token lists of nearly the same length, for the language models of generated edits.

Dimensions: N texts of a batch, L tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 32
"""Batch size."""
Key = TypeVar("Key", str, tuple[str, int, int])
Result = TypeVar("Result")


def by_length(
    tokens: Mapping[Key, list[int]], run: Callable[[list[list[int]]], Sequence[Result]]
) -> dict[Key, Result]:
    """Run all texts in batches of nearly the same length; returns the results by key."""
    order = sorted(tokens, key=lambda key: (len(tokens[key]), key))
    results: dict[Key, Result] = {}
    for start in range(0, len(order), BATCH):
        keys = order[start : start + BATCH]
        results.update(zip(keys, run([tokens[key] for key in keys]), strict=True))
    return results


def padded(
    batch: Sequence[list[int]], pad: int, *, side: Literal["left", "right"]
) -> tuple[Tensor, Tensor]:
    """Tokens [N, L] with `pad` on one side of the shorter texts, and the attention mask [N, L]."""
    import torch

    width = max(map(len, batch))
    pads = [[pad] * (width - len(tokens)) for tokens in batch]
    pairs = list(zip(pads, batch, strict=True))
    if side == "left":
        rows = [fill + tokens for fill, tokens in pairs]
        masks = [[0] * len(fill) + [1] * len(tokens) for fill, tokens in pairs]
    else:
        rows = [tokens + fill for fill, tokens in pairs]
        masks = [[1] * len(tokens) + [0] * len(fill) for fill, tokens in pairs]
    return torch.tensor(rows), torch.tensor(masks)
