"""ARO's relations and attributions: crops, and macro averages with what they leave out."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.aro import (
    ARO_ATTRIBUTION,
    ARO_RELATION,
    ATTRIBUTION_FILE,
    EXCLUDED_RELATIONS,
    RELATION_FILE,
    load_attribution,
    load_relation,
)
from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.types import Estimate, FloatArray, Item

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
BOX = {"bbox_x": 5, "bbox_y": 6.0, "bbox_w": 7, "bbox_h": 8}


def row(**more: object) -> dict[str, object]:
    return {"image_path": "1.jpg", "true_caption": "a", "false_caption": "b", **BOX, **more}


def write(root: Path, name: str, rows: list[dict[str, object]]) -> None:
    (root / name).write_text(json.dumps(rows))


def test_the_true_caption_comes_first_and_the_image_is_cropped(tmp_path: Path) -> None:
    write(tmp_path, RELATION_FILE, [row(relation_name="on")])
    (item,) = load_relation(tmp_path)
    assert item.captions == ("a", "b")
    assert item.images == (FileImage(tmp_path / "images" / "1.jpg", (5, 6, 7, 8)),)


def test_relations_average_as_in_the_example_and_leave_out_the_list(
    tmp_path: Path, numbers: Numbers
) -> None:
    # methods.md 3.3: on 1110, near 00, under 1; near is on the list of exclusions.
    outcomes = {"on": "1110", "near": "00", "under": "1"}
    rows = [
        row(relation_name=relation, true_caption=right)
        for relation, each in outcomes.items()
        for right in each
    ]
    write(tmp_path, RELATION_FILE, rows)

    def score(item: Item) -> FloatArray:
        return np.array([[float(str(item.captions[0])), 0.5]])

    found = numbers(ARO_RELATION, load_relation(tmp_path), score)
    value = {rule: metrics["accuracy"].value for rule, metrics in found.items()}
    assert value == pytest.approx(
        {
            "macro(relation, without 157)": (3 / 4 + 1) / 2,
            "macro(relation)": 0.583333,
            "micro": 0.571429,
        },
        abs=1e-6,
    )


def test_pairs_of_fewer_than_25_cases_are_left_out(tmp_path: Path, numbers: Numbers) -> None:
    rows = [row(attributes=["red", "wet"])] * 25 + [row(attributes=["wet", "red"])] * 24
    write(tmp_path, ATTRIBUTION_FILE, rows)

    def score(item: Item) -> FloatArray:
        return np.array([[float(item.tags["pair"] == "red_wet"), 0.5]])

    found = numbers(ARO_ATTRIBUTION, load_attribution(tmp_path), score)
    assert found["macro(pair, n>=25)"]["accuracy"].value == 1
    assert found["macro(pair)"]["accuracy"].value == pytest.approx(1 / 2)
    assert found["micro"]["accuracy"].value == pytest.approx(25 / 49)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bbox_w": 0}, "record 0: a box of 0 x 8 pixels"),
        ({"bbox_x": None}, "record 0.bbox_x is null"),
        ({"bbox_x": True}, "record 0.bbox_x is True"),
        ({"bbox_y": "1"}, "record 0.bbox_y is '1'"),
        ({"attributes": ["red"]}, "record 0: 1 attributes"),
    ],
)
def test_a_wrong_box_or_pair_is_named(
    tmp_path: Path, more: dict[str, object], message: str
) -> None:
    write(tmp_path, ATTRIBUTION_FILE, [row(**{"attributes": ["red", "wet"], **more})])
    with pytest.raises(UnbagError, match=message):
        load_attribution(tmp_path)


def test_the_list_of_exclusions_is_whole() -> None:
    assert len(EXCLUDED_RELATIONS) == 157
    assert {"near", "next to", "on the other side of", "around"} <= EXCLUDED_RELATIONS
    assert not {"on", "in", "to the left of", "under", "wearing"} & EXCLUDED_RELATIONS
    assert all(name == " ".join(name.split()) for name in EXCLUDED_RELATIONS)
