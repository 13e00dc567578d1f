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
    """For each matrix the best two of this rank, by least squares; what is no matrix as it is."""
    found: State = {}
    for name in _once(after):
        change = after[name].float() - before[name].float()
        if change.ndim != 2 or rank * sum(change.shape) >= change.numel():
            found[name + _WHOLE] = change
            continue
        left_OK, strength_K, right_KI = torch.linalg.svd(change, full_matrices=False)
        root_R = strength_K[:rank].sqrt()
        found[name + _TALL] = (left_OK[:, :rank] * root_R).contiguous()
        found[name + _WIDE] = (root_R[:, None] * right_KI[:rank]).contiguous()
    return found


def apply_change(before: Mapping[str, Tensor], change: Mapping[str, Tensor]) -> None:
    """Add it to the weights in their place.

    A KeyError or RuntimeError if it is not one of all these weights, before any has changed.
    """
    added: State = {}
    for name in _once(before):
        whole = change.get(name + _WHOLE)
        if whole is None:
            whole = change[name + _TALL].float() @ change[name + _WIDE].float()
        if whole.shape != before[name].shape:
            raise KeyError(f"{name} of the shape {tuple(whole.shape)}")
        added[name] = whole.float()
    for name, value in added.items():
        before[name].add_(value)


def _once(weights: Mapping[str, Tensor]) -> list[str]:
    """Names; of a weight that stands under two, the first."""
    found: dict[int, str] = {}
    for name, value in weights.items():
        found.setdefault(value.data_ptr(), name)
    return list(found.values())
