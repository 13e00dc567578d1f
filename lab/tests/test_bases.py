"""Bases are made once, whole, with a record of how; others are refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag.models.tiny import load, read
from unbag.runs.files import TRAINING, open_run_folder
from unbag_lab import bases
from unbag_lab.bases import (
    PretrainSettings,
    base_names,
    make_base,
    missing_bases,
    pretrain,
    seed_of,
)
from unbag_lab.results import base_path
from unbag_lab.training import run_to_end


def make(out: Path, name: str = "tiny-1") -> Path:
    make_base(out, name, size="small", device="cpu", workers=0, say=lambda line: None)
    return base_path(out, name)


def test_bases_are_named_by_their_seeds_and_made_once(tmp_path: Path) -> None:
    assert base_names(3) == ("tiny-0", "tiny-1", "tiny-2")
    path = make(tmp_path)
    assert missing_bases(tmp_path, base_names(2), size="small") == {"tiny-0": 0.0}
    made = json.loads(path.with_suffix(".json").read_text())
    assert made["settings"]["seed"] == 1
    assert made["fingerprint"] == read(path, name="one").fingerprint
    assert sorted(p.name for p in path.parent.iterdir()) == ["tiny-1.json", "tiny-1.safetensors"]


def test_a_name_says_its_seed_or_is_refused() -> None:
    assert [seed_of(Path(f"some/{name}.safetensors")) for name in base_names(11)] == [*range(11)]
    assert seed_of(Path("tiny-12")) == 12
    with pytest.raises(UnbagError, match="'mine' names no seed") as told:
        seed_of(Path("mine.safetensors"))
    assert told.value.expected == "a number at the end, as in tiny-0"


def test_the_first_of_full_size_is_the_one_that_ships(tmp_path: Path) -> None:
    assert missing_bases(tmp_path, base_names(2), size="full") == {"tiny-0": 0.0, "tiny-1": 100.0}
    make_base(tmp_path, "tiny-0", size="full", device="cpu", workers=0)
    found = read(base_path(tmp_path, "tiny-0"), name="tiny-0")
    assert found.fingerprint == load("base").fingerprint
    # What ships was made with the settings that the others are made with.
    assert found.config == bases._wanted("tiny-1", "full")[1]
    assert not missing_bases(tmp_path, ["tiny-0"], size="full")


def other_settings(path: Path) -> None:
    record = path.with_suffix(".json")
    record.write_text(record.read_text().replace('"batch_size": 64', '"batch_size": 32'))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1_000])


def exchanged(path: Path) -> None:
    path.write_bytes(make(path.parents[1], "tiny-2").read_bytes())


def without_record(path: Path) -> None:
    path.with_suffix(".json").unlink()


@pytest.mark.parametrize(
    ("change", "words", "advice"),
    [
        (other_settings, "another base tiny-1: batch_size: 32 before, 64 now",
         "name another folder with --out"),
        (truncated, "is not a tiny dual encoder", "remove it so that it is trained again"),
        (exchanged, "has the fingerprint tiny-", "as tiny-1.json beside it says"),
        (without_record, "the record of the base .* cannot be read",
         "remove the base so that it is trained again"),
    ],
)  # fmt: skip
def test_changed_bases_are_refused(
    tmp_path: Path, change: Callable[[Path], None], words: str, advice: str
) -> None:
    change(make(tmp_path))
    with pytest.raises(UnbagError, match=words) as refused:
        missing_bases(tmp_path, ["tiny-1"], size="small")
    assert advice in str(refused.value)


def test_ctrl_c_saves_and_ends_the_making_of_a_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(line: str) -> None:
        if line.startswith("step     1"):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(bases, "run_to_end", partial(run_to_end, every=1))
    with pytest.raises(KeyboardInterrupt):
        make_base(tmp_path, "tiny-1", size="small", device="cpu", workers=0, say=interrupted)
    assert not base_path(tmp_path, "tiny-1").exists()
    said: list[str] = []
    make_base(tmp_path, "tiny-1", size="small", device="cpu", workers=0, say=said.append)
    assert said[1] == "resuming after step 2 of 4"
    names = sorted(path.name for path in (tmp_path / "bases").iterdir())
    assert names == ["tiny-1.json", "tiny-1.safetensors"]


def test_what_was_kept_of_other_settings_is_refused_with_both(tmp_path: Path) -> None:
    settings, config = bases._wanted("tiny-1", "small")
    other = PretrainSettings(seed=1, steps=1, batch_size=8)
    with open_run_folder(tmp_path, TRAINING) as folder:
        for one in (other, other):
            pretrain(one, config, device="cpu", folder=folder, say=lambda line: None)
        with pytest.raises(UnbagError, match="batch_size: 8 before, 64 now"):
            pretrain(settings, config, device="cpu", folder=folder, say=lambda line: None)
