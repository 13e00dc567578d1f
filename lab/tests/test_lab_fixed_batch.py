"""A batch in a fixed place gives the gradient of the batch it was filled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from unbag.models.tiny import Tiny
from unbag.training import optim, trainer
from unbag.training.encoders.base import Trainable
from unbag.training.optim import Memory, OptimizerSettings
from unbag_lab.experiments import repair_training
from unbag_lab.experiments.repair_training import (
    FixedViews,
    RepairSettings,
    train_arms,
)

ARMS = ("clip_ft", "hard_positive", "ce_clip_fixed", "hard_negative-locked", "swap_only")
SETTINGS = RepairSettings(arms=ARMS, steps=3, batch_size=8, workers=0)


class Played:
    """Stands for a GPU's recording, which a CPU has not: it takes the step again each time."""

    def __init__(
        self,
        step: Callable[[], dict[str, Tensor]],
        optimizer: torch.optim.Optimizer,
        *,
        device: str,
        other_tensors: tuple[Tensor, ...] = (),
        memory: Memory | None = None,
    ) -> None:
        self._step = step

    def __call__(self) -> dict[str, Tensor]:
        return self._step()


def silent(text: str) -> None:
    """Says nothing."""


def test_fixed_places_train_the_same_models(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = train_arms(base, ARMS, SETTINGS, say=silent)

    make_optimizer = optim.make_optimizer

    def places(encoder: Tiny, device: str) -> FixedViews:
        return FixedViews(encoder.config.context)

    def optimizer(
        weights: Mapping[str, nn.Parameter], settings: OptimizerSettings, *, capturable: str
    ) -> torch.optim.AdamW:
        # Only a GPU can do with a count of steps that lies beside the weights.
        return make_optimizer(weights, settings)

    monkeypatch.setattr(repair_training, "make_places", places)
    monkeypatch.setattr(trainer, "make_optimizer", optimizer)
    monkeypatch.setattr(trainer, "Recorded", Played)
    found = train_arms(base, ARMS, SETTINGS, say=silent)
    for name in ARMS:
        torch.testing.assert_close(
            torch.tensor([found[name].last_loss]), torch.tensor([plain[name].last_loss])
        )
        torch.testing.assert_close(_weights(found[name].trainable), _weights(plain[name].trainable))
        torch.testing.assert_close(found[name].curve_SK, plain[name].curve_SK)
    moved = Tiny(found["clip_ft"].trainable.module, name="moved")
    assert moved.fingerprint != Tiny(found["swap_only"].trainable.module, name="x").fingerprint


def _weights(trainable: Trainable) -> dict[str, Tensor]:
    return {name: one.detach() for name, one in trainable.module.named_parameters()}
