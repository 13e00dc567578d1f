"""NegCLIP's TSV: as its trainer reads it, with near images and without."""

from __future__ import annotations

import ast
import csv
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from unbag.errors import UnbagError

from .made import CUP, DOG, json_lines, run


def negclip_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def test_the_tsv_of_negclip(tmp_path: Path) -> None:
    json_lines(
        tmp_path / "a.jsonl",
        {"image": "x.jpg", "captions": [DOG, "one", 'it\'s "two" words']},
        {"image": "none.jpg", "caption": "one"},
        {"image": "y.jpg", "caption": CUP},
    )
    near = tmp_path / "near.jsonl"
    json_lines(
        near,
        {"image": "x.jpg", "neighbours": ["none.jpg", "x.jpg", "y.jpg"]},
        {"image": "y.jpg", "neighbours": ["x.jpg"]},
    )
    summary = run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip", neighbours=near)
    header, *rows = negclip_rows(tmp_path / "b.tsv")
    assert header == ["", "title", "filepath", "neg_caption", "neg_image"]
    assert [row[:3] for row in rows] == [
        ["0", DOG, "x.jpg"],
        ["1", 'it\'s "two" words', "x.jpg"],
        ["2", CUP, "y.jpg"],
    ]
    assert [ast.literal_eval(row[3]) for row in rows] == [
        ["dog a on a sofa"],
        ['"two" it\'s words'],
        ["cup a by a plate"],
    ]
    # Row 1 has no second caption of y to meet; row 2 meets the first of x.
    assert [ast.literal_eval(row[4]) for row in rows] == [[2], [2], [0]]
    assert not summary.notes


def test_the_tsv_of_negclip_as_its_trainer_reads_it(tmp_path: Path) -> None:
    """With pandas and a converter for the two lists, as in the public copies of that code."""
    pytest.importorskip("pandas")
    pandas: Any = import_module("pandas")
    caption = 'a "red" dog\'s\tbowl, and a\\b'
    json_lines(tmp_path / "a.jsonl", {"image": "x.jpg", "captions": [caption, DOG]})
    run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip")
    lists = {"neg_caption": ast.literal_eval, "neg_image": ast.literal_eval}
    found = pandas.read_csv(tmp_path / "b.tsv", sep="\t", converters=lists)
    assert found["title"].tolist() == ['a "red" dog\'s bowl, and a\\b', DOG]
    assert found["filepath"].tolist() == ["x.jpg", "x.jpg"]
    assert found["neg_caption"].tolist() == [
        ['"red" a dog\'s bowl, and a\\b'],
        ["dog a on a sofa"],
    ]
    assert found["neg_image"].tolist() == [[], []]


def test_the_tsv_of_negclip_without_near_images_says_so(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.jsonl", {"image": "x.jpg", "caption": DOG})
    summary = run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip")
    assert negclip_rows(tmp_path / "b.tsv")[1][4] == "[]"
    [note] = summary.notes
    assert note.startswith("neg_image is empty in 1 rows; NegCLIP's public training code draws")
    assert note.endswith("give the nearest images with --neighbours")
    near = json_lines(tmp_path / "near.jsonl", {"image": "x.jpg", "neighbours": ["z.jpg"]})
    summary = run(tmp_path / "a.jsonl", tmp_path / "c.tsv", form="negclip", neighbours=near)
    assert summary.notes[0].endswith("has a row: give more neighbours per image")


def test_negclip_needs_images_and_neighbours_need_negclip(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.jsonl", {"caption": DOG})
    with pytest.raises(UnbagError, match=r"1 of 1 captions of .* have no image") as caught:
        run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip")
    assert "--image-column" in caught.value.hint
    near = json_lines(tmp_path / "near.jsonl", {"image": "x.jpg", "neighbours": []})
    with pytest.raises(UnbagError, match="neighbours are given, but the form is tsv"):
        run(tmp_path / "a.jsonl", tmp_path / "b.tsv", neighbours=near)
    json_lines(tmp_path / "c.jsonl", {"caption": DOG, "image": "x"})
    near.write_text("")
    with pytest.raises(UnbagError, match="contains no neighbours"):
        run(tmp_path / "c.jsonl", tmp_path / "d.tsv", form="negclip", neighbours=near)
