"""Data sets of VTAB and ELEVATER in self-made files of their layouts, read as torchvision reads."""

import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest
from scipy.io import savemat

from unbag.benchmarks.classification import datasets as class_sets
from unbag.errors import UnbagError
from unbag.registry import names
from unbag.types import Ensemble, Item

from .class_layouts import LAYOUTS, folders, mnist, stl10, svhn, write
from .small import benchmark_of

# CIFAR and ImageNet have tests of their own.
ALL = [
    name
    for name in names("benchmark")
    if hasattr(class_sets, name.upper()) and not name.startswith(("cifar", "imagenet"))
]


def label(item: Item) -> str:
    caption = item.captions[int(np.asarray(item.truth)[0].argmax())]
    assert isinstance(caption, Ensemble)
    assert item.tags == {"class": caption.name}
    return caption.name


def test_every_dataset_has_a_layout() -> None:
    assert set(LAYOUTS) == set(ALL)


@pytest.mark.parametrize("name", LAYOUTS)
def test_images_and_their_classes(name: str, tmp_path: Path) -> None:
    lay_out, expected = LAYOUTS[name]
    lay_out(tmp_path)
    items = benchmark_of(name).load(tmp_path)
    assert [(item.id, label(item)) for item in items] == expected
    assert {item.images[0].open().mode for item in items} == {"RGB"}
    assert all("{" not in p for c in items[0].captions if not isinstance(c, str) for p in c.prompts)


def test_pixels_of_arrays(tmp_path: Path) -> None:
    mnist(tmp_path)
    grey = np.asarray(benchmark_of("mnist").load(tmp_path)[1].images[0].open())
    assert grey[0, 1].tolist() == [(784 + 1) % 256] * 3
    svhn(tmp_path)
    first = np.asarray(benchmark_of("svhn").load(tmp_path)[0].images[0].open())
    assert first[0, 1].tolist() == [6, 8, 10]
    stl10(tmp_path)
    image = benchmark_of("stl10").load(tmp_path)[0].images[0].open()
    assert image.getpixel((5, 9)) == (0, 77, 0)


def test_names_and_templates_of_the_user(tmp_path: Path) -> None:
    mnist(tmp_path)
    write(tmp_path / "classnames.txt", "\n".join(f"digit {i}" for i in range(10)))
    write(tmp_path / "templates.txt", "this is {}")
    items = benchmark_of("mnist").load(tmp_path)
    assert items[0].captions[7] == Ensemble("digit 7", ("this is digit 7",))
    write(tmp_path / "classnames.txt", "one")
    with pytest.raises(UnbagError, match=r"classnames\.txt of mnist: 1 names, 10 classes"):
        benchmark_of("mnist").load(tmp_path)


def test_codes_of_countries_need_names(tmp_path: Path) -> None:
    folders("test/AD", "test/PE")(tmp_path)
    with pytest.raises(UnbagError, match="country211 are named by codes such as AD"):
        benchmark_of("country211").load(tmp_path)
    write(tmp_path / "classnames.txt", "AD\tAndorra\nPE\tPeru\n")
    assert [label(item) for item in benchmark_of("country211").load(tmp_path)] == [
        "Andorra",
        "Peru",
    ]


def test_prompts_and_names_are_whole_and_each_is_used() -> None:
    path = Path(class_sets.__file__).parent / "classes.toml"
    known = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(known) == set(ALL)
    for dataset in known.values():
        assert {"templates"} <= set(dataset) <= {"templates", "names"}
        assert dataset["templates"]
        assert all(template.count("{}") == 1 for template in dataset["templates"])
        assert len(set(dataset["templates"])) == len(dataset["templates"])
        names = dataset.get("names", [])
        called = list(names.values()) if isinstance(names, dict) else names
        assert len(set(called)) == len(called)


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
        benchmark_of(name).load(tmp_path)


def test_other_bad_files(tmp_path: Path) -> None:
    for file, text in (("variants", "A380\nDC-10"), ("images_variant_test", "1 DC-11")):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / f"data/{file}.txt").write_text(text)
    with pytest.raises(UnbagError, match="of aircraft: '1 DC-11'"):
        benchmark_of("aircraft").load(tmp_path)
    savemat(tmp_path / "setid.mat", {"tstid": [1, 9]})
    savemat(tmp_path / "imagelabels.mat", {"labels": [1, 2]})
    with pytest.raises(UnbagError, match=r"setid\.mat of flowers102: 'image 9'"):
        benchmark_of("flowers102").load(tmp_path)
    savemat(tmp_path / "setid.mat", {"other": [1]})
    with pytest.raises(UnbagError, match=r"setid\.mat of flowers102 has no variable 'tstid'"):
        benchmark_of("flowers102").load(tmp_path)
    savemat(tmp_path / "test_32x32.mat", {"X": np.zeros((2, 2)), "y": [1]})
    with pytest.raises(UnbagError, match=r"test_32x32\.mat of svhn is not the file"):
        benchmark_of("svhn").load(tmp_path)
    (tmp_path / "devkit").mkdir()
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": np.array(["a", "b"], dtype=object)})
    savemat(tmp_path / "cars_test_annos_withlabels.mat", {"annotations": [1, 2]})
    with pytest.raises(UnbagError, match="of cars: 'annotations'"):
        benchmark_of("cars").load(tmp_path)


def test_bad_arrays(tmp_path: Path) -> None:
    for file in benchmark_of("stl10").files:
        (tmp_path / file).write_bytes(bytes(3 * 96 * 96))
    with pytest.raises(UnbagError, match=r"test_X\.bin of stl10 is not the file"):
        benchmark_of("stl10").load(tmp_path)
    head = np.array([0x803, 1, 28, 28], dtype=">u4").tobytes()
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(head + bytes(783))
    with pytest.raises(UnbagError, match="t10k-images-idx3-ubyte of mnist is not the file"):
        benchmark_of("mnist").load(tmp_path)


@pytest.mark.skipif(not find_spec("torchvision"), reason="needs torchvision")
@pytest.mark.parametrize(
    ("name", "theirs", "options"),
    [
        ("food101", "Food101", {"split": "test"}),
        ("pets", "OxfordIIITPet", {"split": "test"}),
        ("gtsrb", "GTSRB", {"split": "test"}),
        ("mnist", "MNIST", {"train": False}),
    ],
)
def test_torchvision_reads_the_same(
    name: str,
    theirs: str,
    options: dict[str, object],
    tmp_path: Path,
) -> None:
    root = tmp_path / (benchmark_of(name).folder or name)
    LAYOUTS[name][0](root)
    if name == "mnist":
        # torchvision looks for the training files too.
        for path in list(root.iterdir()):
            copyfile(path, root / path.name.replace("t10k", "train"))
    expected = getattr(import_module("torchvision.datasets"), theirs)(str(tmp_path), **options)
    items = benchmark_of(name).load(root)
    ours = {
        (item.images[0].open().tobytes(), int(np.asarray(item.truth)[0].argmax())) for item in items
    }
    assert ours == {(image.convert("RGB").tobytes(), target) for image, target in expected}
    assert len(items) == len(expected)
