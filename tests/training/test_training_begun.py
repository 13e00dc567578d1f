"""A folder with somebody's files is refused before anything is computed or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbag.cli import main
from unbag.errors import UserError
from unbag.training.job import RECORD_FILE, write_record
from unbag.training.repair import repair
from unbag.training.trainer import train

from .small_runs import fast, job_of
from .small_world import small


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_of_photographs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"a picture")
    with pytest.raises(UserError) as caught:
        train(job_of(tmp_path))
    assert caught.value.found == f"the folder {tmp_path} is not empty and holds no training run"
    assert caught.value.expected == "an empty or new folder, or the folder of a run to go on with"
    assert caught.value.way_out == "choose another with --out"
    # Before towers are copied, and on the command line before a model is loaded.
    monkeypatch.delattr("unbag.training.repair.make_trainable")
    with pytest.raises(UserError, match="is not empty and holds no training run"):
        repair(small(1), "world", fast(), tmp_path)
    words = ["train", "--recipe", "clip_ft", "--pairs", "world", "--out", str(tmp_path)]
    assert main([*words, "--model", "tiny:nobody"]) == 1
    assert "is not empty and holds no training run" in capsys.readouterr().err
    assert files(tmp_path) == ["holiday.jpg"]


def test_what_a_killed_run_leaves_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / f".{RECORD_FILE}.0123abcd.part").write_text("{")
    (tmp_path / ".write-0123abcd").touch()

    def killed(*_: object) -> None:
        assert [name for name in files(tmp_path) if not name.startswith(".")] == []
        write_record(*_)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr("unbag.training.trainer.write_record", killed)
    with pytest.raises(KeyboardInterrupt):
        train(job_of(tmp_path))
    monkeypatch.undo()
    assert [name for name in files(tmp_path) if not name.startswith(".")] == [RECORD_FILE]
    assert train(job_of(tmp_path)).is_done


def test_a_record_of_something_else_is_told_before_a_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / RECORD_FILE).write_text('{"epochs": 3}')
    words = ["train", "--recipe", "clip_ft", "--pairs", "world", "--out", str(tmp_path)]
    assert main([*words, "--model", "tiny:nobody"]) == 1
    assert f"{tmp_path / RECORD_FILE} cannot be read" in capsys.readouterr().err


def test_a_run_of_an_older_unbag_is_refused_for_what_it_is(tmp_path: Path) -> None:
    """Records named modules once; they have moved, and no settings that are given could agree."""
    train(job_of(tmp_path))
    record = tmp_path / RECORD_FILE
    text = record.read_text(encoding="utf-8")
    assert '"unbag:Recipe"' in text
    record.write_text(text.replace('"unbag:Recipe"', '"unbag.train.config:Recipe"'))
    with pytest.raises(UserError, match="of an older unbag") as caught:
        train(job_of(tmp_path))
    assert "another folder" in str(caught.value.way_out)
