"""Names, folders, shipped weights and devices."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from unbag import registry
from unbag.errors import UnbagError
from unbag.models.loading import (
    check_device,
    choose_device,
    folder_name,
    load_model,
    model_name,
)
from unbag.models.shipped import WEIGHTS, find_shipped, more_ships, shipped_like
from unbag.models.tiny import OF_THE_STUDY


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("runs/clip", "clip"),
        ("runs/clip-900", "clip-900"),
        ("runs/one/checkpoint-900", "one/checkpoint-900"),
        ("runs/one/step_20", "one/step_20"),
        ("runs/one/Final", "one/Final"),
        ("runs/one/open_clip", "one/open_clip"),
        ("runs/one/export/transformers", "one/export/transformers"),
        ("runs/one/checkpoints/best", "one/checkpoints/best"),
        ("/best", "best"),
    ],
)
def test_generic_folders_do_not_name_a_model(folder: str, name: str) -> None:
    assert folder_name(Path(folder)) == name


@pytest.mark.parametrize("name", ["epoch_10.pt", "model.safetensors", "open_clip_model.bin"])
def test_file_of_weights_needs_a_kind(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    # A path that does not exist is a name.
    assert model_name(path) == path
    with pytest.raises(UnbagError, match="unknown model"):
        load_model(path)
    Path(path).touch()
    with pytest.raises(UnbagError, match="a file of weights of an unknown architecture") as error:
        load_model(path)
    assert error.value.hint.startswith(f"open_clip:ARCH@{path}")


def test_folder_of_another_library_needs_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UnbagError, match=r"holds no unbag\.json") as error:
        load_model(str(tmp_path))
    assert "such as hf: or open_clip:local-dir:" in error.value.hint


@pytest.fixture
def without_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda **_: ())


def test_shipped_weights_of_both_distributions() -> None:
    names = [path.name for path in shipped_like("tiny-*.safetensors")]
    assert names == sorted(names)
    assert {"tiny-base.safetensors", "tiny-hard_positive.safetensors"} <= set(names)
    assert find_shipped("tiny-base.safetensors") == WEIGHTS / "tiny-base.safetensors"
    assert find_shipped("tiny-nothing.safetensors") is None
    assert more_ships() == ""


@pytest.mark.usefixtures("without_study")
def test_shipped_weights_without_the_study() -> None:
    assert {path.name for path in shipped_like("tiny-*.safetensors")} == {
        "tiny-base.safetensors",
        "tiny-base.dcsm_fixed.reader.safetensors",
        "tiny-hard_negative.safetensors",
    }
    for name in OF_THE_STUDY:
        with pytest.raises(UnbagError, match=r"pip install ./lab"):
            load_model(f"tiny:{name}")
    assert "pip install ./lab" in more_ships()
    with pytest.raises(UnbagError, match="unknown model 'tiny:bse'") as error:
        load_model("tiny:bse")
    assert "tiny:base" in str(error.value)


def test_shipped_weights_of_another_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_weights").mkdir()
    file = tmp_path / "their_weights" / "tiny-theirs.safetensors"
    file.write_bytes((WEIGHTS / "tiny-base.safetensors").read_bytes())
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("theirs", "their_weights", "unbag.weights")
    monkeypatch.setattr(registry, "entry_points", lambda **_: (point,))
    assert find_shipped(file.name) == file
    assert load_model("tiny:theirs").name == "tiny:theirs"
    # A package that is gone does not affect the others.
    point = EntryPoint("theirs", "no_such_package.weights", "unbag.weights")
    monkeypatch.setattr(registry, "entry_points", lambda **_: (point,))
    with pytest.warns(UserWarning, match=r"no_such_package\.weights"):
        assert load_model("tiny:base").name == "tiny:base"


def refused(device: str) -> tuple[str, str]:
    """Return the reason and the expected devices."""
    with pytest.raises(UnbagError) as error:
        choose_device(device)
    # The message of torch itself is a page long.
    assert len(str(error.value)) < 300
    assert "--device auto" in error.value.hint
    start = f"the device {device!r} cannot be used: "
    assert error.value.message.startswith(start)
    return error.value.message.removeprefix(start), error.value.expected


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without GPU, with a torch that could use one."""

    def empty(*size: int, device: str) -> None:
        raise RuntimeError("Found no NVIDIA driver on your system. Please check that you have one.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch, "empty", empty)


UNKNOWN = ("xpu", "cdua", "meta", "xla", "cuda:", "cuda:x", "cpu:0", "")


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("mps", "this machine has no Apple GPU that torch can use"),
        ("cuda", "Found no NVIDIA driver on your system"),
        ("cuda:7", "Found no NVIDIA driver on your system"),
        *((device, "no such kind is known here") for device in UNKNOWN),
    ],
)
def test_device_without_gpu(device: str, reason: str) -> None:
    assert refused(device) == (reason, "cpu or auto (all that is here)")


@pytest.mark.usefixtures("without_gpu")
def test_device_that_torch_was_built_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: False)
    assert refused("mps")[0] == "torch was built without it"


@pytest.mark.parametrize(
    ("count", "reason", "devices"),
    [
        (1, "torch finds 1 GPU", "cpu, cuda, cuda:0, mps"),
        (2, "torch finds 2 GPUs", "cpu, cuda, cuda:0, cuda:1, mps"),
        (7, "torch finds 7 GPUs", "cpu, cuda, cuda:0 to cuda:6, mps"),
    ],
)
def test_gpu_beyond_the_last(
    monkeypatch: pytest.MonkeyPatch, count: int, reason: str, devices: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert refused("cuda:7") == (reason, f"{devices} or auto (all that is here)")
    monkeypatch.setattr(torch, "empty", lambda *size, device: None)
    assert choose_device("cuda:0") == "cuda:0"


def test_check_device_uses_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> bool:
        raise AssertionError

    monkeypatch.setattr(torch.cuda, "is_available", fail)
    check_device("cuda:7")
    with pytest.raises(UnbagError, match="no such kind is known here") as error:
        check_device("xpu")
    assert error.value.expected == "cpu, cuda, cuda:1, mps or auto"
