"""A folder with somebody's files is refused before anything is computed or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbag.cli import main
from unbag.errors import UnbagError
from unbag.training.fine_tuning import train
from unbag.training.repair import repair

from .small_runs import fast, job_of
from .small_world import small


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_of_photographs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"an image")
    with pytest.raises(UnbagError) as caught:
        train(job_of(tmp_path))
    assert caught.value.message == f"the folder {tmp_path} is not empty and holds no training run"
    assert "--out" in str(caught.value.hint)
    # Before encoders are copied, and on the command line before a model is loaded.
    monkeypatch.delattr("unbag.training.repair.make_trainable")
    with pytest.raises(UnbagError, match="is not empty and holds no training run"):
        repair(small(1), "world", fast(), tmp_path)
    words = ["train", "--recipe", "clip_ft", "--pairs", "world", "--out", str(tmp_path)]
    assert main([*words, "--model", "tiny:nobody"]) == 1
    assert "is not empty and holds no training run" in capsys.readouterr().err
    assert names(tmp_path) == ["holiday.jpg"]


def test_a_run_of_an_older_unbag_is_refused_for_what_it_is(tmp_path: Path) -> None:
    """Its checkpoint has another format, and its record another name."""
    (tmp_path / "training.json").write_text('{"version": "0.1", "asked": {}}')
    (tmp_path / "last.safetensors").write_bytes(b"weights")
    with pytest.raises(UnbagError, match="is not empty and holds no training run") as caught:
        train(job_of(tmp_path))
    assert "--out" in str(caught.value.hint)
