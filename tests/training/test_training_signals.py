"""A signal lets the step end; the same command continues, or changes nothing after the end."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from unbag.runs import checkpoint
from unbag.runs.checkpoint import BEST, LAST

from .cut_runs import arguments, make_folder, start
from .small_runs import column, rows, same, weights


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight steps that nothing cuts off."""
    folder = make_folder(tmp_path_factory.mktemp("whole"))
    assert start(folder, arguments()) == 0, (folder / "said.txt").read_text()
    return folder / "run"


def evaluations(folder: Path) -> list[tuple[str, str]]:
    with (folder / "evaluations.csv").open(encoding="utf-8") as file:
        return [(row["step"], row["value"]) for row in csv.DictReader(file)]


def check_same(cut: Path, whole: Path) -> None:
    """Weights, optimizer state, thresholds, log and measurements."""
    one, other = (checkpoint.load_checkpoint(folder / LAST) for folder in (cut, whole))
    for group in ("weights", "optimizer", "extra"):
        assert other.group(group)
        assert same(dict(one.group(group)), dict(other.group(group)))
    assert other.group("extra")["threshold"].any(), "thresholds moved, or this says nothing"
    assert one.header["step"] == other.header["step"] == 8
    assert one.header["state"]["best_step"] == other.header["state"]["best_step"]
    assert same(weights(cut, BEST), weights(whole, BEST))
    assert column(cut, "step") == list(range(8))
    for mine, theirs in zip(rows(cut), rows(whole), strict=True):
        assert mine | {"waited": 0} == theirs | {"waited": 0}
    assert evaluations(cut) == evaluations(whole)


@pytest.mark.parametrize(("name", "workers"), [("SIGINT", "1"), ("SIGTERM", "0")])
def test_a_signal_lets_the_step_end(tmp_path: Path, whole: Path, workers: str, name: str) -> None:
    """Workers get Ctrl-C as well, since it goes to the whole group; they must not mind."""
    folder = make_folder(tmp_path)
    words = arguments("run", "--workers", workers)
    assert start(folder, words, cut=f"4 {name}") == 130
    said = (folder / "said.txt").read_text()
    assert "stopped after step 4; the same command resumes from there" in said
    assert checkpoint.load_checkpoint(folder / "run" / LAST).header["step"] == 4
    assert column(folder / "run", "step") == [0, 1, 2, 3]
    assert start(folder, words) == 0
    check_same(folder / "run", whole)


def test_a_signal_in_the_last_step_stops_what_comes_after_it(tmp_path: Path, whole: Path) -> None:
    folder = make_folder(tmp_path)
    assert start(folder, arguments(), cut="8 SIGINT") == 130
    assert "unbag: stopped" in (folder / "said.txt").read_text()
    assert checkpoint.load_checkpoint(folder / "run" / LAST).header["step"] == 8
    assert not (folder / "run/export").exists()
    assert start(folder, arguments()) == 0
    assert (folder / "run/export").exists()
    check_same(folder / "run", whole)


def test_after_the_end_nothing_is_trained_again(tmp_path: Path, whole: Path) -> None:
    files = [whole / name for name in (LAST, BEST, "log.jsonl", "evaluations.csv", "export")]
    before = [path.stat().st_mtime_ns for path in files]
    folder = whole.parent
    (folder / "said.txt").unlink()
    assert start(folder, arguments()) == 0
    assert [path.stat().st_mtime_ns for path in files] == before
    said = (folder / "said.txt").read_text()
    assert "small" in said
    assert "already exported: run/export" in said
    # Another recipe, in the same words but for one.
    assert start(folder, arguments("run", "--set", "learning_rate=1e-4")) == 1
    said = (folder / "said.txt").read_text()
    assert "recipe.learning_rate: 0.001 before, 0.0001 now" in said
    assert [path.stat().st_mtime_ns for path in files] == before
