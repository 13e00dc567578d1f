"""What a training run is asked to do: a recipe, which is data, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unbag.errors import UserError
from unbag.losses.objective import Objective

Precision = Literal["float32", "bfloat16"]


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

    picture: int | Literal["all"] = 0
    """Layers of the picture tower: 1 is the patch embedding alone, "all" its projection too."""
    caption: int | Literal["all"] = 0
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
        whole = {"epochs": self.epochs, "batch": self.batch}
        above = {"learning_rate": self.learning_rate, "largest_scale": self.largest_scale, **whole}
        if self.clip_norm is not None:
            above["clip_norm"] = self.clip_norm
        least = {
            "weight_decay": self.weight_decay,
            "warm_up": self.warm_up,
            "to_start": self.to_start,
        }
        for name, value in above.items():
            if not value > 0:
                raise UserError(f"a recipe with {name} {value}", expected="a number above 0")
        for name, value in least.items():
            if not value >= 0:
                raise UserError(f"a recipe with {name} {value}", expected="0 or more")
