"""Files and folders that are given in place of a model's name are told how to be named."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag.models.loading import load_model, model_name


@pytest.mark.parametrize("name", ["epoch_10.pt", "model.safetensors", "open_clip_model.bin"])
def test_weights_without_a_kind_are_told_how_to_be_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UnbagError, match="nothing says of which architecture") as told:
        load_model(str(tmp_path / name))
    assert told.value.hint.startswith(f"open_clip:ARCH@{tmp_path / name}")


def test_a_folder_of_another_library_is_told_its_prefix(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UnbagError, match=r"holds no unbag\.json") as told:
        load_model(str(tmp_path))
    assert "such as hf: or open_clip:local-dir:" in told.value.hint


def test_what_is_neither_is_a_name(tmp_path: Path) -> None:
    assert model_name(str(tmp_path / "epoch_10.pt")) == str(tmp_path / "epoch_10.pt")
    with pytest.raises(UnbagError, match="unknown model"):
        load_model(str(tmp_path / "epoch_10.pt"))
