"""The training script: deterministic, learns, never flips, and its first batch is measured."""

from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.models.tiny import TinyConfig, load, write
from unbag.training.data import loader
from unbag.world.grammar import words
from unbag.world.rendering import draw, draw_batch, sprite_table
from unbag.world.stream import batch, split_seed
from unbag.world.vocabulary import UNIT
from unbag_lab.bases import Pretraining, PretrainSettings, SceneBatch, Steps, pretrain

# The tiny size of the specification (12.6) on the unit-test world.
CONFIG = TinyConfig(
    pixels=32,
    picture_width=64,
    picture_depth=3,
    caption_width=64,
    caption_depth=2,
    joint=64,
    words=words(),
)
SHORT = PretrainSettings(steps=40, batch_size=48, warmup_steps=5, world="unit")


def train(settings: PretrainSettings) -> tuple[dict[str, torch.Tensor], list[str]]:
    said: list[str] = []
    network = pretrain(settings, CONFIG, device="cpu", say=said.append)
    return network.state_dict(), said


def losses(said: list[str]) -> list[float]:
    return [float(line.split("loss ")[1].split()[0]) for line in said if line.startswith("step")]


def test_the_tiny_size_has_the_parameters_of_the_specification() -> None:
    network = pretrain(
        replace(SHORT, steps=1, batch_size=4), CONFIG, device="cpu", say=lambda line: None
    )
    count = sum(p.numel() for p in network.parameters())
    assert 0.25e6 < count < 0.30e6


def test_it_learns_and_says_what_the_batch_asks_for() -> None:
    _, said = train(replace(SHORT, steps=250))
    assert "collide" in said[0]
    assert "incentive" in said[0]
    # A model that gives every pair the same score has exactly log(batch).
    assert losses(said)[-1] < log(SHORT.batch_size) - 0.1


def test_workers_do_not_change_the_batches() -> None:
    def made(workers: int) -> list[SceneBatch]:
        steps = Steps([replace(SHORT, steps=3)], CONFIG)
        flow = loader.load(steps, first=0, workers=workers, device="cpu")
        return [shown for (shown,) in flow]

    for a, b in zip(made(0), made(2), strict=True):
        assert np.array_equal(a.token_BL, b.token_BL)
        assert np.array_equal(a.packed.x_NT, b.packed.x_NT)


def test_images_are_trained_on_as_they_are_drawn() -> None:
    """No flip, no crop, no other augmentation: captions speak of sides."""
    (step,) = Steps([SHORT], CONFIG)[0]
    table = torch.from_numpy(sprite_table(UNIT))
    pixels = draw_batch(table, step.packed, pixels=32, generator=None)
    samples = batch(UNIT, SHORT.knobs, seed=split_seed("train", 0), step=0, size=48)
    drawn = np.stack([draw(sample.scene, with_noise=False) for sample in samples])
    assert np.array_equal(np.rint(pixels.numpy() * 255).transpose(0, 2, 3, 1), drawn)


def test_accidental_truths_are_no_negatives() -> None:
    masked, plain = (
        losses(train(replace(SHORT, steps=1, mask_also_true=mask))[1])[0] for mask in (True, False)
    )
    assert masked < plain


def test_schedule_warms_up_and_ends_at_zero() -> None:
    settings = PretrainSettings(steps=110, warmup_steps=10, learning_rate=1.0)
    task = Pretraining(settings, CONFIG, device="cpu")
    assert [task.learning_rate(i) for i in (0, 9, 10)] == [0.1, 1.0, 1.0]
    assert task.learning_rate(60) == pytest.approx(0.5)
    assert task.learning_rate(110) == pytest.approx(0.0)


def test_what_is_trained_can_be_loaded(tmp_path: Path) -> None:
    network = pretrain(replace(SHORT, steps=2), CONFIG, device="cpu", say=lambda line: None)
    write(network, tmp_path / "mine.safetensors")
    assert load(str(tmp_path / "mine.safetensors")).name == "tiny:mine"
