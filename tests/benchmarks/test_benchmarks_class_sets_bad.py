"""Data sets for recognition: damaged files, and files as torchvision reads them."""

import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from unbag.errors import UnbagError
from unbag.registry import find
from unbag.types import Benchmark, Item

LISTED = (
    "food101",
    "dtd",
    "pets",
    "aircraft",
    "gtsrb",
    "sun397",
    "cars",
    "flowers102",
    "mnist",
    "svhn",
    "stl10",
)


def benchmark(name: str) -> Benchmark:
    found = find("benchmark", name)
    assert isinstance(found, Benchmark)
    return found


def fill(root: Path, name: str, content: bytes) -> None:
    for file in benchmark(name).files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)


@pytest.mark.parametrize("name", LISTED)
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=f"{name} has no file"):
        benchmark(name).load(tmp_path)


@pytest.mark.parametrize("name", LISTED)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=st.binary(max_size=200) | st.text(max_size=60).map(str.encode))
def test_any_content_gives_items_or_an_error(name: str, content: bytes, tmp_path: Path) -> None:
    fill(tmp_path, name, content)
    try:
        items = benchmark(name).load(tmp_path)
    except UnbagError:
        return
    assert all(isinstance(item, Item) for item in items)


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("food101", "meta/test.json", '{"a": "b"}', r"test\.json\.a is 'b'"),
        ("food101", "meta/test.json", '{"a": []}', "gives 0 images of 1 classes"),
        ("food101", "meta/test.json", '{"a": ["../x"], "b": []}', "is not an image name"),
        ("dtd", "dtd/labels/test1.txt", "a/b/c.jpg", r"test1\.txt of dtd: 'a/b/c\.jpg'"),
        ("pets", "annotations/test.txt", "a_1 x 1 1", r"test\.txt of pets: 'a_1 x 1 1'"),
        ("pets", "annotations/test.txt", "a_1 1 1 1\nb_1 3 1 1", "2 classes with gaps"),
        ("gtsrb", "GT-final_test.csv", "Filename;ClassId\na.ppm;43", "gtsrb: 'row 1'"),
        ("sun397", "ClassName.txt", "/a/abbey\n/b/bar", "gives 0 images of 2 classes"),
    ],
)
def test_bad_lists(name: str, file: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    with pytest.raises(UnbagError, match=message):
        benchmark(name).load(tmp_path)


def test_other_bad_files(tmp_path: Path) -> None:
    for file, text in (("variants", "A380\nDC-10"), ("images_variant_test", "1 DC-11")):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / f"data/{file}.txt").write_text(text)
    with pytest.raises(UnbagError, match="of aircraft: '1 DC-11'"):
        benchmark("aircraft").load(tmp_path)
    savemat(tmp_path / "setid.mat", {"tstid": [1, 9]})
    savemat(tmp_path / "imagelabels.mat", {"labels": [1, 2]})
    with pytest.raises(UnbagError, match=r"setid\.mat of flowers102: 'image 9'"):
        benchmark("flowers102").load(tmp_path)
    savemat(tmp_path / "setid.mat", {"other": [1]})
    with pytest.raises(UnbagError, match=r"setid\.mat of flowers102 has no variable 'tstid'"):
        benchmark("flowers102").load(tmp_path)
    savemat(tmp_path / "test_32x32.mat", {"X": np.zeros((2, 2)), "y": [1]})
    with pytest.raises(UnbagError, match=r"test_32x32\.mat of svhn is not the file"):
        benchmark("svhn").load(tmp_path)
    (tmp_path / "devkit").mkdir()
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": np.array(["a", "b"], dtype=object)})
    savemat(tmp_path / "cars_test_annos_withlabels.mat", {"annotations": [1, 2]})
    with pytest.raises(UnbagError, match="of cars: 'annotations'"):
        benchmark("cars").load(tmp_path)


def test_bad_arrays(tmp_path: Path) -> None:
    fill(tmp_path, "stl10", bytes(3 * 96 * 96))
    with pytest.raises(UnbagError, match=r"test_X\.bin of stl10 is not the file"):
        benchmark("stl10").load(tmp_path)
    head = np.array([0x803, 1, 28, 28], dtype=">u4").tobytes()
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(head + bytes(783))
    with pytest.raises(UnbagError, match="t10k-images-idx3-ubyte of mnist is not the file"):
        benchmark("mnist").load(tmp_path)


def _draw(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    number = sum(path.as_posix().encode()[-9:])
    Image.new("RGB", (8, 8), (number % 256, number * 3 % 256, 9)).save(path, "BMP")


def _food(root: Path) -> None:
    listed = {"ramen": ["ramen/1", "ramen/2"], "apple_pie": ["apple_pie/7"]}
    (root / "food-101/meta").mkdir(parents=True)
    (root / "food-101/meta/test.json").write_text(json.dumps(listed))
    for name in ("ramen/1", "ramen/2", "apple_pie/7"):
        _draw(root / f"food-101/images/{name}.jpg")


def _pets(root: Path) -> None:
    (root / "oxford-iiit-pet/annotations").mkdir(parents=True)
    (root / "oxford-iiit-pet/annotations/test.txt").write_text("a_b_3 2 2 1\nC_201 1 1 1\n")
    for name in ("a_b_3", "C_201"):
        _draw(root / f"oxford-iiit-pet/images/{name}.jpg")


def _signs(root: Path) -> None:
    for name in ("00000.ppm", "00001.ppm"):
        _draw(root / f"gtsrb/GTSRB/Final_Test/Images/{name}")
    text = "Filename;ClassId\n00000.ppm;16\n00001.ppm;1\n"
    (root / "gtsrb/GT-final_test.csv").write_text(text)


def _digits(root: Path) -> None:
    (root / "MNIST/raw").mkdir(parents=True)
    pixels = np.arange(2 * 28 * 28, dtype=np.uint8).tobytes()
    for part in ("t10k", "train"):
        head = np.array([0x803, 2, 28, 28], dtype=">u4").tobytes()
        (root / f"MNIST/raw/{part}-images-idx3-ubyte").write_bytes(head + pixels)
        head = np.array([0x801, 2], dtype=">u4").tobytes()
        (root / f"MNIST/raw/{part}-labels-idx1-ubyte").write_bytes(head + bytes([7, 2]))


@pytest.mark.skipif(not find_spec("torchvision"), reason="needs torchvision")
@pytest.mark.parametrize(
    ("name", "theirs", "lay_out", "options"),
    [
        ("food101", "Food101", _food, {"split": "test"}),
        ("pets", "OxfordIIITPet", _pets, {"split": "test"}),
        ("gtsrb", "GTSRB", _signs, {"split": "test"}),
        ("mnist", "MNIST", _digits, {"train": False}),
    ],
)
def test_torchvision_reads_the_same(
    name: str,
    theirs: str,
    lay_out: Callable[[Path], None],
    options: dict[str, object],
    tmp_path: Path,
) -> None:
    lay_out(tmp_path)
    expected = getattr(import_module("torchvision.datasets"), theirs)(str(tmp_path), **options)
    items = benchmark(name).load(tmp_path / (benchmark(name).folder or name))
    ours = {
        (item.images[0].open().tobytes(), int(np.asarray(item.truth)[0].argmax())) for item in items
    }
    assert ours == {(image.convert("RGB").tobytes(), target) for image, target in expected}
    assert len(items) == len(expected)
