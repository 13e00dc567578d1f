"""Flickr8k judgements from self-made files in the official layout."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.flickr8k import CROWD, EXPERTS, FLICKR8K, FLICKR8K_CROWD, TOKENS
from unbag.types import Estimate, FloatArray, Item

from .small import flickr8k_tokens


def write(folder: Path, **files: str) -> Path:
    names = {"tokens": TOKENS, "experts": EXPERTS, "crowd": CROWD}
    for name, text in files.items():
        (folder / names[name]).write_text(text)
    return folder


TWO = "".join("\t".join(row) + "\n" for row in flickr8k_tokens(2))
Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def rating(item: Item) -> FloatArray:
    return np.asarray(item.truth, dtype=np.float64)


def test_three_experts_are_three_ratings_of_one_pair(
    tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    photo(tmp_path / "Flicker8k_Dataset/0_a.jpg")
    lines = "0_a.jpg\t1_a.jpg#2\t1\t2\t4\n1_a.jpg\t0_a.jpg#0\t3\t3\t3\n"
    items = FLICKR8K.load(write(tmp_path, tokens=TWO, experts=lines))
    assert [item.id for item in items][:3] == ["expert 1/1", "expert 2/1", "expert 3/1"]
    assert [float(rating(item)[0, 0]) for item in items] == [1, 2, 4, 3, 3, 3]
    assert {item.captions for item in items[:3]} == {("caption 2 of 1 .",)}
    assert {item.group for item in items} == {"0_a.jpg", "1_a.jpg"}
    assert items[0].images[0] is items[1].images[0]
    assert items[0].images[0].open().mode == "RGB"


def test_experts_do_not_judge_captions_written_for_the_image(tmp_path: Path) -> None:
    # The second line is such a caption by its words, though it is another image's by name.
    captions = "0.jpg#0\ta dog\n0.jpg.1#1\ta cat\n1.jpg#0\ta dog\n1.jpg#1\ta cow\n"
    lines = "0.jpg\t1.jpg#1\t1\t1\t2\n0.jpg\t1.jpg#0\t4\t4\t4\n0.jpg\t0.jpg.1#1\t4\t4\t4\n"
    items = FLICKR8K.load(write(tmp_path, tokens=captions, experts=lines))
    assert [item.captions for item in items] == [("a cow",)] * 3
    crowd = "0.jpg\t1.jpg#0\t1\t3\t0\n"
    assert len(FLICKR8K_CROWD.load(write(tmp_path, crowd=crowd))) == 1


def test_the_crowd_rates_by_its_share_of_yes(tmp_path: Path) -> None:
    lines = "0_a.jpg\t1_a.jpg#2\t0.333333333333\t1\t2\n"
    (item,) = FLICKR8K_CROWD.load(write(tmp_path, tokens=TWO, crowd=lines))
    assert rating(item)[0, 0] == pytest.approx(1 / 3)


def test_both_share_a_folder() -> None:
    assert FLICKR8K.folder == FLICKR8K_CROWD.folder == "flickr8k"
    assert (FLICKR8K.headline, FLICKR8K_CROWD.headline) == ("tau_c", "tau_b")
