"""Charts are well-formed SVG with the values where they belong and every text escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from unbag.reports import charts
from unbag.reports.layout import Column, MetricRow
from unbag.types import Estimate

MODEL, BLIND = Column("m", "m", False, 0), Column("length", "length", True, 1)
ROW = MetricRow(
    "accuracy",
    (Estimate(0.75, 0.5, 0.875, 8, chance=0.25), Estimate(0.25, 0.125, 0.5, 8, chance=0.25)),
)


def draw(row: MetricRow = ROW, *, name: str = "swap", bars: bool = False) -> ET.Element:
    columns = (MODEL, BLIND)
    return ET.fromstring(
        charts.strip(row, columns, name=name, scale=charts.scale_for([row]), bars=bars)
    )


def lines(drawing: ET.Element, kind: str) -> list[tuple[str, str]]:
    found = [line for line in drawing.iter("line") if line.get("class", "").startswith(kind)]
    return [(line.get("x1", ""), line.get("x2", "")) for line in found]


def test_values_intervals_and_chance_lie_where_they_belong() -> None:
    drawing = draw()
    assert [mark.get("x") for mark in drawing.iter("svg")][1:] == ["75.00%", "25.00%"]
    assert lines(drawing, "whisker") == [("50.00%", "87.50%"), ("12.50%", "50.00%")]
    assert lines(drawing, "chance") == [("25.00%", "25.00%")]


def test_both_chance_levels_are_drawn() -> None:
    row = MetricRow(
        "augmented", (Estimate(0.3, 0.2, 0.4, 8, chance=0.5, chance_independent=0.25), None)
    )
    assert lines(draw(row), "chance") == [("50.00%", "50.00%"), ("25.00%", "25.00%")]


def test_what_was_not_measured_is_not_drawn() -> None:
    row = MetricRow("accuracy", (Estimate(float("nan"), float("nan"), float("nan"), 0), None))
    assert lines(draw(row), "whisker") == []
    assert len(list(draw(row).iter("svg"))) == 1


def test_the_axis_grows_for_a_ratio_above_one_and_never_runs_off() -> None:
    row = MetricRow("retention", (Estimate(1.25, 1.0, 1.5, 8), None))
    assert charts.scale_for([row]).high == 1.25
    assert lines(draw(row), "whisker") == [("80.00%", "100.00%")]
    assert charts.Axis(0.0, 1.0).place(-0.2) == "0.00%"


def test_bars_run_from_zero_to_the_value() -> None:
    bars = [r for r in draw(bars=True).iter("rect") if "bar" in r.get("class", "")]
    assert [(bar.get("x"), bar.get("width")) for bar in bars] == [("0", "75.00%"), ("0", "25.00%")]
    assert not [r for r in draw().iter("rect") if "bar" in r.get("class", "")]


def test_a_reader_who_does_not_see_gets_the_numbers() -> None:
    drawing = draw()
    assert drawing.get("role") == "img"
    assert drawing.findtext("title") == "swap"
    assert drawing.findtext("desc") == (
        "m 75.0 [50.0, 87.5]; length 25.0 [12.5, 50.0]; chance 25.0"
    )


def test_hostile_names_stay_text(hostile_text: str) -> None:
    column = Column(hostile_text, hostile_text, False, 0)
    row = MetricRow("accuracy", (ROW.estimates[0],))
    svg = charts.strip(row, [column], name=hostile_text, scale=charts.Axis(0.0, 1.0))
    assert "<script" not in svg
    assert svg.count("</svg>") == 2
    assert ET.fromstring(svg).findtext("title") == hostile_text


def test_marks_differ_by_form_and_blind_ones_by_class() -> None:
    marks = [charts.mark(Column("m", "m", False, at)) for at in range(30)]
    assert len(set(marks)) == 30
    assert 'class="mark blind"' in charts.mark(BLIND)
    assert ET.fromstring(charts.key(charts.mark(MODEL))).get("class") == "key"
    assert "75%" in charts.axis(charts.Axis(0.0, 1.0))
