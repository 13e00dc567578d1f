"""Missing images and official tie rules, through a whole run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Item

from .stub import Odd, lengths


def test_missing_images_are_listed_before_anything_is_computed(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    (tmp_path / "pictures/2.png").unlink()
    with pytest.raises(UnbagError, match="1 images of 'toy' are missing") as error:
        run(Job([Cosine(encoder)], [toy], tmp_path / "run"))
    assert str(tmp_path / "pictures/2.png") in str(error.value)
    assert "--missing skip" in str(error.value)
    assert encoder.batches == []
    assert not (tmp_path / "run").exists()


def test_skipping_them_says_so_and_shrinks_n(encoder: Any, toy: Benchmark, tmp_path: Path) -> None:
    (tmp_path / "pictures/2.png").unlink()
    progress = Silent()
    job = Job([Cosine(encoder)], [toy], tmp_path / "run", missing="skip")
    result = run(job, progress=progress).contents.results[0]
    assert result.overall["accuracy"].n == 25
    assert "toy: 5 of 30 items are left out, since 1 images are missing" in progress.said[0]


def test_only_the_first_ten_are_listed(
    items: list[Item], tmp_path: Path, make: Callable[..., Benchmark], encoder: Any
) -> None:
    from unbag.data import FileImage

    gone = [
        Item(f"g{i}", (FileImage(tmp_path / f"gone{i}.png"),), items[0].captions, items[0].truth)
        for i in range(13)
    ]
    with pytest.raises(UnbagError, match="13 images of 'toy' are missing") as error:
        run(Job([Cosine(encoder)], [make(lambda root: gone)], tmp_path / "run"))
    assert "and 3 more" in str(error.value)


@pytest.mark.parametrize("official_first", [False, True])
def test_another_official_tie_rule_is_reported_beside_ours(
    toy: Benchmark, tmp_path: Path, official_first: bool
) -> None:
    lenient = replace(toy, official_ties="argmax_first")
    job = Job([Odd(lengths(0))], [lenient], tmp_path / "run", official_first=official_first)
    results = run(job).contents.results
    found = {r.protocol.ties: r.overall["accuracy"].value for r in results}
    assert found == {"wrong": 0.0, "argmax_first": 1.0}
    assert results[0].protocol.ties == ("argmax_first" if official_first else "wrong")
