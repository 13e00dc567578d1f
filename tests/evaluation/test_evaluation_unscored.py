"""A model that fails costs the run nothing but its own scores, and is tried again."""

import errno
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import TRACEBACKS, run
from unbag.evaluation.store import read_contents
from unbag.models.baselines import load
from unbag.runs.distributed import Distributed
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Item, Query


class Raises:
    """Scores by caption length, until it raises; a benchmark of 90 items is two chunks."""

    name, fingerprint, scoring, is_blind = "raises", "1", "odd", False

    def __init__(self, error: BaseException | None, after: int = 1) -> None:
        self.error, self.after, self.asked = error, after, 0

    def score(self, queries: Sequence[Query]) -> list[float]:
        self.asked += 1
        if self.error is not None and self.asked > self.after:
            raise self.error
        return [float(len(str(query.caption))) for query in queries]


@pytest.fixture
def two(items: list[Item], make: Callable[..., Benchmark]) -> list[Benchmark]:
    """The second is larger than a chunk."""
    many = [
        Item(f"{n}/{i.id}", i.images, tuple(f"{n} {c}" for c in i.captions), i.truth)
        for n in range(3)
        for i in items
    ]
    return [make(lambda root: items, name="small"), make(lambda root: many, name="large")]


def state(out: Path) -> str:
    return str(json.loads((out / "run.json").read_text())["state"])


def test_the_others_are_scored_measured_and_the_failure_is_told(
    encoder: Any, two: list[Benchmark], tmp_path: Path
) -> None:
    out, progress = tmp_path / "run", Silent()
    broken = Raises(ZeroDivisionError("no width\nat all"), after=2)
    job = Job([broken, Cosine(encoder), load("short")], two, out, keeps_going=True)
    finished = run(job, progress=progress)
    measured = {(r.scorer, r.benchmark) for r in finished.contents.results}
    # The benchmark that it had finished counts; the one that it had begun does not.
    assert measured == {
        ("raises", "small"),
        *((name, b.name) for name in ("colours", "caption:short") for b in two),
    }
    assert finished.problems == (
        "raises on large: it failed with ZeroDivisionError: no width at all; its traceback is in "
        f"{out / TRACEBACKS}, and the same command again tries only what is missing",
    )
    said = "raises failed (ZeroDivisionError: no width at all); going on without it"
    assert progress.said == [said]
    written = (out / TRACEBACKS).read_text()
    assert written.startswith("raises\n\nTraceback")
    assert "raise self.error" in written
    assert state(out) == "failed"
    assert read_contents(out).problems == finished.problems
    # What it had scored of the second is kept: 30, then 64 of 90, and both others in full.
    assert pq.read_table(out / "scores.parquet").num_rows == 30 + 64 + 2 * 120


def test_the_same_command_tries_only_what_is_missing(
    encoder: Any, two: list[Benchmark], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run(Job([Raises(OSError("gone"), after=2), Cosine(encoder)], two, out, keeps_going=True))
    encoder.batches.clear()
    mended = Raises(None)
    finished = run(Job([mended, Cosine(encoder)], two, out, keeps_going=True))
    assert (mended.asked, encoder.batches) == (1, [])
    assert finished.problems == ()
    assert (state(out), (out / TRACEBACKS).exists()) == ("done", False)
    whole = run(Job([Raises(None), Cosine(encoder)], two, tmp_path / "whole"))
    assert [r.overall for r in finished.contents.results] == [
        r.overall for r in whole.contents.results
    ]


def test_what_a_user_can_mend_is_told_in_full_and_has_no_traceback(
    toy: Benchmark, tmp_path: Path
) -> None:
    out, error = tmp_path / "run", UnbagError("no room", hint="buy some")
    broken = Raises(error, after=0)
    finished = run(Job([broken, load("short")], [toy], out, keeps_going=True))
    assert finished.problems == ("raises on toy: no room\n  hint:     buy some",)
    assert (state(out), (out / TRACEBACKS).exists()) == ("failed", False)


def test_where_nothing_could_be_scored_there_is_nothing_to_report(
    toy: Benchmark, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(UnbagError) as caught:
        # Half a character, which no file of UTF-8 could hold.
        run(Job([Raises(ValueError("odd \udce9"), after=0)], [toy], out, keeps_going=True))
    assert str(caught.value) == (
        "no model could be scored\nraises on toy: it failed with ValueError: odd \\udce9; its "
        f"traceback is in {out / TRACEBACKS}, and the same command again tries only what is missing"
    )
    assert state(out) == "failed"


def test_in_python_an_error_is_raised_unless_asked_otherwise(
    toy: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(ZeroDivisionError):
        run(Job([Raises(ZeroDivisionError(), after=0), load("short")], [toy], tmp_path / "run"))
    assert state(tmp_path / "run") == "failed"


@pytest.mark.parametrize(("error", "left"), [(KeyboardInterrupt(), "stopped"), (SystemExit(), "")])
def test_who_stops_a_run_stops_all_of_it(
    error: BaseException, left: str, toy: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(type(error)):
        run(Job([Raises(error, after=0), load("short")], [toy], tmp_path / "run", keeps_going=True))
    assert state(tmp_path / "run") == (left or "running")


def test_in_a_team_nobody_is_left_waiting(
    toy: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends with its error, and torchrun ends the others."""
    monkeypatch.setattr("unbag.evaluation.run.init_distributed", lambda: Distributed(0, 2))
    monkeypatch.setattr(Distributed, "wait", lambda self: None)
    monkeypatch.setattr(Distributed, "gather", lambda self, said: [said] * self.size)
    broken = Raises(ZeroDivisionError(), after=0)
    with pytest.raises(ZeroDivisionError):
        run(Job([broken, load("short")], [toy], tmp_path / "run", keeps_going=True))


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left"), RuntimeError("I/O error: ... (os error 28)")],
    ids=["system", "library"],
)
def test_a_full_disk_is_no_fault_of_a_model(
    error: Exception, two: list[Benchmark], tmp_path: Path
) -> None:
    later = Raises(None)
    later.name = "later"
    job = Job([Raises(error), later], two, tmp_path / "run", keeps_going=True)
    with pytest.raises(UnbagError, match="no room is left on the disk of") as told:
        run(job)
    assert told.value.hint.endswith("give the same command again: scores that are there stay")
    assert later.asked == 0
    assert state(tmp_path / "run") == "failed"
