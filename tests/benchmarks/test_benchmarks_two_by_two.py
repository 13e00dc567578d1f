"""COLA, EqBen and NaturalBench as retrieval from self-made files in their official schema."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unbag.benchmarks.cola import COLA
from unbag.benchmarks.eqben import EQBEN, BgrImage
from unbag.benchmarks.naturalbench_retrieval import NATURALBENCH_RETRIEVAL
from unbag.errors import UnbagError
from unbag.types import Benchmark, Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
Rows = list[object]


def cola(n: int) -> Rows:
    place = "https://example.org/vg_gqa_images"
    return [
        [f"{place}/{i}1.jpg", f"white shirt {i}", f"{place}/{i}2.jpg", f"blue shirt {i}"]
        for i in range(n)
    ]


def eqben(n: int) -> Rows:
    return [
        {
            "image0": f"eqbenkubric_cnt/{i}_0.png",
            "caption0": f"there is {i} thing",
            "image1": f"eqbenkubric_cnt/{i}_1.png",
            "caption1": f"there are {i} things",
        }
        for i in range(n)
    ]


def naturalbench(n: int) -> Rows:
    return [
        {
            "index": i,
            "image_0": f"{i}_0.jpg",
            "image_1": f"{i}_1.jpg",
            "caption_0": f"a hat {i}",
            "caption_1": f"no hat {i}",
        }
        for i in range(n)
    ]


ALL = [(COLA, cola), (EQBEN, eqben), (NATURALBENCH_RETRIEVAL, naturalbench)]


def write(folder: Path, benchmark: Benchmark, rows: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / benchmark.files[0]).write_text(json.dumps(rows))
    return folder


def test_a_row_of_cola(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "visual_genome/02.jpg")
    (item,) = COLA.load(write(tmp_path / "cola", COLA, cola(1)))
    assert item.captions == ("white shirt 0", "blue shirt 0")
    assert item.images[1].open().mode == "RGB"


def test_a_record_of_eqben(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "image_subset/eqbenkubric_cnt/0_1.png")
    (item,) = EQBEN.load(write(tmp_path, EQBEN, eqben(1)))
    assert item.tags == {"collection": "eqbenkubric_cnt"}
    assert item.images[1].open().mode == "RGB"
    first = eqben(1)[0]
    assert isinstance(first, dict)
    (item,) = EQBEN.load(write(tmp_path, EQBEN, [first | {"image0": "plain.png"}]))
    assert item.tags == {"collection": "not named"}


def test_frames_of_youcook_are_arrays_with_blue_first(tmp_path: Path) -> None:
    pixels = np.zeros((2, 3, 3), dtype=np.uint8)
    pixels[..., 0] = 200
    place = tmp_path / "image_subset/eqbenyoucook2"
    place.mkdir(parents=True)
    np.save(place / "a.npy", pixels)
    row = {"image0": "eqbenyoucook2/a.npy", "caption0": "cut", "image1": "b.png", "caption1": "fry"}
    (item,) = EQBEN.load(write(tmp_path, EQBEN, [row]))
    image = item.images[0]
    assert isinstance(image, BgrImage)
    assert image.open().getpixel((0, 0)) == (0, 0, 200)
    assert image.key != BgrImage(place / "b.npy").key


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((2, 2), dtype=np.uint8), "shape"),
        (np.zeros((2, 2, 3)), "float64"),
        (np.array([{}], dtype=object), "pickle"),
    ],
)
def test_other_arrays_are_damaged_images(
    content: np.ndarray[tuple[int, ...], np.dtype[np.generic]], message: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", content, allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        BgrImage(tmp_path / "a.npy").open()
    (tmp_path / "empty.npy").touch()
    with pytest.raises((ValueError, OSError)):
        BgrImage(tmp_path / "empty.npy").open()
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    with pytest.raises(ValueError, match="several arrays"):
        BgrImage(tmp_path / "two.npz").open()


def test_a_record_of_naturalbench(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "images/0_0.jpg")
    (item,) = NATURALBENCH_RETRIEVAL.load(write(tmp_path, NATURALBENCH_RETRIEVAL, naturalbench(1)))
    assert item.captions == ("a hat 0", "no hat 0")
    assert isinstance(item.images[0].open(), Image.Image)


@pytest.mark.parametrize(("benchmark", "rows"), ALL)
def test_known_scorers(
    benchmark: Benchmark, rows: Callable[[int], Rows], tmp_path: Path, numbers: Numbers
) -> None:
    items = benchmark.load(write(tmp_path, benchmark, rows(1000)))
    for score, value in (("perfect", 1), ("constant", 0)):
        found = numbers(benchmark, items, score)["micro"]
        assert {estimate.value for estimate in found.values()} == {value}
    found = numbers(benchmark, items, "random")["micro"]
    for metric, chance in (("text", 1 / 4), ("image", 1 / 4), ("group", 1 / 6)):
        assert found[metric].value == pytest.approx(chance, abs=0.04)


def test_the_accuracy_of_cola_is_that_of_captions_picking_images(
    tmp_path: Path, numbers: Numbers
) -> None:
    items = COLA.load(write(tmp_path, COLA, cola(1)))
    # Both captions pick their image; image 1 prefers the wrong caption.
    found = numbers(COLA, items, lambda item: np.array([[0.5, 0.6], [0.4, 0.7]]))["micro"]
    assert COLA.headline == "image"
    assert (found["image"].value, found["text"].value) == (1, 0)


@pytest.mark.parametrize(
    ("benchmark", "rows", "message"),
    [
        (COLA, [["a.jpg", "x", "b.jpg"]], "record 0 is a list of 3"),
        (COLA, [["a.jpg", " ", "b.jpg", "y"]], "record 0: caption_1 is empty"),
        (COLA, [["", "x", "b.jpg", "y"]], "record 0: image_1 is empty"),
        (COLA, [["a.jpg", "x", 3, "y"]], r"record 0\.image_2 is 3"),
        (EQBEN, [{"image0": "a"}], r"record 0\.image1 is missing"),
        (EQBEN, ["x"], r"field eqben_.*record 0 is 'x'"),
        (NATURALBENCH_RETRIEVAL, naturalbench(2)[1:], "record 0: index is 1"),
        (NATURALBENCH_RETRIEVAL, [{"index": 0}], r"record 0\.image_0 is missing"),
    ],
)
def test_bad_rows_are_named(
    benchmark: Benchmark, rows: object, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnbagError, match=message):
        benchmark.load(write(tmp_path, benchmark, rows))


@pytest.mark.parametrize(("benchmark", "rows"), ALL)
def test_a_truncated_file_is_named(
    benchmark: Benchmark, rows: Callable[[int], Rows], tmp_path: Path
) -> None:
    (tmp_path / benchmark.files[0]).write_text(json.dumps(rows(2))[:-9])
    with pytest.raises(UnbagError, match=f"of {benchmark.name} cannot be read"):
        benchmark.load(tmp_path)
