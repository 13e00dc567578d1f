"""Prepared pictures come in; the same, all of one length, go out, so that they make a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def even(prepared: Sequence[Tensor]) -> Sequence[Tensor]:
    """Flat tensors of several lengths, filled with zeros to the longest; others as they are.

    A model whose pictures differ in size prepares them flat and says in front how much is its own.
    """
    from torch.nn.functional import pad

    if any(one.ndim != 1 for one in prepared) or len({len(one) for one in prepared}) <= 1:
        return prepared
    longest = max(len(one) for one in prepared)
    return [pad(one, (0, longest - len(one))) for one in prepared]
