"""Towers and a number of layers come in; those layers no longer learn."""

from __future__ import annotations

from typing import Literal, TypeAlias

from torch import nn

from unbag.errors import UserError
from unbag.train.config import Locks
from unbag.train.layers import Layers, modules_of, weights_of
from unbag.train.trainable import Trainable

Tower: TypeAlias = Literal["picture", "caption"]
Count: TypeAlias = int | Literal["part", "all"]


def apply_locks(trainable: Trainable, locks: Locks) -> str:
    """Close the locked weights and set the modes; gives what is left open, in words."""
    for weight in weights_of(_locked(trainable, locks)):
        weight.requires_grad_(False)
    for weight in trainable.temperature if locks.scale else ():
        weight.requires_grad_(False)
    set_training(trainable, locks)
    return open_share(trainable)


def set_training(trainable: Trainable, locks: Locks) -> None:
    """To train mode, but for what is locked; called again whenever `module.train()` was.

    Batch norms keep the averages they were trained with: those of a batch would depend on how it
    is cut into parts and over processes, and evaluation uses the kept ones.
    """
    trainable.module.train()
    for module in modules_of(_locked(trainable, locks)):
        module.eval()
    for module in trainable.module.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def open_share(trainable: Trainable) -> str:
    """Trained numbers of all, by tower."""
    towers = {
        "picture tower": trainable.picture_layers,
        "caption tower": trainable.caption_layers,
        "temperature": [list(trainable.temperature)],
    }
    shown = []
    for name, layers in towers.items():
        weights = list(weights_of(layers))
        opened = sum(weight.numel() for weight in weights if weight.requires_grad)
        shown.append(f"{name} {opened:,} of {sum(weight.numel() for weight in weights):,}")
    return f"trained numbers: {', '.join(shown)}"


def is_part_locked(trainable: Trainable, tower: Tower, locks: Locks) -> bool:
    """Whether all but the last layer of a tower stays as it is."""
    layers = trainable.picture_layers if tower == "picture" else trainable.caption_layers
    count = locks.picture if tower == "picture" else locks.caption
    return len(_first(trainable, tower, count)) >= len(layers) - 1


def is_tower_locked(trainable: Trainable, tower: Tower, locks: Locks) -> bool:
    """Whether a tower stays as it is to its last layer."""
    layers = trainable.picture_layers if tower == "picture" else trainable.caption_layers
    count = locks.picture if tower == "picture" else locks.caption
    return len(_first(trainable, tower, count)) == len(layers)


def _locked(trainable: Trainable, locks: Locks) -> list[tuple[nn.Module | nn.Parameter, ...]]:
    picture = _first(trainable, "picture", locks.picture)
    return [*picture, *_first(trainable, "caption", locks.caption)]


def _first(trainable: Trainable, tower: Tower, count: Count) -> Layers:
    layers = trainable.picture_layers if tower == "picture" else trainable.caption_layers
    every = tuple(tuple(layer) for layer in layers)
    if count == "all":
        return every
    if count == "part":
        return every[:-1]
    # A setting of the command line may be of any type.
    if type(count) is not int or not 0 <= count <= len(every):
        raise UserError(
            f"{count} layers of the {tower} tower of {trainable.name} are to be locked",
            expected=f"0 to {len(every)}: embedding, {len(every) - 2} blocks, and what follows",
            way_out=f"--set locks.{tower}=all locks the whole tower, =part all but its last layer",
        )
    return every[:count]
