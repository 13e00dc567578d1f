"""COLA, EqBen and NaturalBench as retrieval from self-made files in their official schema."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.cola import COLA
from unbag.benchmarks.eqben import EQBEN, BgrImage
from unbag.types import Estimate

from .small import cola, write, write_rows

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
Rows = list[object]


def test_frames_of_youcook_are_arrays_with_blue_first(tmp_path: Path) -> None:
    pixels = np.zeros((2, 3, 3), dtype=np.uint8)
    pixels[..., 0] = 200
    place = tmp_path / "image_subset/eqbenyoucook2"
    place.mkdir(parents=True)
    np.save(place / "a.npy", pixels)
    row = {"image0": "eqbenyoucook2/a.npy", "caption0": "cut", "image1": "b.png", "caption1": "fry"}
    write_rows(tmp_path / EQBEN.files[0], [row, row | {"image0": "plain.png"}])
    item, plain = EQBEN.load(tmp_path)
    assert (item.tags, plain.tags) == ({"collection": "eqbenyoucook2"}, {"collection": "not named"})
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


def test_the_accuracy_of_cola_is_that_of_captions_picking_images(
    tmp_path: Path, numbers: Numbers
) -> None:
    items = COLA.load(write(tmp_path, cola(1)))
    # Both captions pick their image; image 1 prefers the wrong caption.
    results = numbers(COLA, items, lambda item: np.array([[0.5, 0.6], [0.4, 0.7]]))["micro"]
    assert COLA.headline == "image"
    assert (results["image"].value, results["text"].value) == (1, 0)
