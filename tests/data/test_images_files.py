"""Images on disk and in memory: identity, crops, odd and damaged files."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unbag.data import FileImage, PixelImage
from unbag.types import ImageSource


def save(path: Path, *, colour: tuple[int, int, int] = (10, 20, 30)) -> Path:
    Image.new("RGB", (8, 6), colour).save(path)
    return path


def test_key_is_the_content_not_the_path(tmp_path: Path) -> None:
    first, copy = save(tmp_path / "a.png"), save(tmp_path / "b.png")
    other = save(tmp_path / "c.png", colour=(0, 0, 0))
    assert FileImage(first).key == FileImage(copy).key
    assert FileImage(first).key != FileImage(other).key


def test_key_changes_when_the_file_does(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png")
    before = FileImage(path).key
    save(path, colour=(200, 1, 1))
    assert FileImage(path).key != before


def test_a_box_is_cropped_clamped_and_part_of_the_identity(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(6, 8, 3)
    Image.fromarray(pixels).save(path)
    crop = FileImage(path, (2, 1, 3, 4))
    assert np.array_equal(np.asarray(crop.open()), pixels[1:5, 2:5])
    hanging = FileImage(path, (6, 4, 50, 50))
    assert np.array_equal(np.asarray(hanging.open()), pixels[4:, 6:])
    assert crop.key != FileImage(path).key
    assert "[2, 1, 3, 4]" in crop.name


def test_a_box_outside_is_named(tmp_path: Path) -> None:
    image = FileImage(save(tmp_path / "a.png"), (100, 0, 5, 5))
    with pytest.raises(ValueError, match=r"box \[100, 0, 5, 5\] lies outside .* size \[8, 6\]"):
        image.open()


def test_missing_and_damaged_files_fail_when_opened_not_before(tmp_path: Path) -> None:
    missing = FileImage(tmp_path / "none.jpg")
    assert missing.key.startswith("file:missing:")
    with pytest.raises(OSError, match=r"none\.jpg"):
        missing.open()
    whole = save(tmp_path / "a.png").read_bytes()
    cut = tmp_path / "cut.png"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((OSError, ValueError)):
        FileImage(cut).open()


def test_pixels_round_trip_and_are_checked() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (4, 5, 3), dtype=np.uint8)
    image = PixelImage(pixels)
    assert np.array_equal(np.asarray(image.open()), pixels)
    assert image.key == PixelImage(pixels.copy()).key
    assert isinstance(image, ImageSource)
    with pytest.raises(ValueError, match=r"expected \[height, width, 3\] of uint8"):
        PixelImage(pixels[..., 0]).open()
