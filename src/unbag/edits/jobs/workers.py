"""Edits chunks on this machine: in this process, or in several that are replaced when they die.

A runner is a function of chunks and settings. It may work on several chunks at once and return them
in any order, but must take no more chunks from the iterator than it works on, since a collection
need not fit in memory. A finished chunk is the text of a file: a digest of the rest, a line about
the chunk, then one line per caption.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from typing import IO, Protocol, TypeAlias

from unbag.data.captions import Chunk, json_line
from unbag.edits.editor import EditTally, cleaned, make_editor
from unbag.edits.filters import make_filters
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.runs.files import paused_collector
from unbag.types import Edited, Given
from unbag.types.json import from_json, to_json

FAILED = "the editor failed"
_MIN_ALL_FAILED = 16
"""Minimum number of captions in a chunk for failures of all to mean that the editor is broken."""
TRIES = 3
"""Number of attempts at a chunk alone before the job fails."""
_AHEAD = 2
"""Chunks in flight per process: one in work, one waiting."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class EditSettings:
    """What determines the edits of a caption. Plain data: every process makes its own editor."""

    kinds: tuple[str, ...] = ("default",)
    parts: EditParts = field(default_factory=EditParts)
    filters: tuple[str, ...] = ()
    """Filters besides those that are always on."""
    seed: int = 0
    per_kind: int = 1


@dataclass(frozen=True)
class EditedChunk:
    """A finished chunk, as it is saved."""

    index: int
    captions: int
    text: str
    """The content of its file; see `unbag.edits.jobs.workers`."""


class Runner(Protocol):
    """Edits chunks, here or elsewhere."""

    def __call__(self, chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        """Edit every chunk once, in any order.

        Raises UnbagError if the work cannot continue, for example because the pipeline is missing.
        Chunks returned before are saved, and a later run gets only the rest.
        """


def make_worker(settings: EditSettings) -> Worker:
    """Load the editor, models and filters of the settings."""
    return Worker(
        make_editor(
            settings.kinds,
            parts=settings.parts,
            filters=make_filters(settings.filters, device=settings.parts.device),
            seed=settings.seed,
            per_kind=settings.per_kind,
        )
    )


Edits = Callable[[Sequence[Given]], tuple[list[Edited], EditTally]]
"""A `CaptionEditor` or an equivalent function."""


@dataclass(frozen=True, eq=False)
class Worker:
    """Edits chunks with one editor."""

    edits: Edits

    def __call__(self, chunk: Chunk) -> EditedChunk:
        """Edit a chunk."""
        total, all_edited, failures = EditTally(), list[Edited](), list[str]()
        # Edits make many small objects next to the large ones of a pipeline; garbage collection of
        # all of them takes a third of the time.
        with paused_collector():
            for edited, tally, failure in self._edit(chunk.given):
                all_edited += edited
                total.add(tally)
                failures += [failure] if failure else []
        tried = sum(not caption.skipped for caption in all_edited) + len(failures)
        if len(failures) == tried >= _MIN_ALL_FAILED:
            raise UnbagError(
                f"the editor failed on all captions of {chunk}, first on {failures[0]}",
                expected="an editor that fails on some captions at most",
                hint="fix the cause and run the same command again; finished chunks are saved",
            )
        text = as_text(all_edited, total, failures)
        return EditedChunk(chunk.index, len(chunk.given), text)

    def _edit(self, given: Sequence[Given]) -> Iterator[tuple[list[Edited], EditTally, str]]:
        """Edit all captions at once; on failure split them in halves until single captions fail."""
        try:
            edited, tally = self.edits(given)
        except UnbagError:
            raise
        except Exception as error:
            name, message = type(error).__name__, str(error)
        else:
            yield edited, tally, ""
            return
        half = len(given) // 2
        if half:
            yield from self._edit(given[:half])
            yield from self._edit(given[half:])
            return
        failed = Edited(given[0].id, cleaned(given[0].text), (), f"{FAILED}: {name}")
        tally = EditTally()
        tally.count_captions([failed])
        yield [failed], tally, f"{given[0].id!r}: {name}: {message}"[:300]


Make: TypeAlias = Callable[[EditSettings], Worker]
"""Loads the editor, once per process."""


@dataclass(frozen=True)
class InProcess:
    """Edits chunk after chunk in this process."""

    make: Make = make_worker

    def __call__(self, chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        """Edit the chunks in order."""
        worker: Worker | None = None
        for chunk in chunks:
            worker = worker or self.make(settings)
            yield worker(chunk)


@dataclass(frozen=True)
class Processes:
    """Edits chunks in several processes; chunks of a dead process are retried, one at a time.

    It is unknown which chunk a dead process was working on. Retrying the chunks alone finds the one
    that kills its process.
    """

    count: int
    make: Make = make_worker

    def __call__(self, chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        """Edit the chunks; yields each when it is finished."""
        with _one_thread_each():
            yield from _Flow(self.count, partial(self.make, settings), chunks).results()


@dataclass(eq=False)
class _Flow:
    """Feeds chunks to the processes and collects results."""

    count: int
    make: Callable[[], Worker]
    chunks: Iterator[Chunk]
    suspects: deque[Chunk] = field(default_factory=deque)
    """Chunks that were in flight when a process died."""
    deaths: Counter[int] = field(default_factory=Counter)
    """Deaths by chunk, of chunks that ran alone."""
    flight: dict[Future[EditedChunk], Chunk] = field(default_factory=dict)

    def results(self) -> Iterator[EditedChunk]:
        pool = self._pool()
        try:
            while self._send(pool):
                finished, _ = wait(self.flight, return_when=FIRST_COMPLETED)
                for future in finished:
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        continue
                    del self.flight[future]
                    yield result
                if any(isinstance(future.exception(), BrokenProcessPool) for future in finished):
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
        """Submit chunks up to the limit; False when all are finished."""
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
            # The process died between two chunks: give this chunk a future with the error.
            future: Future[EditedChunk] = Future()
            future.set_exception(error)
            self.flight[future] = chunk

    def _after_death(self) -> Iterator[EditedChunk]:
        """Yield chunks that finished anyway; the rest is retried."""
        was_alone = len(self.flight) == 1
        for future, chunk in self.flight.items():
            if future.done() and not future.cancelled() and not future.exception():
                yield future.result()
                continue
            self.suspects.append(chunk)
            self.deaths[chunk.index] += was_alone
            if self.deaths[chunk.index] >= TRIES:
                raise UnbagError(
                    f"the process that edits {chunk} died {TRIES} times",
                    expected="a process that finishes; it may have run out of memory",
                    hint="run the same command again with fewer --workers or a smaller model; "
                    "finished chunks are saved",
                )
        self.flight.clear()


class _ThisProcess:
    """The worker of this process, made on first use."""

    worker: Worker | None = None
    make: Callable[[], Worker] | None = None


def _start(make: Callable[[], Worker]) -> None:
    # Ctrl-C reaches every process of the terminal; only the main process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _ThisProcess.make = make


def _end_with_parent() -> None:
    """Exit when the parent dies: a killed parent cannot end its processes."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(chunk: Chunk) -> EditedChunk:
    # Made here and not in `_start`, where an error would break the pool without a message.
    if _ThisProcess.worker is None:
        assert _ThisProcess.make is not None
        _ThisProcess.worker = _ThisProcess.make()
    return _ThisProcess.worker(chunk)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Set the number of threads of new processes to one: more threads than cores are slower."""
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


def as_text(edited: Sequence[Edited], tally: EditTally, failures: Sequence[str]) -> str:
    """The content of the file of a chunk."""
    head = ChunkHead(len(edited), tally, tuple(failures))
    text = "".join(json_line(to_json(record)) + "\n" for record in (head, *edited))
    return f"{_digest(text)}\n{text}"


@dataclass(frozen=True, eq=False)
class ChunkHead:
    """The line about the whole chunk."""

    captions: int
    tally: EditTally
    failures: tuple[str, ...]
    """Captions that the editor failed on, with the error."""


def read_head(file: IO[str]) -> ChunkHead:
    """Read the head of an open file, without checking the digest."""
    file.readline()
    return from_json(ChunkHead, json.loads(file.readline()), "chunk")


def read_edited(content: str) -> list[Edited]:
    """Read the captions of a file; ValueError if the digest does not match."""
    digest, _, text = content.partition("\n")
    if digest != _digest(text):
        raise ValueError(digest)
    # Not `splitlines`: captions may contain other line separators, such as U+2028.
    return [from_json(Edited, json.loads(line), "caption") for line in text.split("\n")[1:-1]]


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
