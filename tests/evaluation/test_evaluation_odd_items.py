"""Equal ids, equal captions and images under impossible names: said plainly, no traceback."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unbag.data import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job, absent_images, load_items
from unbag.evaluation.plan import check_items, equal_captions, make_plan
from unbag.evaluation.verify import verify
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Download, DualEncoder, Item, Published, Sparse

TWO = np.array([[True, False]])


def item(name: str, *captions: str, image: str = "a.jpg", truth: object = TWO) -> Item:
    return Item(name, (FileImage(Path(image)),), captions, truth)  # type: ignore[arg-type]


def test_an_id_that_stands_twice_names_both_items() -> None:
    some = [item("1", "a", "b"), item("2", "a", "b"), item("1", "c", "d", image="b.jpg")]
    message = r"two items called '1': items 0 \(image a\.jpg\) and 2 \(image b\.jpg\)"
    with pytest.raises(UnbagError, match=message) as error:
        check_items("mine", some)
    assert "holds that id twice, fix the file" in error.value.hint
    assert "fix its loader" in error.value.hint


def test_half_a_character_from_a_loader_of_ones_own_is_refused() -> None:
    with pytest.raises(
        UnbagError, match=r"the caption 'a \\ud800' holds half a character"
    ) as error:
        make_plan({"mine": [item("1", "é", "a \ud800")]})
    assert "fix its loader" in error.value.hint


def test_equal_captions_of_different_truth_are_counted() -> None:
    both = np.array([[True, True, False]])
    some = [
        item("different", "a", "b"),
        item("equal", "a", "a"),
        item("two that are true", "a", "a", "b", truth=both),
        item("two that are true, one of them false as well", "a", "b", "b", truth=both),
        item("rated", "a", "a", truth=np.array([[0.5, 0.1]])),
        item("gallery", "a", "a", truth=Sparse((1, 2), np.array([0]), np.array([0]))),
    ]
    assert equal_captions(some) == (
        "2 of 6 items have a true caption that equals a false one; no score can distinguish these: "
        "they are ties, or are left out"
    )
    assert equal_captions(some[:1]) == ""
    crossed = Item("2x2", some[0].images * 2, ("a", "a"), np.eye(2, dtype=np.bool_))
    assert equal_captions([crossed]).startswith("1 of 1 items")


def test_they_are_said_when_a_benchmark_is_loaded(toy: Benchmark, items: list[Item]) -> None:
    tied = [replace(items[0], captions=(items[0].captions[0],) * 2), *items[1:]]
    progress = Silent()
    load_items(replace(toy, load=lambda root: tied), None, progress=progress)
    (said,) = progress.said
    assert said.startswith("toy: 1 of 30 items have a true caption that equals a false one")


def test_names_that_no_file_system_holds_are_absent(tmp_path: Path) -> None:
    names = [str(tmp_path / "a") * 200, str(tmp_path / ("b" * 300)), str(tmp_path / "a\0b")]
    some = [item(str(at), "a", "b", image=name) for at, name in enumerate(names)]
    assert absent_images(some) == {Path(name) for name in names}
    keys = [one.images[0].key for one in some]
    assert len(set(keys)) == 3
    assert all(key.startswith("file:missing:") for key in keys)


def test_verify_says_how_to_get_images(
    tmp_path: Path, encoder: DualEncoder, toy: Benchmark
) -> None:
    number = Published("Colours-B", "accuracy", 1.0, "a paper", "micro")
    fetched = replace(toy, published=(number,), downloads=(Download("https://x.org/a", "a"),))
    (tmp_path / "pictures" / "0.png").unlink()
    job = Job([Cosine(encoder)], [fetched], tmp_path / "out", data=tmp_path)
    found = verify(replace(job, published_as={"colours": "Colours-B"}))
    (skipped,) = found.skipped
    assert skipped.hint == f"unbag data get toy --images --data {tmp_path}"
