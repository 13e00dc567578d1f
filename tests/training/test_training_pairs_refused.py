"""What is wrong with a collection of pairs is said before training, with a way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unbag.data.readers import open_pairs
from unbag.errors import UnbagError

from .pair_files import DOG, MAN, lines, negative, said, two_images, two_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return two_images(tmp_path)


def test_missing_images_are_all_found_before_training(folder: Path) -> None:
    gone = [{"image": f"gone{n}.png", "caption": DOG} for n in range(6)]
    near = lines(folder / "near.jsonl", {"image": "in/y.png", "neighbours": ["gone0.png", "x.png"]})
    path = lines(
        folder / "a.jsonl",
        *gone,
        {"image": "x.png", "caption": DOG},
        {"image": "in/y.png", "caption": MAN},
    )
    with pytest.raises(UnbagError) as caught:
        open_pairs(str(path))
    assert caught.value.message == (
        "6 of 8 images of JSON lines a.jsonl are missing: "
        "gone0.png, gone1.png, gone2.png, gone3.png, gone4.png, ..."
    )
    assert caught.value.expected == f"files below {folder}"
    assert "--missing skip" in caught.value.hint
    pairs = open_pairs(str(path), skips_missing=True, neighbours=near)
    assert [one[0] for one in said(pairs)] == ["x.png", "in/y.png"]
    assert pairs[1].nearest == (0,), "places are those of the pairs that stay"
    assert pairs.about.endswith("2 images, 2 captions, 6 missing ones left out")
    with pytest.raises(UnbagError, match="6 of 6 images") as caught:
        open_pairs(str(lines(folder / "b.jsonl", *gone)), skips_missing=True)
    assert caught.value.hint == "give their folder with --images"


def test_captions_without_images_and_without_words(folder: Path) -> None:
    path = lines(folder / "a.jsonl", {"caption": DOG})
    with pytest.raises(UnbagError, match=r"a.jsonl, line 1 has no image") as caught:
        open_pairs(str(path))
    assert "--image-column" in caught.value.hint
    empty = lines(folder / "b.jsonl", {"image": "x.png", "caption": "  "})
    with pytest.raises(UnbagError, match=r"JSON lines b.jsonl holds no pairs"):
        open_pairs(str(empty))
    some = {"image": "x.png", "captions": [" ", DOG], "edits": [[], [negative("b")]]}
    assert said(open_pairs(str(lines(folder / "c.jsonl", some)))) == [
        ("x.png", (DOG,), [[("b", "swap_nouns", False)]])
    ]


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ("no", "a.jsonl, line 1: edits is 'no'"),
        (["no"], "a.jsonl, line 1: an edit is 'no'"),
        ([{"text": "b"}], "field a.jsonl, line 1, edits.kind is missing"),
    ],
)
def test_broken_edits(folder: Path, edits: object, found: str) -> None:
    path = lines(folder / "a.jsonl", {"image": "x.png", "caption": DOG, "edits": edits})
    with pytest.raises(UnbagError) as caught:
        open_pairs(str(path))
    assert caught.value.message == found
    two = {"image": "x.png", "captions": [DOG, MAN], "edits": [[]]}
    with pytest.raises(UnbagError, match="edits is not one list for each of 2 captions"):
        open_pairs(str(lines(folder / "b.jsonl", two)))


def test_broken_lines_can_be_left_out(folder: Path) -> None:
    path = two_lines(folder)
    path.write_text("{no\n" + path.read_text() + json.dumps({"caption": DOG}))
    with pytest.raises(UnbagError, match=r"a\.jsonl, line 1 is not JSON") as caught:
        open_pairs(str(path))
    assert "--bad-lines skip" in caught.value.hint
    pairs = open_pairs(str(path), skips_bad=True)
    assert pairs.about == "JSON lines a.jsonl: 2 images, 3 captions, 2 malformed lines left out"


def test_no_such_file(folder: Path) -> None:
    for name, form in (("b.jsonl", None), ("b", "folders"), ("b-*.tar", None)):
        with pytest.raises(UnbagError, match=r"there is no file .*b") as caught:
            open_pairs(str(folder / name), form=form)
        assert caught.value.hint == "check the path given with --pairs"
    (folder / "b.json").write_text('{"image": "x.png"}\n{}')
    with pytest.raises(UnbagError, match=r"b\.json is not JSON") as caught:
        open_pairs(str(folder / "b.json"))
    assert caught.value.hint == "if it has one record per line, give --pairs-format jsonl"


def test_unknown_forms(folder: Path) -> None:
    with pytest.raises(UnbagError, match="unknown form of pairs 'jsonk'"):
        open_pairs(str(two_lines(folder)), form="jsonk")
    with pytest.raises(UnbagError, match=r"the extension of .*x.png is not that") as caught:
        open_pairs(str(folder / "x.png"))
    assert "--pairs-format" in caught.value.hint
