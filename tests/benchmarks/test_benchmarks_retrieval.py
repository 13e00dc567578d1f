"""COCO and Flickr30k retrieval from self-made Karpathy files, and the real COCO one."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from unbag.benchmarks.retrieval import COCO_RETRIEVAL, FLICKR30K_RETRIEVAL
from unbag.errors import UnbagError
from unbag.types import Benchmark, Estimate, Sparse

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
PLACES = {"coco_retrieval": "val2014", "flickr30k_retrieval": "flickr30k-images"}
BOTH = pytest.mark.parametrize("benchmark", [COCO_RETRIEVAL, FLICKR30K_RETRIEVAL])


def rows(benchmark: Benchmark, n: int) -> list[dict[str, object]]:
    return [
        {
            "image": f"{PLACES[benchmark.name]}/{i}.jpg",
            "caption": [f"caption {c} of {i} " for c in range(5 + (i == 0))],
        }
        for i in range(n)
    ]


def write(folder: Path, benchmark: Benchmark, content: object) -> Path:
    (folder / benchmark.files[0]).write_text(json.dumps(content))
    return folder


@BOTH
def test_one_gallery_with_every_caption(
    benchmark: Benchmark, tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    photo(tmp_path / PLACES[benchmark.name] / "1.jpg")
    (item,) = benchmark.load(write(tmp_path, benchmark, rows(benchmark, 3)))
    assert isinstance(item.truth, Sparse)
    assert item.truth.shape == (3, 16)
    assert item.truth.row_T.tolist() == [0] * 6 + [1] * 5 + [2] * 5
    assert item.captions[6] == "caption 0 of 1 "
    assert item.images[1].open().mode == "RGB"


@BOTH
def test_known_scorers(benchmark: Benchmark, tmp_path: Path, numbers: Numbers) -> None:
    items = benchmark.load(write(tmp_path, benchmark, rows(benchmark, 40)))
    for score, value in (("perfect", 1), ("constant", 0)):
        found = numbers(benchmark, items, score)["micro"]
        assert found["text_to_image@1"].value == value
        assert found["image_to_text@1"].value == value
    found = numbers(benchmark, items, "random")["micro"]
    assert (found["text_to_image@1"].n, found["image_to_text@1"].n) == (201, 40)
    assert found["text_to_image@10"].value == pytest.approx(0.25, abs=0.1)


@BOTH
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "has no records"),
        ([{"image": "val2014/1.jpg", "caption": []}], r"record 0: caption is \[\]"),
        ([{"image": "val2014/1.jpg", "caption": ["a", " "]}], "record 0: caption is"),
        ([{"image": "val2014/1.jpg", "caption": "a"}], r"record 0\.caption is 'a'"),
        ([{"caption": ["a"]}], r"record 0\.image is missing"),
        ([["a"]], "record 0 is a list"),
        (
            [{"image": name, "caption": ["a"]} for name in ("x/1.jpg", "x/2.jpg", "x//1.jpg")],
            r"record 2: its image is also that of .*_test\.json, record 0: 1\.jpg",
        ),
    ],
)
def test_bad_records_are_named(
    benchmark: Benchmark, content: object, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnbagError, match=message):
        benchmark.load(write(tmp_path, benchmark, content))


def test_the_real_file_of_coco(official: Path) -> None:
    (item,) = COCO_RETRIEVAL.load(official / "karpathy")
    assert item.truth.shape == (5000, 25_010)
