"""Results of the lab that must not be judged together, or cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag_lab.plan import EXPERIMENTS, find_experiment
from unbag_lab.results import (
    LAB_VERSION,
    ArmResult,
    Size,
    as_text,
    join,
    opened,
    read_results,
    results_in,
    shipped_results,
)

SIZES: tuple[Size, ...] = ("small", "full")


def result(base: str, arm: str = "a") -> ArmResult:
    return ArmResult(
        "default", base, f"of {base}", arm, 5_000, 256, 0, 3, "float32", None, {"b": {"m": 0.5}}
    )


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("steps", 8_000, "on tiny-1 its steps is 8000, on tiny-0 5000"),
        ("batch_size", 512, "on tiny-1 its batch_size is 512, on tiny-0 256"),
        ("times", 5, "on tiny-1 its times is 5, on tiny-0 3"),
        ("size", "small", "on tiny-1 its size is small, on tiny-0 full"),
    ],
)
def test_an_arm_with_other_settings_on_another_base_is_not_joined(
    tmp_path: Path, what: str, value: object, said: str
) -> None:
    into = tmp_path / "into"
    (tmp_path / "first.json").write_text(as_text([result("tiny-0"), result("tiny-0", "b")]))
    join([tmp_path / "first.json"], into)
    before = (into / "default.json").read_text()
    changed = replace(result("tiny-1"), **{what: value})  # type: ignore[arg-type]
    (tmp_path / "second.json").write_text(as_text([changed]))
    with pytest.raises(UnbagError, match=f"a of default differs between bases: {said}") as told:
        join([tmp_path / "second.json"], into)
    assert "on all bases" in told.value.hint
    assert (into / "default.json").read_text() == before


def test_two_arms_of_a_base_may_have_other_settings(tmp_path: Path) -> None:
    some = [result("tiny-0"), replace(result("tiny-0", "b"), steps=0)]
    (tmp_path / "one.json").write_text(as_text(some))
    join([tmp_path / "one.json"], tmp_path / "into")
    assert [one.steps for one in results_in(tmp_path / "into")] == [5_000, 0]


def test_a_folder_of_another_lab_is_not_judged(tmp_path: Path) -> None:
    with opened(tmp_path, size="full"):
        pass
    assert results_in(tmp_path) == []
    (tmp_path / "bases").mkdir()
    record = tmp_path / "run.json"
    record.write_text(record.read_text().replace(f'"lab": {LAB_VERSION}', '"lab": 99'))
    with pytest.raises(UnbagError, match="started with version 99 of the lab") as told:
        results_in(tmp_path)
    assert told.value.hint == "use the version of unbag that started it, or name another folder"


def test_a_broken_result_says_how_to_have_it_again(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UnbagError, match="cannot be read") as told:
        read_results(tmp_path / "a.json")
    assert told.value.hint.endswith("remove it to run its arm again")


def test_what_is_run_today_can_be_joined_with_what_ships() -> None:
    """Arms that no experiment has any more were run once, by an older recipe."""
    asked = 0
    for one in shipped_results():
        experiment = find_experiment(one.experiment)
        if one.arm in experiment.arms:
            assert one.extent == experiment.extent(one.arm, size=one.size), (one.base, one.arm)
            asked += 1
        else:
            assert one.arm.endswith("-first")
    assert asked > 200


def test_two_experiments_take_the_time_of_a_processor() -> None:
    """`lab/docs/index.md` says so too, where it says what the lab cost."""
    assert [name for name in EXPERIMENTS if find_experiment(name).on_processor] == [
        "probes",
        "photos",
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_knows_the_extent_of_its_arms(name: str) -> None:
    experiment = find_experiment(name)
    for arm in experiment.arms:
        small, full = (experiment.extent(arm, size=size) for size in SIZES)
        assert small.times <= full.times
        assert (small.steps < full.steps) == (full.steps > 0)
