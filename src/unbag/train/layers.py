"""A tower comes in; its weights in layers go out, from the input to the output.

The first layer is what embeds patches or words, then each block is one, and the last is all that
follows the blocks. Libraries define the parts of a tower in the order in which they run, but for a
few that are known by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from torch import nn

Part: TypeAlias = nn.Module | nn.Parameter
Layers: TypeAlias = tuple[tuple[Part, ...], ...]

_AT_INPUT = frozenset({"token_embedding"})
"""open_clip defines it after the blocks."""
_AT_OUTPUT = frozenset({"proj", "text_projection"})
"""Weights that stand beside the blocks and follow them; all other such weights embed."""


def weights_of(layers: Iterable[Sequence[Part]]) -> Iterator[nn.Parameter]:
    """Every weight of some layers."""
    for layer in layers:
        for part in layer:
            yield from [part] if isinstance(part, nn.Parameter) else part.parameters()


def modules_of(layers: Iterable[Sequence[Part]]) -> Iterator[nn.Module]:
    """Every module of some layers, without those inside."""
    return (part for layer in layers for part in layer if isinstance(part, nn.Module))


def tower_layers(
    tower: nn.Module, *, without: Collection[str] = (), then: Sequence[Part] = ()
) -> Layers:
    """Embedding, blocks, rest; the first and the last are there even if nothing is in them.

    Args:
        tower: Where its weights are.
        without: Weights and modules right in it that are not part of the tower.
        then: What follows and lies elsewhere, such as a projection.
    """
    first: list[Part] = []
    last: list[Part] = []
    way, names = _blocks(tower, without)
    for step in way:
        _sort(tower, (step,), without, first, last)
        tower, without = getattr(tower, step), ()
    _sort(tower, names, without, first, last)
    blocks = [(block,) for name in names for block in getattr(tower, name).children()]
    return tuple(first), *blocks, (*last, *then)


def _sort(
    owner: nn.Module,
    inside: Sequence[str],
    without: Collection[str],
    first: list[Part],
    last: list[Part],
) -> None:
    """Parts right in a module: before or after the one that holds the blocks."""
    for name, weight in owner.named_parameters(recurse=False):
        if name not in without:
            (last if name in _AT_OUTPUT else first).append(weight)
    is_before = True
    for name, child in owner.named_children():
        if name in inside:
            is_before = False
        elif name not in without:
            (first if is_before or name in _AT_INPUT else last).append(child)


def _blocks(tower: nn.Module, without: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The way to the module that owns the blocks, and what it calls them.

    Blocks are the list that holds most weights; stages of a residual network are several lists.
    """
    lists = {
        name: sum(weight.numel() for weight in module.parameters())
        for name, module in tower.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential)
        and name
        and name.split(".")[0] not in without
    }
    outer = {n: size for n, size in lists.items() if not any(n.startswith(f"{o}.") for o in lists)}
    if not outer:
        return (), ()
    *way, name = max(outer, key=lambda n: outer[n]).split(".")
    owner = tower.get_submodule(".".join(way))
    stages = [f"layer{n}" for n in range(1, 5)]
    is_staged = name in stages and all(hasattr(owner, stage) for stage in stages)
    return tuple(way), tuple(stages) if is_staged else (name,)
