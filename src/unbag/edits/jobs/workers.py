"""Edits chunks on this machine: in this process, or in several that are replaced when they die.

A runner is a function of chunks and settings. It may take several chunks at once and give them back
in any order, as long as it takes no more from the iterator than it works on: a collection need not
fit in memory. A chunk that is done is the text of a file: a digest of what follows, a line about
the chunk, then one a caption.
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
_MANY = 16
"""From so many captions on, a chunk in which all of them fail means that the editor is broken."""
TRIES = 3
"""Times that a chunk is tried alone before the job is given up."""
_AHEAD = 2
"""Chunks in flight for each process: one in work, one waiting."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class EditSettings:
    """What decides the edits of a caption. Plain data: every process makes its own editor of it."""

    kinds: tuple[str, ...] = ("default",)
    parts: EditParts = field(default_factory=EditParts)
    filters: tuple[str, ...] = ()
    """Besides those that are always on."""
    seed: int = 0
    per_kind: int = 1


@dataclass(frozen=True)
class EditedChunk:
    """A chunk that is done, as it is saved."""

    index: int
    captions: int
    text: str
    """The content of its file; see `unbag.edits.jobs.workers`."""


class Runner(Protocol):
    """Edits chunks, here or elsewhere."""

    def __call__(self, chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        """Every chunk once, in any order.

        Raises UnbagError where the work cannot go on, for example because the pipeline is missing.
        What was given back before is kept, and a later run is asked for the rest only.
        """


def make_worker(settings: EditSettings) -> Worker:
    """Load everything that the settings name."""
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
"""A `CaptionEditor`, or whatever does the same."""


@dataclass(frozen=True, eq=False)
class Worker:
    """Edits chunks with an editor that was made once."""

    edits: Edits

    def __call__(self, chunk: Chunk) -> EditedChunk:
        """The chunk as it is saved."""
        total, all_edited, failures = EditTally(), list[Edited](), list[str]()
        # Edits make many small objects beside the large ones of a pipeline; looking through all of
        # them for cycles again and again takes a third of the time.
        with paused_collector():
            for edited, tally, failure in self._edit(chunk.given):
                all_edited += edited
                total.add(tally)
                failures += [failure] if failure else []
        tried = sum(not one.skipped for one in all_edited) + len(failures)
        if len(failures) == tried >= _MANY:
            raise UnbagError(
                f"the editor failed on all captions of {chunk}, first on {failures[0]}",
                expected="an editor that fails on some captions at most",
                hint="what was done is kept: mend the cause and give the same command again",
            )
        text = as_text(all_edited, total, failures)
        return EditedChunk(chunk.index, len(chunk.given), text)

    def _edit(self, given: Sequence[Given]) -> Iterator[tuple[list[Edited], EditTally, str]]:
        """All at once; if that fails by halves, until the captions that fail stand alone."""
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
        one = Edited(given[0].id, cleaned(given[0].text), (), f"{FAILED}: {name}")
        tally = EditTally()
        tally.count_captions([one])
        yield [one], tally, f"{given[0].id!r}: {name}: {message}"[:300]


Make: TypeAlias = Callable[[EditSettings], Worker]
"""What loads the editor, once a process."""


@dataclass(frozen=True)
class InProcess:
    """Chunk after chunk, here."""

    make: Make = make_worker

    def __call__(self, chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
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

    def __call__(self, chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
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
    flight: dict[Future[EditedChunk], Chunk] = field(default_factory=dict)

    def results(self) -> Iterator[EditedChunk]:
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
            future: Future[EditedChunk] = Future()
            future.set_exception(error)
            self.flight[future] = chunk

    def _after_death(self) -> Iterator[EditedChunk]:
        """Give back what got done all the same; the rest is tried again."""
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
                    expected="a process that lives; it may have run out of memory",
                    hint="what was done is kept: with fewer --workers or a smaller model, give "
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


def _work(chunk: Chunk) -> EditedChunk:
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


def as_text(edited: Sequence[Edited], tally: EditTally, failures: Sequence[str]) -> str:
    """What a file of one chunk holds."""
    head = ChunkHead(len(edited), tally, tuple(failures))
    text = "".join(json_line(to_json(one)) + "\n" for one in (head, *edited))
    return f"{_digest(text)}\n{text}"


@dataclass(frozen=True, eq=False)
class ChunkHead:
    """The line about the chunk: what is known of all of it."""

    captions: int
    tally: EditTally
    failures: tuple[str, ...]
    """Captions that the editor failed on, with the error."""


def read_head(file: IO[str]) -> ChunkHead:
    """Of an open file; the digest is not looked at."""
    file.readline()
    return from_json(ChunkHead, json.loads(file.readline()), "chunk")


def read_edited(content: str) -> list[Edited]:
    """The captions of a file; ValueError unless it is as it was written."""
    digest, _, text = content.partition("\n")
    if digest != _digest(text):
        raise ValueError(digest)
    # Not `splitlines`: captions may hold other ends of lines, such as U+2028.
    return [from_json(Edited, json.loads(line), "caption") for line in text.split("\n")[1:-1]]


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
