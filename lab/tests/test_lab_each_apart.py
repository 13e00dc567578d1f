"""Work of one experiment in processes of its own: the longest first, and what fails is told."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag_lab import scheduler
from unbag_lab.scheduler import (
    BrokenError,
    DiedError,
    ForkedWork,
    Share,
    Work,
    run_shares,
    stop_all,
)


def note(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


def silent(said: str) -> None:
    pass


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.01)


@contextmanager
def soon() -> Iterator[None]:
    """What would else sleep for a minute."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 20


def test_each_is_done_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def told(name: str) -> None:
        note(path, f"{name} {os.getpid()}")

    shares = [Share(name, partial(told, name)) for name in "abc"]
    run_shares(shares, processes=2, say=silent)
    found = dict(line.split() for line in path.read_text().splitlines())
    assert sorted(found) == ["a", "b", "c"]
    assert len({*found.values(), f"{os.getpid()}"}) == 4
    run_shares([], processes=3, say=silent)


def test_with_one_process_all_is_done_here_in_turn() -> None:
    found: list[str] = []
    shares = [Share(name, partial(found.append, name), len(name)) for name in ("a", "ccc", "bb")]
    run_shares(shares, processes=1, say=silent)
    assert found == ["a", "ccc", "bb"]


def test_the_longest_begins_first(tmp_path: Path) -> None:
    """There is room for two of three, and both stay until each has begun."""
    path = tmp_path / "log"

    def stay(name: str) -> None:
        note(path, name)
        until(lambda: len(path.read_text().splitlines()) >= 2)

    shares = [Share(name, partial(stay, name), len(name)) for name in ("a", "ccc", "bb")]
    run_shares(shares, processes=2, say=silent)
    assert set(path.read_text().splitlines()[:2]) == {"ccc", "bb"}


def refuse() -> None:
    raise UnbagError("no weights", expected="some", hint="run it again")


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raised(fails: Work, folder: Path, *, depth: int) -> tuple[Exception, str]:
    """The error, and what was said before the others, which wait for it, had ended."""
    said, ended = folder / "said", folder / "ended"

    def other() -> None:
        until(said.exists)
        ended.touch()

    shares = [Share("bad", fails, 2), Share("good", other)]
    every = partial(run_shares, shares, processes=2, say=partial(note, said))
    for _ in range(depth - 1):
        every = partial(run_shares, [Share("outer", every)], processes=2, say=silent)
    with pytest.raises((UnbagError, BrokenError, DiedError)) as error:
        every()
    assert ended.exists()
    return error.value, said.read_text()


@pytest.mark.parametrize("depth", [1, 2])
def test_what_a_user_can_mend_comes_back_as_it_is(tmp_path: Path, depth: int) -> None:
    error, said = raised(refuse, tmp_path, depth=depth)
    assert isinstance(error, UnbagError)
    assert (error.message, error.expected, error.hint) == ("no weights", "some", "run it again")
    assert said.startswith("bad failed: no weights\n")


@pytest.mark.parametrize("depth", [1, 2])
def test_what_breaks_is_told_at_once_with_its_traceback(tmp_path: Path, depth: int) -> None:
    error, said = raised(partial(divmod, 1, 0), tmp_path, depth=depth)
    assert isinstance(error, BrokenError)
    assert error.said.endswith("bad: ZeroDivisionError: integer division or modulo by zero")
    assert error.trace.count("Traceback") == 1
    assert said.startswith("bad failed: ZeroDivisionError")
    assert error.trace in said


@pytest.mark.parametrize("depth", [1, 2])
def test_what_is_killed_is_told_by_name(tmp_path: Path, depth: int) -> None:
    error, said = raised(kill, tmp_path, depth=depth)
    assert isinstance(error, DiedError)
    assert "bad: its process was ended by SIGKILL" in str(error)
    assert said.startswith("bad failed: its process was ended by SIGKILL")


def test_no_process_outlives_the_one_that_began_it(tmp_path: Path) -> None:
    path = tmp_path / "pids"

    def inner() -> None:
        note(path, f"{os.getpid()}")
        time.sleep(60)

    def outer() -> None:
        note(path, f"{os.getpid()}")
        ForkedWork(inner).result()

    begun = ForkedWork(outer)
    until(lambda: path.exists() and len(path.read_text().split()) == 2)
    first, second = map(int, path.read_text().split())
    os.kill(first, signal.SIGKILL)
    with pytest.raises(DiedError):
        begun.result()
    until(lambda: not _is_alive(second))


def _is_alive(pid: int) -> bool:
    """A process that is no more may be listed until somebody asks for its end."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_those_who_did_not_hear_of_a_stop_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_CLEANUP_SECONDS", 0.1)
    begun = [ForkedWork(partial(_sleep, tmp_path / name)) for name in "ab"]
    until(lambda: all((tmp_path / name).exists() for name in "ab"))
    with soon():
        stop_all(begun)
    assert [one.join(0) for one in begun] == [True, True]


def test_those_who_hear_no_stop_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that runs something behind has it ignore Ctrl-C, and all that it starts."""
    monkeypatch.setattr(scheduler, "_CLEANUP_SECONDS", 0.1)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        begun = ForkedWork(partial(_sleep, tmp_path / "a"))
        until(lambda: (tmp_path / "a").exists())
        with soon():
            stop_all([begun])
    finally:
        signal.signal(signal.SIGINT, before)
    assert begun.join(0)


def test_a_stop_that_only_the_first_process_heard_reaches_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_CLEANUP_SECONDS", 0.1)
    begun = ForkedWork(partial(_sleep, tmp_path / "a"))
    until(lambda: (tmp_path / "a").exists())
    with monkeypatch.context() as patched:
        patched.setattr(begun.ours, "recv", partial(_raise, KeyboardInterrupt))
        with soon(), pytest.raises(KeyboardInterrupt):
            begun.result()
    assert begun.join(0)


def test_those_who_hear_a_stop_can_put_things_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deep, and slower than those above them wait before they tell them again."""
    monkeypatch.setattr(scheduler, "_CLEANUP_SECONDS", 0.1)

    def inner() -> None:
        try:
            _sleep(tmp_path / "begun")
        finally:
            time.sleep(1)
            (tmp_path / "away").touch()

    def outer() -> None:
        begun = ForkedWork(inner)
        try:
            begun.result()
        finally:
            (tmp_path / "left").write_text(f"{begun.join(0)}")

    begun = ForkedWork(outer)
    until(lambda: (tmp_path / "begun").exists())
    # The one in the middle hears it first, as from a terminal, and is told again while it waits.
    begun.interrupt()
    stop_all([begun])
    assert (tmp_path / "away").exists()
    assert (tmp_path / "left").read_text() == "True"


def _raise(error: type[BaseException]) -> None:
    raise error


def _sleep(path: Path) -> None:
    path.touch()
    time.sleep(60)


def test_a_line_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is buffered, another process could write between two pieces."""
    pieces: list[str] = []
    monkeypatch.setattr(sys.stderr, "write", pieces.append)
    monkeypatch.setattr(sys.stderr, "flush", lambda: pieces.append("now"))
    scheduler.print_now("3 of 78 results")
    assert pieces == ["3 of 78 results\n", "now"]


def test_a_process_compiles_with_few_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "TORCHINDUCTOR_COMPILE_THREADS"
    monkeypatch.delenv(name, raising=False)
    assert ForkedWork(partial(os.environ.get, name)).result() == "2"
    monkeypatch.setenv(name, "5")
    assert ForkedWork(partial(os.environ.get, name)).result() == "5"
