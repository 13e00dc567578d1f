"""The image of how decoders learned: a line for each base that was asked on the way."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

import pytest

from unbag.reports.charts import set_apart
from unbag_lab.experiments.decoders import CURVE
from unbag_lab.pages.curves import PATCHES, TOKEN, learned_of, learning_figure
from unbag_lab.results import RESULTS, ArmResult, shipped_results


def result(arm: str, base: int, curve: Mapping[str, float] | None) -> ArmResult:
    numbers = {} if curve is None else {CURVE: dict(curve)}
    return ArmResult("readouts", f"tiny-{base}", f"{base}", arm, 1, 1, 0, 1, "float32", None,
                     numbers)  # fmt: skip


def test_curves_are_those_of_the_arm_in_the_order_of_bases_and_steps() -> None:
    results = [
        result(PATCHES, 10, {"10": 0.9, "2": 0.5}),
        result(PATCHES, 9, {"2": 0.5, "10": 0.8}),
        result(PATCHES, 1, None),
        result(TOKEN, 2, {"2": 0.5}),
    ]
    found = learned_of(PATCHES, results)
    assert list(found) == ["tiny-9", "tiny-10"]
    assert list(found["tiny-10"].items()) == [(2, 0.5), (10, 0.9)]


def test_no_curves_no_image() -> None:
    assert learning_figure([result(PATCHES, 0, None)]) == ""


@pytest.mark.parametrize(("share", "y"), [(1.0, 30.0), (0.7, 145.0), (0.4, 260.0)])
def test_a_line_ends_where_its_base_does(share: float, y: float) -> None:
    drawn = learning_figure([result(PATCHES, 3, {"10": 0.4, "20": share})])
    assert f'd="M327.0 260.0L610.0 {y:.1f}"' in drawn
    assert f"<title>tiny-3, 20 steps: {100 * share:.1f}</title>" in drawn


def test_names_do_not_lie_upon_each_other() -> None:
    assert set_apart({"a": 10.0, "b": 8.0, "c": 60.0}) == {"b": 8.0, "a": 24.0, "c": 60.0}


def test_the_shipped_image_has_every_base_that_was_asked() -> None:
    results = shipped_results()
    drawn = learning_figure(results)
    root = ET.fromstring(drawn)
    lines = [one for one in root.iter() if one.get("class", "").startswith("line ")]
    asked = sum(CURVE in one.numbers for one in results)
    assert len(lines) == asked == (RESULTS / "readouts.json").read_text().count(f'"{CURVE}"')
    texts = {one.text for one in root.iter() if one.tag.endswith("}text")}
    assert set(learned_of(PATCHES, results)) <= texts
    assert "nan" not in drawn
