"""Files and folders that are no checkpoint of OpenCLIP: each is told what it is, and what to do."""

from __future__ import annotations

import json
import logging
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbag.errors import UnbagError
from unbag.models.open_clip import checkpoint
from unbag.models.open_clip.library import library
from unbag.models.open_clip.loading import load

Made = Callable[[str], Any]


def fails(path: Path) -> UnbagError:
    with pytest.raises(UnbagError) as raised:
        checkpoint.read_state(path)
    return raised.value


@pytest.mark.parametrize("content", [b"hello", bytes(range(7, 250)), b"{}"])
def test_bytes_that_pytorch_never_wrote(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "garbage.pt").write_bytes(content)
    said = fails(tmp_path / "garbage.pt")
    assert said.message.endswith("cannot be read as a checkpoint: it is no file of PyTorch")
    assert said.hint == "check the path and how the file was made"


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.pt").touch()
    assert fails(tmp_path / "empty.pt").message.endswith("checkpoint: it is empty")


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_file_that_is_cut(tmp_path: Path, is_zip: bool) -> None:
    path = tmp_path / "cut.pt"
    torch.save({"w": torch.zeros(1000)}, path, _use_new_zipfile_serialization=is_zip)
    path.write_bytes(path.read_bytes()[: 2000 if is_zip else 60])
    said = fails(path)
    assert said.message.endswith("cannot be read as a checkpoint: its end is missing")
    assert said.hint == "copy or download it again"


def test_a_pickled_model_is_named_without_advice_to_run_it(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    said = str(fails(tmp_path / "model.pt"))
    assert "model.pt holds more than weights: torch.nn.modules.linear.Linear\n" in said
    assert "\x1b" not in said
    assert "weights_only" not in said
    (tmp_path / "other.pt").write_bytes(pickle.dumps({"a": Path("x")}, protocol=4))
    assert fails(tmp_path / "other.pt").message.endswith("weights: a pickle of other things")


def test_a_folder_of_transformers_is_sent_to_hf(saved: Made, tmp_path: Path) -> None:
    save_file(load_file(saved("clip")), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip"}))
    with pytest.raises(UnbagError, match="is a model of transformers, not of OpenCLIP") as raised:
        checkpoint.find_weights(tmp_path)
    assert raised.value.hint == f"write hf:{tmp_path}"
    # Folders of the hub often hold both.
    (tmp_path / "open_clip_config.json").write_text("{}")
    assert checkpoint.find_weights(tmp_path) == tmp_path / "model.safetensors"


def test_a_run_of_the_trainer_points_at_its_last_epoch(tmp_path: Path) -> None:
    below = tmp_path / "checkpoints"
    below.mkdir()
    (tmp_path / "params.txt").write_text("model: RN50\n")
    for epoch in (1, 9, 10):
        (below / f"epoch_{epoch}.pt").touch()
    with pytest.raises(UnbagError) as raised:
        checkpoint.find_weights(tmp_path)
    listed = "epoch_1.pt, epoch_9.pt, epoch_10.pt"
    assert raised.value.message == f"the folder {below} holds 3 checkpoints: {listed}"
    assert raised.value.hint == f"name the file, as in ...@{below / 'epoch_10.pt'}"


def test_weights_that_are_not_finite_are_named(saved: Made, tmp_path: Path) -> None:
    state = load_file(saved("clip"))
    state["visual.proj"][0, 0] = math.nan
    save_file(state, tmp_path / "diverged.safetensors")
    with pytest.raises(UnbagError, match=r"diverged.safetensors hold NaN .*: visual\.proj"):
        load(f"tiny-clip@{tmp_path / 'diverged.safetensors'}")


def test_attempts_of_a_download_are_not_reported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hub's client reports each; at the end one error says it, in whole sentences."""
    reason = "Failed to download. The hub cannot be reached. " + "Check the connection. " * 20

    def offline(*args: object, **kwargs: object) -> str:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        raise OSError(reason)

    monkeypatch.setattr(library(), "download_pretrained", offline)
    with pytest.raises(UnbagError) as raised:
        load("RN50-quickgelu/openai")
    assert capfd.readouterr().err == ""
    found = raised.value.message
    assert found.startswith("the weights of open_clip:RN50-quickgelu/openai could not be had: Fail")
    assert found.endswith("Check the connection.")
    assert len(found) < 500
