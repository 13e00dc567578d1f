"""The image of thresholds: a panel for each arm that was recorded, a line for each base."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from unbag_lab.experiments.repair import SHARES
from unbag_lab.pages.curves import KINDS, THRESHOLD_ARMS, threshold_figure, thresholds_of
from unbag_lab.results import ArmResult, shipped_results


def result(arm: str, base: int, height: float, experiment: str = "default") -> ArmResult:
    numbers = {"threshold-swap": {f"{share}%": height for share in SHARES}}
    return ArmResult(experiment, f"tiny-{base}", f"{base}", arm, 1, 1, 0, 1, "float32", None,
                     numbers)  # fmt: skip


def test_curves_are_those_of_the_arm_and_whole() -> None:
    half = ArmResult("default", "tiny-2", "2", "ce_clip", 1, 1, 0, 1, "float32", None,
                     {"threshold-swap": {"1%": 0.5, "largest": 1.0}})  # fmt: skip
    results = [result("ce_clip", 0, 0.25), half, result("ce_clip", 1, 0.5, experiment="ordered")]
    assert thresholds_of("ce_clip", results) == {"swap": [dict.fromkeys(SHARES, 0.25)]}
    assert thresholds_of("ce_clip_fixed", results) == {}


def test_no_curves_no_image() -> None:
    assert threshold_figure([]) == ""


@pytest.mark.parametrize(("height", "y"), [(0.0, 160.0), (0.5, 95.0), (1.0, 30.0), (2.0, 30.0)])
def test_a_line_ends_where_its_threshold_does(height: float, y: float) -> None:
    drawn = threshold_figure([result("ce_clip", 0, height)])
    assert drawn.count(f'664.0 {y:.1f}"') == 2  # the base, and the mean of one
    assert "ce_clip, as printed: 1 base<" in drawn


def test_the_shipped_image_has_every_arm_kind_and_base() -> None:
    results = shipped_results()
    drawn = threshold_figure(results)
    root = ET.fromstring(drawn)
    lines = [one for one in root.iter() if one.get("class", "").startswith("line ")]
    bases = sum(
        len(some) for arm in THRESHOLD_ARMS for some in thresholds_of(arm, results).values()
    )
    assert len(lines) == bases + 2 * len(THRESHOLD_ARMS) * len(
        KINDS
    )  # with means, and marks beside names
    assert "nan" not in drawn
