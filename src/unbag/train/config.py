"""What a training run is asked to do: a recipe, which is data, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from unbag.errors import UserError
from unbag.losses.objective import Objective

Precision = Literal["float32", "bfloat16"]

_BOUNDS: Mapping[str, tuple[str, ...]] = {
    "a number above 0": ("epochs", "batch", "learning_rate", "clip_norm", "epsilon"),
    "0 or more": ("weight_decay", "warm_up", "to_start"),
    "1 or more": ("largest_scale",),
}
"""Fields of a recipe by what they must be."""
_IS: Mapping[str, Callable[[float], bool]] = {
    "a number above 0": lambda value: value > 0,
    "0 or more": lambda value: value >= 0,
    "1 or more": lambda value: value >= 1,
}


@dataclass(frozen=True)
class Slot:
    """A column of edits: each caption brings one edit of one of these kinds, or none."""

    name: str
    """What logs and thresholds call it."""
    kinds: tuple[str, ...]
    """Kinds or groups of edits, as `unbag list edits` names them."""


@dataclass(frozen=True)
class Lora:
    """Low-rank changes beside frozen matrices instead of training them (peft)."""

    rank: int = 4
    alpha: float = 4.0
    dropout: float = 0.0


@dataclass(frozen=True)
class Locks:
    """Which layers stay as they are, counted from the input; a locked tower is in eval mode."""

    picture: int | Literal["part", "all"] = 0
    """Layers of the picture tower: 1 is the patch embedding alone, "part" everything but the last
    layer (a head, or what follows the blocks), "all" that too."""
    caption: int | Literal["part", "all"] = 0
    scale: bool = False
    """Keep temperature and bias."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, besides model, data and seed."""

    name: str
    source: str
    """Paper or code that the numbers are from, and where they differ."""
    objective: Objective
    negatives: tuple[Slot, ...] = ()
    positives: tuple[Slot, ...] = ()
    epochs: int = 5
    batch: int = 256
    """Pictures of one optimiser step, over all processes."""
    learning_rate: float = 5e-6
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-6
    warm_up: int = 50
    """Steps with a rising learning rate, before half a cosine to zero."""
    clip_norm: float | None = 1.0
    """Longest gradient, over all weights."""
    largest_scale: float = 100.0
    locks: Locks = Locks()
    lora: Lora | None = None
    masks_equal: bool = True
    """Captions of the batch that say the same as another picture's are no negatives of it."""
    hard_pictures: bool = False
    """Each picture brings one of its nearest ones, as NegCLIP does; the batch is twice as large."""
    to_start: float = 0.0
    """Weight of the squared distance to the first weights."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        for said, names in _BOUNDS.items():
            for name in names:
                value = getattr(self, name)
                is_off = value is None and name == "clip_norm"
                if not (is_off or (isfinite(value) and _IS[said](value))):
                    raise UserError(f"a recipe with {name} {value}", expected=said)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(
                f"a recipe with betas {self.betas}", expected="two numbers from 0 to below 1"
            )
