"""VALSE: the validity filter, the official counts, and its two macro averages."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.valse import INSTRUMENTS, VALSE, load, load_valid
from unbag.types import Estimate, FloatArray, Item

ROWS = {
    "existence": (534, 505),
    "plurals": (1000, 851),
    "counting-hard": (1000, 868),
    "counting-small-quant": (1000, 900),
    "counting-adversarial": (756, 691),
    "relations": (614, 535),
    "action-replacement": (779, 648),
    "actant-swap": (1042, 949),
    "coreference-standard": (916, 708),
    "coreference-hard": (141, 104),
    "foil-it": (1000, 943),
}


def write(root: Path, rows: Mapping[str, Mapping[str, object]]) -> None:
    for instrument in INSTRUMENTS:
        (root / f"{instrument}.json").write_text(json.dumps(rows))


def row(votes: object = 3, image: str = "1.jpg") -> dict[str, object]:
    mturk = {"foil": 0, "caption": votes, "other": 0}
    return {"image_file": image, "caption": "a", "foil": "b", "mturk": mturk}


def test_the_official_files_have_their_counts(official: Path) -> None:
    all_items, valid = load(official / "valse"), load_valid(official / "valse")
    assert len(all_items) == 8782
    assert Counter(i.tags["instrument"] for i in all_items) == {k: n for k, (n, _) in ROWS.items()}
    assert Counter(i.tags["instrument"] for i in valid) == {k: n for k, (_, n) in ROWS.items()}
    assert sum(item.captions[0] == item.captions[1] for item in all_items) == 24


def test_fewer_than_two_votes_are_no_item(tmp_path: Path) -> None:
    write(tmp_path, {"x": row(1), "y": row(2), "z": row(3)})
    valid = [item.id for item in load_valid(tmp_path)]
    assert valid[:3] == ["existence/y", "existence/z", "plurals/y"]
    assert len(load(tmp_path)) == 33


def test_macro9_averages_counting_first(
    tmp_path: Path, numbers: Callable[..., Mapping[str, Mapping[str, Estimate]]]
) -> None:
    write(tmp_path, {"x": row()})

    def only_counting(item: Item) -> FloatArray:
        return np.array([[float("counting" in item.id), 0.5]])

    results = numbers(VALSE, load(tmp_path), only_counting)
    assert results["macro11"]["accuracy"].value == pytest.approx(3 / 11)
    assert results["macro9"]["accuracy"].value == pytest.approx(1 / 9)
    assert results["macro counting"]["accuracy"].value == 1
    assert results["micro"]["accuracy"].value == pytest.approx(3 / 11)


def test_coreference_finds_both_halves_of_coco(tmp_path: Path) -> None:
    root = tmp_path / "valse"
    for folder in (root, tmp_path / "coco" / "train2014", tmp_path / "coco" / "val2014"):
        folder.mkdir(parents=True)
    names = [f"COCO_{half}_000000000001.jpg" for half in ("train2014", "val2014")]
    write(root, {name: row(image=name) for name in names})
    results = [item for item in load(root) if item.tags["instrument"] == "coreference-standard"]
    for item, name in zip(results, names, strict=True):
        assert item.images[0].name.endswith(f"../coco/{name[5:].partition('_')[0]}/{name}")
