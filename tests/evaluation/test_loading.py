"""Loading: errata, missing images, incomplete benchmarks and warnings of loaders."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pytest

from unbag.data import FileImage
from unbag.errors import IncompleteWarning, UnbagError
from unbag.evaluation.loading import (
    ErrataChoice,
    Job,
    absent_images,
    errata_name,
    load_items,
    loader_of,
)
from unbag.evaluation.run import run
from unbag.evaluation.store import read_contents
from unbag.metrics.retrieval import Recall
from unbag.models.baselines import load as caption_only
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Errata, Item, Published, Sparse
from unbag.world.benchmarks import SWAP

from .stub import Odd, item, lengths


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
    result = run(job).contents.warnings
    assert bool(result) == is_said
    if is_said:
        assert "it has 30 items here, 31 as published" in result[0]


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
    result = contents.results[0].overall
    # Captions 1, 2, 4, 5 and 6 still have an image; 7 never had one and asks nothing.
    assert (result["text_to_image@1"].n, result["image_to_text@1"].n) == (5, 4)
    assert result["text_to_image@1"].invalid == 0
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
    result = {r.protocol.ties: r.overall["accuracy"].value for r in results}
    assert result == {"wrong": 0.0, "argmax_first": 1.0}
    assert results[0].protocol.ties == ("argmax_first" if official_first else "wrong")


def first_three(root: Path | None) -> Sequence[Item]:
    return SWAP.load(root)[:3]


def first_two(root: Path | None) -> Sequence[Item]:
    return SWAP.load(root)[:2]


def small(*, is_published: bool) -> Benchmark:
    errata = Errata("third item", "The third is wrong.", first_two, is_published=is_published)
    return replace(SWAP, name="small", load=first_three, errata=errata, sources=("COCO val2017",))


@pytest.mark.parametrize(
    ("is_published", "choice", "name"),
    [
        (False, "published", ""),
        (False, "all", "third item"),
        (True, "published", "third item"),
        (True, "none", ""),
    ],
)
def test_the_choice_decides_what_is_loaded_and_the_key_says_it(
    tmp_path: Path, is_published: bool, choice: ErrataChoice, name: str
) -> None:
    benchmark = small(is_published=is_published)
    assert errata_name(benchmark, choice) == name
    job = Job([caption_only("short")], [benchmark], tmp_path / "run", errata=choice)
    (result, *_) = run(job).contents.results
    assert result.protocol.errata == name
    assert result.overall["original"].n == (2 if name else 3)
    assert ("errata=third item" in result.protocol.key) == bool(name)


def test_a_benchmark_without_errata_is_loaded_as_it_is() -> None:
    assert loader_of(SWAP, "all") is SWAP.load
    assert errata_name(SWAP, "all") == ""


def test_they_are_said_when_a_benchmark_is_loaded(toy: Benchmark, items: list[Item]) -> None:
    tied = [replace(items[0], captions=(items[0].captions[0],) * 2), *items[1:]]
    progress = Silent()
    load_items(replace(toy, load=lambda root: tied), None, progress=progress)
    (message,) = progress.said
    assert message.startswith("toy: 1 of 30 items have a true caption that equals a false one")


def test_names_that_no_file_system_holds_are_absent(tmp_path: Path) -> None:
    names = [str(tmp_path / "a") * 200, str(tmp_path / ("b" * 300)), str(tmp_path / "a\0b")]
    items = [item(str(at), "a", "b", image=name) for at, name in enumerate(names)]
    assert absent_images(items) == {Path(name) for name in names}
    keys = [duplicate.images[0].key for duplicate in items]
    assert len(set(keys)) == 3
    assert all(key.startswith("file:missing:") for key in keys)


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
        result = run(Job([Cosine(encoder)], [make(load)], tmp_path / str(i))).contents.results[0]
        assert result.overall["accuracy"].value == 1.0
