"""Nearest images: by hand, against a matrix product, and with the command."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unbag.cli.main import main
from unbag.data import neighbours as module
from unbag.data.neighbours import find_images, nearest, nearest_images, write_neighbours
from unbag.errors import UnbagError
from unbag.runs.progress import Silent


def unit(rows: Sequence[Sequence[float]]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    array = np.array(rows, np.float32)
    found: np.ndarray[tuple[int, int], np.dtype[np.float32]] = array / np.linalg.norm(
        array, axis=1, keepdims=True
    )
    return found


def test_by_hand() -> None:
    vectors = unit([[1, 0], [0, 1], [1, 0.1], [0.1, 1]])
    assert nearest(vectors, 2).tolist() == [[2, 3], [3, 2], [0, 3], [1, 2]]


def test_equal_vectors_are_neighbours_and_never_oneself() -> None:
    vectors = unit([[1, 0]] * 4 + [[0, 1]])
    found = nearest(vectors, 3)
    assert all(own not in row for own, row in enumerate(found.tolist()))
    assert set(found[0].tolist()) <= {1, 2, 3, 4}


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 40), st.integers(1, 5), st.integers(0, 9))
def test_it_agrees_with_a_matrix_product(number: int, each: int, seed: int) -> None:
    each = min(each, number - 1)
    vectors = unit(np.random.default_rng(seed).normal(size=(number, 8)).tolist())
    cosine = vectors @ vectors.T
    np.fill_diagonal(cosine, -2)
    expected = np.take_along_axis(cosine, np.argsort(-cosine, axis=1)[:, :each], axis=1)
    found = np.take_along_axis(cosine, nearest(vectors, each), axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit(np.random.default_rng(0).normal(size=(30, 8)).tolist())
    whole = nearest(vectors, 3)
    monkeypatch.setattr(module, "BLOCK", 7)
    done: list[int] = []
    np.testing.assert_array_equal(nearest(vectors, 3, advance=done.append), whole)
    assert done == [7, 7, 7, 7, 2]


@pytest.mark.parametrize("each", [0, 2, 3])
def test_too_few_images(each: int) -> None:
    with pytest.raises(UnbagError, match=f"{each} neighbours of 2 images") as error:
        nearest(unit([[1, 0], [0, 1]]), each)
    assert "--k" in error.value.hint


def test_two_names_of_one_image_are_one(photos: Path) -> None:
    images = find_images(["red.png", "twin.png"], photos)
    embed = cast(Callable[..., Any], None)
    with pytest.raises(UnbagError, match="1 neighbours of 1 images"):
        nearest_images(images, embed, each=1, progress=Silent())


def test_without_faiss_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UnbagError, match="needs FAISS") as error:
        nearest(unit([[1, 0], [0, 1]]), 1)
    assert "unbag[neighbours]" in error.value.hint


def test_missing_images_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"2 of 2 images are not below .*, such as a\.png, b\.png"):
        find_images(["a.png", "b.png", "a.png"], tmp_path)
    with pytest.raises(UnbagError, match="the caption file contains no image paths") as error:
        find_images(["", ""], tmp_path)
    assert "--image-column" in error.value.hint


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four colours, one of them twice, and a file that is no image."""
    colours = {
        "red": (220, 0, 0),
        "crimson": (190, 10, 20),
        "blue": (0, 0, 220),
        "sea": (0, 30, 200),
    }
    names = []
    for name, colour in colours.items():
        Image.new("RGB", (64, 64), colour).save(tmp_path / f"{name}.png")
        names.append(f"{name}.png")
    (tmp_path / "twin.png").write_bytes((tmp_path / "red.png").read_bytes())
    (tmp_path / "odd.png").write_bytes(b"no image")
    rows = [
        {"image": name, "captions": ["a dog sits on a sofa", "a cup is under a table"]}
        for name in (*names, "twin.png", "odd.png")
    ]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_command_and_the_table_of_negclip(
    photos: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    near = photos / "near.jsonl"
    files = ["--captions", str(photos / "captions.jsonl")]
    command = ["nearest", *files, "--images", str(photos), "--model", "tiny:base"]
    assert main([*command, "--out", str(near), "--k", "1", "--no-cache"]) == 0
    printed = capsys.readouterr().out
    assert "5 images with 1 neighbours each, by tiny:base" in printed
    assert "skipped" in printed
    assert "odd.png" in printed
    found = {
        row["image"]: row["neighbours"] for row in map(json.loads, near.read_text().splitlines())
    }
    assert set(found) == {"red.png", "crimson.png", "blue.png", "sea.png", "twin.png"}
    assert found["blue.png"] == ["sea.png"]
    assert found["twin.png"] == found["red.png"] != ["red.png"]

    table = tmp_path / "train.tsv"
    options = ["--kinds", "swap_nouns", "--format", "negclip", "--neighbours", str(near)]
    assert main(["edit", *files, *options, "--out", str(table)]) == 0
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    image_of = [row["filepath"] for row in rows]
    for row in rows:
        indices = ast.literal_eval(row["neg_image"])
        expected = found.get(row["filepath"], [])
        assert {image_of[i] for i in indices} == set(expected)


@pytest.mark.parametrize(
    ("out", "content", "more", "words"),
    [
        ("near.jsonl", None, ["--k", "6"], "6 neighbours of 6 images"),
        ("near.jsonl", None, ["--model", "caption:short"], "caption:short has no image embeddings"),
        ("captions.jsonl", None, [], "is the caption file"),
        ("./captions.jsonl", None, [], "is the caption file"),
        ("linked.jsonl", None, [], "is the caption file"),
        (".", None, [], "exists and is not a neighbours file"),
        ("mine.jsonl", b"", [], "exists and is not a neighbours file"),
        ("mine.jsonl", b"notes of mine", [], "exists and is not a neighbours file"),
        ("mine.jsonl", b"caf\xe9", [], "exists and is not a neighbours file"),
        ("mine.jsonl", b'{"image": "a.png"}\n', [], "exists and is not a neighbours file"),
        ("mine.jsonl", b'{"image": "a.png", "neighbours": [], "caption": "a cup"}\n', [],
         "exists and is not a neighbours file"),
        ("mine.jsonl", b'{"image": "a.png", "neighbours": []}\nmore\n', [],
         "exists and is not a neighbours file"),
        ("red.png/near.jsonl", None, [], "cannot write to the folder"),
    ],
)  # fmt: skip
def test_the_command_refuses_before_it_loads_a_model(
    photos: Path, capsys: pytest.CaptureFixture[str], out: str, content: bytes | None,
    more: list[str], words: str,
) -> None:  # fmt: skip
    (photos / "linked.jsonl").symlink_to(photos / "captions.jsonl")
    if content is not None:
        (photos / out).write_bytes(content)
    before = {path: path.read_bytes() for path in photos.iterdir()}
    files = ["--captions", str(photos / "captions.jsonl"), "--images", str(photos)]
    # There is no such model, so the error comes before one is loaded.
    command = ["nearest", *files, "--out", str(photos / out), "--model", "no:such", *more]
    assert main(command) == 1
    assert words in capsys.readouterr().err
    assert {path: path.read_bytes() for path in photos.iterdir()} == before


def test_a_new_folder_is_created_and_neighbours_are_replaced(photos: Path) -> None:
    files = ["--captions", str(photos / "captions.jsonl"), "--images", str(photos)]
    out = photos / "new" / "near.jsonl"
    command = ["nearest", *files, "--model", "tiny:base", "--no-cache", "--out", str(out)]
    assert main([*command, "--k", "1"]) == 0
    assert main([*command, "--k", "2"]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {len(row["neighbours"]) for row in rows} == {2}


def test_a_write_error_at_the_end_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"cannot write .*near\.jsonl: No such file or directory"):
        write_neighbours(tmp_path / "gone" / "near.jsonl", {"a.png": ["b.png"]})
