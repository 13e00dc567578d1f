"""Checkpoints: named groups of tensors and a small header in one safetensors file with a checksum.

The file is written to a temporary name and renamed, so that a kill or a full disk leaves the old
file or the new one intact. The previous checkpoint stays beside it until the run is done. Nothing
is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from unbag.errors import UnbagError, said_by
from unbag.runs.files import write_atomically

LAST, PREVIOUS, BEST = "last.safetensors", "previous.safetensors", "best.safetensors"
"""File names in the folder of a run."""
_HEADER, _CHECKSUM = "unbag_checkpoint", "checksum"
_STEP = "step"
_ADAM_STATE = (_STEP, "exp_avg", "exp_avg_sq")
"""State of AdamW for each weight."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The contents of a checkpoint file."""

    header: Mapping[str, Any]
    groups: Mapping[str, Mapping[str, Tensor]]
    """Tensors by group (such as "weights" and "optimizer") and name."""

    def group(self, name: str) -> Mapping[str, Tensor]:
        """Return a group; empty if it was not saved."""
        return self.groups.get(name, {})


def save_checkpoint(
    path: Path,
    header: Mapping[str, object],
    groups: Mapping[str, Mapping[str, Tensor]],
    *,
    previous: Path | None = None,
) -> None:
    """Write a checkpoint; an existing file is moved to `previous` if that is given.

    Args:
        path: The file.
        header: Step and state of the run, as JSON.
        groups: Tensors on any device, by group and name.
        previous: Path for the checkpoint before this one.
    """
    # Copied, since safetensors rejects tensors that share memory.
    tensors = {
        f"{group}/{name}": value.detach().cpu().clone()
        for group, values in groups.items()
        for name, value in values.items()
    }
    text = json.dumps(header)
    metadata = {_HEADER: text, _CHECKSUM: _checksum(text, tensors)}

    def write(temporary: Path) -> None:
        if previous is not None and path.exists():
            # Deleted first, so that the disk never has to hold three checkpoints.
            previous.unlink(missing_ok=True)
        save_file(tensors, temporary, metadata=metadata)
        if previous is not None and path.exists():
            path.replace(previous)

    try:
        write_atomically(path, write)
    except (OSError, SafetensorError) as error:
        intact = path if path.exists() else previous
        state = "there is no earlier one"
        if intact is not None and intact.exists():
            state = f"the checkpoint before it ({intact}) is whole"
        label = f"the checkpoint of step {header[_STEP]}" if _STEP in header else path.name
        raise UnbagError(
            f"cannot save {label}: {said_by(error)}; {state}",
            expected="room for the weights and twice as much for the optimizer state",
            hint="make room, then give the same command again: it resumes from there",
        ) from error


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify its checksum."""
    try:
        return _read(path)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        previous = path.with_name(PREVIOUS)
        hint = f"delete {path} to start again, or name another folder with --out"
        if path.name == LAST and previous.exists():
            hint = (
                f"delete {path}: the run then resumes from {previous.name}, {_describe(previous)}"
            )
        raise UnbagError(
            f"{path} is not a checkpoint that can be used: {said_by(error)}",
            expected="a file that this version of unbag wrote, unchanged since",
            hint=hint,
        ) from error


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the last checkpoint of a run, or the previous one if only that exists."""
    return next((folder / name for name in (LAST, PREVIOUS) if (folder / name).exists()), None)


def _read(path: Path) -> Checkpoint:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        if _HEADER not in metadata:
            raise ValueError(f"its header has no {_HEADER!r}")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    text = metadata[_HEADER]
    if _checksum(text, tensors) != metadata.get(_CHECKSUM):
        raise ValueError("it is damaged: its content does not match its checksum")
    groups: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = value
    return Checkpoint(json.loads(text), groups)


def _describe(path: Path) -> str:
    """Describe the state of a checkpoint file in words."""
    try:
        checkpoint = _read(path)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError):
        return "which is damaged too"
    step = checkpoint.header.get("step")
    return "which is whole" if step is None else f"the checkpoint of step {step}, which is whole"


def _checksum(header: str, tensors: Mapping[str, Tensor]) -> str:
    digest = blake2b(header.encode(), digest_size=16)
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def optimizer_state(
    weights: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Return the optimizer state by kind and weight, such as `exp_avg.encoder.weight`."""
    return {
        f"{key}.{name}": torch.as_tensor(value)
        for name, weight in weights.items()
        for key, value in optimizer.state.get(weight, {}).items()
    }


def load_optimizer_state(
    weights: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Tensor],
) -> None:
    """Restore the result of `optimizer_state`."""
    on_device = {
        weight
        for group in optimizer.param_groups
        for weight in group["params"]
        # Otherwise AdamW counts steps on the CPU; the rest of its state is on the device.
        if group.get("capturable") or group.get("fused")
    }
    for name, weight in weights.items():
        values = {key: state[f"{key}.{name}"] for key in _ADAM_STATE if f"{key}.{name}" in state}
        optimizer.state.pop(weight, None)
        if values:
            optimizer.state[weight] = {
                key: value if key == _STEP and weight not in on_device else value.to(weight.device)
                for key, value in values.items()
            }
