"""Measure edited captions per second, against the parser alone and a plain loop.

python perf/edit.py captions.jsonl [--captions 25000] [--repeat 40] [--workers 2]

The file has lines {"image", "captions"}. Without one, captions are made of a few words of ours:
the ratios mean the same, the rates do not. The plain loop edits caption by caption in one process.
The ceiling is spaCy alone: the same pipeline over the same captions, in as many processes, nothing
done with what it finds; its rate leaves loading out. Ours is told as a user meets it, with start,
reading and writing, and between the first chunks and the last, which is what a large collection
tends to. Other work on the machine lowers every rate; captions for each second of processor time
suffer least. `--repeat` edits the collection so many times over, with the same captions
under new names, to see whether time grows with the number and memory does not.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, sleep

from unbag.data.captions import Source
from unbag.edits.editor import make_editor
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.edits.kinds import find_kinds
from unbag.edits.parsing import BATCH, find_parser
from unbag.runs.progress import Advance, Silent
from unbag.types import Given

PLAIN = 400
"""Captions of the plain loop; it is slow and its rate is steady."""


def made_captions(number: int) -> list[str]:
    subjects = ("A small brown dog", "Two tall men", "An old woman in a red coat", "A boy")
    verbs = ("is holding", "walks toward", "sits next to", "is looking at", "stands behind")
    objects = ("a wooden bench", "three white cups", "a green bicycle", "an umbrella")
    places = ("on the left side of the street", "in front of a large house", "near a lake", "")
    sentences = (" ".join(p).strip() + "." for p in product(subjects, verbs, objects, places))
    all_captions = list(sentences)
    return [all_captions[at % len(all_captions)] for at in range(number)]


def read_captions(path: Path, number: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(islice((c for line in lines for c in json.loads(line)["captions"]), number))


def parse_all(captions: Sequence[str]) -> float:
    pipeline = find_parser().pipeline
    list(pipeline.pipe(captions[:BATCH], batch_size=BATCH))
    start = perf_counter()
    for _ in pipeline.pipe(captions, batch_size=BATCH):
        pass
    return perf_counter() - start


def ceiling(captions: Sequence[str], workers: int) -> float:
    """Seconds for all of them, loading apart, each process with its share."""
    shares = [captions[at::workers] for at in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return max(pool.map(parse_all, shares))


def plain_loop(captions: Sequence[str], kinds: Sequence[str]) -> float:
    editor = make_editor(kinds)
    editor([Given("first", captions[0])])
    start = perf_counter()
    for at, caption in enumerate(captions):
        editor([Given(str(at), caption)])
    return perf_counter() - start


@dataclass
class Edited:
    captions: int
    seconds: float
    steady: float
    """Captions a second while all processes worked."""
    processor: float
    """Seconds of processor time of all processes."""
    memory: float
    """Most megabytes of this process and its workers together while it ran."""

    def __str__(self) -> str:
        return (
            f"{self.captions / self.seconds:8,.0f} captions/s with start, reading and writing, "
            f"{self.steady:,.0f} without, {self.captions / self.processor:,.0f} for each second "
            f"of processor time, {self.memory:,.0f} MB in all processes"
        )


class Clock(Silent):
    """Notes when chunks were done."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[float, int]] = []

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        def advance(captions: int) -> None:
            if what == "edit":
                self.done.append((perf_counter(), captions))

        yield advance

    def steady(self, workers: int) -> float:
        """From when each process may have done a chunk, until the last was done."""
        if len(self.done) <= workers:
            return float("nan")
        later = self.done[workers:]
        return sum(number for _, number in later) / (later[-1][0] - self.done[workers - 1][0])


class Memory:
    """Watches this process and its children."""

    def __init__(self) -> None:
        self.most = 0.0
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_done.is_set():
            self.most = max(self.most, sum(map(_resident, _family(os.getpid()))))
            sleep(0.5)


def _family(process: int) -> Iterator[int]:
    yield process
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _resident(process: int) -> float:
    """Megabytes; 0 if it is gone."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def edit_all(captions: Sequence[str], kinds: Sequence[str], workers: int, repeat: int) -> Edited:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "captions.jsonl"
        with source.open("w", encoding="utf-8") as file:
            for turn in range(repeat):
                for at, caption in enumerate(captions):
                    row = {"id": f"{turn}-{at}", "caption": caption}
                    file.write(json.dumps(row) + "\n")
        job = EditJob(
            Source(str(source), "jsonl"),
            Path(folder) / "edits.jsonl",
            kinds=tuple(kinds),
            workers=workers,
        )
        clock, start, before = Clock(), perf_counter(), sum(os.times()[:4])
        with Memory() as memory:
            run_edit(job, progress=clock)
        seconds, processor = perf_counter() - start, sum(os.times()[:4]) - before
        count = repeat * len(captions)
        return Edited(count, seconds, clock.steady(workers), processor, memory.most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--captions", type=int, default=25_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=["default"])
    options = parser.parse_args()
    number, workers = options.captions, options.workers
    captions = read_captions(options.file, number) if options.file else made_captions(number)
    kinds = [kind.name for kind in find_kinds(options.kinds)]
    words = sum(len(caption.split()) for caption in captions) / len(captions)
    print(f"{len(captions):,} captions of {words:.1f} words, {len(kinds)} kinds by rule")

    plain = plain_loop(captions[:PLAIN], kinds) / min(PLAIN, len(captions))
    parsing = ceiling(captions, workers)
    ours = edit_all(captions, kinds, workers, 1)
    rate = len(captions) / ours.seconds
    print(f"plain loop, one process     {1 / plain:8,.0f} captions/s")
    print(f"parser alone, {workers} processes   {len(captions) / parsing:8,.0f} captions/s")
    print(f"ours, {workers} processes          {ours}")
    print(
        f"                            {rate * plain:.1f} times the plain loop (target: 3), "
        f"{rate / workers:,.0f} captions/s a process, {100 * parsing / ours.seconds:.0f} % of the "
        f"parser; load of the machine {os.getloadavg()[0]:.1f}"
    )
    if options.repeat > 1:
        more = edit_all(captions, kinds, workers, options.repeat)
        print(f"{more.captions:,} captions          {more}")
        print(
            f"                            {more.seconds / ours.seconds:.1f} times the time for "
            f"{options.repeat} times the captions; load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()
