"""Odd answers of scorers and loaders: a clear error, or the right numbers."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pytest
import torch

from unbag.api import evaluate
from unbag.data import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.evaluation.scoring import QueryScoring
from unbag.reports.exports import report
from unbag.runs.cache import TensorCache, default_cache
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Aggregate, Benchmark, Ensemble, EvalProtocol, Item

from .stub import Odd


@pytest.mark.parametrize(
    "answer", [["a", "b"], {"x": 1}, [[1.0], [1.0, 2.0]], (x for x in (1.0, 2.0)), [1j, 2j]]
)
def test_answers_that_are_no_numbers(items: list[Item], answer: Any) -> None:
    with pytest.raises(UnbagError, match="scorer 'odd' returned"):
        QueryScoring(Odd(answer)).chunk(items[:1])


@pytest.mark.parametrize(
    "answer",
    [
        torch.tensor([0.5, 0.25], dtype=torch.bfloat16),
        torch.tensor([0.5, 0.25], requires_grad=True),
        np.array([0.5, 0.25], dtype=np.float16),
        (0.5, 0.25),
    ],
)
def test_numbers_of_any_kind(items: list[Item], answer: Any) -> None:
    (scores,) = QueryScoring(Odd(answer)).chunk(items[:1])
    assert scores.values is not None
    assert scores.values.tolist() == [[0.5, 0.25]]


class Lazy(Sequence[Item]):
    """Makes new items and new images at every look."""

    def __init__(self, folder: Path, items: list[Item]) -> None:
        self.folder, self.items = folder, items

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        item = self.items[at]
        image = item.images[0]
        assert isinstance(image, FileImage)
        return Item(item.id, (FileImage(image.path),), item.captions, item.truth)


def test_lazy_loaders_and_generators_give_the_same_numbers(
    encoder: Any, items: list[Item], tmp_path: Path, make: Any
) -> None:
    def generated(root: Path | None) -> Iterator[Item]:
        yield from items

    for i, load in enumerate((lambda root: Lazy(tmp_path, items), generated)):
        found = run(Job([Cosine(encoder)], [make(load)], tmp_path / str(i))).contents.results[0]
        assert found.overall["accuracy"].value == 1.0


def test_a_key_in_two_cache_files_means_the_same_in_every_process(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        rows = {"vector": torch.full((2, 3), value)}
        TensorCache(tmp_path, progress=Silent()).put(["a", f"b{value}"], rows)
    alone = TensorCache(tmp_path, progress=Silent()).get(["a"])["vector"][0]
    for keys in (["b1.0", "b2.0", "a"], ["b2.0", "b1.0", "a"]):
        found = TensorCache(tmp_path, progress=Silent()).get(keys)["vector"]
        assert torch.equal(found[keys.index("a")], alone)


def test_a_user_without_a_home_still_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert default_cache().name == "unbag"


def test_protocols_are_checked() -> None:
    with pytest.raises(UnbagError, match="the tie rule 'official' is not known") as error:
        EvalProtocol(ties="official")  # type: ignore[arg-type]
    assert "official_ties=True" in str(error.value)
    with pytest.raises(UnbagError, match="confidence 99"):
        EvalProtocol(confidence=99)


def test_one_text_is_no_list_of_texts(items: list[Item]) -> None:
    with pytest.raises(UnbagError, match="item 'x': captions is one text"):
        Item("x", items[0].images, "ab", np.array([[True, False]]))  # type: ignore[arg-type]
    with pytest.raises(UnbagError, match="ensemble 'x' has no prompts"):
        Ensemble("x", "a photo")  # type: ignore[arg-type]


def test_a_rule_that_fits_nothing_is_said(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    from dataclasses import replace

    lost = replace(toy, aggregates=(Aggregate(by=("size",)),))
    finished = run(Job([Cosine(encoder)], [lost], tmp_path / "run"))
    assert (
        "no averaging rule of benchmark 'toy' (macro(size)) fits any unit" in finished.problems[0]
    )


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(UnbagError, match=r"cannot write .*page\.html"):
        report(evaluate("oracle:semantic", "world-binding"), tmp_path / "page.html")
