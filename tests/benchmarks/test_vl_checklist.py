"""VL-CheckList: absent files are said, rows are pairs, and nine columns are averaged."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.vl_checklist import COLUMNS, FILES, SOURCES, VL_CHECKLIST, load
from unbag.errors import UnbagError
from unbag.types import Estimate, FloatArray, Item

SPATIAL = "Relation/vg/spatial.json"


def write(root: Path, file: str, content: object) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(json.dumps(content))


def test_the_release_has_56_files_in_nine_columns() -> None:
    assert len(FILES) == len(set(FILES)) == 56
    assert Counter(source.column for source in SOURCES) == {
        **dict.fromkeys(COLUMNS[:5], 2),
        "object location": 21,
        "object size": 21,
        "relation action": 3,
        "relation spatial": 1,
    }


def test_the_official_files_that_are_at_hand_have_their_counts(official: Path) -> None:
    root = official / "vl_checklist"
    with pytest.warns(UserWarning, match="49 of 56 files are absent"):
        items = load(root)
    assert Counter(item.tags["file"] for item in items) == {
        "Attribute/vg/action": 1892,
        "Attribute/vg/color": 11569,
        "Attribute/vg/material": 2470,
        "Attribute/vg/size": 2695,
        "Attribute/vg/state": 941,
        "Relation/vg/action": 12733,
        "Relation/vg/spatial": 30650,
    }
    assert sum(item.captions[0] == item.captions[1] for item in items) == 108
    assert sum(not (root / name).is_file() for name in FILES) == 49


def test_absent_files_are_named(tmp_path: Path) -> None:
    write(tmp_path, SPATIAL, [["VG_100K/1.jpg", {"POS": ["a", "b"], "NEG": ["c"]}]])
    with pytest.warns(UserWarning, match=r"55 of 56 .*Attribute/vg/action.json.* and 45 more"):
        (item,) = load(tmp_path)
    assert item.captions == ("a", "c")
    assert item.id == "Relation/vg/spatial/0"


def test_no_file_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="none of its 56 files is in"):
        load(tmp_path)


def test_files_are_averaged_within_columns_and_columns_within_the_whole(
    tmp_path: Path, numbers: Callable[..., Mapping[str, Mapping[str, Estimate]]]
) -> None:
    for source in SOURCES:
        write(tmp_path, source.file, [["1.jpg", {"POS": ["a"], "NEG": ["b"]}]])

    def score(item: Item) -> FloatArray:
        """Right on spatial relations and on one of the 21 files of object location."""
        right = item.tags["file"] in (
            "Relation/vg/spatial",
            "Object/Location/vg_location/vg_obj_mid",
        )
        return np.array([[float(right), 0.5]])

    results = numbers(VL_CHECKLIST, load(tmp_path), score)
    value = {rule: metrics["accuracy"].value for rule, metrics in results.items()}
    assert value["macro9"] == pytest.approx((1 + 1 / 21) / 9)
    assert value["macro3"] == pytest.approx((1 / 2 + 1 / 21 / 2) / 3)
    assert value["macro relation"] == pytest.approx(1 / 2)
    assert value["macro object location"] == pytest.approx(1 / 21)
    assert value["micro"] == pytest.approx(2 / 56)
