"""Two processes of torchrun give the same scores as one, bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from unbag.errors import UnbagError
from unbag.evaluation.store import Key, ScoreStore
from unbag.runs.distributed import Distributed, init_distributed
from unbag.types import Scores
from unbag.world.benchmarks import SWAP

MODELS = '''
"""A dual encoder and a scorer of queries."""
from dataclasses import replace

from unbag.models.baselines import CaptionOnly
from unbag.models.tiny import load
from unbag.world.benchmarks import SWAP

ENCODER = load("base")
SMALL = replace(SWAP, name="small", load=lambda root: SWAP.load(root)[:130])


class QueryScorer(CaptionOnly):
    """A scorer that is not blind, so that its images are opened."""


SCORER = QueryScorer("scorer", lambda caption: float(len(caption)), is_blind=False)
'''


def command(out: Path, *, processes: int) -> list[str]:
    start = [sys.executable, "-m"]
    if processes > 1:
        start += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    models = ["team_models:ENCODER", "team_models:SCORER"]
    options = ["--batch-size", "16", "--no-cache", "--blind", "none", "--device", "cpu", "--out"]
    run = ["unbag", "run", "--model", *models, "--bench", "team_models:SMALL"]
    return [*start, *run, *options, str(out)]


def scores(folder: Path) -> dict[tuple[str, str], list[float]]:
    rows = pq.read_table(folder / "scores.parquet").to_pylist()
    return {(row["scorer"], row["item"]): row["values"] for row in rows}


def test_two_processes_give_the_same_bits_as_one(tmp_path: Path) -> None:
    (tmp_path / "team_models.py").write_text(MODELS)
    processes = [
        subprocess.run(
            command(tmp_path / name, processes=n), cwd=tmp_path, capture_output=True, text=True
        )
        for name, n in (("one", 1), ("two", 2))
    ]
    assert [p.returncode for p in processes] == [0, 0], processes[1].stderr
    assert scores(tmp_path / "one") == scores(tmp_path / "two")
    one, two = (json.loads((tmp_path / n / "results.json").read_text()) for n in ("one", "two"))
    assert one == two
    assert processes[1].stdout.count("results:") == 1
    left = {path.name for path in (tmp_path / "two").iterdir()}
    assert not left & {"vectors", "scores.1.parquet"}


def test_parts_of_each_process() -> None:
    parts = list(range(7))
    shares = [Distributed(rank, 3).mine(parts) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4], [2, 5]]
    assert Distributed().mine(parts) == parts
    assert Distributed().gather("x") == ["x"]
    assert [Distributed(rank, 3).is_leader for rank in range(3)] == [True, False, False]


def test_scores_of_a_helper_are_taken_over(tmp_path: Path) -> None:
    items = SWAP.load(None)[:2]
    key = Key("b", "s")
    helper = ScoreStore(tmp_path / "scores.1.parquet")
    helper.add(key, [(items[1], Scores(items[1].id, np.ones((1, 3))))])
    helper.save()
    store = ScoreStore(tmp_path / "scores.parquet")
    store.add(key, [(items[0], Scores(items[0].id, np.zeros((1, 3))))])
    store.take_over(tmp_path / "scores.1.parquet")
    store.save()
    assert set(ScoreStore(tmp_path / "scores.parquet").get(key)) == {i.id for i in items}


def test_wrong_world_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(UnbagError, match="WORLD_SIZE is 'two'"):
        init_distributed()
    monkeypatch.delenv("WORLD_SIZE")
    assert init_distributed() == Distributed()
