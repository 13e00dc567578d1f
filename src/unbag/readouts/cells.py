"""Scores of a batch come in; how well each row finds its own goes out, as one number to make small.

Dimensions: B rows of a batch, K negatives of a caption, G rows that are told apart (a crowd),
P pictures, C captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

MOST_NUMBERS = 1 << 25
"""Of one array at a time while a matrix is filled; 128 MB in float32."""


def find_own(logit_GG: Tensor, negative_GK: Tensor | None, also_true_GG: Tensor) -> Tensor:
    """Cross-entropy of rows and of columns, [2, G]; negatives are further columns of their row.

    Cells that are true too are left out; a negative that is missing is minus infinity.
    """
    logit_GG = logit_GG.float().masked_fill(also_true_GG, -torch.inf)
    own_G = torch.arange(len(logit_GG), device=logit_GG.device)
    wide = logit_GG if negative_GK is None else torch.cat([logit_GG, negative_GK.float()], dim=1)
    by_row_G = functional.cross_entropy(wide, own_G, reduction="none")
    return torch.stack([by_row_G, functional.cross_entropy(logit_GG.T, own_G, reduction="none")])


def find_own_in_crowds(
    cells: Callable[[slice], Tensor],
    negative_BK: Tensor | None,
    also_true_BB: Tensor,
    *,
    crowd: int,
) -> Tensor:
    """The mean over rows and columns, where `cells` gives logits [G, G] of some rows."""
    found = []
    for part in crowds(len(also_true_BB), crowd):
        negative_GK = None if negative_BK is None else negative_BK[part]
        found.append(find_own(cells(part), negative_GK, also_true_BB[part, part]))
    return torch.cat(found, dim=1).mean()


def crowds(size: int, crowd: int) -> Iterator[slice]:
    """Rows that are told apart together; the last crowd may be smaller."""
    for start in range(0, size, crowd):
        yield slice(start, min(start + crowd, size))


def filled(
    pictures: int, captions: int, numbers: int, block: Callable[[slice, slice], Tensor]
) -> Tensor:
    """[P, C] from blocks of it, none of which needs more than `MOST_NUMBERS`.

    `numbers` is what one cell needs while it is computed.
    """
    across = max(1, min(captions, MOST_NUMBERS // numbers))
    down = max(1, MOST_NUMBERS // (numbers * across))
    rows = []
    for some in crowds(pictures, down):
        rows.append(torch.cat([block(some, others) for others in crowds(captions, across)], dim=1))
    return torch.cat(rows)
