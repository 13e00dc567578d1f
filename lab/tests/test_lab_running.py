"""A run goes on after any stop, and what fails does not take the others down."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from unbag.errors import ImageError, UnbagError
from unbag_lab.plan import Order, Say, make_plan
from unbag_lab.results import (
    LAB_VERSION,
    check_folder,
    join,
    opened,
    result_path,
    results_in,
    write_result,
)
from unbag_lab.running import Failure, Machine, carry_out
from unbag_lab.scheduler import BrokenError, DiedError, one_thread, run_isolated

from .made_up import Made, fails_on, result, run


def test_a_stop_loses_nothing(tmp_path: Path) -> None:
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


def test_an_experiment_that_takes_names_alone_needs_no_bases(tmp_path: Path) -> None:
    scratch = Made("pretraining", ("a",), reads_bases=False)
    assert run(tmp_path, scratch) == []
    assert scratch.runs == [("tiny-0", "a"), ("tiny-1", "a")]


def test_what_fails_is_told_and_the_others_are_run(tmp_path: Path) -> None:
    broken = Made("default", ("a",), before=fails_on("tiny-0 a", ZeroDivisionError("by zero")))
    other = Made("priors", ("b",))
    needy = Made("readouts", ("c",), need=(("default", "a"),))
    failures = run(tmp_path, broken, needy, other)
    trace = tmp_path / "failed" / "default.txt"
    assert failures == [
        Failure("default", f"ZeroDivisionError: by zero\n  traceback: {trace}"),
        Failure("readouts", "no result of c on tiny-0, c on tiny-1"),
    ]
    assert "in before" in trace.read_text()
    assert other.runs == [("tiny-0", "b"), ("tiny-1", "b")]
    assert needy.runs == []


def test_a_need_that_failed_on_one_base_leaves_the_others_to_run(tmp_path: Path) -> None:
    error = UnbagError("no room", expected="room", hint="make some")
    broken = Made("default", ("a",), before=fails_on("tiny-1 a", error))
    needy = Made("readouts", ("c",), need=(("default", "a"),))
    failures = run(tmp_path, broken, needy)
    assert failures[0] == Failure("default", str(error))
    assert needy.runs == [("tiny-0", "c")]
    assert failures[1:] == [Failure("readouts", "no result of c on tiny-1")]


def test_an_arm_follows_one_of_its_own_experiment_in_one_order(tmp_path: Path) -> None:
    both = Made("default", ("a", "b"), need_of={"b": (("default", "a"),)})
    assert run(tmp_path, both, bases=("tiny-0",)) == []
    assert both.runs == [("tiny-0", "a"), ("tiny-0", "b")]


def test_an_experiment_that_ends_without_its_results_is_told(tmp_path: Path) -> None:
    class Idle(Made):
        def run(self, order: Order, *, say: Say = print) -> None:
            pass

    assert run(tmp_path, Idle("default", ("a", "b"))) == [
        Failure("default", "no result of a on tiny-0, a on tiny-1, b on tiny-0 and 1 more")
    ]


def test_a_base_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_base(out: Path, name: str, **_: object) -> None:
        raise UnbagError(f"no {name}")

    monkeypatch.setattr("unbag_lab.running.make_base", make_base)
    made = Made("default", ("a",))
    plan = make_plan(
        [("default", "a")], tmp_path, ["tiny-0"], find=lambda name: made, untrained={"tiny-0": 9.0}
    )
    said: list[str] = []
    failures = carry_out(
        plan, tmp_path, size="small", machine=Machine(), find=lambda name: made, say=said.append
    )
    assert failures == [
        Failure("base tiny-0", "no tiny-0"),
        Failure("default", "no result of a on tiny-0"),
    ]
    assert said == ["base tiny-0", "1 of 1: default, 1 arm on 1 base"]


def _raise(error: BaseException) -> None:
    raise error


def test_work_apart_gives_its_value_or_its_error() -> None:
    here = os.getpid()
    assert run_isolated(os.getpid, device="cpu") == here
    assert run_isolated(os.getpid, device="cuda") != here
    with pytest.raises(UnbagError) as told:
        run_isolated(lambda: _raise(ImageError("k", "bad", hint="leave it")), device="cuda")
    assert (told.value.message, told.value.hint) == ("bad", "leave it")
    for device in ("cpu", "cuda"):
        with pytest.raises(BrokenError, match="KeyError: 'a'") as broke:
            run_isolated(lambda: _raise(KeyError("a")), device=device)
        assert "_raise" in broke.value.trace
        with pytest.raises(BrokenError, match="SystemExit: two died"):
            run_isolated(lambda: _raise(SystemExit("two died")), device=device)


def test_work_apart_that_dies_is_told_from_what_it_raised() -> None:
    with pytest.raises(DiedError, match="ended by SIGKILL, as by a lack of memory"):
        run_isolated(lambda: os.kill(os.getpid(), signal.SIGKILL), device="cuda")
    with pytest.raises(DiedError, match="its process ended with code 3"):
        run_isolated(lambda: os._exit(3), device="cuda")


def test_threads_are_few_before_a_fork_and_as_many_as_told_after_it() -> None:
    """A forked process waits for ever for threads that torch had before the fork."""
    before = torch.get_num_threads()
    with one_thread(True) as told:
        assert (told, torch.get_num_threads()) == (before, 1)
        assert run_isolated(torch.get_num_threads, device="cuda", threads=3) == 3
    assert torch.get_num_threads() == before
    with one_thread(False):
        assert torch.get_num_threads() == before


def test_a_folder_is_of_one_lab_and_one_size(tmp_path: Path) -> None:
    with opened(tmp_path / "new", size="small"):
        check_folder(tmp_path / "new", size="small")
    # Only asked for, as by somebody who then said no: nothing binds the folder yet.
    check_folder(tmp_path / "new", size="full")
    (tmp_path / "new" / "bases").mkdir()
    with pytest.raises(UnbagError, match="another lab run: size: small before, full now"):
        check_folder(tmp_path / "new", size="full")
    record = tmp_path / "new" / "run.json"
    record.write_text(record.read_text().replace(f'"lab": {LAB_VERSION}', '"lab": 0'))
    with pytest.raises(UnbagError, match=f"lab: 0 before, {LAB_VERSION} now"):
        check_folder(tmp_path / "new", size="small")
    with pytest.raises(UnbagError, match="it does not exist"):
        results_in(tmp_path / "nowhere")


def test_a_folder_that_nothing_was_run_in_takes_the_size_of_the_next(tmp_path: Path) -> None:
    with opened(tmp_path, size="full"):
        pass
    with opened(tmp_path, size="small"):
        (tmp_path / "bases").mkdir()
    with (
        pytest.raises(UnbagError, match="size: small before, full now"),
        opened(tmp_path, size="full"),
    ):
        pass


def test_results_of_a_folder_around_runs_or_without_its_record_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "runs" / "one", size="small"):
        pass
    with pytest.raises(UnbagError, match=r"holds run folders \(one\)") as told:
        results_in(tmp_path / "runs")
    assert told.value.hint == f"name one of them: {tmp_path / 'runs' / 'one'}"
    (tmp_path / "lost" / "bases").mkdir(parents=True)
    (tmp_path / "lost" / "bases" / "tiny-0.json").write_text("{}")
    with pytest.raises(UnbagError, match=r"holds bases, and no run\.json") as told:
        results_in(tmp_path / "lost")
    assert "remove" not in told.value.hint


def test_run_folders_are_joined_by_experiment(tmp_path: Path) -> None:
    for name, arm in (("one", "a"), ("two", "b")):
        with opened(tmp_path / name, size="small"):
            run(tmp_path / name, Made("default", (arm,)), bases=("tiny-2", "tiny-10"))
    into = tmp_path / "into"
    assert results_in(tmp_path / "one") == [
        result("default", "tiny-10", "a"),
        result("default", "tiny-2", "a"),
    ]
    path = into / "default.json"
    assert join([tmp_path / "one"], into) == [path]
    assert join([tmp_path / "two"], into) == [path]
    lines = path.read_text().splitlines()
    assert [one.arm for one in results_in(path)] == ["a", "b", "a", "b"]
    assert [one.base for one in results_in(path)] == ["tiny-2", "tiny-2", "tiny-10", "tiny-10"]
    assert len(lines) == 6
    before = path.read_text()
    join([tmp_path / "one", tmp_path / "two"], into)
    assert path.read_text() == before


def test_a_joined_result_replaces_the_one_before_it(tmp_path: Path) -> None:
    into = tmp_path / "into"
    for loss in (1.0, 0.12345678901234):
        run(tmp_path / "one", Made("default", ("a",)), bases=("tiny-0",))
        path = result_path(tmp_path / "one", "default", "tiny-0", "a")
        write_result(path, replace(result("default", "tiny-0", "a"), loss=loss))
        join([tmp_path / "one" / "default"], into)
    assert [one.loss for one in results_in(into)] == [0.1234567890]


@pytest.mark.parametrize(
    ("other", "said"),
    [({"fingerprint": "g"}, "b has the fingerprint g, a has f"),
     ({"size": "full"}, "b has the size full, a has small")],
)  # fmt: skip
def test_bases_of_two_kinds_are_not_joined(
    tmp_path: Path, other: dict[str, str], said: str
) -> None:
    run(tmp_path, Made("default", ("a", "b")), bases=("tiny-0",))
    path = result_path(tmp_path, "default", "tiny-0", "b")
    write_result(path, replace(result("default", "tiny-0", "b"), **other))  # type: ignore[arg-type]
    with pytest.raises(UnbagError, match=said):
        join([tmp_path / "default"], tmp_path / "into")
