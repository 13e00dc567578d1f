"""Photographs as cameras and programs leave them, by `unbag score`: right pixels, or words."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unbag as ub
from unbag.cli import main
from unbag.data import FileImage
from unbag.data.readers import open_pairs

Make = Callable[[Path], Path]
RED, BLUE = (230, 20, 20), (20, 20, 230)


def halves(size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Red above, blue below."""
    image = Image.new("RGB", size, BLUE)
    image.paste(RED, (0, 0, size[0], size[1] // 2))
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
"""What a camera stored, for each note of EXIF that says how to turn it back."""


@pytest.mark.parametrize("note", ORIENTED)
def test_a_turned_photograph_is_seen_as_it_was_taken(tmp_path: Path, note: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = note
    path = tmp_path / "a.jpg"
    halves().transpose(ORIENTED[note]).save(path, exif=exif, quality=95)
    found = FileImage(path, turn_upright=True).open()
    apart = np.abs(np.asarray(found, np.int32) - np.asarray(halves(), np.int32))
    assert found.mode == "RGB"
    assert apart.mean() < 6
    # Its box is counted after turning.
    below = FileImage(path, (0, 36, 64, 12), turn_upright=True).open()
    assert np.abs(np.asarray(below, np.int32) - BLUE).mean() < 6


def test_scores_and_training_turn_photographs_and_benchmarks_do_not(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "a.png"
    halves().transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    halves().save(tmp_path / "b.png")
    scorer = ub.load_scorer("tiny:base")
    captions = ["a red square", "a blue star above a red disc"]
    assert ub.score(path, captions, scorer).tolist() == (
        ub.score(tmp_path / "b.png", captions, scorer).tolist()
    )
    (tmp_path / "c.jsonl").write_text(json.dumps({"image": "a.png", "caption": "two halves"}))
    pair = open_pairs(str(tmp_path / "c.jsonl"))[0]
    assert np.array_equal(np.asarray(pair.image.open()), np.asarray(halves()))
    assert FileImage(path).open().size == (48, 64)


def grey(path: Path) -> Path:
    halves().convert("L").save(path.with_suffix(".jpg"))
    return path.with_suffix(".jpg")


def print_colours(path: Path) -> Path:
    halves().convert("CMYK").save(path.with_suffix(".jpg"), quality=95)
    return path.with_suffix(".jpg")


def clear(path: Path) -> Path:
    image = halves()
    image.putalpha(128)
    image.save(path.with_suffix(".png"))
    return path.with_suffix(".png")


def moving(path: Path) -> Path:
    halves().save(
        path.with_suffix(".gif"), save_all=True, append_images=[Image.new("RGB", (64, 48))]
    )
    return path.with_suffix(".gif")


def moving_webp(path: Path) -> Path:
    more = [Image.new("RGB", (64, 48), (0, 255, 0))]
    halves().save(path.with_suffix(".webp"), save_all=True, append_images=more, lossless=True)
    return path.with_suffix(".webp")


def deep(path: Path) -> Path:
    levels = np.asarray(halves().convert("L"), np.uint16) * 257
    Image.fromarray(levels).save(path.with_suffix(".png"))
    return path.with_suffix(".png")


@pytest.mark.parametrize("make", [grey, print_colours, clear, moving, moving_webp, deep])
def test_odd_photographs_are_scored_by_their_pixels(
    tmp_path: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(tmp_path / "a")
    found = np.asarray(FileImage(path, turn_upright=True).open(), np.int32)
    wanted = halves().convert("L").convert("RGB") if make in (grey, deep) else halves()
    assert found.shape == (48, 64, 3)
    assert np.abs(found - np.asarray(wanted, np.int32)).mean() < 6
    assert main(["score", str(path), "a red square", "--model", "tiny:base", "--json"]) == 0
    score = json.loads(capsys.readouterr().out)["models"][0]["scores"][0]
    assert -1 <= score <= 1


def torn(path: Path) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path.with_suffix(".jpg"))
    whole = path.with_suffix(".jpg").read_bytes()
    path.with_suffix(".jpg").write_bytes(whole[: len(whole) // 2])
    return path.with_suffix(".jpg")


def enormous(path: Path) -> Path:
    """A few bytes that claim to be a huge image: the header of a BMP."""
    size = struct.pack("<iiHHIIiiII", 20_000, 20_000, 1, 24, 0, 0, 0, 0, 0, 0)
    head = b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<I", 40)
    path.with_suffix(".bmp").write_bytes(head + size)
    return path.with_suffix(".bmp")


def nothing(path: Path) -> Path:
    path.with_suffix(".jpg").touch()
    return path.with_suffix(".jpg")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (torn, "OSError: image file is truncated"),
        (enormous, "400000000 pixels) exceeds limit of 178956970 pixels"),
        (nothing, "the file is empty"),
    ],
)
def test_damaged_photographs_are_refused_in_words(
    tmp_path: Path, make: Make, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", str(make(tmp_path / "a")), "a", "--model", "tiny:base"]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "cannot be opened" in told
    assert said in told
    assert "hint:" in told
