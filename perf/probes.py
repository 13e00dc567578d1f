"""Measure the cost of mining pairs among random embeddings, against the matrix products alone.

python perf/probes.py [--number 100000] [--width 512] [--every 1000]

Mining (`unbag.probes.agreement.mine_pairs`) multiplies the upper triangle of all cosines block by
block. The ceiling is the same blocks multiplied and nothing done with them, in the same run. One
embedding in `--every` has a near copy that the second encoder keeps apart, so that something is
found. Memory is the most that the process grew by while it ran, its input left out. Other work on
the machine lowers every rate; the ratio of processor times suffers least.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep

import numpy as np

from unbag.probes.agreement import block_cosines, mine_pairs
from unbag.runs.cache import Vectors

TARGET = 2.0
"""Largest acceptable ratio to the matrix products alone."""


@dataclass
class Cost:
    seconds: float
    processor: float
    memory: float
    """Megabytes that the process grew by at most."""

    def __str__(self) -> str:
        return (
            f"{self.seconds:8.1f} s, {self.processor:8.1f} s of processor time, "
            f"{self.memory:7,.0f} MB more memory"
        )


def cost(work: Callable[[], object]) -> Cost:
    before, highest, is_done = resident(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not is_done.is_set():
            highest = max(highest, resident())
            sleep(0.01)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start, processor = perf_counter(), process_time()
    work()
    result = Cost(perf_counter() - start, process_time() - processor, 0.0)
    is_done.set()
    watcher.join()
    result.memory = max(highest, resident()) - before
    return result


def resident() -> float:
    """Megabytes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def embeddings(number: int, width: int, every: int) -> tuple[Vectors, Vectors]:
    rng = np.random.default_rng(0)
    merging, parting = (rng.normal(size=(number, width)).astype(np.float32) for _ in range(2))
    copies = np.arange(0, number - 1, every)
    merging[copies + 1] = merging[copies] + np.float32(0.1) * merging[copies + 1]
    merging /= np.linalg.norm(merging, axis=1, keepdims=True)
    return merging, parting


def mining(number: int, width: int, every: int) -> None:
    merging, parting = embeddings(number, width, every)
    planted = len(range(0, number - 1, every))
    mine_pairs(merging[:256], parting[:256])
    pairs: list[object] = []
    bare = cost(lambda: [None for _ in block_cosines(merging)])
    mined = cost(lambda: pairs.extend(mine_pairs(merging, parting, max_pairs=2 * planted)))
    print(f"{number:,} embeddings of dimension {width}: {len(pairs)} pairs of {planted} found")
    print(f"blocks multiplied  {bare}")
    print(f"mining             {mined}")
    print(
        f"                   {mined.seconds / bare.seconds:.2f} times the products by the clock, "
        f"{mined.processor / bare.processor:.2f} by processor time (target: at most {TARGET:g}); "
        f"load of the machine {os.getloadavg()[0]:.1f}"
    )


def diagnosis(model: str) -> None:
    """As a user meets it, start and page included; seconds by question are in its file."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = [sys.executable, "-m", "unbag", "diagnose", "--model", model, "--no-cache"]
        started = perf_counter()
        subprocess.run([*command, "--out", str(out)], check=True, capture_output=True)
        seconds = perf_counter() - started
        answers = json.loads((out / "diagnosis.json").read_text())["answers"]
    slowest = sorted(answers, key=lambda answer: -answer["seconds"])[:3]
    summary = ", ".join(f"{answer['probe']} {answer['seconds']:.0f} s" for answer in slowest)
    print(f"diagnosis of {model}: {seconds:.0f} s (target: under 90 on two cores), of it {summary}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--every", type=int, default=1_000)
    parser.add_argument("--model", default="tiny:base")
    options = parser.parse_args()
    mining(options.number, options.width, options.every)
    diagnosis(options.model)


if __name__ == "__main__":
    main()
