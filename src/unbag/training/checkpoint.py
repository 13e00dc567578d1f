"""Save and restore the state of a training run: weights, optimizer state, thresholds, progress.

One safetensors file, written under another name and renamed: a reader, a kill or a full disk finds
the old one or the new one, whole. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from unbag.errors import UserError, said_by
from unbag.runs.files import write_atomically
from unbag.training.optim import open_weights
from unbag.training.towers.base import Trainable

LAST, BEST = "last.safetensors", "best.safetensors"
_WEIGHT, _MOMENT, _THRESHOLD = "weight.", "moment.", "threshold"
_HEADER = "unbag_training"
_STEP = "step"
_KEPT = (_STEP, "exp_avg", "exp_avg_sq")
"""What AdamW keeps for each weight."""


@dataclass(frozen=True)
class Standing:
    """Where a run stands."""

    step: int = 0
    """Steps that were taken."""
    best: float | None = None
    """Highest mean of the headlines so far, as a fraction."""
    best_step: int | None = None
    seconds: float = 0.0
    """Spent on training, over all starts, without measuring and saving."""
    waited: float = 0.0
    """Of these, until data came."""
    pictures_skipped: int = 0
    """How often another pair stood in for one that could not be read."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Names of the first such pictures, with the reason."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The contents of a checkpoint."""

    standing: Standing
    weights: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]
    threshold_K: Tensor | None


def save(
    path: Path,
    trainable: Trainable,
    standing: Standing,
    *,
    optimiser: torch.optim.Optimizer | None = None,
    threshold_K: Tensor | None = None,
) -> None:
    """Write a checkpoint; without an optimiser, weights alone."""
    tensors = {_WEIGHT + name: value for name, value in trainable.module.state_dict().items()}
    if optimiser is not None:
        moments = moments_of(open_weights(trainable), optimiser)
        tensors |= {_MOMENT + name: value for name, value in moments.items()}
    if threshold_K is not None:
        tensors[_THRESHOLD] = threshold_K
    # Copied, since safetensors refuses weights that two names share.
    apart = {name: value.detach().cpu().clone() for name, value in tensors.items()}
    header = {_HEADER: json.dumps(asdict(standing))}
    try:
        write_atomically(path, lambda temporary: save_file(apart, temporary, metadata=header))
    except (OSError, SafetensorError) as error:
        old = f"the checkpoint before it ({path}) is whole" if path.exists() else "none is there"
        raise UserError(
            f"cannot save the checkpoint of step {standing.step}: {said_by(error)}; {old}",
            expected="room for the weights and twice as much for the optimiser",
            way_out="make room, then give the same command again: it goes on from there",
        ) from error


def load(path: Path) -> Checkpoint:
    """Read a checkpoint."""
    try:
        with safe_open(path, framework="pt") as file:
            standing = Standing(**json.loads((file.metadata() or {})[_HEADER]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is not a checkpoint of a training run: {said_by(error)}",
            expected="a file that `unbag train` wrote",
            way_out="delete it to begin anew, or name another folder with --out",
        ) from error
    return Checkpoint(
        standing,
        _with(tensors, _WEIGHT),
        _with(tensors, _MOMENT),
        tensors.get(_THRESHOLD),
    )


def restore(
    found: Checkpoint, trainable: Trainable, optimiser: torch.optim.Optimizer | None = None
) -> None:
    """Restore weights and optimizer state."""
    try:
        trainable.module.load_state_dict(dict(found.weights))
    except RuntimeError as error:
        raise UserError(
            f"the checkpoint holds other weights than {trainable.name} has",
            expected="a checkpoint of this model, these locks and this LoRA",
            way_out="delete it to begin anew, or name another folder with --out",
        ) from error
    if optimiser is None:
        return
    put_moments(open_weights(trainable), optimiser, found.moments)


def _with(tensors: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def moments_of(
    weights: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Optimizer state by kind and weight, `exp_avg.tower.weight`; none before the first step."""
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
    """Restore the optimizer state that `moments_of` gave."""
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
