"""Towers and a rank come in; small matrices beside frozen large ones go in, and out again merged.

peft puts two narrow matrices beside each linear layer of the blocks. Attention of open_clip keeps
query, key and value in one bare weight, which peft would add to and subtract from at every pass,
rounding the frozen weight each time. So it is first written as two linear layers; merging writes
it back under its own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from typing import Any, TypeVar

from torch import nn

from unbag.errors import UserError
from unbag.train.config import Lora
from unbag.train.layers import modules_of
from unbag.train.locks import open_share
from unbag.train.split_attention import SplitAttention
from unbag.train.trainable import Trainable

Model = TypeVar("Model", bound=nn.Module)


def add_lora(trainable: Trainable, lora: Lora) -> str:
    """Freeze all but temperature and connector, and add matrices to the blocks that were open.

    Called after `apply_locks`: what is locked gets none. Gives a summary in words.
    """
    _check(lora)
    inject = _peft().inject_adapter_in_model
    for name, module in list(_open_blocks(trainable)):
        if SplitAttention.can_hold(module):
            assert isinstance(module, nn.MultiheadAttention)
            _put(trainable.module, name, SplitAttention(module))
    targets = [name for name, module in _open_blocks(trainable) if isinstance(module, nn.Linear)]
    if not targets:
        raise UserError(
            f"{trainable.name} has no linear layer in a block that is open",
            expected="attention or MLP layers to put small matrices beside",
            way_out="lock fewer layers, or train without lora",
        )
    # The connector of a joined model has to be trained whole: it starts from nothing.
    apart = (*trainable.temperature, *getattr(trainable, "always_open", ()))
    kept_open = [weight for weight in apart if weight.requires_grad]
    config = _peft().LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        # As a pattern: of a list, peft takes every name that ends in one, so of both towers.
        target_modules="|".join(map(re.escape, targets)),
        bias="none",
    )
    device = next(trainable.module.parameters()).device
    inject(config, trainable.module)
    trainable.module.to(device)
    for weight in kept_open:
        weight.requires_grad_(True)
    return f"lora of rank {lora.rank} beside {len(targets)} linear layers; {open_share(trainable)}"


def merged(module: Model) -> Model:
    """A copy with plain weights under their own names; a plain copy if nothing was added."""
    found = deepcopy(module)
    for name, part in list(found.named_modules()):
        if hasattr(part, "lora_A") and hasattr(part, "base_layer"):
            part.merge()
            _put(found, name, part.get_base_layer())
    for name, part in list(found.named_modules()):
        if isinstance(part, SplitAttention):
            _put(found, name, part.whole())
    return found


def _check(lora: Lora) -> None:
    # Settings of the command line may be of any type.
    is_whole = type(lora.rank) is int and lora.rank >= 1
    numbers = all(isinstance(value, int | float) for value in (lora.alpha, lora.dropout))
    if not is_whole or not numbers or not 0 <= lora.dropout < 1 or lora.alpha <= 0:
        raise UserError(
            f"lora of rank {lora.rank!r}, alpha {lora.alpha!r}, dropout {lora.dropout!r}",
            expected="a whole rank of at least 1, an alpha above 0, a dropout from 0 to below 1",
            way_out="--set lora.rank=4 lora.alpha=4 lora.dropout=0",
        )


def _open_blocks(trainable: Trainable) -> Iterator[tuple[str, nn.Module]]:
    """Modules of the blocks, by their names in the model, whose own weights are open."""
    layers = (*trainable.picture_layers[1:-1], *trainable.caption_layers[1:-1])
    inside = {id(part) for block in modules_of(layers) for part in block.modules()}
    for name, module in trainable.module.named_modules():
        own = [weight for weight in module.parameters(recurse=False) if weight.requires_grad]
        if id(module) in inside and own:
            yield name, module


def _put(module: nn.Module, name: str, part: nn.Module) -> None:
    owner, _, last = name.rpartition(".")
    setattr(module.get_submodule(owner), last, part)


def _peft() -> Any:
    try:
        return import_module("peft")
    except ImportError as error:
        raise UserError(
            f"lora needs the package 'peft' ({error})", way_out="pip install 'unbag[train]'"
        ) from error
