"""Weights before and after training come in; the change as thin matrices goes out, and back.

Dimensions: O outputs, I inputs, R rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

State: TypeAlias = dict[str, Tensor]
_TALL, _WIDE, _WHOLE = ".tall_OR", ".wide_RI", ".whole"


def factored(before: Mapping[str, Tensor], after: Mapping[str, Tensor], *, rank: int) -> State:
    """For each matrix the best two of this rank, by least squares; what is no matrix as it is.

    A weight that stands under two names is written under the first.
    """
    found: State = {}
    seen: set[int] = set()
    for name, value in after.items():
        if value.data_ptr() in seen:
            continue
        seen.add(value.data_ptr())
        change = value.float() - before[name].float()
        if change.ndim != 2 or rank * sum(change.shape) >= change.numel():
            found[name + _WHOLE] = change
            continue
        left_OK, strength_K, right_KI = torch.linalg.svd(change, full_matrices=False)
        root_R = strength_K[:rank].sqrt()
        found[name + _TALL] = (left_OK[:, :rank] * root_R).contiguous()
        found[name + _WIDE] = (root_R[:, None] * right_KI[:rank]).contiguous()
    return found


def apply_change(before: Mapping[str, Tensor], change: Mapping[str, Tensor]) -> None:
    """Add it to the weights in their place; a KeyError or RuntimeError if it is not theirs."""
    for key, value in change.items():
        if key.endswith(_WHOLE):
            before[key.removesuffix(_WHOLE)].add_(value.float())
        elif key.endswith(_TALL):
            name = key.removesuffix(_TALL)
            before[name].add_(value.float() @ change[name + _WIDE].float())
