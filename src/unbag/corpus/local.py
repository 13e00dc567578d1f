"""Runners on this machine: in this process, or in several that are replaced when they die."""

from __future__ import annotations

import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from typing import TypeAlias

from unbag.corpus.entries import Chunk
from unbag.corpus.runner import Finished, Settings
from unbag.corpus.work import Worker, make_worker
from unbag.errors import UserError

Make: TypeAlias = Callable[[Settings], Worker]
"""What loads the editor, once a process."""
TRIES = 3
"""Times that a chunk is tried alone before the job is given up."""
_AHEAD = 2
"""Chunks in flight for each process: one in work, one waiting."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class InProcess:
    """Chunk after chunk, here."""

    make: Make = make_worker

    def __call__(self, chunks: Iterator[Chunk], settings: Settings) -> Iterator[Finished]:
        """In their order."""
        worker: Worker | None = None
        for chunk in chunks:
            worker = worker or self.make(settings)
            yield worker(chunk)


@dataclass(frozen=True)
class Processes:
    """Several processes; the chunks of one that dies are tried again, one at a time.

    Nobody says which chunk a dead process was working on. Tried alone, a chunk that kills its
    process is found, and others are not blamed.
    """

    count: int
    make: Make = make_worker

    def __call__(self, chunks: Iterator[Chunk], settings: Settings) -> Iterator[Finished]:
        """As they get done."""
        with _one_thread_each():
            yield from _Flow(self.count, partial(self.make, settings), chunks).results()


@dataclass(eq=False)
class _Flow:
    """Chunks on their way through the processes."""

    count: int
    make: Callable[[], Worker]
    chunks: Iterator[Chunk]
    suspects: deque[Chunk] = field(default_factory=deque)
    """Were in flight when a process died."""
    deaths: Counter[int] = field(default_factory=Counter)
    """Of chunks that were alone."""
    flight: dict[Future[Finished], Chunk] = field(default_factory=dict)

    def results(self) -> Iterator[Finished]:
        pool = self._pool()
        try:
            while self._send(pool):
                done, _ = wait(self.flight, return_when=FIRST_COMPLETED)
                for future in done:
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        continue
                    del self.flight[future]
                    yield result
                if any(isinstance(one.exception(), BrokenProcessPool) for one in done):
                    pool.shutdown(wait=True, cancel_futures=True)
                    yield from self._after_death()
                    pool = self._pool()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.count,
            mp_context=get_context("spawn"),
            initializer=_start,
            initargs=(self.make,),
        )

    def _send(self, pool: ProcessPoolExecutor) -> bool:
        """Send what may be in flight; False when all is done."""
        if self.suspects:
            if not self.flight:
                self._submit(pool, self.suspects.popleft())
            return True
        while len(self.flight) < _AHEAD * self.count and (chunk := next(self.chunks, None)):
            self._submit(pool, chunk)
        return bool(self.flight)

    def _submit(self, pool: ProcessPoolExecutor, chunk: Chunk) -> None:
        try:
            self.flight[pool.submit(_work, chunk)] = chunk
        except BrokenProcessPool as error:
            # It died between two chunks; this one gets a future that says so.
            future: Future[Finished] = Future()
            future.set_exception(error)
            self.flight[future] = chunk

    def _after_death(self) -> Iterator[Finished]:
        """Give back what got done all the same; the rest is tried again."""
        was_alone = len(self.flight) == 1
        for future, chunk in self.flight.items():
            if future.done() and not future.cancelled() and not future.exception():
                yield future.result()
                continue
            self.suspects.append(chunk)
            self.deaths[chunk.index] += was_alone
            if self.deaths[chunk.index] >= TRIES:
                raise UserError(
                    f"the process that edits {chunk} died {TRIES} times",
                    expected="a process that lives; it may have run out of memory",
                    way_out="what was done is kept: with fewer --workers or a smaller model, give "
                    "the same command again",
                )
        self.flight.clear()


class _Here:
    """The worker of this process: made once, when the process starts."""

    worker: Worker | None = None
    make: Callable[[], Worker] | None = None


def _start(make: Callable[[], Worker]) -> None:
    # Ctrl-C goes to every process of the terminal; only the first one answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _Here.make = make


def _end_with_parent() -> None:
    """A parent that was killed cannot end its processes: they would wait for ever."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(chunk: Chunk) -> Finished:
    # Made here and not in `_start`, where an error would only break the pool without a word.
    if _Here.worker is None:
        assert _Here.make is not None
        _Here.worker = _Here.make()
    return _Here.worker(chunk)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """New processes read these when they start; threads beyond the cores only slow them down."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
