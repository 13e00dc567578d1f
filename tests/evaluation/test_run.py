"""A whole run: its folder, continuing it after a stop or a kill, and what can go wrong."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from unbag.api import evaluate
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.evaluation.store import read_contents
from unbag.models.baselines import load
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Item, Query

from .stub import Odd, lengths


def results_of(folder: Path) -> Any:
    """Results without the record of the run, which holds the time."""
    found = json.loads((folder / "results.json").read_text())
    return [{k: v for k, v in entry.items() if k != "run"} for entry in found]


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
    assert pq.read_table(out / "scores.parquet").num_rows == 60
    outcomes = pq.read_table(out / "outcomes.parquet").to_pylist()
    assert {(o["scorer"], o["metric"]) for o in outcomes} == {
        ("colours", "accuracy"),
        ("caption:short", "accuracy"),
    }


def test_what_was_written_can_be_read(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    finished = run(Job([Cosine(encoder)], [toy], tmp_path / "run"))
    contents = read_contents(tmp_path / "run")
    assert contents.results[0].overall == finished.contents.results[0].overall
    assert contents.record.seed == 0


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


def test_a_folder_of_another_run_is_left_alone(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run(Job([Cosine(encoder)], [toy], out))
    before = (out / "results.json").read_bytes()
    changed = r"another evaluation: scorers\.colours: colours-1 before, nothing now"
    with pytest.raises(UnbagError, match=changed) as error:
        run(Job([load("short")], [toy], out))
    assert "name another folder with --out" in str(error.value)
    assert (out / "results.json").read_bytes() == before


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


def test_names_may_not_repeat(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="the model 'colours' was given twice"):
        run(Job([Cosine(encoder)] * 2, [toy], tmp_path / "run"))
    with pytest.raises(UnbagError, match="no benchmark was given"):
        run(Job([Cosine(encoder)], [], tmp_path / "run"))


def test_files_are_asked_for(encoder: Any, tmp_path: Path) -> None:
    needy = Benchmark("needy", "", lambda root: [], (), "accuracy", files=("data.json",))
    with pytest.raises(UnbagError, match="benchmark 'needy' is read from files"):
        run(Job([Cosine(encoder)], [needy], tmp_path / "run"))
    with pytest.raises(UnbagError, match=r"there is no folder .*needy"):
        run(Job([Cosine(encoder)], [needy], tmp_path / "run", data=tmp_path))


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
