"""Arms whose steps are replayed, and not run again, learn what plain ones learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

# Shared with the tests of read-outs; tests are in no package that has a name of its own.
from tests.readouts.replayed import Replayed

from unbag_lab.experiments import repair_training
from unbag_lab.experiments.repair_training import (
    WAITS,
    FixedViews,
    RepairArm,
    RepairSettings,
    SharedPictures,
    train_arms,
)

NAMES = ("hard_positive", "ce_clip_fixed", "hard_negative-locked")
SETTINGS = RepairSettings(arms=NAMES, steps=4, batch=8, workers=0, save_every=2)


def silent(text: str) -> None:
    """Says nothing."""


def fixed(arms: Mapping[str, RepairArm], shared: SharedPictures, device: str) -> FixedViews:
    """As on a GPU, with the one optimiser of a CPU that counts steps in tensors."""
    shared.is_shared = False
    for arm in arms.values():
        arm.record(device, None)
        for group in arm.optimiser.param_groups:
            group["capturable"], group["fused"] = False, True
    return FixedViews(next(iter(arms.values())).trainable.module.config.context)


def test_replayed_arms_learn_as_plain_ones_also_after_a_stop(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not set(NAMES) & set(WAITS)
    plain = train_arms(base, NAMES, SETTINGS, say=silent)
    monkeypatch.setattr(repair_training, "_fixed", fixed)
    monkeypatch.setattr(repair_training, "Recorded", Replayed)
    before = Replayed.made
    train_arms(base, NAMES, SETTINGS, folder=tmp_path, say=silent)
    # From the checkpoints of the second step.
    found = train_arms(base, NAMES, SETTINGS, folder=tmp_path, say=silent)
    assert Replayed.made - before == 2 * len(NAMES)
    for name in NAMES:
        there = found[name].trainable.module.state_dict()
        for key, value in plain[name].trainable.module.state_dict().items():
            torch.testing.assert_close(there[key], value, atol=2e-5, rtol=2e-4)
        torch.testing.assert_close(found[name].loss, plain[name].loss)
        torch.testing.assert_close(found[name].curve_SK, plain[name].curve_SK)


def test_batches_of_other_sizes_are_recorded_in_rooms_of_their_own(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = NAMES[:2]
    plain = train_arms(base, names, SETTINGS, say=silent)
    monkeypatch.setattr(repair_training, "_ROUND_STRINGS", 1)
    monkeypatch.setattr(repair_training, "_ROUND_TOKENS", 1)
    monkeypatch.setattr(repair_training, "_fixed", fixed)
    monkeypatch.setattr(repair_training, "Recorded", Replayed)
    before = Replayed.made
    found = train_arms(base, names, SETTINGS, say=silent)
    # Four batches, hardly two of them with as many strings and words.
    assert Replayed.made - before > len(names)
    for name in names:
        there = found[name].trainable.module.state_dict()
        for key, value in plain[name].trainable.module.state_dict().items():
            torch.testing.assert_close(there[key], value, atol=2e-5, rtol=2e-4)
        torch.testing.assert_close(found[name].curve_SK, plain[name].curve_SK)
