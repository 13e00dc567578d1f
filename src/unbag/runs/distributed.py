"""Processes that torchrun started share a run: who does which part, and how results are joined.

Every process plans the same work from the same files, so a part needs no message: part i belongs
to process i modulo their number. Vectors and scores are exchanged on disk, where they are stored
anyway.

In training every process has rows of a batch and needs those of all.
Every process computes the loss of the whole batch, so it knows the gradient at its own rows; rows
of others are constants to it. Gradients of the weights are then summed, not averaged: one process
and many take the same step. DistributedDataParallel is not used, since it averages, and since the
second pass over the parts of a large batch leaves one encoder out at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from unbag.errors import UnbagError

if TYPE_CHECKING:
    from torch import Tensor


Part = TypeVar("Part")
Value = TypeVar("Value")
_LONGEST = timedelta(days=7)
"""A process may wait this long for the slowest one; torchrun ends all if one of them fails."""
_BUCKET = 1 << 24
"""Numbers that are sent together, so that a thousand small weights are not a thousand messages."""


@dataclass(frozen=True)
class Distributed:
    """The processes of a run; one alone unless torchrun started more."""

    rank: int = 0
    size: int = 1

    @property
    def is_leader(self) -> bool:
        """The one that writes the run folder and talks to the user."""
        return self.rank == 0

    def mine(self, parts: Sequence[Part]) -> list[Part]:
        """Those of the parts that this process does."""
        return list(parts[self.rank :: self.size])

    def wait(self) -> None:
        """Barrier: wait until every process has reached this point."""
        if self.size > 1:
            from torch import distributed

            distributed.barrier()

    def gather(self, value: Value) -> list[Value]:
        """The objects of all processes in order of rank, on every process."""
        if self.size == 1:
            return [value]
        from torch import distributed

        found: list[Value] = [value] * self.size
        distributed.all_gather_object(found, value)
        return found


ALONE = Distributed()


def init_distributed(device: str = "cpu") -> Distributed:
    """The team that torchrun made, by its environment; a team of one without it.

    `device` is where tensors are that processes exchange, if they exchange any.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    if not text.isdigit() or int(text) < 1:
        raise UnbagError(
            f"the environment variable WORLD_SIZE is {text!r}",
            expected="a whole number above 0, as torchrun sets it",
            hint="unset WORLD_SIZE, or start with torchrun",
        )
    size = int(text)
    if size == 1:
        return Distributed()
    from torch import distributed

    if not distributed.is_initialized():
        # Evaluation exchanges short messages only, for which gloo serves every device.
        backend = "gloo"
        if device.startswith("cuda"):
            import torch

            # Else every process also takes memory of the first GPU.
            torch.cuda.set_device(device)
            backend = "cpu:gloo,cuda:nccl"
        distributed.init_process_group(backend, timeout=_LONGEST)
    return Distributed(distributed.get_rank(), size)


def close_distributed(team: Distributed) -> None:
    """End the connection, so that the process ends without a complaint."""
    if team.size > 1:
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()


def gathered(own: Tensor, team: Distributed) -> Tensor:
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


def sum_gradients(weights: Iterable[Tensor], team: Distributed) -> None:
    """Sum gradients over all processes, in place; a missing one counts as zero."""
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
