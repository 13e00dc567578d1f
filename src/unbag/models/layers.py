"""Hidden states of an encoder layer by layer, and their pooling and normalisation.

An encoder of K blocks has K + 2 layers: what enters the first block, what leaves each, and what the
last norm makes of it. Where there is no such norm (encoders like BERT), the last two are the same.

Dimensions: N inputs, L patches or words, W width of a layer, R rows and C columns of a map, E width
of a text model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, functional

from unbag.types import Layers

Out = TypeVar("Out")
Pool = Literal["mean", "last", "cls"]
POOLS: tuple[Pool, ...] = ("mean", "last", "cls")


def recorded(blocks: Sequence[Module], run: Callable[[], Out]) -> tuple[Out, list[Tensor]]:
    """What `run` gives, and what went into the first of the blocks and came out of each.

    By hooks, so an encoder is run as its library runs it, once. `run` must not be compiled: what is
    compiled does not see them.
    """
    found: list[Tensor] = []

    def enters(_: Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        found.append(given[0] if given else named["hidden_states"])

    def leaves(_: Module, given: tuple[Any, ...], out: Any) -> None:
        found.append(out[0] if isinstance(out, tuple) else out)

    hooks = [blocks[0].register_forward_pre_hook(enters, with_kwargs=True)]
    hooks += [block.register_forward_hook(leaves) for block in blocks]
    try:
        return run(), found
    finally:
        for hook in hooks:
            hook.remove()


def blocks_of(encoder: Any) -> list[Module]:
    """The blocks of an encoder of transformers; none if they do not stand where they usually do."""
    inner = getattr(encoder, "encoder", encoder)
    for name in ("layers", "layer", "blocks", "block"):
        found = getattr(inner, name, None)
        if isinstance(found, ModuleList):
            return list(found)
    return []


def of_maps(maps: Sequence[Tensor]) -> list[Tensor]:
    """Maps [N, W, R, C] as places [N, L, W], row by row, all at the grid of the last.

    Finer maps are averaged over the places of the last, so that a place is the same part of the
    image in every layer.
    """
    rows, columns = maps[-1].shape[2:]
    pooled = [functional.adaptive_avg_pool2d(one, (rows, columns)) for one in maps]
    return [one.flatten(2).transpose(1, 2) for one in pooled]


def laid_out(
    vector_NLW: Sequence[Tensor],
    pooled_NW: Sequence[Tensor | None],
    mask_NL: Tensor | None = None,
) -> Layers:
    """In float32 on the CPU; without a mask every place counts."""
    vectors = tuple(one.float().cpu() for one in vector_NLW)
    pooled = tuple(None if one is None else one.float().cpu() for one in pooled_NW)
    if mask_NL is None:
        mask_NL = torch.ones(vectors[-1].shape[:2])
    return Layers(vectors, pooled, mask_NL.bool().cpu())


def pool_words(hidden_NLE: Tensor, mask_NL: Tensor, pool: Pool) -> Tensor:
    """[N, E] in float32: the mean over real tokens, or the last or the first of them.

    Padding may stand on either side. Sums are taken in float32: in half precision a hundred
    tokens of an outlying channel already leave its range.
    """
    hidden_NLE = hidden_NLE.float()
    if pool == "mean":
        weight_NL1 = mask_NL[:, :, None].to(hidden_NLE.dtype)
        # Not by the product alone: what stands at padding may be no number.
        real_NLE = torch.where(weight_NL1 > 0, hidden_NLE, 0.0)
        return real_NLE.sum(dim=1) / weight_NL1.sum(dim=1)
    real_NL = mask_NL.int()
    if pool == "cls":
        place_N = real_NL.argmax(dim=1)
    else:
        place_N = real_NL.shape[1] - 1 - real_NL.flip(1).argmax(dim=1)
    return hidden_NLE[torch.arange(len(hidden_NLE), device=hidden_NLE.device), place_N]


def unit_vectors(vector: Tensor) -> Tensor:
    """Scaled to length 1 along the last dimension, in float32 on the CPU."""
    return unit_rows(vector).cpu()


def unit_rows(vector: Tensor) -> Tensor:
    """The same where they lie; float32, as under autocast products have too few digits."""
    return functional.normalize(vector.float(), dim=-1)
