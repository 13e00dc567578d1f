"""Images: identity, crops, odd and damaged files, photographs, shuffled cells."""

import json
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

import unbag as ub
from unbag.cli import main
from unbag.data import FileImage, PixelImage
from unbag.data.images import GRIDS, ShuffledImage, rearranged
from unbag.data.readers import open_pairs
from unbag.errors import UnbagError
from unbag.types import ImageSource

Make = Callable[[Path], Path]
Pixel = tuple[int, int, int]
RED, BLUE = (230, 20, 20), (20, 20, 230)


def save(path: Path, colour: Pixel = (10, 20, 30)) -> Path:
    Image.new("RGB", (8, 6), colour).save(path)
    return path


def grey(path: Path, value: float, dtype: str) -> Path:
    Image.fromarray(np.full((4, 5), value, dtype=dtype)).save(path)
    return path


def colour(path: Path) -> Pixel:
    image = FileImage(path).open()
    assert image.mode == "RGB"
    pixel = image.getpixel((0, 0))
    assert isinstance(pixel, tuple)
    return (int(pixel[0]), int(pixel[1]), int(pixel[2]))


def test_the_key_follows_the_content_not_the_path(tmp_path: Path) -> None:
    first, copy = save(tmp_path / "a.png"), save(tmp_path / "b.png")
    key = FileImage(first).key
    assert FileImage(copy).key == key
    assert FileImage(save(tmp_path / "c.png", (0, 0, 0))).key != key
    save(first, (200, 1, 1))
    assert FileImage(first).key != key


def test_a_box_is_cropped_clipped_and_part_of_the_identity(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(6, 8, 3)
    Image.fromarray(pixels).save(path)
    crop = FileImage(path, (2, 1, 3, 4))
    assert np.array_equal(np.asarray(crop.open()), pixels[1:5, 2:5])
    assert np.array_equal(np.asarray(FileImage(path, (6, 4, 50, 50)).open()), pixels[4:, 6:])
    assert crop.key != FileImage(path).key
    assert "[2, 1, 3, 4]" in crop.name
    with pytest.raises(ValueError, match=r"box \[100, 0, 5, 5\] lies outside .* size \[8, 6\]"):
        FileImage(path, (100, 0, 5, 5)).open()


def test_pixels_round_trip_and_are_checked() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (4, 5, 3), dtype=np.uint8)
    image = PixelImage(pixels)
    assert np.array_equal(np.asarray(image.open()), pixels)
    assert image.key == PixelImage(pixels.copy()).key
    assert isinstance(image, ImageSource)
    with pytest.raises(ValueError, match=r"expected \[height, width, 3\] of uint8"):
        PixelImage(pixels[..., 0]).open()


def test_alpha_is_dropped_as_public_loaders_do(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGBA", (5, 4), (200, 100, 50, 0)).save(path)
    assert colour(path) == (200, 100, 50)
    Image.new("LA", (5, 4), (70, 128)).save(path)
    assert colour(path) == (70, 70, 70)


@pytest.mark.parametrize("transparency", [b"\x00\x80", 0])
def test_a_transparent_palette_keeps_its_colours_without_a_warning(
    tmp_path: Path, transparency: object
) -> None:
    path = tmp_path / "a.png"
    image = Image.new("P", (5, 4), 1)
    image.putpalette([9, 9, 9, 10, 20, 30])
    image.save(path, transparency=transparency)
    with Image.open(path) as stored:
        assert "transparency" in stored.info
    assert colour(path) == (10, 20, 30)


def test_other_modes_become_rgb(tmp_path: Path) -> None:
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    cyan.save(tmp_path / "a.tif")
    assert colour(tmp_path / "a.tif") == (0, 255, 255)
    cyan.save(tmp_path / "a.jpg", quality=100)
    assert np.allclose(colour(tmp_path / "a.jpg"), (0, 255, 255), atol=4)
    assert colour(grey(tmp_path / "a.png", 70, "uint8")) == (70, 70, 70)
    Image.new("1", (5, 4), 1).save(tmp_path / "b.png")
    assert colour(tmp_path / "b.png") == (255, 255, 255)
    red, blue = (Image.new("RGB", (6, 6), c) for c in ((255, 0, 0), (0, 0, 255)))
    red.save(tmp_path / "a.gif", save_all=True, append_images=[blue], duration=50)
    assert colour(tmp_path / "a.gif") == (255, 0, 0)


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (128, 0), (129, 1), (40000, 156), (65535, 255)]
)
def test_sixteen_bits_are_scaled_not_clipped(
    tmp_path: Path, ending: str, value: int, expected: int
) -> None:
    path = grey(tmp_path / f"a.{ending}", value, "uint16")
    assert colour(path) == (expected,) * 3
    crop = FileImage(path, (1, 1, 2, 2)).open()
    assert (crop.size, crop.getpixel((0, 0))) == ((2, 2), (expected,) * 3)


def missing(path: Path) -> Path:
    return path.with_suffix(".jpg")


def empty(path: Path) -> Path:
    missing(path).touch()
    return missing(path)


def text(path: Path) -> Path:
    missing(path).write_text("<html>404: not found</html>")
    return missing(path)


def truncated(path: Path) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(missing(path))
    missing(path).write_bytes(missing(path).read_bytes()[:2000])
    return missing(path)


def truncated_png(path: Path) -> Path:
    png = save(path.with_suffix(".png"))
    png.write_bytes(png.read_bytes()[:40])
    return png


def folder(path: Path) -> Path:
    missing(path).mkdir()
    return missing(path)


def int32(path: Path) -> Path:
    return grey(path.with_suffix(".tif"), 100, "int32")


def float32(path: Path) -> Path:
    return grey(path.with_suffix(".tif"), 100, "float32")


def bomb(path: Path) -> Path:
    """A few bytes that claim to be a huge image: the header of a BMP."""
    size = struct.pack("<iiHHIIiiII", 20_000, 20_000, 1, 24, 0, 0, 0, 0, 0, 0)
    head = b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<I", 40)
    path.with_suffix(".bmp").write_bytes(head + size)
    return path.with_suffix(".bmp")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (missing, OSError, r"a\.jpg"),
        (empty, OSError, r"the file is empty: .*a\.jpg"),
        (text, OSError, r"27 bytes in a format unknown to Pillow: .*a\.jpg"),
        (truncated, OSError, r"truncated"),
        (truncated_png, (OSError, ValueError), ""),
        (folder, OSError, r"Is a directory: .*a\.jpg"),
        (int32, ValueError, r"32-bit pixels \(mode I\) have no known range; save with"),
        (float32, ValueError, r"32-bit pixels \(mode F\) have no known range; save with"),
        (bomb, ValueError, r"\(400000000 pixels\) exceeds limit of 178956970 pixels"),
    ],
)
def test_unreadable_images_fail_when_opened_with_the_reason(
    tmp_path: Path, make: Make, error: type[Exception], message: str
) -> None:
    image = FileImage(make(tmp_path / "a"))
    assert image.key.startswith("file:missing:") == (make in (missing, folder))
    with pytest.raises(error, match=message or None):
        image.open()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (truncated, "OSError: image file is truncated"),
        (bomb, "400000000 pixels) exceeds limit of 178956970 pixels"),
        (empty, "the file is empty"),
    ],
)
def test_the_command_refuses_damaged_photographs(
    tmp_path: Path, make: Make, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", str(make(tmp_path / "a")), "a", "--model", "tiny:base"]) == 1
    printed = " ".join(capsys.readouterr().err.split())
    for part in ("cannot be opened", message, "hint:"):
        assert part in printed


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_a_file_without_read_permission(tmp_path: Path) -> None:
    path = grey(tmp_path / "a.png", 1, "uint8")
    path.chmod(0)
    assert FileImage(path).key.startswith("file:missing:")
    with pytest.raises(PermissionError, match=r"a\.png"):
        FileImage(path).open()


def test_a_large_image_below_the_limit_gives_no_warning(
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
def test_damaged_bytes_open_or_raise_one_of_two_errors(
    ending: str, place: float, new: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{ending}"
    pixels = np.arange(9 * 7 * 3, dtype=np.uint8).reshape(9, 7, 3)
    Image.fromarray(pixels).save(path)
    whole = path.read_bytes()
    start = int(place * len(whole))
    path.write_bytes(whole[:start] + new + whole[start + len(new) :])
    with suppress(OSError, ValueError):
        assert FileImage(path).open().mode == "RGB"


def halves() -> Image.Image:
    """Red above, blue below."""
    image = Image.new("RGB", (64, 48), BLUE)
    image.paste(RED, (0, 0, 64, 24))
    return image


ORIENTED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""How a camera stored the image, by EXIF orientation."""


def oriented(path: Path, orientation: int) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    halves().transpose(ORIENTED[orientation]).save(path, exif=exif, quality=95)
    return path


@pytest.mark.parametrize("orientation", ORIENTED)
def test_a_rotated_photograph_is_turned_upright_before_its_box_is_cut(
    tmp_path: Path, orientation: int
) -> None:
    path = oriented(tmp_path / "a.jpg", orientation)
    upright = FileImage(path, turn_upright=True).open()
    difference = np.abs(np.asarray(upright, np.int32) - np.asarray(halves(), np.int32))
    assert upright.mode == "RGB"
    assert difference.mean() < 6
    below = FileImage(path, (0, 36, 64, 12), turn_upright=True).open()
    assert np.abs(np.asarray(below, np.int32) - BLUE).mean() < 6


def test_scores_and_training_turn_photographs_and_benchmarks_do_not(tmp_path: Path) -> None:
    path = oriented(tmp_path / "a.png", 6)
    halves().save(tmp_path / "b.png")
    stored, upright = FileImage(path), FileImage(path, turn_upright=True)
    assert (stored.open().size, upright.open().size) == ((48, 64), (64, 48))
    assert stored.key != upright.key
    assert FileImage(tmp_path / "b.png", turn_upright=True).open().size == (64, 48)
    scorer = ub.load_scorer("tiny:base")
    captions = ["a red square", "a blue star above a red disc"]
    assert ub.score(path, captions, scorer).tolist() == (
        ub.score(tmp_path / "b.png", captions, scorer).tolist()
    )
    (tmp_path / "c.jsonl").write_text(json.dumps({"image": "a.png", "caption": "two halves"}))
    pair = open_pairs(str(tmp_path / "c.jsonl"))[0]
    assert np.array_equal(np.asarray(pair.image.open()), np.asarray(halves()))


@pytest.mark.parametrize("kind", ["grey", "cmyk", "alpha", "gif", "webp", "sixteen_bit"])
def test_odd_photographs_are_scored_by_their_pixels(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image, black = halves(), Image.new("RGB", (64, 48))
    is_grey = kind in ("grey", "sixteen_bit")
    expected = np.asarray(image.convert("L").convert("RGB") if is_grey else image, np.int32)
    ending = {"grey": "jpg", "cmyk": "jpg", "gif": "gif", "webp": "webp"}.get(kind, "png")
    path = tmp_path / f"a.{ending}"
    match kind:
        case "grey":
            image.convert("L").save(path)
        case "cmyk":
            image.convert("CMYK").save(path, quality=95)
        case "alpha":
            image.putalpha(128)
            image.save(path)
        case "gif":
            image.save(path, save_all=True, append_images=[black])
        case "webp":
            image.save(path, save_all=True, append_images=[black], lossless=True)
        case _:
            Image.fromarray(np.asarray(image.convert("L"), np.uint16) * 257).save(path)
    pixels = np.asarray(FileImage(path, turn_upright=True).open(), np.int32)
    assert pixels.shape == (48, 64, 3)
    assert np.abs(pixels - expected).mean() < 6
    assert main(["score", str(path), "a red square", "--model", "tiny:base", "--json"]) == 0
    score = json.loads(capsys.readouterr().out)["models"][0]["scores"][0]
    assert -1 <= score <= 1


KINDS = st.sampled_from(list(GRIDS))


def noise(height: int, width: int, seed: int = 0) -> PixelImage:
    shape = (height, width, 3)
    return PixelImage(np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8))


def test_cells_by_hand() -> None:
    numbers = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert rearranged(numbers, (4, 1), [2, 0, 3, 1]).tolist() == [
        [8, 9, 10, 11],
        [0, 1, 2, 3],
        [12, 13, 14, 15],
        [4, 5, 6, 7],
    ]
    assert rearranged(numbers, (1, 4), [3, 0, 1, 2])[0].tolist() == [3, 0, 1, 2]
    numbers = np.arange(20, dtype=np.uint8).reshape(4, 5)
    patches = rearranged(numbers, (3, 3), [8, 0, 1, 2, 3, 4, 5, 6, 7])
    assert patches.tolist() == [[12, 0, 1], [2, 5, 6], [7, 10, 11]]


@given(KINDS, st.integers(4, 12), st.integers(4, 12), st.integers(0, 5))
def test_shuffling_permutes_cells_and_is_never_the_identity(
    kind: str, height: int, width: int, seed: int
) -> None:
    down, across = GRIDS[kind]
    whole = noise(height, width)
    shuffled = np.asarray(ShuffledImage(whole, kind, seed).open())
    cropped = whole.pixels[: height - height % down, : width - width % across]
    assert shuffled.shape == cropped.shape
    assert sorted(shuffled.reshape(-1, 3).tolist()) == sorted(cropped.reshape(-1, 3).tolist())
    order = ShuffledImage(whole, kind, seed).order()
    assert sorted(order) == list(range(down * across))
    assert order != sorted(order)


def test_the_order_depends_on_seed_kind_and_content_only() -> None:
    first, second = noise(8, 8), noise(8, 8, seed=1)
    orders = {
        tuple(ShuffledImage(image, "patches_9", seed).order())
        for image in (first, second)
        for seed in range(5)
    }
    assert len(orders) == 10
    copy = PixelImage(first.pixels.copy(), name="copy")
    assert ShuffledImage(copy, "rows_4", 3).order() == ShuffledImage(first, "rows_4", 3).order()


def test_shuffled_images_have_keys_and_names_and_refuse_what_cannot_be_cut() -> None:
    whole = noise(8, 8)
    images = [ShuffledImage(whole, kind, seed) for kind in GRIDS for seed in (0, 1)]
    assert len({image.key for image in images} | {whole.key}) == 7
    assert images[1].name == "pixels (rows_4, seed 1)"
    assert isinstance(images[0], ImageSource)
    with pytest.raises(ValueError, match="2 x 9 pixels cannot be cut into 3 x 3 cells"):
        ShuffledImage(noise(9, 2), "patches_9").open()
    with pytest.raises(UnbagError, match="shuffle 'rows_5' is not known") as error:
        ShuffledImage(whole, "rows_5")
    assert error.value.expected == "one of rows_4, columns_4, patches_9"
