"""Tasks at once: in their room, after what they wait for, and none takes another down."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag_lab import scheduler as module
from unbag_lab.scheduler import BrokenError, DiedError, Task, Work, run_tasks


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def say(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


def work(path: Path, name: str, until: Path | None = None) -> None:
    """Says when it begins and ends; waits for a file, if told to."""
    say(path, f"+{name}")
    ends = time.monotonic() + 20
    while until is not None and not until.exists() and time.monotonic() < ends:
        time.sleep(0.01)
    say(path, f"-{name}")


def task(
    name: str, done: Work | None, *, room: int = 1, seconds: float = 1.0, after: Sequence[str] = ()
) -> Task:
    return Task(name, lambda taken: done, room, seconds, frozenset(after))


def run(tasks: Sequence[Task], room: int, look: Callable[[], None] = lambda: None) -> list[str]:
    """Names as they end; an error is raised."""
    ended = []
    for one, begun in run_tasks(tasks, room=room, look=look):
        begun.result()
        ended.append(one.name)
    return ended


def test_no_more_are_live_than_there_is_room_for(tmp_path: Path) -> None:
    """Each says how many processes it was told to take, and stays a while."""
    path = tmp_path / "log"

    def stay(taken: int) -> None:
        say(path, f"+{taken}")
        time.sleep(0.15)
        say(path, f"-{taken}")

    wants = {"a": 1, "b": 2, "c": 3, "d": 5, "e": 1, "f": 4, "g": 1}
    tasks = [
        Task(name, lambda taken: partial(stay, taken), room, 1.0) for name, room in wants.items()
    ]
    assert sorted(run(tasks, 4)) == list(wants)
    live, most = 0, 0
    for line in lines(path):
        live += int(line)
        most = max(most, live)
    assert live == 0
    assert most == 4


def test_one_that_computes_elsewhere_takes_no_room(tmp_path: Path) -> None:
    """`full` has all the room and ends when the one beside it, which wants more, has begun."""
    path, begun = tmp_path / "log", tmp_path / "begun"

    def beside(taken: int) -> Work:
        return partial(_ends, path, f"beside {taken}", begun)

    tasks = [
        task("full", partial(work, tmp_path / "full", "full", begun), room=2, seconds=9),
        task("waits", partial(say, path, "waits"), room=2, seconds=8),
        Task("beside", beside, 3, 1.0, is_beside=True),
    ]
    run(tasks, 2)
    assert path.read_text().splitlines() == ["beside 3", "waits"]


def test_one_beside_holds_up_none_that_wants_more_than_there_is(tmp_path: Path) -> None:
    path, begun = tmp_path / "log", tmp_path / "begun"
    tasks = [
        Task("beside", lambda taken: partial(work, path, "beside", begun), 1, 99.0, is_beside=True),
        task("wide", begun.touch, room=9),
    ]
    assert sorted(run(tasks, 2)) == ["beside", "wide"]
    assert lines(path) == ["+beside", "-beside"]


def test_one_beside_leaves_the_cores_to_those_that_keep_a_gpu_busy(tmp_path: Path) -> None:
    def note(name: str) -> None:
        (tmp_path / name).write_text(f"{os.nice(0)}")

    behind = Task("beside", lambda taken: partial(note, "beside"), 1, 1.0, is_beside=True)
    run([task("first", partial(note, "first")), behind], 2)
    first, beside = (int((tmp_path / name).read_text()) for name in ("first", "beside"))
    assert first == os.nice(0)
    assert beside == min(19, first + 10)


def test_two_are_live_at_once(tmp_path: Path) -> None:
    """The first ends when the second has begun."""
    path, begun = tmp_path / "log", tmp_path / "begun"
    first = task("a", partial(work, path, "a", begun), seconds=2)
    assert sorted(run([first, task("b", begun.touch)], 2)) == ["a", "b"]
    assert lines(path) == ["+a", "-a"]


@pytest.mark.parametrize(("wants", "taken"), [(4, 2), (5, 3)])
def test_one_begins_with_half_of_the_room_it_wants(tmp_path: Path, wants: int, taken: int) -> None:
    """Of three there are two while `narrow` runs; one that wants five waits, and none overtakes."""
    path, go = tmp_path / "log", tmp_path / "go"

    def wide(taken: int) -> Work:
        return partial(_ends, path, f"wide {taken}", go)

    tasks = [
        task("narrow", partial(work, tmp_path / "narrow", "narrow", go), seconds=9),
        Task("wide", wide, wants, 5.0),
        task("last", partial(say, path, "last"), seconds=1),
    ]
    if taken == 3:
        go.touch()
    run(tasks, 3)
    assert path.read_text().splitlines() == [f"wide {taken}", "last"]


def _ends(path: Path, line: str, go: Path) -> None:
    say(path, line)
    go.touch()


def test_one_that_takes_more_than_all_the_room_is_run_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    wide = task("wide", partial(work, path, "wide"), room=9, seconds=20)
    assert run([task("a", partial(work, path, "a")), wide], 2) == ["wide", "a"]
    assert lines(path) == ["+wide", "-wide", "+a", "-a"]


def test_the_longest_chain_begins_first_and_each_waits_for_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tasks = [
        task("alone", partial(work, path, "alone"), seconds=5),
        task("last", partial(work, path, "last"), seconds=4, after=["base"]),
        task("base", partial(work, path, "base"), seconds=3),
    ]
    assert run(tasks, 1) == ["base", "alone", "last"]


def test_one_with_nothing_to_do_holds_up_none(tmp_path: Path) -> None:
    tasks = [task("a", None), task("b", (tmp_path / "b").touch, after=["a"])]
    assert run(tasks, 1) == ["b"]
    assert (tmp_path / "b").exists()
    assert run([], 3) == []


def test_what_fails_is_raised_by_its_result_and_the_others_go_on(tmp_path: Path) -> None:
    def refuse() -> None:
        raise UnbagError("no room", expected="room")

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    tasks = [
        task("refused", refuse),
        task("broken", partial(divmod, 1, 0)),
        task("killed", kill),
        task("after", (tmp_path / "after").touch, after=["refused", "broken", "killed"]),
    ]
    found: dict[str, type[Exception]] = {}
    for one, begun in run_tasks(tasks, room=4, look=lambda: None):
        try:
            begun.result()
        except (UnbagError, BrokenError, DiedError) as error:
            found[one.name] = type(error)
    assert found == {"refused": UnbagError, "broken": BrokenError, "killed": DiedError}
    assert (tmp_path / "after").exists()


def test_whoever_waits_is_told_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.01)
    seen = tmp_path / "seen"
    assert run([task("a", partial(work, tmp_path / "log", "a", seen))], 1, seen.touch) == ["a"]


def test_after_a_stop_it_waits_until_the_last_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.01)
    path, go = tmp_path / "log", tmp_path / "go"

    def stop() -> None:
        if len(lines(path)) == 2:
            go.touch()
            raise KeyboardInterrupt

    tasks = [task(name, partial(work, path, name, go)) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        run(tasks, 2, stop)
    assert sorted(lines(path)) == ["+a", "+b", "-a", "-b"]
