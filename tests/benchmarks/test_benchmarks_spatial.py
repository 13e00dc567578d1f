"""COCO-spatial and GQA-spatial from self-made files in the official schema."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from unbag.benchmarks.whatsup import COCO_SPATIAL, GQA_SPATIAL
from unbag.errors import UnbagError
from unbag.types import Benchmark, Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
ONE = [[397133, "A photo of a bench on the left", "A photo of a bench on the right"]]
TWO = [
    ["37777", "A photo of a dog above a cat", "A photo of a dog below a cat"],
    [37777, "A photo of a cup to the right of a fork", "A photo of a cup to the left of a fork"],
    [5, "A photo of a cat in front of a dog", "A photo of a cat behind a dog"],
]


def write(folder: Path, benchmark: Benchmark, one: object, two: object) -> Path:
    for file, content in zip(benchmark.files, (one, two), strict=True):
        (folder / file).write_text(json.dumps(content))
    return folder


def test_items_of_coco(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "val2017/000000397133.jpg")
    items = COCO_SPATIAL.load(write(tmp_path, COCO_SPATIAL, ONE, TWO))
    assert [item.id for item in items[:2]] == ["coco_qa_one_obj.json/0", "coco_qa_two_obj.json/0"]
    assert [dict(item.tags) for item in items] == [
        {"objects": "one", "relation": "left"},
        {"objects": "two", "relation": "above"},
        {"objects": "two", "relation": "right"},
        {"objects": "two", "relation": "front"},
    ]
    assert items[0].images[0].open().mode == "RGB"
    assert items[1].images[0] is items[2].images[0]


def test_items_of_gqa(tmp_path: Path) -> None:
    items = GQA_SPATIAL.load(write(tmp_path, GQA_SPATIAL, ONE, TWO))
    assert items[0].images[0].name == str(tmp_path / "vg_images/397133.jpg")


@pytest.mark.parametrize("benchmark", [COCO_SPATIAL, GQA_SPATIAL])
def test_known_scorers(benchmark: Benchmark, tmp_path: Path, numbers: Numbers) -> None:
    items = benchmark.load(write(tmp_path, benchmark, ONE * 600, TWO * 400))
    assert numbers(benchmark, items, "perfect")["macro(objects)"]["accuracy"].value == 1
    assert numbers(benchmark, items, "constant")["micro"]["accuracy"].value == 0
    theirs = numbers(benchmark, items, "constant", ties=benchmark.official_ties)
    assert theirs["micro"]["accuracy"].value == 1
    found = numbers(benchmark, items, "random")["macro(objects)"]["accuracy"]
    assert found.value == pytest.approx(0.5, abs=0.05)
    assert found.chance == 0.5


def test_macro_is_over_one_and_two_objects(tmp_path: Path, numbers: Numbers) -> None:
    items = COCO_SPATIAL.load(write(tmp_path, COCO_SPATIAL, ONE, TWO))
    right = {items[0].id}
    found = numbers(
        COCO_SPATIAL, items, lambda item: item.truth if item.id in right else 1.0 - item.truth
    )
    assert found["macro(objects)"]["accuracy"].value == pytest.approx(0.5)
    assert found["micro"]["accuracy"].value == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        ([[1, "a left"]], r"record 0 is a list of 2"),
        ([{"a": 1}], "record 0 is dict"),
        ([[1, "a left", " "]], "record 0: wrong is empty"),
        ([[1, "", "a right"]], "record 0: correct is empty"),
        ([[1.5, "a left", "a right"]], r"record 0\.image_id is 1\.5"),
        ([[True, "a left", "a right"]], r"record 0\.image_id is True"),
        (["../../x"], "record 0 is str"),
        ([["../x", "a left", "a right"]], r"record 0\.image_id is '\.\./x'"),
        (3, "holds a int"),
    ],
)
def test_bad_records_are_named(one: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=message):
        COCO_SPATIAL.load(write(tmp_path, COCO_SPATIAL, one, TWO))
