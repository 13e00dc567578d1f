"""Runs tasks in parallel in forked processes, each as soon as its dependencies have ended.

The parent process only forks and waits. It never touches a GPU, since processes forked after that
could not use it, and it limits torch to one thread, since a forked process would deadlock on the
threads of its parent. A task writes its results to a folder; a failed task does not stop others.

`concurrent.futures` does not fit. Its process pool pickles the work (here closures over models and
scenes), runs threads in the process that forks, and cannot fork a fresh process for every task. It
does not report which signal ended a process, and cannot interrupt a running one.
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

_REPORT_SECONDS = 30.0
"""Seconds between progress reports."""
_CLEANUP_SECONDS = 3.0
"""Seconds that a process gets to clean up after Ctrl-C."""
_PR_SET_PDEATHSIG = 1
_COMPILING = "TORCHINDUCTOR_COMPILE_THREADS"

T = TypeVar("T")
Work = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Task:
    """Work that starts once all tasks in `after` have ended, successfully or not."""

    name: str
    work: Callable[[int], Work | None]
    """Called with the number of processes the task may use; returns None if nothing can be done."""
    room: int
    """Processes that it can use; it starts with at least half of them."""
    seconds: float
    """Estimated, in one process."""
    after: frozenset[str] = frozenset()
    """Names of the tasks it waits for."""
    is_beside: bool = False
    """Does not count towards the number of processes, as it runs on the CPU beside GPU tasks."""


def run_tasks(
    tasks: Sequence[Task], *, room: int, look: Callable[[], None]
) -> Iterator[tuple[Task, ForkedWork[None]]]:
    """Run tasks in parallel; yield each one as it ends, with its result.

    On Ctrl-C it waits until all processes have ended.
    """
    waiting = sorted(tasks, key=lambda task: -_chain_seconds(task, tasks))
    running: dict[object, tuple[Task, int, ForkedWork[None]]] = {}
    try:
        while waiting or running:
            free = room - sum(
                processes for task, processes, _ in running.values() if not task.is_beside
            )
            for task, processes in _startable(
                waiting, [task for task, _, _ in running.values()], free
            ):
                waiting.remove(task)
                if (work := task.work(processes)) is not None:
                    # Tasks that keep a GPU busy get the cores first.
                    forked = ForkedWork(work, niceness=10 if task.is_beside else 0)
                    running[forked.ours] = task, processes, forked
            if running:
                pipes = [forked.ours for _, _, forked in running.values()]
                ready = wait(pipes, timeout=_REPORT_SECONDS)
                if not ready:
                    look()
                for pipe in ready:
                    task, _, forked = running.pop(pipe)
                    yield task, forked
    finally:
        stop_all([forked for _, _, forked in running.values()])


def _chain_seconds(task: Task, tasks: Sequence[Task]) -> float:
    """Estimate the seconds of a task and of the longest chain of tasks that wait for it."""
    followers = (other for other in tasks if task.name in other.after)
    seconds = (_chain_seconds(other, tasks) for other in followers)
    return task.seconds / task.room + max(seconds, default=0.0)


def _startable(
    waiting: Sequence[Task], running: Sequence[Task], free: int
) -> list[tuple[Task, int]]:
    """Return the tasks that can start now, with their numbers of processes.

    A task starts with at least half of the processes it can use, or with any number if nothing
    else is running. No later task overtakes one that waits for processes, except tasks that need
    none.
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
    """A part of the work of an experiment."""

    name: str
    """Shown if it fails."""
    work: Work
    seconds: float = 1.0
    """Estimated."""

    @property
    def task(self) -> Task:
        """The share as a task of one process."""
        return Task(self.name, lambda taken: self.work, 1, self.seconds)


def shares(
    run: Callable[[Sequence[str]], None],
    groups: Sequence[Sequence[str]],
    *,
    seconds: Callable[[str], float] = lambda arm: 1.0,
) -> list[Share]:
    """Return one share for each group of arms; dependent arms must be in the same group."""
    return [
        Share(", ".join(group), partial(run, group), sum(map(seconds, group))) for group in groups
    ]


def run_shares(shares: Sequence[Share], *, processes: int, say: Callable[[str], None]) -> None:
    """Run each share in its own process, the longest first. Nothing may have touched a GPU before.

    Failures are reported at once and do not stop other shares; the first error is raised at the
    end. With one process, shares run here in order, up to the first failure.
    """
    if processes <= 1 or not can_fork():
        for share in shares:
            share.work()
        return
    errors: list[Exception] = []
    for task, forked in run_tasks(
        [share.task for share in shares], room=processes, look=lambda: None
    ):
        # Add the name of the share to errors that do not have it.
        try:
            forked.result()
        except UnbagError as error:
            say(f"{task.name} failed: {error}")
            errors.append(error)
        except DiedError as error:
            say(f"{task.name} failed: {error}")
            errors.append(DiedError(f"{task.name}: {error}"))
        except BrokenError as error:
            # Print the traceback now: it would be lost if the machine stopped.
            say(f"{task.name} failed: {error}\n{error.trace}")
            errors.append(BrokenError(f"{task.name}: {error}", error.trace))
    if errors:
        raise errors[0]


def run_isolated(work: Callable[[], T], *, device: str, threads: int = 1) -> T:
    """Run work in a forked process if it may use a GPU, else here; return its result."""
    if device != "cpu" and can_fork():
        return ForkedWork(work, threads=threads).result()
    try:
        return work()
    except UnbagError:
        raise
    except (Exception, SystemExit) as error:
        raise _broken_error(error) from error


class ForkedWork(Generic[T]):
    """Work that runs in a forked process."""

    def __init__(self, work: Callable[[], T], *, threads: int = 1, niceness: int = 0) -> None:
        context = get_context("fork")
        self.ours, theirs = context.Pipe(duplex=False)
        """Becomes readable when the work has ended."""
        self._process = context.Process(
            target=_run_forked, args=(work, theirs, os.getpid(), threads, niceness)
        )
        with warnings.catch_warnings():
            # Python 3.12 warns about threads at a fork; those of NumPy and torch are idle here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()

    def result(self) -> T:
        """Wait for the result and return it, or raise the error of the work."""
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
            stop_all([self])
            raise
        if isinstance(received, BaseException):
            raise received
        result: T = received
        return result

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the process to end, at most `seconds`; return whether it has ended."""
        self._process.join(seconds)
        return self._process.exitcode is not None

    def interrupt(self) -> None:
        """Send SIGINT, or SIGTERM where SIGINT is ignored, as in background jobs of a shell."""
        if self._process.is_alive() and self._process.pid is not None:
            is_heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
            os.kill(self._process.pid, signal.SIGINT if is_heard else signal.SIGTERM)


def _run_forked(
    work: Callable[[], object], to: Connection, parent: int, threads: int, niceness: int
) -> None:
    """Run the work in the forked process and send its result or its error."""
    # Die with the parent: otherwise a second run could write to the same folder.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    try:
        import torch

        os.nice(niceness)
        torch.set_num_threads(threads)
        # By default every process would compile with all cores.
        os.environ.setdefault(_COMPILING, "2")
        to.send(work())
    except KeyboardInterrupt:
        os._exit(130)
    except UnbagError as error:
        to.send(UnbagError(error.message, expected=error.expected, hint=error.hint))
    except (BrokenError, DiedError) as error:
        # The error of a process that this work forked.
        to.send(error)
    except (Exception, SystemExit) as error:
        to.send(_broken_error(error))


class DiedError(Exception):
    """The process ended without sending a result."""


class BrokenError(Exception):
    """The work raised an unexpected error; has the traceback."""

    def __init__(self, message: str, trace: str) -> None:
        self.message, self.trace = message, trace
        # Pass both arguments on, so that the error can be pickled.
        super().__init__(message, trace)

    def __str__(self) -> str:
        """Return the message without the traceback."""
        return self.message


def _broken_error(error: BaseException) -> BrokenError:
    message = f"{type(error).__name__}: {error}".strip(": ")
    return BrokenError(message, "".join(traceback.format_exception(error)))


def stop_all(works: Sequence[ForkedWork[T]]) -> None:
    """Wait until all processes have ended; interrupt those that do not end by themselves."""
    with _ignore_more_interrupts():
        ends = time.monotonic() + _CLEANUP_SECONDS
        for work in works:
            if not work.join(max(0.0, ends - time.monotonic())):
                work.interrupt()
        for work in works:
            work.join()


@contextmanager
def _ignore_more_interrupts() -> Iterator[None]:
    """Ignore further SIGINT in a forked process while it waits for its own processes.

    In the first process a second Ctrl-C still interrupts.
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
    """Return whether processes can be forked on this system."""
    return sys.platform.startswith("linux")


@contextmanager
def one_thread(is_needed: bool) -> Iterator[int]:
    """Limit torch to one thread in this process if needed; yields the previous number."""
    import torch

    before = torch.get_num_threads()
    if is_needed:
        torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


def print_now(line: str) -> None:
    """Write a line to stderr at once, so that a killed run has shown its progress.

    One call writes the whole line, so that lines of several processes do not mix.
    """
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
