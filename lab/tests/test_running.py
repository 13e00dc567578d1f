"""Runs of plans, one by one and in parallel: order, failures, interrupts, progress."""

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

ALONE, THREE = Machine(), Machine(processes=3)


def arms_in(out: Path) -> list[tuple[str, str, str]]:
    return sorted((one.experiment, one.base, one.arm) for one in results_in(out))


def meets(here: Path, there: Path) -> Callable[[str, str], None]:
    """Wait for another task that runs at the same time."""

    def before(base: str, arm: str) -> None:
        here.touch()
        ends = time.monotonic() + 20
        while not there.exists():
            assert time.monotonic() < ends, "nothing else runs"
            time.sleep(0.01)

    return before


def test_an_interrupted_run_loses_nothing(tmp_path: Path) -> None:
    first = Made("default", ("a", "b"), before=fails_on("tiny-1 a", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, first)
    assert first.runs == [("tiny-0", "a"), ("tiny-0", "b")]
    then = Made("default", ("a", "b"))
    assert run(tmp_path, then) == []
    assert then.runs == [("tiny-1", "a"), ("tiny-1", "b")]
    idle = Made("default", ("a", "b"))
    run(tmp_path, idle)
    assert idle.runs == []


def test_an_experiment_without_bases_needs_none(tmp_path: Path) -> None:
    scratch = Made("pretraining", ("a",), reads_bases=False)
    assert run(tmp_path, scratch) == []
    assert scratch.runs == [("tiny-0", "a"), ("tiny-1", "a")]


def test_an_arm_follows_one_of_its_own_experiment(tmp_path: Path) -> None:
    both = Made("default", ("a", "b"), need_of={"b": (("default", "a"),)})
    assert run(tmp_path, both, bases=("tiny-0",)) == []
    assert both.runs == [("tiny-0", "a"), ("tiny-0", "b")]


@pytest.mark.parametrize(
    ("machine", "name", "missing", "count"),
    [
        # One failure ends the experiment on all bases.
        (ALONE, "default", "p on tiny-0, p on tiny-1", 1),
        (THREE, "default on tiny-0", "p on tiny-0", 4),
    ],
)
def test_a_failure_stops_no_other_and_the_same_command_resumes(
    tmp_path: Path, machine: Machine, name: str, missing: str, count: int
) -> None:
    def experiments(error: BaseException | None = None) -> tuple[Made, ...]:
        before = fails_on("tiny-0 b", error) if error else Made.before
        return (
            Made("default", ("a", "b"), before=before),
            Made("probes", ("p",), need=(("default", "b"),)),
        )

    failures = run(tmp_path, *experiments(ZeroDivisionError("by zero")), machine=machine)
    trace = tmp_path / "failed" / f"{name.replace(' ', '-')}.txt"
    assert failures == [
        Failure(name, f"ZeroDivisionError: by zero\n  traceback: {trace}"),
        Failure("probes", f"no result of {missing}"),
    ]
    assert "in before" in trace.read_text()
    assert len(arms_in(tmp_path)) == count
    assert run(tmp_path, *experiments(), machine=machine) == []
    assert len(arms_in(tmp_path)) == 6


def test_a_failure_on_one_base_leaves_the_others(tmp_path: Path) -> None:
    error = UnbagError("no room", expected="room", hint="make some")
    broken = Made("default", ("a",), before=fails_on("tiny-1 a", error))
    needy = Made("readouts", ("c",), need=(("default", "a"),))
    other = Made("priors", ("b",))
    assert run(tmp_path, broken, needy, other) == [
        Failure("default", str(error)),
        Failure("readouts", "no result of c on tiny-1"),
    ]
    assert needy.runs == [("tiny-0", "c")]
    assert other.runs == [("tiny-0", "b"), ("tiny-1", "b")]


def test_missing_results_are_a_failure(tmp_path: Path) -> None:
    class Idle(Made):
        def run(self, order: Order, *, say: Say = print) -> None:
            pass

    assert run(tmp_path, Idle("default", ("a", "b"))) == [
        Failure("default", "no result of a on tiny-0, a on tiny-1, b on tiny-0 and 1 more")
    ]


@pytest.fixture
def make_base(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path, str], None]], None]:
    """Replace the training of a base by a function of its path and name."""

    def replace(make: Callable[[Path, str], None]) -> None:
        def make_base(out: Path, name: str, *, workers: int, say: Say, **_: object) -> None:
            path = base_path(out, name)
            path.parent.mkdir(exist_ok=True)
            make(path, name)
            say(f"with {workers} workers")

        monkeypatch.setattr("unbag_lab.running.make_base", make_base)

    return replace


def run_with_bases(
    out: Path, *made: Made, bases: list[str], machine: Machine, say: Say = lambda line: None
) -> list[Failure]:
    find = {one.name: one for one in made}.__getitem__
    arms = [(one.name, arm) for one in made for arm in one.arms]
    plan = make_plan(arms, out, bases, find=find, untrained=dict.fromkeys(bases, 9.0))
    return carry_out(plan, out, size="small", machine=machine, find=find, say=say)


@pytest.mark.parametrize("machine", [ALONE, Machine(processes=3, workers=7)])
def test_bases_are_made_first_and_a_failed_one_is_reported(
    tmp_path: Path, make_base: Callable[..., None], machine: Machine
) -> None:
    def make(path: Path, name: str) -> None:
        if name == "tiny-1":
            raise UnbagError("no tiny-1")
        path.touch()

    def say(line: str) -> None:
        with (tmp_path / "log").open("a") as file:
            file.write(f"{line}\n")

    make_base(make)
    made = Made("default", ("a", "b"))
    assert run_with_bases(tmp_path, made, bases=["tiny-0", "tiny-1"], machine=machine, say=say) == [
        Failure("base tiny-1", "no tiny-1"),
        Failure("default", "no result of a on tiny-1, b on tiny-1"),
    ]
    assert arms_in(tmp_path) == [("default", "tiny-0", "a"), ("default", "tiny-0", "b")]
    said = (tmp_path / "log").read_text().splitlines()
    if machine is ALONE:
        assert said[:4] == [
            "base tiny-0", "  with 0 workers", "base tiny-1", "1 of 1: default, 2 arms on 2 bases"
        ]  # fmt: skip
    else:
        assert said[0] == "4 tasks, in up to 3 processes at once"
        assert "  base tiny-0: with 3 workers" in said
        # Which of the two ends first is chance.
        assert any(line.startswith("base tiny-1: failed; ") for line in said)
        assert any(line.startswith("default on tiny-0: done; 2 of 4 results") for line in said)


def test_an_experiment_without_bases_does_not_wait_for_them(
    tmp_path: Path, make_base: Callable[..., None]
) -> None:
    def make(path: Path, name: str) -> None:
        meets(tmp_path / "base", tmp_path / "scratch")(name, "")
        raise UnbagError("no base")

    make_base(make)
    begins = meets(tmp_path / "scratch", tmp_path / "base")
    made = (
        Made("pretraining", ("a",), reads_bases=False, before=begins),
        Made("default", ("a",)),
    )
    assert run_with_bases(tmp_path, *made, bases=["tiny-0"], machine=Machine(processes=2)) == [
        Failure("base tiny-0", "no base"),
        Failure("default", "no result of a on tiny-0"),
    ]
    assert arms_in(tmp_path) == [("pretraining", "tiny-0", "a")]


def test_two_experiments_run_in_parallel(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    made = (
        Made("default", ("a",), before=meets(one, other)),
        Made("ordered", ("b",), before=meets(other, one)),
    )
    assert run(tmp_path, *made, bases=("tiny-0",), machine=THREE) == []
    assert arms_in(tmp_path) == [("default", "tiny-0", "a"), ("ordered", "tiny-0", "b")]


def test_two_bases_run_in_parallel(tmp_path: Path) -> None:
    def before(base: str, arm: str) -> None:
        other = {"tiny-0": "tiny-1", "tiny-1": "tiny-0"}[base]
        meets(tmp_path / base, tmp_path / other)(base, arm)

    assert run(tmp_path, Made("default", ("a",), before=before), machine=THREE) == []
    assert len(arms_in(tmp_path)) == 2


def test_an_arm_waits_for_its_needs_on_its_base(tmp_path: Path) -> None:
    def before(base: str, arm: str) -> None:
        assert (tmp_path / "default" / base / "a.json").exists()

    slow = Made("default", ("a",), before=lambda base, arm: time.sleep(0.2))
    needy = Made("probes", ("p",), need=(("default", "a"),), before=before)
    assert run(tmp_path, slow, needy, machine=THREE) == []
    assert len(arms_in(tmp_path)) == 4


def test_work_on_the_cpu_needs_no_process_of_a_gpu(tmp_path: Path) -> None:
    """Two use all processes and stay until the third has begun; nothing here touches a device."""
    one, two, other = tmp_path / "one", tmp_path / "two", tmp_path / "other"
    made = (
        Made("default", ("a",), before=meets(one, other)),
        Made("ordered", ("b",), before=meets(two, other)),
        Made("probes", ("c",), before=meets(other, one), on_processor=True, most_processes=3),
    )
    machine = Machine("cuda", processes=2)
    assert run(tmp_path, *made, bases=("tiny-0",), machine=machine) == []
    assert len(arms_in(tmp_path)) == 3


def test_the_start_of_a_task_is_reported_with_its_processes(tmp_path: Path) -> None:
    said: list[str] = []
    made = Made("readouts", ("a",), most_processes=6), Made("default", ("a",))
    run(tmp_path, *made, bases=("tiny-0",), machine=Machine(processes=7), say=said.append)
    assert "  readouts on tiny-0: begins, in 6 processes" in said
    assert "  default on tiny-0: begins" in said


@pytest.mark.parametrize(
    ("name", "machine", "orders"),
    [
        # One task for all bases: photographs share their features.
        ("pretraining", Machine(processes=4, workers=8), ["tiny-0 tiny-1: 2 processes, 3 workers"]),
        ("readouts", Machine(processes=6, workers=0),
         ["tiny-0: 3 processes, 0 workers", "tiny-1: 3 processes, 0 workers"]),
    ],
)  # fmt: skip
def test_processes_and_workers_are_shared(
    tmp_path: Path, name: str, machine: Machine, orders: list[str]
) -> None:
    class Noted(Made):
        def run(self, order: Order, *, say: Say = print) -> None:
            bases = " ".join(base.stem for base in order.bases)
            text = f"{bases}: {order.processes} processes, {order.workers} workers\n"
            with (tmp_path / "orders").open("a") as file:
                file.write(text)
            super().run(order, say=say)

    made = Noted(name, ("a",), reads_bases=name == "readouts", most_processes=6)
    assert run(tmp_path, made, machine=machine) == []
    assert sorted((tmp_path / "orders").read_text().splitlines()) == orders
