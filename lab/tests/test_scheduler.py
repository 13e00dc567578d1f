"""Tasks in parallel processes: limits, order, failures, and interrupts."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from unbag.errors import ImageError, UnbagError
from unbag_lab import scheduler
from unbag_lab.scheduler import (
    BrokenError,
    DiedError,
    ForkedWork,
    Share,
    Task,
    Work,
    one_thread,
    run_isolated,
    run_shares,
    run_tasks,
    stop_all,
)


def log(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.01)


def silent(line: str) -> None:
    pass


def fail(error: BaseException) -> None:
    raise error


def refuse() -> None:
    raise UnbagError("no weights", expected="some", hint="run it again")


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work(path: Path, name: str, wait_for: Path | None = None) -> None:
    """Log start and end, and wait for a file in between."""
    log(path, f"+{name}")
    if wait_for is not None:
        until(wait_for.exists)
    log(path, f"-{name}")


def log_and_touch(path: Path, line: str, file: Path) -> None:
    log(path, line)
    file.touch()


def task(
    name: str, done: Work | None, *, room: int = 1, seconds: float = 1.0, after: Sequence[str] = ()
) -> Task:
    return Task(name, lambda processes: done, room, seconds, frozenset(after))


def run(tasks: Sequence[Task], room: int, look: Callable[[], None] = lambda: None) -> list[str]:
    """Names of tasks as they end; an error is raised."""
    ended = []
    for one, forked in run_tasks(tasks, room=room, look=look):
        forked.result()
        ended.append(one.name)
    return ended


def test_all_processes_are_used_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def stay(processes: int) -> None:
        log(path, f"+{processes}")
        time.sleep(0.15)
        log(path, f"-{processes}")

    rooms = {"a": 1, "b": 2, "c": 3, "d": 5, "e": 1, "f": 4, "g": 1}
    tasks = [
        Task(name, lambda processes: partial(stay, processes), room, 1.0)
        for name, room in rooms.items()
    ]
    assert sorted(run(tasks, 4)) == list(rooms)
    running = [0]
    for line in lines(path):
        running.append(running[-1] + int(line))
    assert (running[-1], max(running)) == (0, 4)


def test_a_task_beside_needs_no_room(tmp_path: Path) -> None:
    """`full` uses all processes and ends when the one beside it, which can use more, has begun."""
    path, begun = tmp_path / "log", tmp_path / "begun"

    def beside(processes: int) -> Work:
        return partial(log_and_touch, path, f"beside {processes}", begun)

    tasks = [
        task("full", partial(work, tmp_path / "full", "full", begun), room=2, seconds=9),
        task("waits", partial(log, path, "waits"), room=2, seconds=8),
        Task("beside", beside, 3, 1.0, is_beside=True),
    ]
    run(tasks, 2)
    assert lines(path) == ["beside 3", "waits"]


def test_a_task_beside_delays_no_wide_task(tmp_path: Path) -> None:
    path, begun = tmp_path / "log", tmp_path / "begun"
    beside = partial(work, path, "beside", begun)
    tasks = [
        Task("beside", lambda processes: beside, 1, 99.0, is_beside=True),
        task("wide", begun.touch, room=9),
    ]
    assert sorted(run(tasks, 2)) == ["beside", "wide"]
    assert lines(path) == ["+beside", "-beside"]


def test_a_task_beside_is_nicer_to_the_cores(tmp_path: Path) -> None:
    def nice(name: str) -> None:
        (tmp_path / name).write_text(f"{os.nice(0)}")

    beside = Task("beside", lambda processes: partial(nice, "beside"), 1, 1.0, is_beside=True)
    run([task("first", partial(nice, "first")), beside], 2)
    first, second = (int((tmp_path / name).read_text()) for name in ("first", "beside"))
    assert (first, second) == (os.nice(0), min(19, first + 10))


@pytest.mark.parametrize(("room", "processes"), [(4, 2), (5, 3)])
def test_a_task_starts_with_half_of_its_processes(
    tmp_path: Path, room: int, processes: int
) -> None:
    """Of three there are two while `narrow` runs; one that wants five waits, and none overtakes."""
    path, go = tmp_path / "log", tmp_path / "go"

    def wide(processes: int) -> Work:
        return partial(log_and_touch, path, f"wide {processes}", go)

    tasks = [
        task("narrow", partial(work, tmp_path / "narrow", "narrow", go), seconds=9),
        Task("wide", wide, room, 5.0),
        task("last", partial(log, path, "last"), seconds=1),
    ]
    if processes == 3:
        go.touch()
    run(tasks, 3)
    assert lines(path) == [f"wide {processes}", "last"]


def test_a_task_wider_than_all_processes_runs_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    wide = task("wide", partial(work, path, "wide"), room=9, seconds=20)
    assert run([task("a", partial(work, path, "a")), wide], 2) == ["wide", "a"]
    assert lines(path) == ["+wide", "-wide", "+a", "-a"]


def test_the_longest_chain_starts_first() -> None:
    tasks = [
        task("alone", lambda: None, seconds=5),
        task("last", lambda: None, seconds=4, after=["base"]),
        task("base", lambda: None, seconds=3),
    ]
    assert run(tasks, 1) == ["base", "alone", "last"]


def test_a_task_with_nothing_to_do_delays_none(tmp_path: Path) -> None:
    tasks = [task("a", None), task("b", (tmp_path / "b").touch, after=["a"])]
    assert run(tasks, 1) == ["b"]
    assert (tmp_path / "b").exists()
    assert run([], 3) == []


def test_a_failed_task_stops_no_other(tmp_path: Path) -> None:
    tasks = [
        task("refused", refuse),
        task("broken", partial(divmod, 1, 0)),
        task("killed", kill),
        task("after", (tmp_path / "after").touch, after=["refused", "broken", "killed"]),
    ]
    errors: dict[str, type[Exception]] = {}
    for one, forked in run_tasks(tasks, room=4, look=lambda: None):
        try:
            forked.result()
        except (UnbagError, BrokenError, DiedError) as error:
            errors[one.name] = type(error)
    assert errors == {"refused": UnbagError, "broken": BrokenError, "killed": DiedError}
    assert (tmp_path / "after").exists()


def test_progress_is_reported_while_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_REPORT_SECONDS", 0.01)
    seen = tmp_path / "seen"
    assert run([task("a", partial(work, tmp_path / "log", "a", seen))], 1, seen.touch) == ["a"]


def test_after_an_interrupt_it_waits_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_REPORT_SECONDS", 0.01)
    path, go = tmp_path / "log", tmp_path / "go"

    def stop() -> None:
        if len(lines(path)) == 2:
            go.touch()
            raise KeyboardInterrupt

    tasks = [task(name, partial(work, path, name, go)) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        run(tasks, 2, stop)
    assert sorted(lines(path)) == ["+a", "+b", "-a", "-b"]


def test_shares_run_in_their_own_processes_the_longest_first(tmp_path: Path) -> None:
    """Two of three fit, and both stay until each has begun."""
    path = tmp_path / "log"

    def stay(name: str) -> None:
        log(path, f"{name} {os.getpid()}")
        until(lambda: len(lines(path)) >= 2)

    shares = [Share(name, partial(stay, name), len(name)) for name in ("a", "ccc", "bb")]
    run_shares(shares, processes=2, say=silent)
    names, pids = zip(*(line.split() for line in lines(path)), strict=True)
    assert set(names[:2]) == {"ccc", "bb"}
    assert len({*pids, f"{os.getpid()}"}) == 4
    run_shares([], processes=3, say=silent)


def test_with_one_process_shares_run_here_in_order() -> None:
    names: list[str] = []
    shares = [Share(name, partial(names.append, name), len(name)) for name in ("a", "ccc", "bb")]
    run_shares(shares, processes=1, say=silent)
    assert names == ["a", "ccc", "bb"]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    ("fails", "error", "words"),
    [
        (refuse, UnbagError, "no weights"),
        (partial(divmod, 1, 0), BrokenError,
         "ZeroDivisionError: integer division or modulo by zero"),
        (kill, DiedError, "its process was ended by SIGKILL"),
    ],
)  # fmt: skip
def test_a_failed_share_is_reported_at_once_and_raised_at_the_end(
    tmp_path: Path, fails: Work, error: type[Exception], words: str, depth: int
) -> None:
    said, ended = tmp_path / "said", tmp_path / "ended"

    def other() -> None:
        until(said.exists)
        ended.touch()

    shares = [Share("bad", fails, 2), Share("good", other)]
    both = partial(run_shares, shares, processes=2, say=partial(log, said))
    for _ in range(depth - 1):
        both = partial(run_shares, [Share("outer", both)], processes=2, say=silent)
    with pytest.raises(error) as raised:
        both()
    assert ended.exists()
    assert said.read_text().startswith(f"bad failed: {words}")
    if isinstance(raised.value, UnbagError):
        assert (raised.value.message, raised.value.expected) == ("no weights", "some")
        assert raised.value.hint == "run it again"
    else:
        assert f"bad: {words}" in str(raised.value)
    if isinstance(raised.value, BrokenError):
        assert raised.value.trace.count("Traceback") == 1
        assert raised.value.trace in said.read_text()


def test_isolated_work_returns_its_value_or_raises_its_error() -> None:
    here = os.getpid()
    assert run_isolated(os.getpid, device="cpu") == here
    assert run_isolated(os.getpid, device="cuda") != here
    with pytest.raises(UnbagError) as refused:
        run_isolated(lambda: fail(ImageError("k", "bad", hint="leave it")), device="cuda")
    assert (refused.value.message, refused.value.hint) == ("bad", "leave it")
    for device in ("cpu", "cuda"):
        with pytest.raises(BrokenError, match="KeyError: 'a'") as broken:
            run_isolated(lambda: fail(KeyError("a")), device=device)
        assert "in fail" in broken.value.trace
        with pytest.raises(BrokenError, match="SystemExit: two died"):
            run_isolated(lambda: fail(SystemExit("two died")), device=device)
    with pytest.raises(DiedError, match="ended by SIGKILL, as by a lack of memory"):
        run_isolated(kill, device="cuda")
    with pytest.raises(DiedError, match="its process ended with code 3"):
        run_isolated(lambda: os._exit(3), device="cuda")


def test_one_thread_before_a_fork_and_several_after_it() -> None:
    """A forked process waits for ever for threads that torch had before the fork."""
    before = torch.get_num_threads()
    with one_thread(True) as threads:
        assert (threads, torch.get_num_threads()) == (before, 1)
        assert run_isolated(torch.get_num_threads, device="cuda", threads=3) == 3
    assert torch.get_num_threads() == before
    with one_thread(False):
        assert torch.get_num_threads() == before


def test_a_process_compiles_with_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TORCHINDUCTOR_COMPILE_THREADS"
    monkeypatch.delenv(name, raising=False)
    assert ForkedWork(partial(os.environ.get, name)).result() == "2"
    monkeypatch.setenv(name, "5")
    assert ForkedWork(partial(os.environ.get, name)).result() == "5"


def test_a_line_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is buffered, another process could write between two pieces."""
    pieces: list[str] = []
    monkeypatch.setattr(sys.stderr, "write", pieces.append)
    monkeypatch.setattr(sys.stderr, "flush", lambda: pieces.append("now"))
    scheduler.print_now("3 of 78 results")
    assert pieces == ["3 of 78 results\n", "now"]


def test_no_process_outlives_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "pids"

    def inner() -> None:
        log(path, f"{os.getpid()}")
        time.sleep(60)

    def outer() -> None:
        log(path, f"{os.getpid()}")
        ForkedWork(inner).result()

    forked = ForkedWork(outer)
    until(lambda: len(lines(path)) == 2)
    first, second = map(int, lines(path))
    os.kill(first, signal.SIGKILL)
    with pytest.raises(DiedError):
        forked.result()
    until(lambda: not is_alive(second))


def is_alive(pid: int) -> bool:
    """A process that has ended is listed as a zombie until its parent collects it."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@contextmanager
def soon() -> Iterator[None]:
    """Fail if it takes nearly as long as the work that sleeps."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 20


def sleep(path: Path) -> None:
    path.touch()
    time.sleep(60)


def sleeping(path: Path) -> ForkedWork[None]:
    forked = ForkedWork(partial(sleep, path))
    until(path.exists)
    return forked


@pytest.fixture
def _short_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_CLEANUP_SECONDS", 0.1)


@pytest.mark.usefixtures("_short_cleanup")
@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_processes_that_did_not_hear_an_interrupt_are_ended(
    tmp_path: Path, handler: signal.Handlers
) -> None:
    """A shell that runs a job in the background makes it ignore Ctrl-C, and all that it starts."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        forked = [sleeping(tmp_path / name) for name in "ab"]
        with soon():
            stop_all(forked)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [one.join(0) for one in forked] == [True, True]


@pytest.mark.usefixtures("_short_cleanup")
def test_an_interrupt_of_the_parent_reaches_the_forked_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked = sleeping(tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(forked.ours, "recv", partial(fail, KeyboardInterrupt()))
        with soon(), pytest.raises(KeyboardInterrupt):
            forked.result()
    assert forked.join(0)


@pytest.mark.usefixtures("_short_cleanup")
def test_an_interrupted_process_can_clean_up(tmp_path: Path) -> None:
    """Two levels deep, and slower than the time after which the levels above interrupt again."""

    def inner() -> None:
        try:
            sleep(tmp_path / "begun")
        finally:
            time.sleep(1)
            (tmp_path / "clean").touch()

    def outer() -> None:
        forked = ForkedWork(inner)
        try:
            forked.result()
        finally:
            (tmp_path / "joined").write_text(f"{forked.join(0)}")

    forked = ForkedWork(outer)
    until((tmp_path / "begun").exists)
    # The middle process hears it first, as from a terminal, and again while it waits.
    forked.interrupt()
    stop_all([forked])
    assert (tmp_path / "clean").exists()
    assert (tmp_path / "joined").read_text() == "True"
