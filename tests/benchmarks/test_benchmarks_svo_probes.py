"""SVO-Probes from a self-made table with the official columns."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from unbag.benchmarks.svo_probes import FILE, SVO_PROBES
from unbag.errors import UnbagError
from unbag.types import Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
HEAD = [
    *("sentence", "pos_triplet", "neg_triplet", "pos_url", "neg_url", "pos_image_id"),
    *("neg_image_id", "subj_neg", "verb_neg", "obj_neg"),
]


def row(n: int, part: int, sentence: str = "A girl stands in the grass.") -> list[object]:
    flags = [str(part == place) for place in range(3)]
    triplets = ["girl,stand,grass", "girl,sit,grass"]
    return [sentence, *triplets, "http://a/1", "http://a/2", 2 * n, 2 * n + 1, *flags]


def write(folder: Path, rows: list[list[object]]) -> Path:
    with (folder / FILE).open("w", newline="") as file:
        csv.writer(file).writerows([HEAD, *rows])
    return folder


def test_a_row_is_two_images_and_a_sentence(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "images/0.jpg")
    items = SVO_PROBES.load(write(tmp_path, [row(0, 0), row(1, 1), row(2, 2, "A dog runs.")]))
    assert items[0].captions == ("A girl stands in the grass.",)
    assert items[0].truth.shape == (2, 1)
    assert items[0].images[0].open().mode == "RGB"
    assert [item.tags["negative"] for item in items] == ["subject", "verb", "object"]
    assert items[0].group == items[1].group != items[2].group


def test_known_scorers(tmp_path: Path, numbers: Numbers) -> None:
    items = SVO_PROBES.load(write(tmp_path, [row(n, n % 3, f"Sentence {n}.") for n in range(1200)]))
    for score, value in (("perfect", 1), ("constant", 0)):
        for found in numbers(SVO_PROBES, items, score).values():
            assert found["image_accuracy"].value == value
    random = numbers(SVO_PROBES, items, "random")["macro(negative)"]["image_accuracy"]
    assert random.value == pytest.approx(0.5, abs=0.05)
    assert random.chance == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, " ", "row 1: sentence is empty"),
        (5, "", "row 1: pos_image_id is empty"),
        (8, "True", "row 1: subj_neg, verb_neg, obj_neg are 'True', 'True', 'False'"),
        (7, "1", "row 1: subj_neg, verb_neg, obj_neg are '1', 'False', 'False'"),
    ],
)
def test_bad_rows_are_named(place: int, value: str, message: str, tmp_path: Path) -> None:
    bad = row(0, 0)
    bad[place] = value
    with pytest.raises(UnbagError, match=message):
        SVO_PROBES.load(write(tmp_path, [bad]))


def test_a_table_without_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("sentence,pos_image_id\nA dog.,1\n")
    with pytest.raises(UnbagError, match="has no column 'neg_image_id'"):
        SVO_PROBES.load(tmp_path)
