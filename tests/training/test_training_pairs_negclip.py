"""NegCLIP's TSV as pairs: negatives and near rows, and lists that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbag.data.readers import open_pairs
from unbag.errors import UnbagError

from .pair_files import image

HEADER = "\ttitle\tfilepath\tneg_caption\tneg_image\n"


def tsv(folder: Path, *rows: str) -> Path:
    for shade, name in enumerate("xyz"):
        image(folder / f"{name}.png", shade)
    path = folder / "train.tsv"
    path.write_text(HEADER + "".join(row + "\n" for row in rows))
    return path


def test_rows_with_negatives_and_near_rows(tmp_path: Path) -> None:
    path = tsv(
        tmp_path,
        "0\ta dog on a sofa\tx.png\t['a sofa on a dog', \"it's\"]\t[2, 1, 0]",
        "1\t a  dog again\tx.png\t[]\t[2]",
        "2\ta cup\ty.png\t['cup a']\t[]",
    )
    pairs = open_pairs(str(path))
    assert len(pairs) == 3
    assert pairs.has_edits
    assert pairs.about == "NegCLIP's TSV train.tsv: 3 images, 3 captions"
    first = pairs[0]
    assert (first.id, first.captions) == ("row 0", ("a dog on a sofa",))
    [edits] = first.edits
    assert [(e.text, e.kind, e.is_positive) for e in edits] == [
        ("a sofa on a dog", "neg_clip_swap", False),
        ("it's", "neg_clip_swap", False),
    ]
    assert first.nearest == (2, 1), "no image is its own neighbour"
    assert pairs[1].captions == ("a dog again",)
    assert pairs[1].edits == ((),)
    assert pairs[2].nearest == ()


def test_near_rows_whose_images_are_missing_are_left_out(tmp_path: Path) -> None:
    path = tsv(
        tmp_path,
        "0\ta\tgone.png\t[]\t[1]",
        "1\tb\tx.png\t[]\t[0, 2]",
        "2\tc\ty.png\t[]\t[1]",
    )
    pairs = open_pairs(str(path), skips_missing=True)
    assert [pairs[place].nearest for place in (0, 1)] == [(1,), (0,)]


@pytest.mark.parametrize(
    ("row", "found", "expected"),
    [
        (
            "0\ta\tx.png\t['b'\t[]",
            "train.tsv, line 2: neg_caption is \"['b'\"",
            "a list of texts as Python writes it",
        ),
        (
            "0\ta\tx.png\t[1]\t[]",
            "train.tsv, line 2: neg_caption is '[1]'",
            "a list of texts as Python writes it",
        ),
        (
            "0\ta\tx.png\t[]\t[True]",
            "train.tsv, line 2: neg_image is '[True]'",
            "a list of numbers of rows as Python writes it",
        ),
        (
            "0\ta\tx.png\t[]\t7",
            "train.tsv, line 2: neg_image is '7'",
            "a list of numbers of rows as Python writes it",
        ),
        (
            "0\ta\tx.png\t[]\t[1]",
            "train.tsv, line 2: neg_image contains row 1",
            "numbers from 0 to 0, as there are 1 rows",
        ),
        ("0\t \tx.png\t[]\t[]", "train.tsv, line 2 has an empty title", "a caption"),
        ("0\ta\tx.png", "train.tsv, line 2 has 3 columns", "5, as the header"),
    ],
)
def test_bad_rows(tmp_path: Path, row: str, found: str, expected: str) -> None:
    with pytest.raises(UnbagError) as caught:
        open_pairs(str(tsv(tmp_path, row)))
    assert caught.value.message == found
    assert caught.value.expected == expected


def test_a_plain_table_is_no_tsv_of_negclip(tmp_path: Path) -> None:
    image(tmp_path / "x.png", 0)
    (tmp_path / "t.tsv").write_text("title\tfilepath\na dog\tx.png\n")
    assert open_pairs(str(tmp_path / "t.tsv"))[0].captions == ("a dog",)
    with pytest.raises(
        UnbagError, match=r"t\.tsv has no column neg_caption, neg_image, only title"
    ):
        open_pairs(str(tmp_path / "t.tsv"), form="negclip")
