"""Arms and bases whose steps are recorded, as on a GPU, learn what plain ones learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

# Shared with the tests of read-outs; tests are in no package that has a name of its own.
from tests.readouts.replayed import Replayed, on_the_device
from torch import Tensor, nn

from unbag.models.tiny import Tiny, TinyNetwork
from unbag.runs.files import TRAINING, open_run_folder
from unbag.training import optim, trainer
from unbag.training.optim import Memory, OptimizerSettings
from unbag_lab import bases
from unbag_lab.bases import Pretraining, PretrainSettings, pretrain, small_config
from unbag_lab.experiments import repair_training
from unbag_lab.experiments.repair_training import (
    WAITS,
    FixedViews,
    RepairArm,
    RepairSettings,
    train_arms,
)
from unbag_lab.training import run_to_end

NAMES = ("hard_positive", "ce_clip_fixed", "hard_negative-locked")
ALL = ("clip_ft", "hard_positive", "ce_clip_fixed", "hard_negative-locked", "swap_only")
SETTINGS = RepairSettings(arms=NAMES, steps=4, batch_size=8, workers=0, save_every=2)
make_optimizer = optim.make_optimizer


class Repeated:
    """Stands for a GPU's recording: takes the step again each time."""

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
    pass


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], None]:
    """Let arms take their steps as on a GPU, with this class in place of recordings."""

    def places(encoder: Tiny, device: str) -> FixedViews:
        return FixedViews(encoder.config.context)

    def replace(recorded: type) -> None:
        def optimizer(
            weights: Mapping[str, nn.Parameter], settings: OptimizerSettings, *, capturable: str
        ) -> torch.optim.AdamW:
            made = make_optimizer(weights, settings)
            # The one optimizer of a CPU that counts steps in tensors.
            return on_the_device(made) if capturable and recorded is Replayed else made

        monkeypatch.setattr(repair_training, "make_places", places)
        monkeypatch.setattr(trainer, "make_optimizer", optimizer)
        monkeypatch.setattr(trainer, "Recorded", recorded)

    return replace


def assert_close(
    found: RepairArm, plain: RepairArm, *, atol: float | None = None, rtol: float | None = None
) -> None:
    weights = plain.trainable.module.state_dict()
    for name, value in found.trainable.module.state_dict().items():
        torch.testing.assert_close(value, weights[name], atol=atol, rtol=rtol)
    torch.testing.assert_close(torch.tensor(found.last_loss), torch.tensor(plain.last_loss))
    torch.testing.assert_close(found.curve_SK, plain.curve_SK)


def test_batches_in_fixed_tensors_train_the_same_arms(
    base: Path, record: Callable[[type], None]
) -> None:
    plain = train_arms(base, ALL, SETTINGS, say=silent)
    record(Repeated)
    found = train_arms(base, ALL, SETTINGS, say=silent)
    for name in ALL:
        assert_close(found[name], plain[name])
    prints = {
        Tiny(found[name].trainable.module, name=name).fingerprint for name in ("clip_ft", ALL[-1])
    }
    assert len(prints) == 2


def test_replayed_arms_learn_as_plain_ones_also_after_an_interruption(
    base: Path, tmp_path: Path, record: Callable[[type], None]
) -> None:
    assert not set(NAMES) & set(WAITS)
    plain = train_arms(base, NAMES, SETTINGS, say=silent)
    record(Replayed)
    before = Replayed.made
    train_arms(base, NAMES, SETTINGS, folder=tmp_path, say=silent)
    # From the checkpoints of the second step.
    found = train_arms(base, NAMES, SETTINGS, folder=tmp_path, say=silent)
    assert Replayed.made - before == 2 * len(NAMES)
    for name in NAMES:
        assert_close(found[name], plain[name], atol=2e-5, rtol=2e-4)


def test_each_size_of_a_batch_has_its_own_recording(
    base: Path, record: Callable[[type], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = NAMES[:2]
    plain = train_arms(base, names, SETTINGS, say=silent)
    monkeypatch.setattr(repair_training, "_ROUND_STRINGS", 1)
    monkeypatch.setattr(repair_training, "_ROUND_TOKENS", 1)
    record(Replayed)
    before = Replayed.made
    found = train_arms(base, names, SETTINGS, say=silent)
    # Four batches, hardly two of them with as many strings and words.
    assert Replayed.made - before > len(names)
    for name in names:
        assert_close(found[name], plain[name], atol=2e-5, rtol=2e-4)


class OnGpu(Pretraining):
    """As on a GPU."""

    is_recorded = True

    def __setattr__(self, name: str, value: object) -> None:
        if name != "is_recorded":
            super().__setattr__(name, value)


def trained_base(folder: Path | None = None, *, stops_at: str = "never") -> TinyNetwork:
    def say(line: str) -> None:
        if line.startswith(stops_at):
            raise KeyboardInterrupt

    settings = PretrainSettings(seed=3, steps=4, batch_size=16, warmup_steps=1)
    config = small_config()
    with nullcontext() if folder is None else open_run_folder(folder, TRAINING) as run_folder:
        return pretrain(
            settings, config, device="cpu", folder=run_folder, save_minutes=0.0, say=say
        )


@torch.inference_mode()
def vectors(network: TinyNetwork) -> Tensor:
    """Not weights: the gradient of keys' biases is rounding alone, and AdamW makes steps of it."""
    rng = torch.Generator().manual_seed(0)
    config = small_config()
    pixels = torch.rand((6, 3, config.pixels, config.pixels), generator=rng)
    token_BL = torch.randint(1, len(config.words), (6, 8), generator=rng)
    both = (network.embed_images(pixels), network.embed_texts(token_BL, torch.arange(2, 8)))
    return torch.cat(both) * network.log_scale.exp()


def test_a_replayed_base_learns_as_a_plain_one_also_after_an_interruption(
    tmp_path: Path, record: Callable[[type], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained_base()
    record(Replayed)
    monkeypatch.setattr(bases, "Pretraining", OnGpu)
    monkeypatch.setattr(bases, "run_to_end", partial(run_to_end, every=1))
    before = Replayed.made
    whole = trained_base()
    with pytest.raises(KeyboardInterrupt):
        # The line is printed after a checkpoint of three steps.
        trained_base(tmp_path, stops_at="step     2")
    again = trained_base(tmp_path)
    assert Replayed.made - before == 3
    torch.testing.assert_close(vectors(whole), vectors(plain), atol=1e-4, rtol=1e-4)
    for name, value in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
