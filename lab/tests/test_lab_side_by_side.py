"""Bases and experiments at once: the same results, each after what it needs, failures apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag_lab.plan import Order, Say, make_plan
from unbag_lab.results import base_path, results_in
from unbag_lab.running import Failure, Machine, carry_out

from .made_up import Made, fails_on, run

THREE = Machine(processes=3)


def kept(out: Path) -> list[tuple[str, str, str]]:
    return sorted((one.experiment, one.base, one.arm) for one in results_in(out))


def meets(here: Path, there: Path) -> Callable[[str, str], None]:
    """Waits for another that runs at the same time."""

    def before(base: str, arm: str) -> None:
        here.touch()
        ends = time.monotonic() + 20
        while not there.exists():
            assert time.monotonic() < ends, "nothing else runs"
            time.sleep(0.01)

    return before


def test_two_experiments_run_at_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    made = (
        Made("default", ("a",), before=meets(one, other)),
        Made("ordered", ("b",), before=meets(other, one)),
    )
    assert run(tmp_path, *made, bases=("tiny-0",), machine=THREE) == []
    assert kept(tmp_path) == [("default", "tiny-0", "a"), ("ordered", "tiny-0", "b")]


def test_two_bases_run_at_once(tmp_path: Path) -> None:
    def before(base: str, arm: str) -> None:
        other = {"tiny-0": "tiny-1", "tiny-1": "tiny-0"}[base]
        meets(tmp_path / base, tmp_path / other)(base, arm)

    assert run(tmp_path, Made("default", ("a",), before=before), machine=THREE) == []
    assert len(kept(tmp_path)) == 2


def test_each_waits_for_what_it_needs_on_its_base(tmp_path: Path) -> None:
    """`probes` asserts that the repair of its base is there, `before` runs when it begins."""

    def there(base: str, arm: str) -> None:
        assert (tmp_path / "default" / base / "a.json").exists()

    slow = Made("default", ("a",), before=lambda base, arm: time.sleep(0.2))
    needy = Made("probes", ("p",), need=(("default", "a"),), before=there)
    assert run(tmp_path, slow, needy, machine=THREE) == []
    assert len(kept(tmp_path)) == 4


def test_bases_come_first_and_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_base(out: Path, name: str, *, workers: int, say: Say, **_: object) -> None:
        if name == "tiny-1":
            raise UnbagError("no tiny-1")
        path = base_path(out, name)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        say(f"with {workers} workers")

    monkeypatch.setattr("unbag_lab.running.make_base", make_base)
    made = Made("default", ("a", "b"))
    bases, log = ["tiny-0", "tiny-1"], tmp_path / "log"
    arms = [("default", arm) for arm in made.arms]
    plan = make_plan(
        arms, tmp_path, bases, find=lambda name: made, untrained=dict.fromkeys(bases, 9.0)
    )

    def say(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{line}\n")

    failures = carry_out(
        plan,
        tmp_path,
        size="small",
        machine=Machine(processes=3, workers=7),
        find=lambda name: made,
        say=say,
    )
    assert failures == [
        Failure("base tiny-1", "no tiny-1"),
        Failure("default", "no result of a on tiny-1, b on tiny-1"),
    ]
    assert kept(tmp_path) == [("default", "tiny-0", "a"), ("default", "tiny-0", "b")]
    said = log.read_text().splitlines()
    assert said[0] == "4 tasks, in up to 3 processes at once"
    assert "  base tiny-0: with 3 workers" in said
    # Which of the two ends first is chance.
    assert [line for line in said if line.startswith("base tiny-1: failed; ")]
    assert [line for line in said if line.startswith("default on tiny-0: done; 2 of 4 results")]


def test_what_fails_leaves_the_others_and_the_same_command_goes_on(tmp_path: Path) -> None:
    broken = Made("default", ("a", "b"), before=fails_on("tiny-0 b", ZeroDivisionError("by zero")))
    needy = Made("probes", ("p",), need=(("default", "b"),))
    failures = run(tmp_path, broken, needy, machine=THREE)
    trace = tmp_path / "failed" / "default-on-tiny-0.txt"
    assert failures == [
        Failure("default on tiny-0", f"ZeroDivisionError: by zero\n  traceback: {trace}"),
        Failure("probes", "no result of p on tiny-0"),
    ]
    assert "in before" in trace.read_text()
    assert len(kept(tmp_path)) == 4
    whole = Made("default", ("a", "b")), Made("probes", ("p",), need=(("default", "b"),))
    assert run(tmp_path, *whole, machine=THREE) == []
    assert len(kept(tmp_path)) == 6


def test_one_that_takes_names_alone_is_one_task(tmp_path: Path) -> None:
    """Photographs share their features, and seeds of pre-training go side by side by themselves."""

    class Told(Made):
        def run(self, order: Order, *, say: Say = print) -> None:
            (tmp_path / "told").write_text(f"{len(order.bases)} {order.processes} {order.workers}")
            super().run(order, say=say)

    scratch = Told("pretraining", ("a",), reads_bases=False, most_processes=5)
    machine = Machine(processes=4, workers=8)
    assert run(tmp_path, scratch, machine=machine) == []
    assert (tmp_path / "told").read_text() == "2 2 3"


def test_one_that_takes_names_alone_does_not_wait_for_bases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_base(out: Path, name: str, **_: object) -> None:
        meets(tmp_path / "base", tmp_path / "scratch")(name, "")
        raise UnbagError("no base")

    monkeypatch.setattr("unbag_lab.running.make_base", make_base)
    begins = meets(tmp_path / "scratch", tmp_path / "base")
    made = {
        "pretraining": Made("pretraining", ("a",), reads_bases=False, before=begins),
        "default": Made("default", ("a",)),
    }
    arms = [(name, "a") for name in made]
    plan = make_plan(arms, tmp_path, ["tiny-0"], find=made.__getitem__, untrained={"tiny-0": 9.0})
    failures = carry_out(
        plan, tmp_path, size="small", machine=Machine(processes=2), find=made.__getitem__
    )
    assert failures == [
        Failure("base tiny-0", "no base"),
        Failure("default", "no result of a on tiny-0"),
    ]
    assert kept(tmp_path) == [("pretraining", "tiny-0", "a")]


def test_what_computes_on_cores_takes_no_room_of_a_gpu(tmp_path: Path) -> None:
    """Two have all the room and stay until the third has begun; nothing here touches a device."""
    one, two, other = tmp_path / "one", tmp_path / "two", tmp_path / "other"
    made = (
        Made("default", ("a",), before=meets(one, other)),
        Made("ordered", ("b",), before=meets(two, other)),
        Made("probes", ("c",), before=meets(other, one), on_processor=True, most_processes=3),
    )
    machine = Machine("cuda", processes=2)
    assert run(tmp_path, *made, bases=("tiny-0",), machine=machine) == []
    assert len(kept(tmp_path)) == 3


def test_when_a_task_begins_it_is_told_with_how_many_processes(tmp_path: Path) -> None:
    said: list[str] = []
    made = Made("readouts", ("a",), most_processes=6), Made("default", ("a",))
    run(tmp_path, *made, bases=("tiny-0",), machine=Machine(processes=7), say=said.append)
    assert "  readouts on tiny-0: begins, in 6 processes" in said
    assert "  default on tiny-0: begins" in said


def test_processes_are_shared_among_bases(tmp_path: Path) -> None:
    class Told(Made):
        def run(self, order: Order, *, say: Say = print) -> None:
            (base,) = order.bases
            (tmp_path / base.stem).write_text(f"{order.processes} {order.workers}")
            super().run(order, say=say)

    machine = Machine(processes=6, workers=0)
    assert run(tmp_path, Told("readouts", ("a",), most_processes=6), machine=machine) == []
    assert [(tmp_path / name).read_text() for name in ("tiny-0", "tiny-1")] == ["3 0", "3 0"]
