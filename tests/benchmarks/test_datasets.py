"""CIFAR's binary files in the official form, and ImageNet's names and prompts."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unbag.benchmarks.classification.datasets import CIFAR10, CIFAR100, IMAGENET1K
from unbag.errors import UnbagError
from unbag.types import Ensemble

TEN = [f"thing {n}" for n in range(10)]


def records(labels: list[list[int]], *, seed: int) -> NDArray[np.uint8]:
    """Label bytes, then red, green and blue of 32 x 32, row by row."""
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    return np.concatenate([np.array(labels, dtype=np.uint8), pixels], axis=1)


def lay_out_ten(root: Path) -> NDArray[np.uint8]:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
    for n in range(1, 6):
        (folder / f"data_batch_{n}.bin").write_bytes(records([[n]], seed=n).tobytes())
    test = records([[3], [0], [9]], seed=0)
    (folder / "test_batch.bin").write_bytes(test.tobytes())
    return test


def test_the_ten_classes_of_the_test_batch(tmp_path: Path) -> None:
    test = lay_out_ten(tmp_path)
    items = CIFAR10.load(tmp_path)
    assert [item.tags["class"] for item in items] == ["thing 3", "thing 0", "thing 9"]
    assert items[0].captions[3] == Ensemble("thing 3", ("a photo of a thing 3.",))
    image = np.asarray(items[0].images[0].open())
    assert image.shape == (32, 32, 3)
    assert image[0, 1].tolist() == [test[0, 1 + 1], test[0, 1 + 1024 + 1], test[0, 1 + 2048 + 1]]


def test_the_training_split_is_all_five_batches(tmp_path: Path) -> None:
    lay_out_ten(tmp_path)
    assert CIFAR10.load_training is not None
    items = CIFAR10.load_training(tmp_path)
    assert [item.tags["class"] for item in items] == [f"thing {n}" for n in range(1, 6)]
    assert len({item.id for item in items}) == 5


def test_the_hundred_use_the_second_label(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    names = "\n".join(f"kind {n}" for n in range(100))
    (folder / "fine_label_names.txt").write_text(names)
    (folder / "test.bin").write_bytes(records([[4, 99], [0, 7]], seed=1).tobytes())
    assert [i.tags["class"] for i in CIFAR100.load(tmp_path)] == ["kind 99", "kind 7"]


@pytest.mark.parametrize("cut", [0, 100, 3073 * 3 - 1])
def test_a_file_that_is_cut_short_is_said(tmp_path: Path, cut: int) -> None:
    test = lay_out_ten(tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(test.tobytes()[:cut])
    with pytest.raises(UnbagError, match=r"test_batch\.bin of cifar10 is not the file"):
        CIFAR10.load(tmp_path)


def test_a_class_that_has_no_name_is_said(tmp_path: Path) -> None:
    lay_out_ten(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "batches.meta.txt").write_text("one\ntwo\n")
    with pytest.raises(UnbagError, match="not the file it should be") as error:
        CIFAR10.load(tmp_path)
    assert "a class below 2" in str(error.value)


def test_a_batch_that_is_missing_is_named(tmp_path: Path) -> None:
    lay_out_ten(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    with pytest.raises(UnbagError, match=r"no file .*test_batch\.bin"):
        CIFAR10.load(tmp_path)


def imagenet(root: Path, classes: int) -> Path:
    for n in range(classes):
        place = root / "val" / f"n{n:08d}"
        place.mkdir(parents=True)
        (place / "0.jpg").touch()
    return root


def test_the_thousand_codes_get_the_names_and_prompts_of_clip(tmp_path: Path) -> None:
    items = IMAGENET1K.load(imagenet(tmp_path, 1000))
    assert [items[n].tags["class"] for n in (0, 1, 999)] == ["tench", "goldfish", "toilet paper"]
    first = items[0].captions[0]
    assert isinstance(first, Ensemble)
    assert len(first.prompts) == 80
    assert "a bad photo of a tench." in first.prompts
    # Two classes of one name: their captions are equal, their tags are not.
    twice = [n for n, item in enumerate(items) if item.tags["class"].startswith("missile (")]
    assert len(twice) == 2
    captions = [items[0].captions[n] for n in twice]
    assert captions[0] == captions[1]


def test_files_of_the_user_come_first(tmp_path: Path) -> None:
    imagenet(tmp_path, 1000)
    (tmp_path / "classnames.txt").write_text("\n".join(f"mine {n}" for n in range(1000)))
    (tmp_path / "templates.txt").write_text("see {}\n")
    assert IMAGENET1K.load(tmp_path)[0].captions[0] == Ensemble("mine 0", ("see mine 0",))


def test_some_codes_only_still_need_names(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="named by codes such as n00000000"):
        IMAGENET1K.load(imagenet(tmp_path, 5))


def test_without_open_clip_the_single_prompt_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unbag.benchmarks.classification.datasets.find_spec", lambda name: None)
    imagenet(tmp_path, 3)
    (tmp_path / "classnames.txt").write_text("a\nb\nc\n")
    with pytest.warns(UserWarning, match="published numbers average over CLIP's 80"):
        items = IMAGENET1K.load(tmp_path)
    assert items[0].captions[0] == Ensemble("a", ("a photo of a a.",))
