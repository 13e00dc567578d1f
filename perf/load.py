"""Measure how fast and in how much memory large annotation files are loaded.

Files of VG-Attribution's size (28,748 items) and of VL-CheckList's shape with 400,000 items are
written to a temporary folder. Each is loaded in a process of its own, once for time and once for
memory, since counting allocations makes everything slow. Peak and kept memory are what loading adds
to the process, as traced by Python; a ratio to the size of the files that stays the same at a tenth
of the items says that memory grows with the file and no faster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from unbag.benchmarks.aro import ATTRIBUTION_FILE
from unbag.benchmarks.names import benchmark
from unbag.benchmarks.vl_checklist import SOURCES
from unbag.evaluation.loading import load_items
from unbag.runs.progress import Silent

NOUNS = ("cat", "dog", "horse", "table", "umbrella", "street sign", "suitcase", "tree")
WORDS = ("red", "wet", "old", "wooden", "striped", "small", "parked", "white")


def attribution(data: Path, items: int) -> None:
    rows = []
    for i in range(items):
        first, second = WORDS[i % 8], WORDS[(i // 8 + i + 1) % 8]
        one, other = NOUNS[i // 3 % 8], NOUNS[(i // 5 + 1) % 8]
        rows.append(
            {
                "image_id": str(i % 9000),
                "image_path": f"{i % 9000}.jpg",
                "bbox_x": i % 300,
                "bbox_y": i % 200,
                "bbox_w": 120,
                "bbox_h": 90,
                "true_caption": f"the {first} {one} and the {second} {other} ({i})",
                "false_caption": f"the {second} {one} and the {first} {other} ({i})",
                "attributes": [first, second],
            }
        )
    (data / "aro").mkdir()
    (data / "aro" / ATTRIBUTION_FILE).write_text(json.dumps(rows))


def vl_checklist(data: Path, items: int) -> None:
    share, rest = divmod(items, len(SOURCES))
    for n, source in enumerate(SOURCES):
        rows = [
            [
                f"VG_100K/{i % 20_000}.jpg",
                {"POS": [f"{WORDS[i % 8]} {NOUNS[i % 7]} {i}"], "NEG": [f"no {NOUNS[i % 5]} {i}"]},
            ]
            for i in range(share + (n < rest))
        ]
        path = data / "vl_checklist" / source.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows))


MAKERS: dict[str, Callable[[Path, int], None]] = {
    "aro_attribution": attribution,
    "vl_checklist": vl_checklist,
}
SIZES = (("aro_attribution", 28_748), ("vl_checklist", 40_000), ("vl_checklist", 400_000))


def main() -> None:
    print(f"{'benchmark':<18}{'items':>9}{'file MB':>9}{'seconds':>9}{'items/s':>10}", end="")
    print(f"{'peak MB':>9}{'peak/file':>11}{'kept/file':>11}")
    for name, items in SIZES:
        with tempfile.TemporaryDirectory(prefix="unbag-perf-") as folder:
            MAKERS[name](Path(folder), items)
            size = sum(path.stat().st_size for path in Path(folder).rglob("*.json"))
            seconds = min(apart("time", name, folder)[0] for _ in range(3))
            peak, kept = apart("memory", name, folder)
        print(
            f"{name:<18}{items:>9,}{size / 1e6:>9.1f}{seconds:>9.2f}{items / seconds:>10,.0f}",
            end="",
        )
        print(f"{peak / 1e6:>9.0f}{peak / size:>11.1f}{kept / size:>11.1f}", flush=True)


def apart(what: str, name: str, folder: str) -> list[float]:
    """Load in a fresh process and read the numbers it prints."""
    command = [sys.executable, __file__, what, name, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def load_once(what: str, name: str, folder: str) -> None:
    chosen = benchmark(name)
    if what == "memory":
        tracemalloc.start()
    start = perf_counter()
    items = load_items(chosen, Path(folder), progress=Silent())
    seconds = perf_counter() - start
    kept, peak = tracemalloc.get_traced_memory() if what == "memory" else (0, 0)
    assert items
    print(*((peak, kept) if what == "memory" else (seconds,)))


if __name__ == "__main__":
    load_once(*sys.argv[1:]) if len(sys.argv) == 4 else main()
