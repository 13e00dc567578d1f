"""Read-outs in processes of their own: which arms stay together, and that no kind waits."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from unbag.lab import readout_decoders, readout_experiment
from unbag.lab.arm_result import result_path
from unbag.lab.experiment import Order, Say
from unbag.lab.readout_arms import READERS, find_arm
from unbag.lab.readout_base import Base, shares
from unbag.lab.readout_experiment import READOUTS
from unbag.lab.readouts import reader_groups


def test_an_arm_follows_the_one_whose_weights_it_takes() -> None:
    arms = ("pacl_uniform", "pooled", "pacl", "base", "pacl_fixed")
    assert sorted(reader_groups(arms, processes=3)) == [
        ["base"],
        ["pacl", "pacl_uniform"],
        ["pacl_fixed"],
        ["pooled"],
    ]
    (every,) = reader_groups(READOUTS.arms[: 1 + len(READERS)], processes=1)
    assert every[0] == "base"
    assert set(every) == {"base", *READERS}
    assert every.index("pacl_uniform") > every.index("pacl")
    assert reader_groups(["pacl_uniform"], processes=2) == [["pacl_uniform"]]


def test_arms_that_look_at_the_same_features_stand_together() -> None:
    (every,) = reader_groups(tuple(READERS), processes=1)
    looked = [
        (arm.is_random, arm.text, arm.found().view(arm.effort(1)).name)
        for arm in map(find_arm, every)
    ]
    changes = sum(one != other for one, other in pairwise(looked))
    assert changes == len(set(looked)) - 1


def test_groups_of_arms_take_the_time_of_all() -> None:
    found: list[str] = []
    first, second = shares(found.extend, [["a", "bb"], ["ccc"]], seconds=len)
    assert (first.seconds, second.seconds) == (3, 3)
    second.work()
    first.work()
    assert found == ["ccc", "a", "bb"]


def test_vectors_come_after_their_decoder_in_one_process() -> None:
    arms = ("decoder", "decoder-cls", "decoder-long", "vlm2vec", "vlm2vec-long", "decoder-nothing")
    assert readout_decoders.decoder_groups(arms, processes=2) == [
        ["decoder", "vlm2vec"],
        ["decoder-cls"],
        ["decoder-long", "vlm2vec-long"],
        ["decoder-nothing"],
    ]
    assert readout_decoders.decoder_groups(arms, processes=1) == [list(arms)]


def test_decoders_do_not_wait_for_readers(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other to have begun; the longest are begun first."""

    def run(here: str, there: str, *_: object, say: Say) -> None:
        (tmp_path / here).touch()
        ends = time.monotonic() + 20
        while not (tmp_path / there).exists():
            assert time.monotonic() < ends, f"{there} has not begun"
            time.sleep(0.01)

    monkeypatch.setattr(readout_experiment, "run_base", partial(run, "reader", "decoder"))
    monkeypatch.setattr(readout_experiment, "run_decoders", partial(run, "decoder", "reader"))
    order = Order((base,), ("pooled", "decoder"), tmp_path, "small", processes=2)
    READOUTS.run(order, say=lambda said: None)


def test_the_script_of_decoders_too(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"

    def run(base: Base, folder: Path, arms: list[str], *, say: Say) -> None:
        assert base.settings.vector_steps == 7
        # In a process of its own, which shares scenes that were made before.
        log.write_text(f"{folder.name} {arms} {os.getpid() != here} {'rows' in vars(base)}")

    here = os.getpid()
    monkeypatch.setattr(readout_decoders, "run_decoders", run)
    words = ["--bases", str(base), "--out", str(tmp_path), "--arms", "decoder", "vlm2vec"]
    words += ["--vector-steps", "7", "--processes", "3", "--times", "1", "--bench", "world-binding"]
    words += ["--scenes", "32", "--workers", "0"]
    monkeypatch.setattr(sys, "argv", ["readout_decoders", *words])
    there = result_path(tmp_path, "readouts", base.stem, "decoder")
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    readout_decoders.main()
    assert log.read_text() == f"{base.stem} ['vlm2vec'] True True"
    log.unlink()
    there.with_name("vlm2vec.json").write_text("{}")
    readout_decoders.main()
    assert not log.exists()
