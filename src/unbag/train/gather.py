"""Rows of one process come in; rows of all processes go out. Also sums of their gradients.

Every process computes the loss of the whole batch, so it knows the gradient at its own rows; rows
of others are constants to it. Gradients of the weights are then summed, not averaged: one process
and many take the same step. DistributedDataParallel is not used, since it averages, and since the
second pass over the parts of a large batch leaves one tower out at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unbag.engine.team import Team

if TYPE_CHECKING:
    from torch import Tensor

_BUCKET = 1 << 24
"""Numbers that are sent together, so that a thousand small weights are not a thousand messages."""


def gathered(own: Tensor, team: Team) -> Tensor:
    """The rows of all processes in order of rank, with gradient at our own."""
    if team.size == 1:
        return own
    import torch
    from torch import distributed

    is_bool = own.dtype == torch.bool
    sent = (own.to(torch.uint8) if is_bool else own.detach()).contiguous()
    parts = [torch.empty_like(sent) for _ in range(team.size)]
    distributed.all_gather(parts, sent)
    if is_bool:
        return torch.cat(parts).bool()
    parts[team.rank] = own
    return torch.cat(parts)


def sum_gradients(weights: Iterable[Tensor], team: Team) -> None:
    """Over all processes, in place. A weight without a gradient here counts as zero."""
    if team.size == 1:
        return
    import torch
    from torch import distributed

    for bucket in _buckets([weight for weight in weights if weight.requires_grad]):
        grads = [torch.zeros_like(w) if w.grad is None else w.grad for w in bucket]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        distributed.all_reduce(flat)
        start = 0
        for weight, grad in zip(bucket, grads, strict=True):
            weight.grad = flat[start : start + grad.numel()].view_as(grad).clone()
            start += grad.numel()


def _buckets(weights: Sequence[Tensor]) -> Iterable[list[Tensor]]:
    held: list[Tensor] = []
    for weight in weights:
        is_other = bool(held) and weight.dtype != held[0].dtype
        if held and (is_other or sum(w.numel() for w in held) + weight.numel() > _BUCKET):
            yield held
            held = []
        held.append(weight)
    if held:
        yield held
