"""Where plain training of a tiny model stands, to one file and back: weights, moments, noise.

One safetensors file, written under another name and renamed: a kill finds the old one or the new.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from unbag.models.tiny import TinyTowers
from unbag.runs.files import write_atomically
from unbag.training.checkpoint import moments_of, put_moments

_WEIGHT, _MOMENT, _NOISE = "weight.", "moment.", "noise"


@dataclass(eq=False)
class Kept:
    """A file in which training is kept now and then, and from which it goes on."""

    path: Path
    settings: str
    """Of the training; a file of others is not gone on from."""
    every: float = 60.0
    """Seconds between two savings."""
    saved: float = field(default_factory=time.monotonic)

    def is_due(self) -> bool:
        """Whether much would be lost by now."""
        return time.monotonic() - self.saved >= self.every

    def save(
        self,
        step: int,
        towers: TinyTowers,
        optimiser: torch.optim.Optimizer,
        noise: torch.Generator,
    ) -> None:
        """After so many steps."""
        tensors = {_WEIGHT + name: value for name, value in towers.state_dict().items()}
        moments = moments_of(dict(towers.named_parameters()), optimiser)
        tensors |= {_MOMENT + name: value for name, value in moments.items()}
        tensors[_NOISE] = noise.get_state()
        apart = {name: value.detach().cpu().clone() for name, value in tensors.items()}
        header = {"step": str(step), "settings": self.settings}
        write_atomically(self.path, partial(save_file, apart, metadata=header))
        self.saved = time.monotonic()

    def restore(
        self, towers: TinyTowers, optimiser: torch.optim.Optimizer, noise: torch.Generator
    ) -> int:
        """How many steps were taken; 0 where there is nothing to go on from."""
        if not self.path.exists():
            return 0
        with safe_open(self.path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("settings") != self.settings:
                return 0
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        towers.load_state_dict({name: tensors[_WEIGHT + name] for name in towers.state_dict()})
        moments = {n.removeprefix(_MOMENT): t for n, t in tensors.items() if n.startswith(_MOMENT)}
        put_moments(dict(towers.named_parameters()), optimiser, moments)
        noise.set_state(tensors[_NOISE])
        return int(header["step"])
