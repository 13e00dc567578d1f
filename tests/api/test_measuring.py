"""`ub.evaluate`: one or many models and benchmarks, run folders, failures; `ub.score`: matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import unbag as ub
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.models.baselines import load as load_baseline
from unbag.types import Benchmark, EvalProtocol, Query
from unbag.world.benchmarks import BINDING, ORDER, SWAP

QUICK = EvalProtocol(resamples=100)
FEW = replace(ORDER, name="few", load=lambda root: ORDER.load(None)[:40])
PAIRS = replace(BINDING, name="pairs", load=lambda root: BINDING.load(None)[:20])


class Lengths:
    """A scorer that counts its calls, and raises its error if it has one."""

    scoring, is_blind = "length", False

    def __init__(self, name: str = "lengths", error: Exception | None = None) -> None:
        self.name, self.error, self.asked = name, error, 0
        self.fingerprint = f"{name}-1"

    def score(self, queries: Sequence[Query]) -> list[float]:
        if self.error is not None:
            raise self.error
        self.asked += len(queries)
        return [-float(len(str(query.caption))) for query in queries]


def said(call: Any) -> str:
    with pytest.raises(ub.UnbagError) as caught:
        call()
    return str(caught.value)


def test_one_call_gives_what_a_run_of_the_same_scorers_gives(tmp_path: Path) -> None:
    model = ub.load_model("tiny:base", device="cpu")
    names = ["tiny:random", "caption:short"]
    found = ub.evaluate([model, *names], [PAIRS, "world-order"], protocol=QUICK, device="cpu")
    job = Job(
        scorers=[ub.load_scorer(model), ub.load_scorer("tiny:random"), load_baseline("short")],
        benchmarks=[PAIRS, ORDER],
        out=tmp_path / "run",
        protocol=QUICK,
    )
    contents = run(job).contents
    key = [(r.benchmark, r.scorer, r.aggregate, r.overall, r.by_tag) for r in contents.results]
    assert {name for name, *_ in key} == {"pairs", "world-order"}
    # Names come before objects.
    mine = {(r.benchmark, r.scorer): (r.aggregate, r.overall, r.by_tag) for r in found}
    assert mine == {(name, scorer): tuple(rest) for name, scorer, *rest in key}
    assert len(found.contents.comparisons) == len(contents.comparisons) > 0
    assert (found.folder, found.problems) == (None, ())


def test_without_a_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = ub.evaluate("tiny:base", FEW, protocol=QUICK)
    assert found.models == ["tiny:base"]
    assert not list(tmp_path.iterdir())
    ub.evaluate("tiny:base", FEW, protocol=QUICK, cache_dir="vectors")
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]


def test_a_folder_is_a_run_folder_with_its_report_and_resumes(tmp_path: Path) -> None:
    out, scorer = tmp_path / "run", Lengths()
    found = ub.evaluate(scorer, "world-order", out=out, protocol=QUICK)
    assert found.folder == out
    assert {"run.json", "results.json", "scores.parquet", "report.html"} <= {
        path.name for path in out.iterdir()
    }
    assert "lengths" in (out / "report.html").read_text(encoding="utf-8")
    asked = scorer.asked
    again = ub.evaluate(scorer, "world-order", out=out, protocol=QUICK)
    assert scorer.asked == asked
    assert again[0].overall == found[0].overall
    message = said(lambda: ub.evaluate(scorer, "world-order", out=out, protocol=QUICK, seed=1))
    assert "seed" in message
    again_csv = ub.report(out, tmp_path / "again.csv").read_bytes().decode()
    assert again_csv == found.to_csv()


def test_a_failing_model_does_not_lose_the_others(tmp_path: Path) -> None:
    broken = Lengths("broken", ZeroDivisionError("odd"))
    found = ub.evaluate([broken, Lengths()], ["world-order"], protocol=QUICK)
    assert found.models == ["lengths"]
    [problem] = found.problems
    assert problem.startswith("broken on world-order: it failed with ZeroDivisionError: odd")
    # The temporary folder is gone, so the traceback itself is there.
    assert "Traceback (most recent call last)" in problem
    assert "tracebacks.txt" not in problem
    assert f"not measured: {problem}" in repr(found)
    out = tmp_path / "run"
    [problem] = ub.evaluate([broken, Lengths()], ["world-order"], protocol=QUICK, out=out).problems
    assert str(out / "tracebacks.txt") in problem
    broken.error = None
    assert ub.evaluate([broken, Lengths()], "world-order", protocol=QUICK, out=out).models == [
        "broken",
        "lengths",
    ]


def test_a_failure_of_everything_is_raised() -> None:
    broken = Lengths("broken", ZeroDivisionError("odd"))
    with pytest.raises(ZeroDivisionError, match="odd"):
        ub.evaluate(broken, "world-order")
    also = Lengths("also", ub.UnbagError("no room", hint="buy some"))
    message = said(lambda: ub.evaluate([broken, also], "world-order"))
    assert message.startswith("no model could be scored\nbroken on world-order: it failed with")
    assert "also on world-order: no room\n  hint:     buy some" in message

    class Nothing(Lengths):
        def score(self, queries: Sequence[Query]) -> list[float]:
            return [float("nan")] * len(queries)

    message = said(lambda: ub.evaluate(Nothing("nothing"), "world-order", protocol=QUICK))
    assert message.startswith("nothing could be measured\nnothing on world-order: ")
    found = ub.evaluate(Nothing("nothing"), "world-order", protocol=QUICK, allow_invalid=True)
    assert found[0].overall["accuracy"].invalid == 240


def test_wrong_names_and_things_are_named() -> None:
    assert "unknown model 'tinny'" in said(lambda: ub.evaluate(["tiny:base", "tinny"], ORDER))
    assert "unknown benchmark 'wrold-order'" in said(
        lambda: ub.evaluate("caption:short", ["world-order", "wrold-order"])
    )
    kind: Any = Lengths
    assert "Lengths is a class" in said(lambda: ub.evaluate([kind], ORDER))
    three: Any = 3
    assert "a int was given in place of a scorer" in said(lambda: ub.evaluate(three, ORDER))
    assert "a int was given in place of a benchmark" in said(
        lambda: ub.evaluate("caption:short", [three])
    )
    assert "no model was given" in said(lambda: ub.evaluate([], ORDER))
    assert "no benchmark was given" in said(lambda: ub.evaluate("caption:short", []))
    assert "the model 'lengths' was given twice" in said(
        lambda: ub.evaluate([Lengths(), Lengths()], ORDER)
    )
    assert "unknown scorer 'cosin'" in said(lambda: ub.evaluate("tiny:base", ORDER, scorer="cosin"))
    message = said(lambda: ub.evaluate("tiny:base", "sugarcrepe"))
    assert "data_dir=" in message


def test_a_family_and_a_member_of_it_are_no_double() -> None:
    from unbag.api.names import benchmarks_of

    found = [one.name for one in benchmarks_of(["world", "world-swap", "whatsup"])]
    assert len(found) == len(set(found))
    assert {"world-swap", "world-order", "whatsup_a", "whatsup_b"} <= set(found)
    assert benchmarks_of([SWAP, SWAP]) == [SWAP]


def test_a_scorer_is_for_models_and_not_for_blind_baselines() -> None:
    found = ub.evaluate(["tiny:base", "caption:short"], FEW, scorer="dcsm_fixed", protocol=QUICK)
    assert found.models == ["tiny:base+dcsm_fixed (shipped)", "caption:short"]
    one = ub.load_scorer("tiny:base", "dcsm_fixed")
    same = ub.evaluate(one, FEW, protocol=QUICK)
    assert same[0].overall == found[0].overall


def test_a_linear_probe_needs_one_benchmark_with_a_training_split() -> None:
    def ask(*benchmarks: str) -> str:
        return said(lambda: ub.evaluate("tiny:base", benchmarks, scorer="linear-probe"))

    assert "scorer='linear-probe' with 2 benchmarks" in ask("world-swap", "world-order")
    assert "'world-swap' has no training split" in ask("world-swap")


def test_official_ties_and_protocols_reach_the_results() -> None:
    half = EvalProtocol(ties="half", resamples=100)
    found = ub.evaluate("caption:constant", "world-order", protocol=half)
    assert (found[0].protocol.ties, found[0].overall["accuracy"].value) == ("half", 0.25)
    assert found[0].protocol.resamples == 100
    mine = replace(ORDER, official_ties="half")
    first = [
        ub.evaluate("caption:constant", mine, protocol=QUICK, official_ties=is_official)[0]
        for is_official in (False, True)
    ]
    assert [one.protocol.ties for one in first] == ["wrong", "half"]
    assert [one.overall["accuracy"].value for one in first] == [0, 0.25]


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png"]
    for at, path in enumerate(found):
        SWAP.load(None)[at * 7].images[0].open().save(path)
    return found


@pytest.mark.parametrize("model", ["tiny:base", "caption:short"])
def test_several_images_give_a_matrix_and_one_gives_a_row(images: list[Path], model: str) -> None:
    captions = ["a red cup left of a green bag", "a bag", "a green cup left of a red bag", "cup"]
    score_IC = ub.score(images, captions, model)
    assert score_IC.shape == (3, 4)
    for path, row in zip(images, score_IC, strict=True):
        np.testing.assert_allclose(ub.score(path, captions, model), row, atol=1e-6)
        with Image.open(path) as image:
            np.testing.assert_allclose(ub.score([image], captions, model)[0], row, atol=1e-6)
    assert ub.score(tuple(images[:1]), captions, model).shape == (1, 4)


def test_score_names_the_scorer_and_refuses_nothing(images: list[Path]) -> None:
    read = ub.score(images, ["a red cup", "a bag"], "tiny:base", scorer="dcsm_fixed")
    assert read.shape == (3, 2)
    assert not np.allclose(read, ub.score(images, ["a red cup", "a bag"], "tiny:base"))
    assert "no image was given" in said(lambda: ub.score([], ["a"], "tiny:base"))
    assert "captions are 'a bag'" in said(lambda: ub.score(images, "a bag", "tiny:base"))
    gone = [*images, images[0].with_name("gone.png")]
    assert "gone.png cannot be opened: there is no such file" in said(
        lambda: ub.score(gone, ["a"], "tiny:base")
    )


def test_a_benchmark_object_of_ones_own() -> None:
    mine = Benchmark("mine", "a", lambda root: ORDER.load(None)[:40], ORDER.metrics, ORDER.headline)
    found = ub.evaluate("caption:short", [mine, "world-order"], protocol=QUICK)
    assert found.benchmarks == ["world-order", "mine"]
    assert found["caption:short", mine].overall["accuracy"].n == 40
