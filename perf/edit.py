"""Captions come in; how many a second are edited, against the parser alone and a plain loop, out.

python perf/edit.py captions.jsonl [--captions 25000] [--repeat 40] [--workers 2]

The file has lines {"image", "captions"}. Without one, captions are made of a few words of ours:
the ratios mean the same, the rates do not. The plain loop edits caption by caption in one process.
The ceiling is spaCy alone: the same pipeline over the same captions, in as many processes, nothing
done with what it finds. `--repeat` edits the collection so many times over, with the same captions
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
from dataclasses import dataclass
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, sleep

from unbag.captions.edit import Given, make_editor
from unbag.captions.kinds import find_kinds
from unbag.captions.parse import BATCH, find_parser
from unbag.corpus.job import EditJob
from unbag.corpus.run import run_edit
from unbag.corpus.source import Source

PLAIN = 400
"""Captions of the plain loop; it is slow and its rate is steady."""


def made_captions(number: int) -> list[str]:
    subjects = ("A small brown dog", "Two tall men", "An old woman in a red coat", "A boy")
    verbs = ("is holding", "walks toward", "sits next to", "is looking at", "stands behind")
    objects = ("a wooden bench", "three white cups", "a green bicycle", "an umbrella")
    places = ("on the left side of the street", "in front of a large house", "near a lake", "")
    found = (" ".join(p).strip() + "." for p in product(subjects, verbs, objects, places))
    some = list(found)
    return [some[at % len(some)] for at in range(number)]


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
    seconds: float
    memory: float
    """Most megabytes of this process and its workers together while it ran."""


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
        start = perf_counter()
        with Memory() as memory:
            run_edit(job)
        return Edited(perf_counter() - start, memory.most)


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
    print(
        f"ours, {workers} processes          {rate:8,.0f} captions/s  {rate * plain:.1f} times the "
        f"plain loop (wanted: 3), {rate / workers:,.0f} a core, "
        f"{100 * parsing / ours.seconds:.0f} % of the parser; reading, writing and start included"
    )
    print(f"memory                      {ours.memory:8,.0f} MB, all processes")
    if options.repeat > 1:
        more = edit_all(captions, kinds, workers, options.repeat)
        many = len(captions) * options.repeat
        print(
            f"{many:,} captions: {many / more.seconds:,.0f} captions/s, "
            f"{more.seconds / ours.seconds:.1f} times the time for {options.repeat} times the "
            f"captions, {more.memory:,.0f} MB"
        )


if __name__ == "__main__":
    main()
