"""Composites of real images: cutting out, pasting, opposites, and files that training reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unbag.data.composites import (
    KINDS,
    Composite,
    Cutout,
    cut_out,
    paste,
    read_cutouts,
    thing_name,
    tinted,
    vary,
    write_composites,
)
from unbag.data.readers import open_pairs
from unbag.errors import UnbagError
from unbag.readouts.data import rows_of, shuffled
from unbag.types import BoolArray, IntArray


def drawing(path: Path, colour: tuple[int, int, int], *, alpha: bool = False) -> Path:
    """A thing of 20 x 10 pixels in an image of 40 x 40."""
    level = np.full((40, 40, 4), 255, dtype=np.uint8)
    if alpha:
        level[..., 3] = 0
    level[15:25, 10:30] = (*colour, 255)
    Image.fromarray(level if alpha else level[..., :3]).save(path)
    return path


def cutout(name: str, colour: tuple[int, int, int], size: tuple[int, int] = (20, 20)) -> Cutout:
    return Cutout(name, Image.new("RGBA", size, (*colour, 255)))


RED, BLUE = cutout("cup", (255, 0, 0)), cutout("apple", (0, 0, 255))


def made(kind: str, count: int = 12) -> list[Composite]:
    return list(paste([RED, BLUE], [], count, kinds=(kind,), side=64))


def pure(image: Image.Image, channel: int) -> BoolArray:
    """Where the pure colour of a thing is."""
    level: IntArray = np.asarray(image).astype(np.int64)
    others = [c for c in range(3) if c != channel]
    is_it: BoolArray = (level[..., channel] > 200) & (level[..., others] < 60).all(axis=2)
    return is_it


def middle(image: Image.Image, channel: int) -> tuple[float, float]:
    """Where it lies, x and y."""
    rows, columns = np.nonzero(pure(image, channel))
    return float(columns.mean()), float(rows.mean())


@pytest.mark.parametrize("alpha", [False, True])
def test_a_thing_is_cut_out_of_what_is_plain_or_transparent(alpha: bool, tmp_path: Path) -> None:
    found = cut_out(drawing(tmp_path / "Coffee_cup-12.png", (200, 30, 30), alpha=alpha))
    assert found.name == "coffee cup"
    assert found.image.size == (20, 10)
    assert found.image.getpixel((5, 5)) == (200, 30, 30, 255)


def test_what_cannot_be_cut_out_is_told(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    with pytest.raises(UnbagError, match=r"noise.png has no plain background") as error:
        cut_out(tmp_path / "noise.png")
    assert "alpha channel" in error.value.expected
    Image.new("RGB", (40, 40), (9, 9, 9)).save(tmp_path / "empty.png")
    with pytest.raises(UnbagError, match=r"empty.png: no object is left") as error:
        cut_out(tmp_path / "empty.png")
    assert "1%" in error.value.expected
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(UnbagError, match=r"broken.png cannot be opened as an image"):
        cut_out(tmp_path / "broken.png")
    with pytest.raises(UnbagError, match=r"7.png has no name that a caption could say"):
        thing_name(tmp_path / "7.png")


def test_a_folder_needs_two_sorts_of_things(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="no images in") as error:
        read_cutouts(tmp_path)
    assert error.value.expected.startswith("a folder of cut-outs")
    drawing(tmp_path / "cup_1.png", (200, 0, 0))
    drawing(tmp_path / "cup_2.png", (0, 200, 0))
    with pytest.raises(UnbagError, match="contains one kind of object: cup"):
        read_cutouts(tmp_path)
    drawing(tmp_path / "plate.png", (0, 0, 200))
    assert [one.name for one in read_cutouts(tmp_path)] == ["cup", "cup", "plate"]


def test_things_lie_where_captions_say_and_opposites_exchange_them() -> None:
    for one in made("spatial"):
        (x0, y0), (x1, y1) = (middle(one.images[0], channel) for channel in (0, 2))
        for caption in one.captions[0]:
            is_cup_first = caption.startswith("a cup")
            dx, dy = (x0 - x1, y0 - y1) if is_cup_first else (x1 - x0, y1 - y0)
            signs = {"left": dx < 0, "right": dx > 0, "above": dy < 0, "below": dy > 0}
            (word,) = [w for w in caption.split() if w in signs]
            assert signs[word]
        # Exchanged: each lies where the other lay.
        assert middle(one.images[1], 0) == pytest.approx((x1, y1), abs=0.6)
        assert middle(one.images[1], 2) == pytest.approx((x0, y0), abs=0.6)
        assert len({text for both in one.captions for text in both}) == 4
    said = {w for one in made("spatial") for w in one.captions[0][0].split()}
    assert {"left", "right", "above", "below"} <= said


def test_sizes_and_absent_things_are_as_said() -> None:
    for one in made("size", 4):
        assert one.captions[0][0].startswith(("a small", "a big"))
        is_small = "small cup" in one.captions[0][0]
        areas = [int(pure(image, 0).sum()) for image in one.images]
        assert (areas[0] < areas[1]) is is_small
    for one in made("negation", 4):
        present = one.captions[0][0].split()[1]
        channel = 0 if present == "cup" else 2
        assert np.isfinite(middle(one.images[0], channel)).all()
        assert not pure(one.images[0], 2 - channel).any()
        assert any(word in one.captions[0][0] for word in ("and not", "but no", "without"))


def test_colours_are_exchanged() -> None:
    (one,) = made("colour", 1)
    own, other = one.captions[0][0].split(), one.captions[1][0].split()
    assert (own[1], own[5]) == (other[5], other[1])
    tint = np.asarray(tinted(Image.new("RGBA", (2, 2), (255, 255, 255, 9)), (220, 40, 40)))
    assert tint[0, 0].tolist() == [220, 40, 40, 9]
    black = np.asarray(tinted(Image.new("RGBA", (2, 2), (0, 0, 0, 255)), (240, 60, 30)))
    assert black[0, 0].tolist() == [80, 20, 10, 255]


def test_pairs_depend_on_seed_and_place_alone() -> None:
    every = list(paste([RED, BLUE], [], 6, seed=1, side=64))
    assert [one.kind for one in every[:4]] == list(KINDS)
    again = list(paste([RED, BLUE], [], 3, seed=1, side=64))
    for one, other in zip(every, again, strict=False):
        assert one.captions == other.captions
        assert one.images[0].tobytes() == other.images[0].tobytes()
    with pytest.raises(UnbagError, match="kind of composite 'shape'"):
        list(paste([RED, BLUE], [], 1, kinds=("shape",)))
    with pytest.raises(UnbagError, match="0 composites of 224 pixels"):
        list(paste([RED, BLUE], [], 0))
    coffee = cutout("coffee cup", (0, 9, 9))
    with pytest.raises(UnbagError, match="no object to paste next to a c") as error:
        list(paste([RED, coffee], [], 1))
    assert error.value.expected == "cut-outs of two different objects"


def test_training_reads_what_is_written(tmp_path: Path) -> None:
    background = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 90, 3), np.uint8))
    path = write_composites(paste([RED, BLUE], [background], 4, side=64), tmp_path / "made")
    pairs = open_pairs(str(path))
    assert (len(pairs), pairs.has_edits) == (8, True)
    rows = rows_of(pairs)
    assert len(rows) == 16
    first, opposite = pairs[0], pairs[1]
    assert [e.text for e in first.edits[0] if not e.is_positive] == [opposite.captions[0]]
    assert [e.text for e in first.edits[0] if e.is_positive] == [first.captions[1]]
    assert rows[0].negatives[0] == opposite.captions[0]
    assert first.image.open().size == (64, 64)
    every = shuffled(rows)
    # Four images and then their four opposites would be as probable, were pairs not kept.
    for n in range(0, 16, 4):
        names = [Path(row.image.name).name for row in every[n : n + 4]]
        assert len({name[:6] for name in names}) == 1
        assert [name[6:] for name in names] == ["-a.png", "-a.png", "-b.png", "-b.png"]
    kinds = [json.loads(line)["edits"][0][0]["kind"] for line in path.read_text().splitlines()]
    assert kinds[::2] == ["swap_arguments", "swap_attributes", "swap_attributes", "swap_arguments"]
    with pytest.raises(UnbagError, match="already exists") as error:
        write_composites([], tmp_path / "made")
    assert error.value.hint == "choose another folder"


def test_varied_images_are_never_flipped() -> None:
    level = np.full((64, 64, 3), 120, dtype=np.uint8)
    level[8:20, 8:20] = (255, 0, 0)
    for seed in range(20):
        found = vary(Image.fromarray(level), np.random.default_rng(seed))
        x, y = middle(found, 0)
        assert x < 20
        assert y < 20
        speckled = (np.asarray(found) == 255).mean()
        assert 0.01 < speckled < 0.06
