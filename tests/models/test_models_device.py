"""Devices as users write them: the one to compute on, or what is here instead."""

from __future__ import annotations

import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.loading import check_device, choose_device


def refused(asked: str) -> UnbagError:
    with pytest.raises(UnbagError) as caught:
        choose_device(asked)
    assert caught.value.message.startswith(f"the device {asked!r} cannot be used: ")
    assert caught.value.hint == "--device auto takes the best one at hand"
    # torch's own word is a page long.
    assert len(str(caught.value)) < 300
    return caught.value


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has none, with a torch that could use one."""

    def empty(*size: int, device: str) -> None:
        raise RuntimeError("Found no NVIDIA driver on your system. Please check that you have one.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch, "empty", empty)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("is_built", [True, False])
def test_a_kind_that_torch_does_not_have_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, is_built: bool
) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: is_built)
    why = "this machine has no Apple GPU that torch can use"
    error = refused("mps")
    assert error.message.endswith(why if is_built else "torch was built without it")
    assert error.expected == "cpu or auto (all that is here)"


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("asked", ["cuda", "cuda:7"])
def test_a_gpu_where_there_is_none(asked: str) -> None:
    error = refused(asked)
    assert error.message.endswith("cannot be used: Found no NVIDIA driver on your system")
    assert error.expected == "cpu or auto (all that is here)"


@pytest.mark.parametrize(
    ("count", "finds", "here"),
    [
        (1, "torch finds 1 GPU", "cpu, cuda, cuda:0, mps or auto (all that is here)"),
        (2, "torch finds 2 GPUs", "cpu, cuda, cuda:0, cuda:1, mps or auto (all that is here)"),
        (7, "torch finds 7 GPUs", "cpu, cuda, cuda:0 to cuda:6, mps or auto (all that is here)"),
    ],
)
def test_a_gpu_beyond_the_last(
    monkeypatch: pytest.MonkeyPatch, count: int, finds: str, here: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    error = refused("cuda:7")
    assert error.message.endswith(finds)
    assert error.expected == here
    monkeypatch.setattr(torch, "empty", lambda *size, device: None)
    assert choose_device("cuda:0") == "cuda:0"


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("asked", ["xpu", "cdua", "meta", "xla", "cuda:", "cuda:x", "cpu:0", ""])
def test_what_is_no_device(asked: str) -> None:
    error = refused(asked)
    assert error.message.endswith("no such kind is known here")
    assert error.expected == "cpu or auto (all that is here)"


def test_how_a_device_is_written_is_checked_without_asking_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked() -> bool:
        raise AssertionError

    monkeypatch.setattr(torch.cuda, "is_available", asked)
    check_device("cuda:7")
    with pytest.raises(UnbagError, match="no such kind is known here") as caught:
        check_device("xpu")
    assert caught.value.expected == "cpu, cuda, cuda:1, mps or auto"
