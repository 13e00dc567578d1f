"""A run that was killed goes on, and gives the same as one that was not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

SLOW = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
from conftest import Colours, make_benchmark, make_items
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.scorers import Cosine

batches = []
class Slow(Colours):
    def encode_pictures(self, pixels):
        print("batch", flush=True)
        batches.append(len(pixels))
        if len(batches) == {hangs_at}:
            time.sleep(600)
        return super().encode_pictures(pixels)

items = make_items(Path({pictures!r}))
run(Job([Cosine(Slow())], [make_benchmark(lambda root: items)], Path({out!r}),
        cache=Path({cache!r}), batch=2, command="same"))
print("done", flush=True)
"""


def results_of(folder: Path) -> Any:
    """Results without the record of the run, which holds the time."""
    found = json.loads((folder / "results.json").read_text())
    return [{k: v for k, v in entry.items() if k != "run"} for entry in found]


def start_slow(tmp_path: Path, name: str, *, hangs_at: int = 0) -> subprocess.Popen[str]:
    script = SLOW.format(
        here=str(Path(__file__).parent),
        hangs_at=hangs_at,
        pictures=str(tmp_path / "pictures"),
        out=str(tmp_path / name),
        cache=str(tmp_path / f"cache-{name}"),
    )
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


def test_kill_9_in_the_middle_then_continue(tmp_path: Path) -> None:
    process = start_slow(tmp_path, "killed", hangs_at=2)
    assert process.stdout is not None
    # The second line says that the first batch is on disk; the second is never finished.
    assert [process.stdout.readline() for _ in range(2)] == ["batch\n"] * 2
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert json.loads((tmp_path / "killed/run.json").read_text())["state"] == "running"
    assert not (tmp_path / "killed/results.json").exists()
    again = start_slow(tmp_path, "killed")
    said = again.communicate(timeout=120)[0].split()
    assert said == ["batch", "batch", "done"]
    whole = start_slow(tmp_path, "whole")
    assert whole.communicate(timeout=120)[0].split().count("batch") == 3
    assert results_of(tmp_path / "killed") == results_of(tmp_path / "whole")
    tables = [pq.read_table(tmp_path / n / "scores.parquet") for n in ("killed", "whole")]
    assert tables[0].equals(tables[1])
