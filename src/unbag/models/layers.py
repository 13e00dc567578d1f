"""Hidden states of an encoder by layer, and their pooling and normalization.

An encoder of K blocks has K + 2 layers: the input of the first block, the output of each block, and
the output of the last norm. Without such a norm (BERT), the last two are equal.

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


def record_blocks(blocks: Sequence[Module], run: Callable[[], Out]) -> tuple[Out, list[Tensor]]:
    """Return the result of `run`, and the input of the first block and the output of each.

    Uses hooks, so that the encoder runs once and as its library runs it. `run` must not be
    compiled, since compiled models ignore hooks.
    """
    hidden: list[Tensor] = []

    def on_input(_: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden.append(args[0] if args else kwargs["hidden_states"])

    def on_output(_: Module, args: tuple[Any, ...], output: Any) -> None:
        hidden.append(output[0] if isinstance(output, tuple) else output)

    hooks = [blocks[0].register_forward_pre_hook(on_input, with_kwargs=True)]
    hooks += [block.register_forward_hook(on_output) for block in blocks]
    try:
        return run(), hidden
    finally:
        for hook in hooks:
            hook.remove()


def blocks_of(encoder: Any) -> list[Module]:
    """Return the blocks of an encoder of transformers; empty if not found under a usual name."""
    inner = getattr(encoder, "encoder", encoder)
    for name in ("layers", "layer", "blocks", "block"):
        blocks = getattr(inner, name, None)
        if isinstance(blocks, ModuleList):
            return list(blocks)
    return []


def flatten_maps(maps: Sequence[Tensor]) -> list[Tensor]:
    """Convert feature maps [N, W, R, C] to positions [N, L, W], all at the grid of the last map.

    Finer maps are averaged, so that a position is the same part of the image in every layer.
    """
    rows, columns = maps[-1].shape[2:]
    pooled = [functional.adaptive_avg_pool2d(feature_map, (rows, columns)) for feature_map in maps]
    return [feature_map.flatten(2).transpose(1, 2) for feature_map in pooled]


def make_layers(
    vector_NLW: Sequence[Tensor],
    pooled_NW: Sequence[Tensor | None],
    mask_NL: Tensor | None = None,
) -> Layers:
    """Make `Layers` in float32 on the CPU; without a mask, every position counts."""
    vectors = tuple(layer.float().cpu() for layer in vector_NLW)
    pooled = tuple(None if layer is None else layer.float().cpu() for layer in pooled_NW)
    if mask_NL is None:
        mask_NL = torch.ones(vectors[-1].shape[:2])
    return Layers(vectors, pooled, mask_NL.bool().cpu())


def pool_words(hidden_NLE: Tensor, mask_NL: Tensor, pool: Pool) -> Tensor:
    """Pool tokens to [N, E] in float32: the mean over real tokens, or the last or first of them.

    Padding may be on either side. Sums use float32, since in half precision a hundred tokens of an
    outlier channel already overflow.
    """
    hidden_NLE = hidden_NLE.float()
    if pool == "mean":
        weight_NL1 = mask_NL[:, :, None].to(hidden_NLE.dtype)
        # Masked first, since values at padding may be NaN.
        real_NLE = torch.where(weight_NL1 > 0, hidden_NLE, 0.0)
        return real_NLE.sum(dim=1) / weight_NL1.sum(dim=1)
    real_NL = mask_NL.int()
    if pool == "cls":
        index_N = real_NL.argmax(dim=1)
    else:
        index_N = real_NL.shape[1] - 1 - real_NL.flip(1).argmax(dim=1)
    return hidden_NLE[torch.arange(len(hidden_NLE), device=hidden_NLE.device), index_N]


def unit_vectors(vector: Tensor) -> Tensor:
    """Normalize along the last dimension, in float32 on the CPU."""
    return unit_rows(vector).cpu()


def unit_rows(vector: Tensor) -> Tensor:
    """Normalize on the device, in float32, since autocast would lose precision."""
    return functional.normalize(vector.float(), dim=-1)
