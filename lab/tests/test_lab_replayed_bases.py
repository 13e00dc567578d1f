"""A base whose steps are replayed as on a GPU learns as a plain one does, also after a stop."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

# Shared with the tests of read-outs; tests are in no package that has a name of its own.
from tests.readouts.replayed import Replayed, on_the_device
from torch import Tensor

from unbag.models.tiny import TinyNetwork
from unbag.runs.files import TRAINING, open_run_folder
from unbag.training import optim, trainer
from unbag_lab import bases
from unbag_lab.bases import Pretraining, PretrainSettings, pretrain, small_config
from unbag_lab.training import run_to_end

SETTINGS = PretrainSettings(seed=3, steps=4, batch_size=16, warmup_steps=1)
CONFIG = small_config()


class OnGpu(Pretraining):
    """As on a GPU."""

    is_recorded = True

    def __setattr__(self, name: str, value: object) -> None:
        if name != "is_recorded":
            super().__setattr__(name, value)


def made(folder: Path | None = None, *, stops_at: str = "never") -> TinyNetwork:
    def say(line: str) -> None:
        if line.startswith(stops_at):
            raise KeyboardInterrupt

    with nullcontext() if folder is None else open_run_folder(folder, TRAINING) as opened:
        return pretrain(SETTINGS, CONFIG, device="cpu", folder=opened, save_minutes=0.0, say=say)


@torch.inference_mode()
def vectors(network: TinyNetwork) -> Tensor:
    """Not weights: the gradient of keys' biases is rounding alone, and AdamW makes steps of it."""
    drawn = torch.Generator().manual_seed(0)
    side = CONFIG.pixels
    pixels = torch.rand((6, 3, side, side), generator=drawn)
    token_BL = torch.randint(1, len(CONFIG.words), (6, 8), generator=drawn)
    end_B = torch.arange(2, 8)
    both = (network.embed_images(pixels), network.embed_texts(token_BL, end_B))
    return torch.cat(both) * network.log_scale.exp()


def test_a_replayed_base_learns_as_a_plain_one_also_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = made()
    make_optimizer = optim.make_optimizer
    monkeypatch.setattr(bases, "Pretraining", OnGpu)
    monkeypatch.setattr(bases, "run_to_end", partial(run_to_end, every=1))
    monkeypatch.setattr(trainer, "Recorded", Replayed)
    monkeypatch.setattr(
        trainer,
        "make_optimizer",
        # The one optimizer of a CPU that counts steps in tensors.
        lambda weights, settings, capturable: on_the_device(make_optimizer(weights, settings)),
    )
    before = Replayed.made
    whole = made()
    with pytest.raises(KeyboardInterrupt):
        # It says so after it saves: three steps are kept.
        made(tmp_path, stops_at="step     2")
    again = made(tmp_path)
    assert Replayed.made - before == 3
    torch.testing.assert_close(vectors(whole), vectors(plain), atol=1e-4, rtol=1e-4)
    for key, value in whole.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
