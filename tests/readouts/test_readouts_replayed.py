"""Recorded steps of readers and decoders learn what plain ones learn, also after a stop."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from unbag.readouts import training as fit
from unbag.readouts.dcsm import Dcsm, DcsmSettings
from unbag.readouts.decoder import training as decoder_teach
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.decoder.training import Teaching, share_right
from unbag.readouts.pacl import Pacl, PaclSettings
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.sparc import Sparc, SparcSettings
from unbag.readouts.training import Fit, ReaderEffort, restore, save

from .decoder_made import SMALL, begun
from .reader_batches import pool
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
    settings = PooledSettings(steps=STEPS, batch=5, learning_rate=1e-2, warm_up=3, width=8)
    return Dropping(settings, SIZES), settings


def dcsm(norm: str) -> tuple[Reader, ReaderEffort]:
    settings = DcsmSettings(
        steps=STEPS, batch=5, crowd=2, warm_up=3, length=3, dropout=0.2,
        norm="batch" if norm == "batch" else "map",
    )  # fmt: skip
    return Dcsm(settings, SIZES), settings


def pacl() -> tuple[Reader, ReaderEffort]:
    settings = PaclSettings(steps=STEPS, batch=5, warm_up=3, width=8)
    return Pacl(settings, SIZES), settings


def sparc() -> tuple[Reader, ReaderEffort]:
    settings = SparcSettings(steps=STEPS, batch=5, warm_up=3, width=8)
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
    monkeypatch.setattr(fit, "Recorded", Replayed)
    monkeypatch.setattr(decoder_teach, "Recorded", Replayed)
    before = Replayed.made
    return lambda: Replayed.made - before


def reading(name: str = "dropping", *, is_recorded: bool) -> Fit:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reader, effort = READERS[name]()
    some = pool(20)
    mark_NL = torch.zeros(some.caption.mask_NL.shape, dtype=torch.int64)
    mark_NL[::3, 1] = 1  # The second token of every third string is a functional word.
    some = replace(some, caption=replace(some.caption, mark_NL=mark_NL))
    made = Fit(reader, some, effort, device="cpu", seed=1)
    made.optimiser = on_the_device(made.optimiser)
    made._can_record = lambda row_B: is_recorded  # type: ignore[method-assign]
    return made


def check_same(one: nn.Module, other: nn.Module) -> None:
    there = other.state_dict()
    for name, value in one.state_dict().items():
        torch.testing.assert_close(there[name], value)


@pytest.mark.parametrize("name", READERS)
def test_a_recorded_reader_learns_as_a_plain_one(name: str, recorded: Callable[[], int]) -> None:
    plain, other = reading(name, is_recorded=False), reading(name, is_recorded=True)
    for _ in range(STEPS):
        torch.testing.assert_close(other.take_step(), plain.take_step())
    check_same(plain.reader, other.reader)
    assert recorded() == 1


def test_a_reader_goes_on_from_a_checkpoint_and_records_anew(
    tmp_path: Path, recorded: Callable[[], int]
) -> None:
    plain = reading(is_recorded=False)
    plain.run()
    first = reading(is_recorded=True)
    first.run(lambda taken: taken.step == 4)
    save(tmp_path / "last", first, "asked")
    second = reading(is_recorded=True)
    restore(tmp_path / "last", second, "asked")
    second.run()
    check_same(plain.reader, second.reader)
    assert recorded() == 2


def test_a_reader_that_has_recorded_can_be_put_back(
    tmp_path: Path, recorded: Callable[[], int]
) -> None:
    plain = reading(is_recorded=False)
    plain.run()
    one = reading(is_recorded=True)
    one.run(lambda taken: taken.step == 4)
    save(tmp_path / "last", one, "asked")
    one.run(lambda taken: taken.step == 6)
    restore(tmp_path / "last", one, "asked")
    one.run()
    check_same(plain.reader, one.reader)


def test_recording_leaves_the_generator_of_others_alone(recorded: Callable[[], int]) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(2)
    torch.manual_seed(5)
    reading(is_recorded=True).take_step()
    assert torch.equal(torch.rand(2), wanted)
    assert recorded() == 1


BLIND = replace(SMALL, steps=STEPS, blind=0.5, warm_up=3)


def teaching(settings: DecoderSettings = BLIND, *, is_recorded: bool) -> Teaching:
    made = begun(settings).teaching
    made.optimiser = on_the_device(made.optimiser)
    made._is_recorded = is_recorded
    return made


@pytest.mark.parametrize("sees", ["patches", "nothing"])
def test_a_recorded_decoder_learns_as_a_plain_one(sees: str, recorded: Callable[[], int]) -> None:
    settings = BLIND if sees == "patches" else replace(BLIND, sees="nothing")
    plain = teaching(settings, is_recorded=False)
    other = teaching(settings, is_recorded=True)
    for _ in range(STEPS):
        torch.testing.assert_close(other.take_step(), plain.take_step())
    check_same(plain.net, other.net)
    # One with the picture, one without.
    assert recorded() == 2


def test_a_decoder_goes_on_and_records_anew(recorded: Callable[[], int]) -> None:
    plain = teaching(is_recorded=False)
    plain.run()
    first = teaching(is_recorded=True)
    first.run(lambda taught: taught.step == 5)
    state, moments = deepcopy((first.net.state_dict(), first.moments()))
    second = teaching(is_recorded=True)
    second.restore(state, deepcopy(moments), 5)
    second.run()
    check_same(plain.net, second.net)
    # The same one, put back although it has recorded and gone on.
    first.run(lambda taught: taught.step == 7)
    first.restore(state, moments, 5)
    first.run()
    check_same(plain.net, first.net)


def test_a_decoder_that_is_asked_on_the_way_learns_the_same(recorded: Callable[[], int]) -> None:
    """Asked by the model of transformers; what was recorded of ours is kept, with all it reads."""
    plain = teaching(is_recorded=False)
    plain.run()
    asked = teaching(is_recorded=True)
    shares = []
    while asked.step < STEPS:
        asked.run(lambda taught: taught.step % 3 == 0)
        lessons = asked.lessons
        shares.append(share_right(asked.net, asked.seen_NLV, lessons).share)
    assert len(shares) == 3
    check_same(plain.net, asked.net)
    assert recorded() == 2
    assert len({id(one) for one in asked._ran}) == 3


def test_the_stand_in_keeps_numbers_of_python_as_a_graph_does() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=1.0)
    factor = [1.0]

    def step() -> Tensor:
        loss = factor[0] * weight.sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return loss.detach()

    again = Replayed(step, optimiser, device="cpu")
    assert weight.tolist() == [1.0, 1.0]
    factor[0] = 5.0
    assert float(again()) == 2.0
    assert weight.tolist() == [0.0, 0.0]
    with pytest.raises(AssertionError, match="asks the device"):
        Replayed(lambda: weight.detach() * float(weight.detach().sum()), optimiser, device="cpu")
