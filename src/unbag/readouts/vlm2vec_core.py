"""Vectors of queries and targets come in; VLM2Vec's loss and its gradient in bounded memory go out.

Nothing here knows of a model: functions on tensors, wherever these lie, and on whatever embeds.

Dimensions: B queries, T targets, N vectors, D width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

TEMPERATURE = 0.02
Embed = Callable[[slice], Tensor]
"""Rows of a batch to their vectors, [N, D]; normalised or not."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""Vectors of all queries and of all targets to one number."""


def unit(vector_ND: Tensor) -> Tensor:
    """At unit norm, in float32 or more: squares of hidden states do not fit into half precision."""
    wide = torch.promote_types(vector_ND.dtype, torch.float32)
    return functional.normalize(vector_ND.to(wide), dim=-1)


def contrast(
    query_BD: Tensor,
    target_TD: Tensor,
    *,
    own_B: Tensor | None = None,
    masked_BT: Tensor | None = None,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """Cross-entropy of each query over all targets, in this direction only.

    Args:
        query_BD: At any norm.
        target_TD: Those of the queries first, or wherever `own_B` says; hard negatives are more.
        own_B: Which target is each query's own; None is the one in the same place.
        masked_BT: True for targets that fit a query although they are not its own: left out.
        temperature: Cosines are divided by it.
    """
    logit_BT = unit(query_BD) @ unit(target_TD).T / temperature
    own_B = torch.arange(len(logit_BT), device=logit_BT.device) if own_B is None else own_B
    if masked_BT is not None:
        is_own_BT = functional.one_hot(own_B, logit_BT.shape[1]).bool()
        logit_BT = logit_BT.masked_fill(masked_BT & ~is_own_BT, -torch.inf)
    return functional.cross_entropy(logit_BT, own_B)


def cached_step(
    embed_query: Embed,
    embed_target: Embed,
    *,
    queries: int,
    targets: int,
    loss: Loss = contrast,
    chunk: int | None = None,
    seed: int = 0,
) -> Tensor:
    """Add the gradient of the loss of a whole batch to the weights, `chunk` rows at a time.

    First all vectors are made without a graph, then the loss gives a gradient at each vector, then
    every chunk is run again and that gradient goes back through it. It is the gradient of the
    plain step; memory is that of one chunk, and the time half as much again.

    Args:
        embed_query: Called with slices of the queries, twice where there are several chunks.
        embed_target: Likewise of the targets.
        queries: How many.
        targets: How many.
        loss: Of all vectors.
        chunk: Rows at a time; None is all.
        seed: Of dropout, from seed and step: each chunk draws the same in both passes.
    """
    sides = ((embed_query, queries), (embed_target, targets))
    parts = [_parts(embed, n, chunk, seed=seed, side=s) for s, (embed, n) in enumerate(sides)]
    if all(len(side) == 1 for side in parts):
        whole = loss(*(run() for ((_, run),) in parts))
        torch.autograd.backward(whole)
        return whole.detach()
    with torch.no_grad():
        made = [torch.cat([run() for _, run in side]) for side in parts]
    leaves = [vector.requires_grad_(True) for vector in made]
    whole = loss(*leaves)
    torch.autograd.backward(whole)
    for leaf, side in zip(leaves, parts, strict=True):
        assert leaf.grad is not None
        for rows, run in side:
            torch.autograd.backward(run(), leaf.grad[rows])
    return whole.detach()


def _parts(
    embed: Embed, rows: int, chunk: int | None, *, seed: int, side: int
) -> list[tuple[slice, Callable[[], Tensor]]]:
    size = chunk or rows
    found: list[tuple[slice, Callable[[], Tensor]]] = []
    for number, at in enumerate(range(0, rows, size)):
        part = slice(at, min(at + size, rows))
        found.append((part, _seeded(embed, part, hash((seed, side, number)))))
    return found


def _seeded(embed: Embed, part: slice, seed: int) -> Callable[[], Tensor]:
    def run() -> Tensor:
        torch.manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)
        return embed(part)

    return run


def share_of_rate(step: int, *, steps: int, warm_up: int) -> float:
    """Of the learning rate: a line up, then a line down to zero."""
    if step < warm_up:
        return (step + 1) / warm_up
    return max(0.0, (steps - step) / max(1, steps - warm_up))
