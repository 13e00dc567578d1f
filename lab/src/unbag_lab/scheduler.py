"""Runs tasks side by side in forked processes of their own, each once what it needs has ended.

The first process only forks and waits. It never touches a GPU, which no process forked later could
use, and keeps torch to one thread, since a forked process waits for ever for threads that stayed
behind. A task leaves its results in a folder; one that fails stops no other.

`concurrent.futures` does not do this. Its process pool pickles the work (here closures over models
and scenes), runs threads in the process that forks, and cannot give every task a fresh process by
fork. It does not say which signal ended a process, and cannot interrupt one that is at work.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

from unbag.errors import UnbagError

_LOOK = 30.0
"""Seconds after which whoever waits is told how far all is."""
_HEARD = 3.0
"""Seconds in which a process that heard Ctrl-C has put its things away."""
_PR_SET_PDEATHSIG = 1
_COMPILING = "TORCHINDUCTOR_COMPILE_THREADS"

T = TypeVar("T")
Work = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Task:
    """Something to do once all of `after` have ended, well or not."""

    name: str
    work: Callable[[int], Work | None]
    """Asked when its turn has come, when what it needs is there or never will be, and told how many
    processes it may take; None: there is nothing to do."""
    room: int
    """Processes that it wants; with half of them it begins."""
    seconds: float
    """Roughly, in one process."""
    after: frozenset[str] = frozenset()
    """Names of tasks."""
    is_beside: bool = False
    """Takes no room from the others, as it computes elsewhere."""


def at_once(
    tasks: Sequence[Task], *, room: int, look: Callable[[], None]
) -> Iterator[tuple[Task, ForkedWork[None]]]:
    """Tasks as they end, with their results.

    After Ctrl-C, which most often all of them hear, it waits until the last is gone.
    """
    waiting = sorted(tasks, key=lambda task: -_chain(task, tasks))
    running: dict[object, tuple[Task, int, ForkedWork[None]]] = {}
    try:
        while waiting or running:
            free = room - sum(
                processes for task, processes, _ in running.values() if not task.is_beside
            )
            for task, processes in _to_begin(
                waiting, [task for task, _, _ in running.values()], free
            ):
                waiting.remove(task)
                if (work := task.work(processes)) is not None:
                    # Cores go first to those that keep a GPU busy.
                    forked = ForkedWork(work, niceness=10 if task.is_beside else 0)
                    running[forked.ours] = task, processes, forked
            if running:
                ready = wait([forked.ours for _, _, forked in running.values()], timeout=_LOOK)
                if not ready:
                    look()
                for pipe in ready:
                    task, _, forked = running.pop(pipe)
                    yield task, forked
    finally:
        end_all([forked for _, _, forked in running.values()])


def _chain(task: Task, tasks: Sequence[Task]) -> float:
    """Seconds until the last that waits for it could end; the longest chain is begun first."""
    later = (_chain(later_task, tasks) for later_task in tasks if task.name in later_task.after)
    return task.seconds / task.room + max(later, default=0.0)


def _to_begin(
    waiting: Sequence[Task], running: Sequence[Task], free: int
) -> list[tuple[Task, int]]:
    """Those that may begin now, and with how many processes.

    One begins with half of what it wants, or with what there is if it shares it with none. Where
    one of them lacks room, none overtakes it but those that take none.
    """
    unfinished = {task.name for task in (*waiting, *running)}
    starting: list[tuple[Task, int]] = []
    is_shared = not all(task.is_beside for task in running)
    for task in waiting:
        if task.after & unfinished:
            continue
        if task.is_beside:
            starting.append((task, task.room))
            continue
        processes = min(task.room, free)
        if is_shared and 2 * processes < task.room:
            free = 0
            continue
        starting.append((task, processes))
        free -= processes
        is_shared = True
    return starting


@dataclass(frozen=True, eq=False)
class Share:
    """Some of the work of an experiment."""

    name: str
    """Told if it fails."""
    work: Work
    seconds: float = 1.0
    """Roughly."""

    @property
    def task(self) -> Task:
        """The same for `at_once`, in one process."""
        return Task(self.name, lambda taken: self.work, 1, self.seconds)


def shares(
    run: Callable[[Sequence[str]], None],
    groups: Sequence[Sequence[str]],
    *,
    seconds: Callable[[str], float] = lambda arm: 1.0,
) -> list[Share]:
    """Groups of arms as work that can be done apart; arms that read one another stay together."""
    return [
        Share(", ".join(group), partial(run, group), sum(map(seconds, group))) for group in groups
    ]


def each_apart(shares: Sequence[Share], *, processes: int, say: Callable[[str], None]) -> None:
    """Each in a process of its own, the longest first. Nothing may have touched a GPU before.

    One that fails is told at once and stops no other; when all have ended its error is raised, the
    first of several. With one process all is done here, in turn, up to the first that fails.
    """
    if processes <= 1 or not can_fork():
        for share in shares:
            share.work()
        return
    errors: list[Exception] = []
    for task, forked in at_once(
        [share.task for share in shares], room=processes, look=lambda: None
    ):
        # What failed is named where the error itself says nothing of it.
        try:
            forked.result()
        except UnbagError as error:
            say(f"{task.name} failed: {error}")
            errors.append(error)
        except DiedError as error:
            say(f"{task.name} failed: {error}")
            errors.append(DiedError(f"{task.name}: {error}"))
        except BrokenError as error:
            # A traceback is lost with the machine, if it is not told before the others have ended.
            say(f"{task.name} failed: {error}\n{error.trace}")
            errors.append(BrokenError(f"{task.name}: {error}", error.trace))
    if errors:
        raise errors[0]


def apart(work: Callable[[], T], *, device: str, threads: int = 1) -> T:
    """What the work gives, or its error; a CPU has nothing to keep clean, and needs no process."""
    if device != "cpu" and can_fork():
        return ForkedWork(work, threads=threads).result()
    try:
        return work()
    except UnbagError:
        raise
    except (Exception, SystemExit) as error:
        raise _broke(error) from error


class ForkedWork(Generic[T]):
    """Work that is being done in a process of its own, where torch has so many threads."""

    def __init__(self, work: Callable[[], T], *, threads: int = 1, niceness: int = 0) -> None:
        context = get_context("fork")
        self.ours, theirs = context.Pipe(duplex=False)
        """Can be read as soon as the work ended, however it did."""
        self._process = context.Process(
            target=_there, args=(work, theirs, os.getpid(), threads, niceness)
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of threads at a fork; those of NumPy and torch are idle here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()

    def result(self) -> T:
        """What the work gives, or its error; waits for it."""
        try:
            received = self.ours.recv()
            self.join()
        except EOFError:
            self.join()
            code = self._process.exitcode
            ending = f"its process ended with code {code}"
            if code is not None and code < 0:
                ending = f"its process was ended by {signal.Signals(-code).name}"
                ending += ", as by a lack of memory" * (code == -signal.SIGKILL)
            raise DiedError(ending) from None
        except KeyboardInterrupt:
            end_all([self])
            raise
        if isinstance(received, BaseException):
            raise received
        result: T = received
        return result

    def join(self, seconds: float | None = None) -> bool:
        """Wait until its process is no more, or so long; whether it is."""
        self._process.join(seconds)
        return self._process.exitcode is not None

    def interrupt(self) -> None:
        """As Ctrl-C does; where that is not heard, as in what a shell runs behind, end it."""
        if self._process.is_alive() and self._process.pid is not None:
            is_heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
            os.kill(self._process.pid, signal.SIGINT if is_heard else signal.SIGTERM)


def _there(
    work: Callable[[], object], to: Connection, parent: int, threads: int, niceness: int
) -> None:
    """Does the work in the forked process and sends what it gives, or its error."""
    # Nobody else would end it if the parent were killed, and both would write to one folder.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    try:
        import torch

        os.nice(niceness)
        torch.set_num_threads(threads)
        # Else each of them would compile with all cores.
        os.environ.setdefault(_COMPILING, "2")
        to.send(work())
    except KeyboardInterrupt:
        os._exit(130)
    except UnbagError as error:
        to.send(UnbagError(error.message, expected=error.expected, hint=error.hint))
    except (BrokenError, DiedError) as error:
        # Of work that this work had done apart.
        to.send(error)
    except (Exception, SystemExit) as error:
        to.send(_broke(error))


class DiedError(Exception):
    """The work ended otherwise than by its own word."""


class BrokenError(Exception):
    """The work raised what no user can mend; it says so in a traceback."""

    def __init__(self, said: str, trace: str) -> None:
        self.said, self.trace = said, trace
        # Both are arguments, so that it can go from one process to another.
        super().__init__(said, trace)

    def __str__(self) -> str:
        """Without the traceback."""
        return self.said


def _broke(error: BaseException) -> BrokenError:
    message = f"{type(error).__name__}: {error}".strip(": ")
    return BrokenError(message, "".join(traceback.format_exception(error)))


def end_all(works: Sequence[ForkedWork[T]]) -> None:
    """Wait until all are gone; those that did not hear of the end themselves are told."""
    with _told_once():
        ends = time.monotonic() + _HEARD
        for work in works:
            if not work.join(max(0.0, ends - time.monotonic())):
                work.interrupt()
        for work in works:
            work.join()


@contextmanager
def _told_once() -> Iterator[None]:
    """Whoever waits in a process apart may be told again, and would leave those it waits for.

    Not so the first process: somebody who presses Ctrl-C twice means it.
    """
    before = signal.getsignal(signal.SIGINT)
    if parent_process() is None or before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def can_fork() -> bool:
    """Whether this system starts processes that share what the first one has."""
    return sys.platform.startswith("linux")


@contextmanager
def one_thread(is_needed: bool) -> Iterator[int]:
    """One thread for torch in this process, if needed; gives how many there were."""
    import torch

    before = torch.get_num_threads()
    if is_needed:
        torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


def say_now(line: str) -> None:
    """Beside the output, and at once: a run that is killed has said how far it came.

    In one piece, so that lines of several processes do not mix where nothing is buffered.
    """
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
