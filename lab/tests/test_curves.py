"""Figures of curves: thresholds of losses, and the accuracy of decoders during training."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

import pytest

from unbag.reports.charts import set_apart
from unbag_lab.experiments.decoders import CURVE
from unbag_lab.experiments.repair import SHARES
from unbag_lab.pages.curves import (
    KINDS,
    PATCHES,
    THRESHOLD_ARMS,
    TOKEN,
    learned_of,
    learning_figure,
    threshold_figure,
    thresholds_of,
)
from unbag_lab.results import RESULTS, ArmResult, shipped_results


def result(
    arm: str, base: int, name: str, curve: Mapping[str, float], experiment: str = "default"
) -> ArmResult:
    numbers = {name: dict(curve)} if curve else {}
    return ArmResult(experiment, f"tiny-{base}", f"{base}", arm, 1, 1, 0, 1, "float32", None,
                     numbers)  # fmt: skip


def learned(arm: str, base: int, curve: Mapping[str, float]) -> ArmResult:
    return result(arm, base, CURVE, curve)


def threshold(base: int, height: float, experiment: str = "default") -> ArmResult:
    curve = {f"{share}%": height for share in SHARES}
    return result("ce_clip", base, "threshold-swap", curve, experiment)


def drawn_lines(figure: str) -> tuple[list[ET.Element], set[str | None]]:
    """Its lines and texts."""
    elements = list(ET.fromstring(figure).iter())
    lines = [one for one in elements if one.get("class", "").startswith("line ")]
    return lines, {one.text for one in elements if one.tag.endswith("}text")}


def test_curves_of_decoders_are_sorted_by_base_and_step() -> None:
    results = [
        learned(PATCHES, 10, {"10": 0.9, "2": 0.5}),
        learned(PATCHES, 9, {"2": 0.5, "10": 0.8}),
        learned(PATCHES, 1, {}),
        learned(TOKEN, 2, {"2": 0.5}),
    ]
    curves = learned_of(PATCHES, results)
    assert list(curves) == ["tiny-9", "tiny-10"]
    assert list(curves["tiny-10"].items()) == [(2, 0.5), (10, 0.9)]


def test_curves_of_thresholds_are_complete_and_of_one_arm() -> None:
    incomplete = result("ce_clip", 2, "threshold-swap", {"1%": 0.5, "largest": 1.0})
    results = [threshold(0, 0.25), incomplete, threshold(1, 0.5, experiment="ordered")]
    assert thresholds_of("ce_clip", results) == {"swap": [dict.fromkeys(SHARES, 0.25)]}
    assert thresholds_of("ce_clip_fixed", results) == {}


def test_without_curves_there_is_no_figure() -> None:
    assert learning_figure([learned(PATCHES, 0, {})]) == threshold_figure([]) == ""


@pytest.mark.parametrize(("share", "y"), [(1.0, 30.0), (0.7, 145.0), (0.4, 260.0)])
def test_a_line_of_accuracy_ends_at_the_last_value(share: float, y: float) -> None:
    figure = learning_figure([learned(PATCHES, 3, {"10": 0.4, "20": share})])
    assert f'd="M327.0 260.0L610.0 {y:.1f}"' in figure
    assert f"<title>tiny-3, 20 steps: {100 * share:.1f}</title>" in figure


@pytest.mark.parametrize(("height", "y"), [(0.0, 160.0), (0.5, 95.0), (1.0, 30.0), (2.0, 30.0)])
def test_a_line_of_thresholds_ends_at_the_last_value(height: float, y: float) -> None:
    figure = threshold_figure([threshold(0, height)])
    assert figure.count(f'664.0 {y:.1f}"') == 2  # the base, and the mean of one
    assert "ce_clip, as printed: 1 base<" in figure


def test_names_do_not_overlap() -> None:
    assert set_apart({"a": 10.0, "b": 8.0, "c": 60.0}) == {"b": 8.0, "a": 24.0, "c": 60.0}


def test_shipped_curves_of_decoders_are_all_drawn() -> None:
    results = shipped_results()
    figure = learning_figure(results)
    lines, texts = drawn_lines(figure)
    count = sum(CURVE in one.numbers for one in results)
    assert len(lines) == count == (RESULTS / "readouts.json").read_text().count(f'"{CURVE}"')
    assert set(learned_of(PATCHES, results)) <= texts
    assert "nan" not in figure


def test_shipped_curves_of_thresholds_are_all_drawn() -> None:
    results = shipped_results()
    figure = threshold_figure(results)
    lines, _ = drawn_lines(figure)
    curves = (curves for arm in THRESHOLD_ARMS for curves in thresholds_of(arm, results).values())
    # With means, and marks beside names.
    assert len(lines) == sum(map(len, curves)) + 2 * len(THRESHOLD_ARMS) * len(KINDS)
    assert "nan" not in figure
