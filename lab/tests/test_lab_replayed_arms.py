"""Arms whose steps are replayed, and not run again, learn what plain ones learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

# Shared with the tests of read-outs; tests are in no package that has a name of its own.
from tests.readouts.replayed import Replayed, on_the_device
from torch import nn

from unbag.models.tiny import Tiny
from unbag.training import optim, trainer
from unbag.training.optim import OptimizerSettings
from unbag_lab.experiments import repair_training
from unbag_lab.experiments.repair_training import (
    WAITS,
    FixedViews,
    RepairSettings,
    train_arms,
)

NAMES = ("hard_positive", "ce_clip_fixed", "hard_negative-locked")
SETTINGS = RepairSettings(arms=NAMES, steps=4, batch_size=8, workers=0, save_every=2)


def silent(text: str) -> None:
    """Says nothing."""


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    make_optimizer = optim.make_optimizer

    def places(encoder: Tiny, device: str) -> FixedViews:
        return FixedViews(encoder.config.context)

    def optimizer(
        weights: Mapping[str, nn.Parameter], settings: OptimizerSettings, *, capturable: str
    ) -> torch.optim.AdamW:
        made = make_optimizer(weights, settings)
        # The one optimizer of a CPU that counts steps in tensors.
        return on_the_device(made) if capturable else made

    monkeypatch.setattr(repair_training, "make_places", places)
    monkeypatch.setattr(trainer, "make_optimizer", optimizer)
    monkeypatch.setattr(trainer, "Recorded", Replayed)


def test_replayed_arms_learn_as_plain_ones_also_after_a_stop(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not set(NAMES) & set(WAITS)
    plain = train_arms(base, NAMES, SETTINGS, say=silent)
    as_on_a_gpu(monkeypatch)
    before = Replayed.made
    train_arms(base, NAMES, SETTINGS, folder=tmp_path, say=silent)
    # From the checkpoints of the second step.
    found = train_arms(base, NAMES, SETTINGS, folder=tmp_path, say=silent)
    assert Replayed.made - before == 2 * len(NAMES)
    for name in NAMES:
        there = found[name].trainable.module.state_dict()
        for key, value in plain[name].trainable.module.state_dict().items():
            torch.testing.assert_close(there[key], value, atol=2e-5, rtol=2e-4)
        torch.testing.assert_close(
            torch.tensor([found[name].last_loss]), torch.tensor([plain[name].last_loss])
        )
        torch.testing.assert_close(found[name].curve_SK, plain[name].curve_SK)


def test_batches_of_other_sizes_are_recorded_in_rooms_of_their_own(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = NAMES[:2]
    plain = train_arms(base, names, SETTINGS, say=silent)
    monkeypatch.setattr(repair_training, "_ROUND_STRINGS", 1)
    monkeypatch.setattr(repair_training, "_ROUND_TOKENS", 1)
    as_on_a_gpu(monkeypatch)
    before = Replayed.made
    found = train_arms(base, names, SETTINGS, say=silent)
    # Four batches, hardly two of them with as many strings and words.
    assert Replayed.made - before > len(names)
    for name in names:
        there = found[name].trainable.module.state_dict()
        for key, value in plain[name].trainable.module.state_dict().items():
            torch.testing.assert_close(there[key], value, atol=2e-5, rtol=2e-4)
        torch.testing.assert_close(found[name].curve_SK, plain[name].curve_SK)
