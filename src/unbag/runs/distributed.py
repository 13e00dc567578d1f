"""Distributed runs: torchrun processes split the work and join the results.

Every process plans the same work from the same files, so no messages are needed to split it: part i
belongs to the process of rank i modulo the world size. Vectors and scores are exchanged on disk,
where they are stored anyway.

In training, every process encodes some rows of a batch, gathers the rows of the others and computes
the loss of the whole batch. Its gradient flows to its own rows only; rows of others are constants.
Gradients of the weights are then summed, not averaged, so that any number of processes takes the
same step. DistributedDataParallel is not used: it averages gradients, and it does not support the
second pass over a large batch, which leaves one encoder out at a time.
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
_TIMEOUT = timedelta(days=7)
"""Timeout of barriers; torchrun ends all processes if one of them fails."""
_BUCKET_SIZE = 1 << 24
"""Numbers per message, so that a thousand small weights do not need a thousand messages."""


@dataclass(frozen=True)
class Distributed:
    """This process among the processes of a run; a single one unless torchrun started more."""

    rank: int = 0
    size: int = 1

    @property
    def is_leader(self) -> bool:
        """Whether this process writes the run folder and prints messages."""
        return self.rank == 0

    def mine(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts that belong to this process."""
        return list(parts[self.rank :: self.size])

    def wait(self) -> None:
        """Barrier: wait until every process has reached this point."""
        if self.size > 1:
            from torch import distributed

            distributed.barrier()

    def gather(self, value: Value) -> list[Value]:
        """Return the objects of all processes in order of rank, on every process."""
        if self.size == 1:
            return [value]
        from torch import distributed

        values: list[Value] = [value] * self.size
        distributed.all_gather_object(values, value)
        return values


ALONE = Distributed()


def init_distributed(device: str = "cpu") -> Distributed:
    """Join the processes that torchrun started, or return a single process without torchrun.

    Args:
        device: Device of the tensors that processes exchange.
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
        # Evaluation exchanges only short messages, for which gloo works with every device.
        backend = "gloo"
        if device.startswith("cuda"):
            import torch

            # Otherwise every process also allocates memory on the first GPU.
            torch.cuda.set_device(device)
            backend = "cpu:gloo,cuda:nccl"
        distributed.init_process_group(backend, timeout=_TIMEOUT)
    return Distributed(distributed.get_rank(), size)


def close_distributed(team: Distributed) -> None:
    """Close the connections, so that the process ends without warnings."""
    if team.size > 1:
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()


def gathered(own: Tensor, team: Distributed) -> Tensor:
    """Gather the rows of all processes in order of rank, with gradients for our own."""
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
    """Sum gradients over all processes in place; missing gradients count as zero."""
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
    bucket: list[Tensor] = []
    for weight in weights:
        size = sum(w.numel() for w in bucket) + weight.numel()
        if bucket and (weight.dtype != bucket[0].dtype or size > _BUCKET_SIZE):
            yield bucket
            bucket = []
        bucket.append(weight)
    if bucket:
        yield bucket
