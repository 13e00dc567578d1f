"""A whole run: its folder, stops and failures, and what can go wrong."""

import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from unbag.api import evaluate
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import TRACEBACKS, run
from unbag.evaluation.store import read_contents
from unbag.metrics.choice import Choice
from unbag.models.baselines import load
from unbag.runs.distributed import Distributed
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Aggregate, Benchmark, Errata, Item, Query

from .stub import Odd, lengths


def results_of(folder: Path) -> Any:
    """Results without the record of the run, which holds the time."""
    entries = json.loads((folder / "results.json").read_text())
    return [{k: v for k, v in entry.items() if k != "run"} for entry in entries]


def test_a_run_folder_holds_everything(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    out = tmp_path / "run"
    finished = run(Job([Cosine(encoder), load("short")], [toy], out, command="unbag run ..."))
    assert finished.problems == ()
    state = json.loads((out / "run.json").read_text())
    assert state["state"] == "done"
    assert state["record"]["command"] == "unbag run ..."
    assert state["record"]["fingerprints"]["model colours"] == "colours-1"
    assert {"unbag", "torch", "numpy", "python"} <= set(state["record"]["versions"])
    first = results_of(out)[0]
    assert (first["benchmark"], first["scorer"], first["aggregate"]) == ("toy", "colours", "micro")
    accuracy = first["overall"]["accuracy"]
    assert accuracy["value"] == 1.0
    assert (accuracy["n"], accuracy["ties"], accuracy["chance"]) == (30, 0, 0.5)
    assert set(first["by_tag"]) == {"colour=red", "colour=green", "colour=blue"}
    contents = read_contents(out)
    assert [r.overall for r in contents.results] == [r.overall for r in finished.contents.results]
    assert contents.record.seed == 0
    assert pq.read_table(out / "scores.parquet").num_rows == 60
    outcomes = pq.read_table(out / "outcomes.parquet").to_pylist()
    assert {(o["scorer"], o["metric"]) for o in outcomes} == {
        ("colours", "accuracy"),
        ("caption:short", "accuracy"),
    }


def test_failures_are_shown_small(toy: Benchmark, tmp_path: Path) -> None:
    contents = run(Job([Odd(lengths())], [toy], tmp_path / "run")).contents
    failure = contents.failures[0]
    assert len(contents.failures) == 6
    assert failure.images[0].startswith("data:image/jpeg;base64,")
    assert failure.truth == ((True, False),)
    assert failure.scores[0][0] < failure.scores[0][1]


def test_a_second_model_is_compared_with_the_first(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    reverse = Odd(lambda q: [-float(x) for x in Cosine(encoder).score(q)], name="reverse")
    job = Job([Cosine(encoder), reverse], [toy], tmp_path / "run")
    (comparison,) = run(job).contents.comparisons
    assert (comparison.first, comparison.second) == ("colours", "reverse")
    assert comparison.difference == -1.0
    # Six images, all of them worse: two of the 64 ways to flip their signs are as extreme.
    assert comparison.p_holm == 2 / 64


def test_damaged_images_are_counted_named_and_refused_in_number(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    bad = tmp_path / "pictures/2.png"
    bad.write_bytes(b"junk")
    progress = Silent()
    finished = run(Job([Cosine(encoder)], [toy], tmp_path / "run"), progress=progress)
    assert any(str(bad) in line and "cannot be used" in line for line in progress.said)
    assert len(finished.problems) == 1
    assert "5 of 30" in finished.problems[0]
    assert "--allow-invalid" in finished.problems[0]
    allowed = run(Job([Cosine(encoder)], [toy], tmp_path / "allowed", allow_invalid=True))
    estimate = allowed.contents.results[0].overall["accuracy"]
    assert (estimate.n, estimate.invalid, estimate.value) == (25, 5, 1.0)
    assert read_contents(tmp_path / "allowed").record.damaged == (str(bad),)


def test_one_bad_benchmark_does_not_cost_the_others(
    items: list[Item], toy: Benchmark, tmp_path: Path, make: Callable[..., Benchmark]
) -> None:
    def answer(queries: Sequence[Query]) -> list[float]:
        return [float("nan") if str(q.caption).startswith("9") else 1.0 for q in queries]

    marked = [Item(i.id, i.images, ("9 a", "9 b"), i.truth) for i in items]
    finished = run(
        Job(
            [Odd(answer, name="moody")],
            [make(lambda root: marked, name="sad"), toy],
            tmp_path / "run",
        )
    )
    assert [r.benchmark for r in finished.contents.results] == ["toy"]
    assert finished.problems[0].startswith("moody on sad:")
    assert pq.read_table(tmp_path / "run/scores.parquet").num_rows == 60


def test_reading_folders_that_are_none(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"there is no folder .*none"):
        read_contents(tmp_path / "none")
    with pytest.raises(UnbagError, match=r"has no run\.json"):
        read_contents(tmp_path)
    run(Job([Cosine(encoder)], [toy], tmp_path / "run"))
    (tmp_path / "run/results.json").unlink()
    with pytest.raises(UnbagError, match=r"has no results\.json") as error:
        read_contents(tmp_path / "run")
    assert "give the command of the run again" in str(error.value)
    (tmp_path / "run/results.json").write_text("{")
    with pytest.raises(UnbagError, match=r"results\.json cannot be read"):
        read_contents(tmp_path / "run")


def test_evaluate_needs_no_folder(encoder: Any, toy: Benchmark) -> None:
    result = evaluate(Cosine(encoder), toy)[0]
    assert result.overall["accuracy"].value == 1.0
    assert str(result.overall["accuracy"]).endswith("n=30, ties=0, chance=50")


def test_batches_of_any_size_agree(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    tables = []
    for batch in (1, 5, 256):
        run(Job([Cosine(encoder)], [toy], tmp_path / str(batch), batch_size=batch))
        rows = pq.read_table(tmp_path / str(batch) / "scores.parquet").to_pylist()
        tables.append(np.array([row["values"] for row in rows]))
    assert np.allclose(tables[0], tables[1], atol=1e-5)
    assert np.allclose(tables[0], tables[2], atol=1e-5)


def test_a_finished_run_is_quick_to_repeat(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    run(Job([Cosine(encoder)], [toy], tmp_path / "run"))
    encoder.batches.clear()
    run(Job([Cosine(encoder)], [toy], tmp_path / "run"))
    assert encoder.batches == []


IMAGES = [PixelImage(np.full((2, 2, 3), n, dtype=np.uint8), name=str(n)) for n in range(5)]


def shared_image_items(count: int) -> list[Item]:
    """As SugarCrepe has them: the images of one file come again in the next."""
    return [
        Item(f"i{n}", (IMAGES[n % 5],), ("good", f"bad {n}"), np.array([[True, False]]))
        for n in range(count)
    ]


class Watching:
    name, fingerprint, scoring, is_blind = "watching", "1", "odd", False

    def __init__(self, stop: int | None = None) -> None:
        self.chunks: list[list[str]] = []
        self.stop = stop

    def score(self, queries: Sequence[Query]) -> list[float]:
        if self.stop is not None and len(self.chunks) == self.stop:
            raise KeyboardInterrupt
        self.chunks.append([q.image.name for q in queries])
        return [float(q.caption == "good") + 0.001 * len(queries) for q in queries]


def choice_benchmark(created: list[Item]) -> Benchmark:
    return Benchmark("toy", "a toy", lambda root: created, (Choice(),), "accuracy")


def test_items_of_one_image_are_asked_together(tmp_path: Path) -> None:
    scorer = Watching()
    run(Job([scorer], [choice_benchmark(shared_image_items(320))], tmp_path / "run"))
    assert [sorted(set(chunk)) for chunk in scorer.chunks] == [["0"], ["1"], ["2"], ["3"], ["4"]]


def test_a_run_that_was_stopped_asks_the_same_chunks(tmp_path: Path) -> None:
    whole = Watching()
    first = run(Job([whole], [choice_benchmark(shared_image_items(320))], tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        run(Job([Watching(2)], [choice_benchmark(shared_image_items(320))], tmp_path / "cut"))
    assert json.loads((tmp_path / "cut/run.json").read_text())["state"] == "stopped"
    rest = Watching()
    second = run(Job([rest], [choice_benchmark(shared_image_items(320))], tmp_path / "cut"))
    assert rest.chunks == whole.chunks[2:]
    assert second.contents.results[0].overall == first.contents.results[0].overall


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
    message = "raises failed (ZeroDivisionError: no width at all); going on without it"
    assert progress.said == [message]
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
    fixed = Raises(None)
    finished = run(Job([fixed, Cosine(encoder)], two, out, keeps_going=True))
    assert (fixed.asked, encoder.batches) == (1, [])
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
    monkeypatch.setattr(Distributed, "gather", lambda self, message: [message] * self.size)
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
    with pytest.raises(UnbagError, match="no room is left on the disk of") as caught:
        run(job)
    assert caught.value.hint.endswith("give the same command again: scores that are there stay")
    assert later.asked == 0
    assert state(tmp_path / "run") == "failed"


def test_vectors_must_have_unit_norm(
    encoder: Any, toy: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        encoder, "encode_texts", lambda captions: torch.full((len(captions), 3), 5.0)
    )
    with pytest.raises(UnbagError, match=r"model 'colours' returned a vector of norm 8\.66"):
        run(Job([Cosine(encoder)], [toy], tmp_path / "run"))
    monkeypatch.setattr(encoder, "encode_texts", lambda captions: torch.zeros(len(captions), 3))
    finished = run(Job([Cosine(encoder)], [toy], tmp_path / "zero"))
    assert "30 of 30" in finished.problems[0]


def test_a_model_that_shares_no_unit_costs_nobody_the_results(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    nothing = Odd(lambda queries: [float("nan")] * len(queries), name="nothing")
    job = Job([Cosine(encoder), nothing], [toy], tmp_path / "run", allow_invalid=True)
    finished = run(job)
    assert finished.contents.comparisons == ()
    assert finished.problems[0].startswith("colours and nothing on toy: ")
    assert read_contents(tmp_path / "run").results[0].overall["accuracy"].value == 1.0


def test_damage_is_recorded_before_the_scores_that_depend_on_it(
    encoder: Any, toy: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "pictures/2.png"
    bad.write_bytes(b"junk")
    job = Job([Cosine(encoder)], [toy], tmp_path / "run", allow_invalid=True)
    with monkeypatch.context() as patch:
        patch.setattr("unbag.evaluation.run.measure_run", _dies)
        with pytest.raises(MemoryError):
            run(job)
    run(job)
    assert read_contents(tmp_path / "run").record.damaged == (str(bad),)


def _dies(*arguments: object, **more: object) -> None:
    raise MemoryError


def test_left_out_items_and_the_device_are_in_the_record(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    (tmp_path / "pictures/2.png").unlink()
    run(Job([Cosine(encoder)], [toy], tmp_path / "run", missing="skip", device="elsewhere"))
    record = read_contents(tmp_path / "run").record
    assert record.left_out == {"toy": 5}
    assert record.device == "cpu"


def test_a_rule_that_fits_nothing_is_said(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    from dataclasses import replace

    lost = replace(toy, aggregates=(Aggregate(by=("size",)),))
    finished = run(Job([Cosine(encoder)], [lost], tmp_path / "run"))
    assert (
        "no averaging rule of benchmark 'toy' (macro(size)) fits any unit" in finished.problems[0]
    )


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"scorers": [load("short")]}, r"scorers\.colours: colours-1 before, nothing now"),
        ({"errata": "all"}, r"errata\.toy"),
        ({"seed": 1}, "seed: 0 before, 1 now"),
        ({}, r"version: 0\.0\.1 before"),
    ],
)
def test_a_folder_of_another_run_is_left_alone(
    encoder: Any, toy: Benchmark, tmp_path: Path, change: dict[str, Any], difference: str
) -> None:
    toy = replace(toy, errata=Errata("nothing", "", toy.load))
    job = Job([Cosine(encoder)], [toy], tmp_path / "run")
    run(job)
    path = tmp_path / "run/run.json"
    if not change:
        state = json.loads(path.read_text())
        state["identity"]["version"] = "0.0.1"
        path.write_text(json.dumps(state))
    before = (tmp_path / "run/results.json").read_bytes(), path.read_bytes()
    with pytest.raises(UnbagError, match=f"another evaluation: {difference}") as error:
        run(replace(job, **change))
    assert "name another folder with --out" in str(error.value)
    assert ((tmp_path / "run/results.json").read_bytes(), path.read_bytes()) == before


NEEDY = Benchmark("needy", "", lambda root: [], (), "accuracy", files=("data.json",))


@pytest.mark.parametrize(
    ("change", "mentioned"),
    [
        ({"scorers": [load("short"), load("short")]}, ["model 'caption:short' was given twice"]),
        ({"scorers": ["tiny:base"]}, ["'tiny:base' is a name", "ub.load_scorer('tiny:base')"]),
        ({"scorers": [Odd]}, ["Odd is a class", "make one: Odd(...)"]),
        ({"benchmarks": []}, ["no benchmark was given"]),
        ({"benchmarks": ["world-swap"]}, ["'world-swap' is a name", "ub.load_benchmark('world"]),
        ({"benchmarks": [NEEDY]}, ["benchmark 'needy' is read from files", "data.json", "--data"]),
        ({"benchmarks": [NEEDY], "data": Path("here")}, ["there is no folder here/needy"]),
    ],
)
def test_a_bad_job_is_refused(
    change: dict[str, Any], mentioned: list[str], toy: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(UnbagError) as error:
        run(replace(Job([load("short")], [toy], tmp_path / "run"), **change))
    assert [words for words in mentioned if words not in str(error.value)] == []


def test_a_dual_encoder_is_not_a_scorer(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="'colours' is a dual encoder") as error:
        run(Job([encoder], [toy], tmp_path / "run"))
    assert error.value.hint == "write ub.load_scorer(model)"
