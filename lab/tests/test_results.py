"""Files of results: order, joining, and what must not be compared or cannot be read."""

from __future__ import annotations

from collections.abc import Callable
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
    check_folder,
    in_order,
    join,
    numbers,
    opened,
    read_results,
    result_path,
    results_in,
    seeds_for,
    shipped_results,
    write_result,
)

from .made_up import Made, run
from .made_up import result as made_result

SIZES: tuple[Size, ...] = ("small", "full")


def result(base: str, arm: str = "a") -> ArmResult:
    return ArmResult(
        "default", base, f"of {base}", arm, 5_000, 256, 0, 3, "float32", None, {"b": {"m": 0.5}}
    )


def test_bases_are_sorted_by_their_numbers() -> None:
    names = ["tiny-10", "tiny-9", "tiny-10", "seed 2 (photos)", "other"]
    assert in_order(names) == ["other", "seed 2 (photos)", "tiny-9", "tiny-10"]
    assert numbers(["tiny-0", "tiny-10", "a"]) == "0, 10, a"


def test_seeds_give_enough_unseen_bases() -> None:
    assert seeds_for(5) == 5
    assert seeds_for(5, seen={"tiny-0": "", "tiny-5": "", "tiny-6": ""}) == 8
    assert seeds_for(1, after=5, seen=("tiny-5", "tiny-9")) == 7
    assert seeds_for(0, after=5, seen=("tiny-5",)) == 5


def test_run_folders_are_joined_by_experiment(tmp_path: Path) -> None:
    for name, arm in (("one", "a"), ("two", "b")):
        with opened(tmp_path / name, size="small"):
            run(tmp_path / name, Made("default", (arm,)), bases=("tiny-2", "tiny-10"))
    into = tmp_path / "into"
    path = into / "default.json"
    assert join([tmp_path / "one"], into) == [path]
    assert join([tmp_path / "two"], into) == [path]
    joined = results_in(path)
    assert [(one.base, one.arm) for one in joined] == [
        ("tiny-2", "a"), ("tiny-2", "b"), ("tiny-10", "a"), ("tiny-10", "b")
    ]  # fmt: skip
    assert joined[0] == made_result("default", "tiny-2", "a")
    text = path.read_text()
    assert len(text.splitlines()) == 6
    join([tmp_path / "one", tmp_path / "two"], into)
    assert path.read_text() == text


def test_a_joined_result_replaces_the_one_before_it(tmp_path: Path) -> None:
    path = result_path(tmp_path / "one", "default", "tiny-0", "a")
    path.parent.mkdir(parents=True)
    for loss in (1.0, 0.12345678901234):
        write_result(path, replace(result("tiny-0"), loss=loss))
        join([tmp_path / "one" / "default"], tmp_path / "into")
    assert [one.loss for one in results_in(tmp_path / "into")] == [0.1234567890]


def test_two_arms_of_a_base_may_have_other_settings(tmp_path: Path) -> None:
    arms = [result("tiny-0"), replace(result("tiny-0", "b"), steps=0)]
    (tmp_path / "one.json").write_text(as_text(arms))
    join([tmp_path / "one.json"], tmp_path / "into")
    assert [one.steps for one in results_in(tmp_path / "into")] == [5_000, 0]


@pytest.mark.parametrize(
    ("base", "arm", "field", "value", "words"),
    [
        # One arm on two bases.
        ("tiny-1", "a", "steps", 8_000, "on tiny-1 its steps is 8000, on tiny-0 5000"),
        ("tiny-1", "a", "batch_size", 512, "on tiny-1 its batch_size is 512, on tiny-0 256"),
        ("tiny-1", "a", "times", 5, "on tiny-1 its times is 5, on tiny-0 3"),
        ("tiny-1", "a", "size", "small", "on tiny-1 its size is small, on tiny-0 full"),
        # Two arms of one base.
        ("tiny-0", "c", "fingerprint", "g", "c has the fingerprint g, a has of tiny-0"),
        ("tiny-0", "c", "size", "small", "c has the size small, a has full"),
    ],
)
def test_results_that_cannot_be_compared_are_not_joined(
    tmp_path: Path, base: str, arm: str, field: str, value: object, words: str
) -> None:
    into = tmp_path / "into"
    (tmp_path / "first.json").write_text(as_text([result("tiny-0"), result("tiny-0", "b")]))
    join([tmp_path / "first.json"], into)
    before = (into / "default.json").read_text()
    changed = replace(result(base, arm), **{field: value})  # type: ignore[arg-type]
    (tmp_path / "second.json").write_text(as_text([changed]))
    with pytest.raises(UnbagError, match=words) as refused:
        join([tmp_path / "second.json"], into)
    assert "empty folder with --into" in refused.value.hint
    assert (into / "default.json").read_text() == before


def begin(folder: Path, *, lab: int | None = None) -> Path:
    """A folder of a full run with bases; of another version of the lab if given."""
    with opened(folder, size="full"):
        (folder / "bases").mkdir()
    if lab is not None:
        record = folder / "run.json"
        record.write_text(record.read_text().replace(f'"lab": {LAB_VERSION}', f'"lab": {lab}'))
    return folder


def without_record(folder: Path) -> Path:
    (begin(folder) / "bases" / "tiny-0.json").write_text("{}")
    (folder / "run.json").unlink()
    return folder


def broken(folder: Path, text: str = "{") -> Path:
    folder.mkdir()
    (folder / "a.json").write_text(text)
    return folder / "a.json"


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def other_fields(folder: Path) -> Path:
    return broken(folder, '{"arm": 1}')


@pytest.mark.parametrize(
    ("make", "words", "hint"),
    [
        (lambda path: path / "nowhere", "it does not exist", "--out FOLDER"),
        (lambda path: begin(path, lab=99), "version 99 of the lab", "version of unbag that"),
        (lambda path: begin(path / "one").parent, r"holds run folders \(one\)", "them: .*/one$"),
        (without_record, r"holds bases, and no run\.json", "put run.json back"),
        (broken, "a.json cannot be read", "remove it to run its arm again"),
        (other_fields, "a.json cannot be read", "remove it to run its arm again"),
        (empty, "no results of arms", "unbag lab run CLAIM"),
    ],
)
def test_results_that_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], Path], words: str, hint: str
) -> None:
    with pytest.raises(UnbagError, match=words) as refused:
        results_in(make(tmp_path / "runs"))
    refused.match(hint)


def test_a_folder_has_one_version_and_one_size(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with opened(folder, size="small"):
        check_folder(folder, size="small")
    # Nothing was run, as after a run that was not confirmed: the next run sets the size.
    assert results_in(folder) == []
    check_folder(folder, size="full")
    begin(folder)
    with pytest.raises(UnbagError, match="another lab run: size: full before, small now"):
        check_folder(folder, size="small")
    with (
        pytest.raises(UnbagError, match="size: full before, small now"),
        opened(folder, size="small"),
    ):
        pass
    with pytest.raises(UnbagError, match=f"lab: 0 before, {LAB_VERSION} now"):
        check_folder(begin(tmp_path / "old", lab=0), size="full")


def test_new_results_can_be_joined_with_the_shipped_ones() -> None:
    """Arms that no experiment has any more were run once, by an older recipe."""
    count = 0
    for shipped in shipped_results():
        experiment = find_experiment(shipped.experiment)
        if shipped.arm in experiment.arms:
            assert shipped.extent == experiment.extent(shipped.arm, size=shipped.size), shipped.arm
            count += 1
        else:
            assert shipped.arm.endswith("-first")
    assert count > 200


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_small_runs_take_fewer_steps(name: str) -> None:
    experiment = find_experiment(name)
    # `lab/docs/index.md` relies on it where it gives the cost of the lab.
    assert experiment.on_processor == (name in ("probes", "photos"))
    for arm in experiment.arms:
        small, full = (experiment.extent(arm, size=size) for size in SIZES)
        assert small.times <= full.times
        assert (small.steps < full.steps) == (full.steps > 0)


def test_results_are_read_from_folders_and_from_one_file(tmp_path: Path) -> None:
    one, two = result("tiny-0"), result("tiny-1")
    (tmp_path / "a").mkdir()
    write_result(tmp_path / "a" / "one.json", one)
    assert read_results(tmp_path / "a" / "one.json") == [one]
    (tmp_path / "all.json").write_text(as_text([one, two]))
    assert read_results(tmp_path) == [one, two]
