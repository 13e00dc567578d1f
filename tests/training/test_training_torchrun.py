"""Two processes of `unbag train` end where one does, and only one of them writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from unbag.models.tiny import load

from .cut_runs import arguments, make_folder, start
from .small_runs import column, weights


def test_two_processes_end_where_one_does(tmp_path: Path) -> None:
    alone, folder = make_folder(tmp_path / "one"), make_folder(tmp_path / "two")
    words = arguments("run", "--set", "epochs=2")
    assert start(alone, words) == 0, (alone / "said.txt").read_text()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "-m", "unbag", *words],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first = load("base").network.state_dict()
    one, two = weights(alone / "run"), weights(folder / "run")
    moved = max(float((one[name] - first[name]).abs().max()) for name in one)
    assert moved > 1e-3, "else every run is like every other"
    torch.testing.assert_close(two, one, rtol=0, atol=1e-5)
    # The second process writes nothing: no row twice, no table twice.
    assert column(folder / "run", "step") == [0, 1, 2, 3]
    assert (folder / "run/evaluations.csv").read_text().count("\n") == 2
    assert done.stdout.count("written to run/export") == 1
    assert done.stdout.count("paired over the same units") == 1
