"""Gradients come in; changed weights go out: AdamW, warm-up and cosine, clipping, bounds."""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, log, pi

import torch
from torch import Tensor, nn

from unbag.errors import UserError
from unbag.train.config import Recipe
from unbag.train.trainable import Trainable


def make_optimiser(trainable: Trainable, recipe: Recipe) -> torch.optim.AdamW:
    """Matrices decay; norms, biases, positions and the temperature stay free."""
    groups = decay_groups(open_weights(trainable), recipe.weight_decay)
    if not groups:
        raise UserError(
            f"both towers of {trainable.name} and the temperature are locked",
            expected="something that is left to train",
            way_out="lock less, as with --set locks.caption=0",
        )
    return torch.optim.AdamW(
        groups,
        lr=recipe.learning_rate,
        betas=recipe.betas,
        eps=recipe.epsilon,
    )


def decay_groups(
    weights: Mapping[str, nn.Parameter], weight_decay: float
) -> list[dict[str, object]]:
    """For an optimiser: matrices that decay, and the rest; a group without weights is left out."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, weight in weights.items():
        is_matrix = weight.ndim >= 2 and "position" not in name
        (decayed if is_matrix else free).append(weight)
    groups: list[dict[str, object]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def open_weights(trainable: Trainable) -> dict[str, nn.Parameter]:
    """Weights that training changes, by name."""
    return {n: w for n, w in trainable.module.named_parameters() if w.requires_grad}


def share_of_rate(step: int, *, steps: int, warm_up: int) -> float:
    """Of the learning rate: a line up, then half a cosine to zero."""
    if step < warm_up:
        return (step + 1) / warm_up
    return (1 + cos(pi * (step - warm_up) / max(1, steps - warm_up))) / 2


def change_weights(
    trainable: Trainable,
    optimiser: torch.optim.AdamW,
    recipe: Recipe,
    *,
    step: int,
    steps: int,
    first: Mapping[str, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Take the optimiser's step; gives the length of the gradient and the distance to the start.

    Args:
        trainable: With gradients, which are cleared.
        optimiser: Of `make_optimiser`.
        recipe: Its rate, clipping and bounds.
        step: Counted from 0.
        steps: Of the whole run.
        first: The weights at the start, where the recipe holds on to them.
    """
    set_rate(optimiser, recipe, step=step, steps=steps)
    return apply_gradient(trainable, optimiser, recipe, first=first)


def set_rate(optimiser: torch.optim.AdamW, recipe: Recipe, *, step: int, steps: int) -> None:
    """That of a step."""
    share = share_of_rate(step, steps=steps, warm_up=recipe.warm_up)
    put_rate(optimiser, recipe.learning_rate * share)


def put_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """For the next step; one that lies on a device is changed there, where a recorded step reads.

    Such a rate is a tensor that the optimiser was made with.
    """
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def apply_gradient(
    trainable: Trainable,
    optimiser: torch.optim.AdamW,
    recipe: Recipe,
    *,
    first: Mapping[str, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """As `change_weights`, at the rate that is set."""
    weights = open_weights(trainable)
    away = _hold(weights, first, recipe.to_start) if first else torch.zeros(())
    length = torch.nn.utils.get_total_norm([w.grad for w in weights.values() if w.grad is not None])
    if recipe.clip_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(weights.values(), recipe.clip_norm, length)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    with torch.no_grad():
        # As CLIP does: a scale above 100 or below 1 makes training unstable.
        scale = trainable.temperature[0]
        if scale.requires_grad:
            scale.clamp_(0.0, log(recipe.largest_scale))
    return length, away


def _hold(
    weights: Mapping[str, nn.Parameter], first: Mapping[str, Tensor], strength: float
) -> Tensor:
    """Add the gradient of strength x squared distance to the start; gives the distance squared."""
    away = torch.zeros((), device=next(iter(weights.values())).device)
    for name, weight in weights.items():
        apart = weight.detach() - first[name]
        away += apart.square().sum()
        held = 2 * strength * apart
        weight.grad = held if weight.grad is None else weight.grad + held
    return away
