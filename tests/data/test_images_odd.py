"""Odd images, each a real file: the right RGB, or a failure that says what is wrong."""

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from unbag.data import FileImage

Pixel = tuple[int, int, int]


def colour(path: Path, at: tuple[int, int] = (0, 0)) -> Pixel:
    image = FileImage(path).open()
    assert image.mode == "RGB"
    pixel = image.getpixel(at)
    assert isinstance(pixel, tuple)
    return (int(pixel[0]), int(pixel[1]), int(pixel[2]))


def grey(path: Path, value: float, dtype: str) -> Path:
    Image.fromarray(np.full((4, 5), value, dtype=dtype)).save(path)
    return path


def test_alpha_is_dropped_as_public_loaders_do(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGBA", (5, 4), (200, 100, 50, 0)).save(path)
    assert colour(path) == (200, 100, 50)
    Image.new("LA", (5, 4), (70, 128)).save(path)
    assert colour(path) == (70, 70, 70)


@pytest.mark.parametrize("transparency", [b"\x00\x80", 0])
def test_a_palette_with_transparency_keeps_its_colours_and_warns_nobody(
    tmp_path: Path, transparency: object
) -> None:
    path = tmp_path / "a.png"
    image = Image.new("P", (5, 4), 1)
    image.putpalette([9, 9, 9, 10, 20, 30])
    image.save(path, transparency=transparency)
    with Image.open(path) as stored:
        assert "transparency" in stored.info
    assert colour(path) == (10, 20, 30)


def test_colours_of_print(tmp_path: Path) -> None:
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    cyan.save(tmp_path / "a.tif")
    assert colour(tmp_path / "a.tif") == (0, 255, 255)
    cyan.save(tmp_path / "a.jpg", quality=100)
    assert np.allclose(colour(tmp_path / "a.jpg"), (0, 255, 255), atol=4)


def test_grey_and_black_and_white(tmp_path: Path) -> None:
    assert colour(grey(tmp_path / "a.png", 70, "uint8")) == (70, 70, 70)
    Image.new("1", (5, 4), 1).save(tmp_path / "b.png")
    assert colour(tmp_path / "b.png") == (255, 255, 255)


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (128, 0), (129, 1), (40000, 156), (65535, 255)]
)
def test_sixteen_bits_are_scaled_not_cut(
    tmp_path: Path, ending: str, value: int, expected: int
) -> None:
    path = grey(tmp_path / f"a.{ending}", value, "uint16")
    assert colour(path) == (expected,) * 3
    crop = FileImage(path, (1, 1, 2, 2)).open()
    assert (crop.size, crop.getpixel((0, 0))) == ((2, 2), (expected,) * 3)


@pytest.mark.parametrize(("dtype", "mode"), [("int32", "I"), ("float32", "F")])
def test_pixels_without_a_known_range_are_refused(tmp_path: Path, dtype: str, mode: str) -> None:
    path = grey(tmp_path / "a.tif", 100, dtype)
    with pytest.raises(ValueError, match=rf"32 bits \(mode {mode}\) have no known range; save it"):
        FileImage(path).open()


def test_the_first_frame_of_an_animation_counts(tmp_path: Path) -> None:
    red, blue = (Image.new("RGB", (6, 6), c) for c in ((255, 0, 0), (0, 0, 255)))
    red.save(tmp_path / "a.gif", save_all=True, append_images=[blue], duration=50)
    assert colour(tmp_path / "a.gif") == (255, 0, 0)


def turned(path: Path) -> Path:
    """Stored 8 wide and 4 high, red on its left; the camera was held on its side."""
    image = Image.new("RGB", (8, 4), (0, 0, 255))
    image.paste((255, 0, 0), (0, 0, 4, 4))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(path, exif=exif)
    return path


def test_pixels_stay_as_they_are_stored_unless_asked(tmp_path: Path) -> None:
    path = turned(tmp_path / "a.png")
    stored, upright = FileImage(path), FileImage(path, turn_upright=True)
    assert (stored.open().size, upright.open().size) == ((8, 4), (4, 8))
    assert upright.open().getpixel((0, 0)) == (255, 0, 0)
    assert upright.open().getpixel((0, 7)) == (0, 0, 255)
    assert stored.key != upright.key
    below = FileImage(path, (0, 6, 4, 2), turn_upright=True).open()
    assert (below.size, below.getpixel((0, 0))) == ((4, 2), (0, 0, 255))
    plain = tmp_path / "b.png"
    Image.new("RGB", (8, 4)).save(plain)
    assert FileImage(plain, turn_upright=True).open().size == (8, 4)


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("<html>404: not found</html>")


def cut(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:2000])


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (empty, r"the file is empty: .*a\.jpg"),
        (text, r"27 bytes in no format that Pillow knows: .*a\.jpg"),
        (cut, r"truncated"),
        (folder, r"Is a directory: .*a\.jpg"),
    ],
)
def test_what_is_no_image_says_what_it_is(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    make(tmp_path / "a.jpg")
    with pytest.raises(OSError, match=message):
        FileImage(tmp_path / "a.jpg").open()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = grey(tmp_path / "a.png", 1, "uint8")
    path.chmod(0)
    assert FileImage(path).key.startswith("file:missing:")
    with pytest.raises(PermissionError, match=r"a\.png"):
        FileImage(path).open()


def bomb(path: Path, width: int, height: int) -> Path:
    """A few bytes that claim to be a huge image: the header of a BMP."""
    size = struct.pack("<iiHHIIiiII", width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    path.write_bytes(b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<I", 40) + size)
    return path


def test_a_decompression_bomb_is_refused_with_size_and_limit(tmp_path: Path) -> None:
    path = bomb(tmp_path / "a.bmp", 20_000, 20_000)
    with pytest.raises(ValueError, match=r"\(400000000 pixels\) exceeds limit of 178956970 pixels"):
        FileImage(path).open()


def test_a_large_image_below_the_limit_warns_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grey(tmp_path / "a.png", 9, "uint8")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15)
    with pytest.warns(Image.DecompressionBombWarning):
        Image.open(path).close()
    assert colour(path) == (9, 9, 9)


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "tif", "bmp", "webp"])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.floats(0, 1, exclude_max=True), new=st.binary(min_size=1, max_size=8))
def test_damaged_bytes_open_or_fail_in_the_two_known_ways(
    ending: str, place: float, new: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{ending}"
    pixels = np.arange(9 * 7 * 3, dtype=np.uint8).reshape(9, 7, 3)
    Image.fromarray(pixels).save(path)
    whole = path.read_bytes()
    at = int(place * len(whole))
    path.write_bytes(whole[:at] + new + whole[at + len(new) :])
    with suppress(OSError, ValueError):
        assert FileImage(path).open().mode == "RGB"
