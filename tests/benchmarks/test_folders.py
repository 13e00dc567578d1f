"""Class folders: images, class names and prompts."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.classification.datasets import CIFAR10
from unbag.benchmarks.classification.folders import ClassFolder
from unbag.errors import UnbagError
from unbag.types import Ensemble, Estimate

from .small import lay_out_classes as lay_out

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def test_an_image_is_an_item_and_a_folder_a_class(
    tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    lay_out(tmp_path, {"fire_truck": 2, "cat": 1})
    photo(tmp_path / "cat/1.png")
    (tmp_path / "cat/notes.txt").write_text("no image")
    items = ClassFolder("mine")(tmp_path)
    assert [item.id for item in items] == [
        "cat/0.JPEG",
        "cat/1.png",
        "fire_truck/0.JPEG",
        "fire_truck/1.JPEG",
    ]
    assert items[0].captions == (
        Ensemble("cat", ("a photo of a cat.",)),
        Ensemble("fire truck", ("a photo of a fire truck.",)),
    )
    assert items[3].tags == {"class": "fire truck"}
    assert np.asarray(items[3].truth).tolist() == [[False, True]]
    assert items[1].images[0].open().mode == "RGB"
    assert items[0].captions is items[3].captions


def test_names_and_templates_from_files(tmp_path: Path) -> None:
    lay_out(tmp_path / "val", {"n02": 1, "n01": 1})
    (tmp_path / "templates.txt").write_text("a photo of a {}.\n\nart of the {}.\n")
    (tmp_path / "classnames.txt").write_text("tench\ngoldfish\n")
    captions = ClassFolder("mine")(tmp_path)[0].captions
    assert captions[0] == Ensemble("tench", ("a photo of a tench.", "art of the tench."))
    (tmp_path / "classnames.txt").write_text("n02\tgoldfish\nn03\tshark\nn01\ttench\n")
    assert ClassFolder("mine")(tmp_path)[0].captions == captions


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="has 0 class folders"):
        CIFAR10.load(tmp_path)
    lay_out(tmp_path, {"cat": 1, "dog": 0})
    with pytest.raises(UnbagError, match=r"the class folder .*dog has no images"):
        CIFAR10.load(tmp_path)
    (tmp_path / "dog/1.png").touch()
    (tmp_path / "classnames.txt").write_text("cat\n")
    with pytest.raises(UnbagError, match=r"classnames\.txt of cifar10: 1 names, 2 folders"):
        CIFAR10.load(tmp_path)
    (tmp_path / "classnames.txt").write_text("cat\ncat\n")
    with pytest.raises(UnbagError, match="class names given more than once: cat"):
        CIFAR10.load(tmp_path)
    (tmp_path / "classnames.txt").write_bytes(b"\xff\xfe cat")
    with pytest.raises(UnbagError, match=r"classnames\.txt of cifar10 cannot be read"):
        CIFAR10.load(tmp_path)
    (tmp_path / "classnames.txt").unlink()
    (tmp_path / "templates.txt").write_text("a photo\n")
    with pytest.raises(UnbagError, match=r"templates\.txt of cifar10 holds 'a photo'"):
        CIFAR10.load(tmp_path)
    (tmp_path / "templates.txt").write_text("\n")
    with pytest.raises(UnbagError, match=r"templates\.txt of cifar10 holds nothing"):
        CIFAR10.load(tmp_path)
    with pytest.raises(UnbagError, match="benchmark 'cifar10' is read from files"):
        CIFAR10.load(None)
