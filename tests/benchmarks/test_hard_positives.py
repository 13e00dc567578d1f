"""Hard positives: parallel lists, official counts, accidents, and the mean of two subsets."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.hard_positives import REPLACE, SWAP, is_accident, load_replace, load_swap
from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.types import Benchmark, Estimate, FloatArray, Item

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
Row = dict[str, object]


def row(true: str, false: str = "n", path: str = "data/VG_100K/1.jpg") -> Row:
    return {"image_id": "1", "image_path": path, "true_caption": true, "false_caption": false}


def write(root: Path, name: str, first: list[Row], second: list[Row]) -> None:
    for folder, rows in (("data", first), ("swapped_data", second)):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / name).write_text(json.dumps(rows))


def write_replace(root: Path, first: list[Row], second: list[Row]) -> None:
    for subset in ("attributes", "relations"):
        write(root, f"vl_checklist_{subset}.json", first, second)


def test_the_official_files_have_their_counts(official: Path) -> None:
    items = load_replace(official / "hard_positives")
    assert Counter(i.tags["subset"] for i in items) == {"attributes": 10575, "relations": 16868}
    assert sum(item.tags["positive"] == "substring accident" for item in items) == 10
    assert sum(item.captions[0] == item.captions[1] for item in items) == 15
    assert sum(len(set(item.captions)) < 3 for item in items) == 16
    assert items[0].captions == ("walking elephant", "jumping elephant", "strolling elephant")


def test_a_changed_word_that_only_contains_the_word_is_an_accident() -> None:
    assert not is_accident("white table", "ivory table")
    assert is_accident("white whiteboard", "ivory ivoryboard")
    assert is_accident("man IN wetsuit", "man IN dampsuit")
    assert not is_accident("cup on top of table", "cup on table")


def test_lists_of_different_length_are_refused(tmp_path: Path) -> None:
    write_replace(tmp_path, [row("a")] * 2, [row("b")])
    with pytest.raises(UnbagError, match="2 rows in data and 1 in swapped_data"):
        load_replace(tmp_path)


@pytest.mark.parametrize("other", [row("b", "m"), row("b", path="data/VG_100K/2.jpg")])
def test_lists_in_different_order_are_refused(tmp_path: Path, other: Row) -> None:
    write_replace(tmp_path, [row("a")] * 2, [row("b"), other])
    with pytest.raises(UnbagError, match=r"swapped_data/.*record 1: another \w+ than in data/"):
        load_replace(tmp_path)


def test_replace_is_the_mean_of_its_subsets(tmp_path: Path, numbers: Numbers) -> None:
    write(tmp_path, "vl_checklist_attributes.json", [row("a")] * 3, [row("b")] * 3)
    write(tmp_path, "vl_checklist_relations.json", [row("a")], [row("b")])

    def score(item: Item) -> FloatArray:
        return np.array([[3.0, 2.0, 4.0 if item.tags["subset"] == "relations" else 1.0]])

    results = numbers(REPLACE, load_replace(tmp_path), score)
    assert results["macro(subset)"]["original"].value == 1
    assert results["macro(subset)"]["augmented"].value == pytest.approx(1 / 2)
    assert results["micro"]["augmented"].value == pytest.approx(1 / 4)
    assert results["macro(subset)"]["brittleness"].value == pytest.approx(1 / 2)


def test_swap_cuts_the_box_where_there_is_one(tmp_path: Path) -> None:
    box: Row = {"bbox_x": 1, "bbox_y": 2, "bbox_w": 3, "bbox_h": 4, "attributes": ["red", "wet"]}
    first = [row("a", path="1.jpg") | box, row("a", path="1.jpg")]
    second = [row("b", path="1.jpg") | box, row("b", path="1.jpg")]
    write(tmp_path, "visual_genome_attribution.json", first, second)
    cut, whole = load_swap(tmp_path)
    assert cut.images == (FileImage(tmp_path / "data/images/1.jpg", (1, 2, 3, 4)),)
    assert whole.images == (FileImage(tmp_path / "data/images/1.jpg"),)
    assert (cut.tags, whole.tags) == ({"pair": "red_wet"}, {})
    assert cut.captions == ("a", "n", "b")


@pytest.mark.parametrize("benchmark", [REPLACE, SWAP])
def test_the_published_drop_never_exceeds_brittleness(benchmark: Benchmark) -> None:
    rows = [row for row in benchmark.published if row.source.endswith(("table 1", "table 3"))]
    of = {(row.model, row.metric): row.value for row in rows}
    assert len(of) == 17 * 3
    for model in {model for model, _ in of}:
        drop = of[model, "original"] - of[model, "augmented"]
        assert drop <= of[model, "brittleness"] + 0.001
