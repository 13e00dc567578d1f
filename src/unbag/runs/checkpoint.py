"""A checkpoint: named groups of tensors and a small header in one safetensors file with a checksum.

The file is written under another name and renamed, so a reader, a kill or a full disk finds the old
one or the new one, whole. The one before it stays beside it until the run is done. Nothing is
unpickled.
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
"""Names in the folder of a run."""
_HEADER, _CHECKSUM = "unbag_checkpoint", "checksum"
_STEP = "step"
_ADAM_STATE = (_STEP, "exp_avg", "exp_avg_sq")
"""What AdamW stores for each weight."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The contents of a checkpoint file."""

    header: Mapping[str, Any]
    groups: Mapping[str, Mapping[str, Tensor]]
    """Such as "weights" and "optimizer", each tensor by name."""

    def group(self, name: str) -> Mapping[str, Tensor]:
        """One group; empty if it was not saved."""
        return self.groups.get(name, {})


def save_checkpoint(
    path: Path,
    header: Mapping[str, object],
    groups: Mapping[str, Mapping[str, Tensor]],
    *,
    previous: Path | None = None,
) -> None:
    """Write a checkpoint; the file that was there before is moved to `previous`, if that is named.

    Args:
        path: The file.
        header: JSON; step and state of the run.
        groups: Tensors on any device, by group and name.
        previous: Holds the checkpoint before this one until it is replaced or removed.
    """
    # Copied, since safetensors refuses weights that two names share.
    tensors = {
        f"{group}/{name}": value.detach().cpu().clone()
        for group, values in groups.items()
        for name, value in values.items()
    }
    text = json.dumps(header)
    metadata = {_HEADER: text, _CHECKSUM: _checksum(text, tensors)}

    def write(temporary: Path) -> None:
        if previous is not None and path.exists():
            # First, so that a disk never has to hold three checkpoints.
            previous.unlink(missing_ok=True)
        save_file(tensors, temporary, metadata=metadata)
        if previous is not None and path.exists():
            path.replace(previous)

    try:
        write_atomically(path, write)
    except (OSError, SafetensorError) as error:
        there = path if path.exists() else previous
        old = "no earlier one is there"
        if there is not None and there.exists():
            old = f"the checkpoint before it ({there}) is whole"
        what = f"the checkpoint of step {header[_STEP]}" if _STEP in header else path.name
        raise UnbagError(
            f"cannot save {what}: {said_by(error)}; {old}",
            expected="room for the weights and twice as much for the optimizer state",
            hint="make room, then give the same command again: it resumes from there",
        ) from error


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify its checksum."""
    try:
        return _read(path)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        before = path.with_name(PREVIOUS)
        hint = f"delete {path} to start again, or name another folder with --out"
        if path.name == LAST and before.exists():
            hint = f"delete {path}: the run then resumes from {before.name}, {_said(before)}"
        raise UnbagError(
            f"{path} is not a checkpoint that can be used: {said_by(error)}",
            expected="a file that this version of unbag wrote, unchanged since",
            hint=hint,
        ) from error


def latest_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint of a run, or the one before it if only that is there."""
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


def _said(path: Path) -> str:
    """Whether a file is whole, in words."""
    try:
        found = _read(path)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError):
        return "which is damaged too"
    step = found.header.get("step")
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
    """Optimizer state by kind and weight, `exp_avg.encoder.weight`; none before the first step."""
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
    """Restore what `optimizer_state` gave."""
    on_device = {
        weight
        for group in optimizer.param_groups
        for weight in group["params"]
        # Else AdamW counts steps on the CPU, and only the rest is beside the weight.
        if group.get("capturable") or group.get("fused")
    }
    for name, weight in weights.items():
        found = {key: state[f"{key}.{name}"] for key in _ADAM_STATE if f"{key}.{name}" in state}
        optimizer.state.pop(weight, None)
        if found:
            optimizer.state[weight] = {
                key: value if key == _STEP and weight not in on_device else value.to(weight.device)
                for key, value in found.items()
            }
