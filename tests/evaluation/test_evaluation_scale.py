"""Wide items, matrix scorers, zero vectors, kills at bad moments: what a review found."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.measuring import choose_failures
from unbag.evaluation.run import run
from unbag.evaluation.scoring import QueryScoring
from unbag.evaluation.store import read_contents
from unbag.metrics.retrieval import Recall
from unbag.scorers import Cosine
from unbag.types import Benchmark, Caption, Case, Ensemble, ImageSource, Item, Query, Scores, Sparse

from .stub import Odd


def classes(items: list[Item], count: int) -> list[Item]:
    letters = ["r", "g", "b"]
    captions: tuple[Caption, ...] = tuple(
        Ensemble(f"class {i}", (letters[i % 3] * (1 + i // 3), f"{letters[i % 3]} {i}"))
        for i in range(count)
    )
    truth = np.eye(1, count, dtype=bool)
    return [Item(f"c{i}", item.images, captions, truth) for i, item in enumerate(items)]


def test_wide_items_get_the_same_scores_as_narrow_ones(
    encoder: Any, items: list[Item], tmp_path: Path, make: Any
) -> None:
    """Seventy classes go through a product of matrices, the first fifty of them cell by cell."""
    wide, narrow = classes(items, 70), classes(items, 50)
    found = []
    for name, some in (("wide", wide), ("narrow", narrow)):
        job = Job(
            [Cosine(encoder)], [make(lambda root, some=some: some, name=name)], tmp_path / name
        )
        run(job)
        import pyarrow.parquet as pq

        rows = pq.read_table(tmp_path / name / "scores.parquet")["values"].to_pylist()
        found.append(np.array(rows))
    assert found[0].shape == (30, 70)
    assert np.allclose(found[0][:, :50], found[1], atol=1e-6)


def test_equal_vectors_get_equal_scores_in_every_block() -> None:
    vectors = torch.nn.functional.normalize(torch.randn(131, 256), dim=-1)
    captions = torch.nn.functional.normalize(torch.randn(77, 256), dim=-1)
    vectors[130] = vectors[3]
    scorer = Cosine.__new__(Cosine)
    first = scorer.compare_all(vectors[:128], captions)
    last = scorer.compare_all(vectors[128:], captions)
    assert torch.equal(first[3], last[2])


class Matrix:
    """A scorer with matrices only; counts its calls and opens every image."""

    name, fingerprint, scoring, is_blind = "matrix", "1", "odd", False

    def __init__(self) -> None:
        self.images = 0

    def score(self, queries: Sequence[Query]) -> list[float]:
        raise AssertionError("the matrix form is there")

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        self.images += len(images)
        rows = [np.asarray(p.open()).mean(axis=(0, 1)) for p in images]
        columns = [[str(c).count(letter) for letter in "rgb"] for c in captions]
        return torch.tensor(np.array(rows) @ np.array(columns, dtype=float).T)


def gallery(items: list[Item]) -> Item:
    images = tuple(item.images[0] for item in items[:6])
    captions = tuple(str(item.captions[0]) for item in items[:3])
    return Item("g", images, captions, Sparse((6, 3), np.arange(6), np.arange(6) % 3))


def test_a_matrix_scorer_is_asked_once_and_survives_a_damaged_image(
    items: list[Item], tmp_path: Path
) -> None:
    scorer = Matrix()
    QueryScoring(scorer).chunk([gallery(items)])
    assert scorer.images == 6
    (tmp_path / "pictures/4.png").write_bytes(b"junk")
    asking = QueryScoring(Matrix())
    (scores,) = asking.chunk([gallery(items)])
    assert list(asking.damaged) == [str(tmp_path / "pictures/4.png")]
    assert scores.image_to_text is not None
    assert scores.image_to_text.greater_Q.tolist() == [0, 0, 0, 0, -1, 0]


def test_failures_of_both_directions_of_retrieval(items: list[Item]) -> None:
    class Worst(Matrix):
        def score_matrix(
            self, images: Sequence[ImageSource], captions: Sequence[Caption]
        ) -> Tensor:
            return -super().score_matrix(images, captions)

    item = gallery(items)
    (scores,) = QueryScoring(Worst()).chunk([item])
    cases = {"g": Case(item, scores)}
    for outcomes in Recall(ks=(1,))(list(cases.values()), ties="wrong", tie_eps=0.0):
        failures = choose_failures("b", "s", outcomes, cases, only={})
        assert failures
        for failure in failures:
            shape = (len(failure.images), len(failure.captions))
            assert shape == ((2, 1) if "text_to_image" in failure.item else (1, 2))
            assert failure.truth[0][0]
            number = int(failure.item.rpartition(" ")[2])
            if shape == (1, 2):
                assert failure.captions[0] == item.captions[number % 3]


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


def test_another_version_does_not_continue_a_run(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    run(Job([Cosine(encoder)], [toy], tmp_path / "run"))
    path = tmp_path / "run/run.json"
    state = json.loads(path.read_text())
    state["identity"]["version"] = "0.0.1"
    path.write_text(json.dumps(state))
    with pytest.raises(UnbagError, match=r"another evaluation: version: 0\.0\.1 before"):
        run(Job([Cosine(encoder)], [toy], tmp_path / "run"))


def test_scores_stay_arrays_through_the_store(items: list[Item], tmp_path: Path) -> None:
    from unbag.evaluation.store import Key, ScoreStore

    store = ScoreStore(tmp_path / "s.parquet")
    wide = classes(items, 70)[0]
    store.add(Key("b", "s"), [(wide, Scores("c0", np.arange(70.0)[None]))])
    store.save()
    again = ScoreStore(tmp_path / "s.parquet").get(Key("b", "s"))["c0"].values
    assert again is not None
    assert np.array_equal(again, np.arange(70.0)[None])
