"""Work comes in; it is done in a process of its own, so that its death is not that of the others.

Experiments fork processes that use a GPU, which works only as long as the process that forks them
never touched it. So each has a process of its own, and the one that starts them all stays clean. It
also keeps to one thread: a forked process waits for ever for the threads that torch had before.
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
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from unbag.errors import UserError

T = TypeVar("T")
_PR_SET_PDEATHSIG = 1
_HEARD = 3.0
"""Seconds in which a process that heard Ctrl-C has put its things away."""
_COMPILING = "TORCHINDUCTOR_COMPILE_THREADS"


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


class Begun(Generic[T]):
    """Work that is being done in a process of its own, where torch has so many threads."""

    def __init__(self, work: Callable[[], T], *, threads: int = 1) -> None:
        context = get_context("fork")
        self.ours, theirs = context.Pipe(duplex=False)
        """Can be read as soon as the work ended, however it did."""
        self._process = context.Process(target=_there, args=(work, theirs, os.getpid(), threads))
        with warnings.catch_warnings():
            # Python 3.12 warns of threads at a fork; those of NumPy and torch are idle here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()

    def result(self) -> T:
        """What the work gives, or its error; waits for it."""
        try:
            found = self.ours.recv()
            self.join()
        except EOFError:
            self.join()
            raise DiedError(_how(self._process.exitcode)) from None
        except KeyboardInterrupt:
            end_all([self])
            raise
        if isinstance(found, BaseException):
            raise found
        result: T = found
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


def end_all(begun: Sequence[Begun[T]]) -> None:
    """Wait until all are gone; those that did not hear of the end themselves are told."""
    with _told_once():
        ends = time.monotonic() + _HEARD
        for one in begun:
            if not one.join(max(0.0, ends - time.monotonic())):
                one.interrupt()
        for one in begun:
            one.join()


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


def say_now(line: str) -> None:
    """Beside the output, and at once: a run that is killed has said how far it came.

    In one piece, so that lines of several processes do not mix where nothing is buffered.
    """
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def can_fork() -> bool:
    """Whether this system starts processes that share what the first one has."""
    return sys.platform.startswith("linux")


def apart(work: Callable[[], T], *, device: str, threads: int = 1) -> T:
    """What the work gives, or its error; a CPU has nothing to keep clean, and needs no process."""
    if device == "cpu" or not can_fork():
        return _here(work)
    return Begun(work, threads=threads).result()


def _here(work: Callable[[], T]) -> T:
    try:
        return work()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise _broke(error) from error


def _there(work: Callable[[], object], to: Connection, parent: int, threads: int) -> None:
    # Nobody else would end it if the parent were killed, and both would write to one folder.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    try:
        import torch

        torch.set_num_threads(threads)
        # Else each of them would compile with all cores.
        os.environ.setdefault(_COMPILING, "2")
        to.send(work())
    except KeyboardInterrupt:
        os._exit(130)
    except UserError as error:
        to.send(UserError(error.found, expected=error.expected, way_out=error.way_out))
    except (BrokenError, DiedError) as error:
        # Of work that this work had done apart.
        to.send(error)
    except (Exception, SystemExit) as error:
        to.send(_broke(error))


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"its process was ended by {name}" + (", as by a lack of memory" * (code == -9))
    return f"its process ended with code {code}"


def _broke(error: BaseException) -> BrokenError:
    said = f"{type(error).__name__}: {error}".strip(": ")
    return BrokenError(said, "".join(traceback.format_exception(error)))
