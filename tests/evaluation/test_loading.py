"""How whole a benchmark is: said, kept in the run, and no published number beside what is not."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbag.data import FileImage
from unbag.errors import IncompleteWarning, UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.evaluation.store import read_contents
from unbag.metrics.retrieval import Recall
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Item, Published, Sparse


def test_a_loader_that_is_not_whole_reaches_the_report_and_stops_comparisons(
    tmp_path: Path, encoder: Any, toy: Benchmark, items: list[Item]
) -> None:
    def load(root: Path | None) -> Sequence[Item]:
        warnings.warn(IncompleteWarning("1 of 2 files is absent"), stacklevel=2)
        warnings.warn("a caption is odd", stacklevel=2)
        return items

    published = (Published("colours", "accuracy", 0.5, "a paper", "micro"),)
    benchmark = replace(toy, load=load, published=published)
    heard = Silent()
    job = Job([Cosine(encoder)], [benchmark], tmp_path / "run", published_as={"colours": "colours"})
    contents = run(job, progress=heard).contents
    assert contents.warnings == (
        "toy is incomplete: 1 of 2 files is absent; its numbers are not those of the published "
        "benchmark",
        "toy: a caption is odd",
    )
    assert {"toy: 1 of 2 files is absent", "toy: a caption is odd"} <= set(heard.said)
    (reference,) = contents.references
    assert not reference.is_comparable
    assert "incomplete here: 1 of 2 files is absent" in reference.doubts
    assert read_contents(tmp_path / "run").warnings == contents.warnings


@pytest.mark.parametrize(("size", "is_said"), [(30, False), (31, True), (0, False)])
def test_another_number_of_items_than_published_is_said(
    tmp_path: Path, encoder: Any, toy: Benchmark, size: int, is_said: bool
) -> None:
    job = Job([Cosine(encoder)], [replace(toy, size=size)], tmp_path / "run")
    found = run(job).contents.warnings
    assert bool(found) == is_said
    if is_said:
        assert "it has 30 items here, 31 as published" in found[0]


def gallery(items: list[Item]) -> Item:
    """Six images; caption 6 describes images 0 and 1, caption 7 none."""
    images = tuple({item.images[0].name: item.images[0] for item in items}.values())
    captions = tuple(f"caption {n}" for n in range(8))
    rows, columns = np.array([0, 1, 2, 3, 4, 5, 0, 1]), np.array([0, 1, 2, 3, 4, 5, 6, 6])
    return Item("gallery", images, captions, Sparse((6, 8), rows, columns))


def retrieval(toy: Benchmark, item: Item) -> Benchmark:
    return replace(
        toy, load=lambda root: [item], metrics=(Recall(ks=(1,)),), headline="text_to_image@1"
    )


def test_a_gallery_is_smaller_without_the_missing_images(
    tmp_path: Path, encoder: Any, toy: Benchmark, items: list[Item]
) -> None:
    whole = gallery(items)
    for image in (whole.images[0], whole.images[3]):
        assert isinstance(image, FileImage)
        image.path.unlink()
    benchmark = retrieval(toy, whole)
    with pytest.raises(UnbagError, match="2 images of 'toy' are missing"):
        run(Job([Cosine(encoder)], [benchmark], tmp_path / "no"))
    job = Job([Cosine(encoder)], [benchmark], tmp_path / "run", missing="skip")
    contents = run(job).contents
    found = contents.results[0].overall
    # Captions 1, 2, 4, 5 and 6 still have an image; 7 never had one and asks nothing.
    assert (found["text_to_image@1"].n, found["image_to_text@1"].n) == (5, 4)
    assert found["text_to_image@1"].invalid == 0
    assert contents.record.left_out == {"toy": 2}
    assert "2 items or images are left out" in contents.warnings[0]


def test_a_gallery_without_any_image_is_an_error(
    tmp_path: Path, encoder: Any, toy: Benchmark, items: list[Item]
) -> None:
    whole = gallery(items)
    for image in whole.images:
        assert isinstance(image, FileImage)
        image.path.unlink()
    job = Job([Cosine(encoder)], [retrieval(toy, whole)], tmp_path / "run", missing="skip")
    with pytest.raises(UnbagError, match="all images of the gallery 'gallery' are missing"):
        run(job)
