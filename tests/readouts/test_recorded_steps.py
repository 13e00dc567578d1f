"""Recorded steps of readers and decoders learn what plain ones learn, also after a stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from unbag.readouts.dcsm import Dcsm, DcsmSettings
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.decoder.training import DecoderBatch, DecoderTask, share_right
from unbag.readouts.pacl import Pacl, PaclSettings
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.sparc import Sparc, SparcSettings
from unbag.readouts.training import ReaderEffort, ReaderTask
from unbag.training import trainer as trainers
from unbag.training.trainer import Trainer, TrainState

from .decoder_made import SMALL, begun
from .reader_batches import pool, run_losses
from .replayed import Replayed, on_the_device

SIZES = Sizes(patches=4, picture_width=16, caption_width=16)
STEPS = 9
"""More than two epochs of four batches; the rate is another at every step."""


class Dropping(Pooled):
    """Dropout, so that a step draws numbers."""

    def __init__(self, settings: PooledSettings, sizes: Sizes) -> None:
        super().__init__(settings, sizes)
        self.picture = nn.Sequential(nn.Dropout(0.3), self.picture)


def dropping() -> tuple[Reader, ReaderEffort]:
    settings = PooledSettings(
        steps=STEPS, batch_size=5, learning_rate=1e-2, warmup_steps=3, width=8
    )
    return Dropping(settings, SIZES), settings


def dcsm(norm: str) -> tuple[Reader, ReaderEffort]:
    settings = DcsmSettings(
        steps=STEPS, batch_size=5, contrast_size=2, warmup_steps=3, length=3, dropout=0.2,
        norm="batch" if norm == "batch" else "map",
    )  # fmt: skip
    return Dcsm(settings, SIZES), settings


def pacl() -> tuple[Reader, ReaderEffort]:
    settings = PaclSettings(steps=STEPS, batch_size=5, warmup_steps=3, width=8)
    return Pacl(settings, SIZES), settings


def sparc() -> tuple[Reader, ReaderEffort]:
    settings = SparcSettings(steps=STEPS, batch_size=5, warmup_steps=3, width=8)
    return Sparc(settings, SIZES), settings


READERS: dict[str, Callable[[], tuple[Reader, ReaderEffort]]] = {
    "dropping": dropping,
    "dcsm": lambda: dcsm("batch"),
    "dcsm_fixed": lambda: dcsm("map"),
    "pacl": pacl,
    "sparc": sparc,
}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Steps are recorded from here on; says how often."""
    monkeypatch.setattr(trainers, "Recorded", Replayed)
    before = Replayed.made
    return lambda: Replayed.made - before


def reading(name: str = "dropping", *, is_recorded: bool) -> Trainer[Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reader, effort = READERS[name]()
    some = pool(20)
    mark_NL = torch.zeros(some.caption.mask_NL.shape, dtype=torch.int64)
    mark_NL[::3, 1] = 1  # The second token of every third string is a functional word.
    some = replace(some, caption=replace(some.caption, mark_NL=mark_NL))
    made = Trainer(ReaderTask(reader, some, effort, device="cpu", seed=1))
    made.optimizer = on_the_device(made.optimizer)
    made.task.is_recorded = is_recorded
    return made


def stops_after(step: int) -> Callable[[TrainState, Mapping[str, Tensor]], bool]:
    return lambda state, numbers: state.step == step


def check_same(one: nn.Module, other: nn.Module) -> None:
    there = other.state_dict()
    for name, value in one.state_dict().items():
        torch.testing.assert_close(there[name], value)


@pytest.mark.parametrize("name", READERS)
def test_a_recorded_reader_learns_as_a_plain_one(name: str, recorded: Callable[[], int]) -> None:
    plain, other = reading(name, is_recorded=False), reading(name, is_recorded=True)
    assert run_losses(other) == pytest.approx(run_losses(plain), rel=1e-5)
    check_same(plain.task.module, other.task.module)
    assert recorded() == 1


def test_a_reader_resumes_from_a_checkpoint_and_records_anew(
    tmp_path: Path, recorded: Callable[[], int]
) -> None:
    plain = reading(is_recorded=False)
    plain.run()
    first = reading(is_recorded=True)
    first.run(on_step=stops_after(4))
    first.save(tmp_path / "last")
    second = reading(is_recorded=True)
    second.resume(tmp_path / "last")
    second.run()
    check_same(plain.task.module, second.task.module)
    assert recorded() == 2
    # The first one, put back although it has recorded and gone on.
    first.run(on_step=stops_after(6))
    first.resume(tmp_path / "last")
    first.run()
    check_same(plain.task.module, first.task.module)


def test_recording_leaves_the_generator_of_others_alone(recorded: Callable[[], int]) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(2)
    torch.manual_seed(5)
    reading(is_recorded=True).run(on_step=stops_after(1))
    assert torch.equal(torch.rand(2), wanted)
    assert recorded() == 1


BLIND = replace(SMALL, steps=STEPS, blind=0.5, warmup_steps=3)


def teaching(
    settings: DecoderSettings = BLIND, *, is_recorded: bool
) -> tuple[Trainer[DecoderBatch], DecoderTask]:
    task = begun(settings).task
    made = Trainer(task)
    made.optimizer = on_the_device(made.optimizer)
    task.is_recorded = is_recorded
    return made, task


@pytest.mark.parametrize("sees", ["patches", "nothing"])
def test_a_recorded_decoder_learns_as_a_plain_one(sees: str, recorded: Callable[[], int]) -> None:
    settings = BLIND if sees == "patches" else replace(BLIND, sees="nothing")
    plain, _ = teaching(settings, is_recorded=False)
    other, _ = teaching(settings, is_recorded=True)
    assert run_losses(other) == pytest.approx(run_losses(plain), rel=1e-5)
    check_same(plain.task.module, other.task.module)
    # One with the image, one without.
    assert recorded() == 2


def test_a_decoder_resumes_and_records_anew(tmp_path: Path, recorded: Callable[[], int]) -> None:
    plain, _ = teaching(is_recorded=False)
    plain.run()
    first, _ = teaching(is_recorded=True)
    first.run(on_step=stops_after(5))
    first.save(tmp_path / "last")
    second, _ = teaching(is_recorded=True)
    second.resume(tmp_path / "last")
    second.run()
    check_same(plain.task.module, second.task.module)
    # The same one, put back although it has recorded and gone on.
    first.run(on_step=stops_after(7))
    first.resume(tmp_path / "last")
    first.run()
    check_same(plain.task.module, first.task.module)


def test_a_decoder_that_is_asked_on_the_way_learns_the_same(recorded: Callable[[], int]) -> None:
    """Asked by the model of transformers; what was recorded of ours is kept, with all it reads."""
    plain, _ = teaching(is_recorded=False)
    plain.run()
    asked, task = teaching(is_recorded=True)
    shares = []
    while not asked.is_done:
        asked.run(on_step=lambda state, numbers: state.step % 3 == 0)
        shares.append(share_right(task.net, task.seen_NLV, task.lessons).share)
    assert len(shares) == 3
    check_same(plain.task.module, task.net)
    assert recorded() == 2
    assert len({id(one) for one in task._recorded_models}) == 3


def test_the_stand_in_keeps_numbers_of_python_as_a_graph_does() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    factor = [1.0]

    def step() -> dict[str, Tensor]:
        loss = factor[0] * weight.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return {"loss": loss.detach()}

    def asks() -> dict[str, Tensor]:
        return {"loss": weight.detach() * float(weight.detach().sum())}

    again = Replayed(step, optimizer, device="cpu")
    assert weight.tolist() == [1.0, 1.0]
    factor[0] = 5.0
    assert float(again()["loss"]) == 2.0
    assert weight.tolist() == [0.0, 0.0]
    with pytest.raises(AssertionError, match="asks the device"):
        Replayed(asks, optimizer, device="cpu")
