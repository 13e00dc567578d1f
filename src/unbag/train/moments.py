"""What AdamW keeps of each weight, to tensors by name and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_STEP = "step"
_KEPT = (_STEP, "exp_avg", "exp_avg_sq")


def moments_of(
    weights: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """By kind and weight, `exp_avg.tower.weight`; nothing of weights that took no step yet."""
    return {
        f"{key}.{name}": torch.as_tensor(value)
        for name, weight in weights.items()
        for key, value in optimiser.state.get(weight, {}).items()
    }


def put_moments(
    weights: Mapping[str, nn.Parameter],
    optimiser: torch.optim.Optimizer,
    found: Mapping[str, Tensor],
) -> None:
    """Put back what `moments_of` gave, where the optimiser looks for it."""
    on_device = {
        weight
        for group in optimiser.param_groups
        for weight in group["params"]
        # Else AdamW counts steps on the CPU, and keeps only the rest beside the weight.
        if group.get("capturable") or group.get("fused")
    }
    for name, weight in weights.items():
        kept = {key: found[f"{key}.{name}"] for key in _KEPT if f"{key}.{name}" in found}
        optimiser.state.pop(weight, None)
        if kept:
            optimiser.state[weight] = {
                key: value if key == _STEP and weight not in on_device else value.to(weight.device)
                for key, value in kept.items()
            }
