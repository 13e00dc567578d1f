"""The curve over the mixing weight: what is measured, which weight is kept, what is written."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from unbag.errors import UnbagError
from unbag.training.before_after import Side
from unbag.training.merge import (
    ChosenWeight,
    Curve,
    CurvePoint,
    CurveValue,
    Mix,
    check_weights,
    choose,
    curve_axis,
    curve_csv,
    curve_json,
    curve_markdown,
    curve_page,
    curve_table,
    measure_curve,
    mix,
    ticks_of,
)
from unbag.types import Estimate

from .small_world import FIND, SWAP, small

SIDES: dict[str, Side] = {"small-swap": "composition", "small-find": "recognition"}


def mixes(weights: tuple[float, ...] = (0.0, 0.5, 1.0)) -> tuple[Mix, ...]:
    return mix(small(0), small(1), weights)


def measured(out: Path, made: tuple[Mix, ...], pick: float | None = 0.5) -> Curve:
    return measure_curve(
        made, names=("old", "new"), benchmarks=[SWAP, FIND], sides=SIDES, out=out, pick=pick
    )


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> Curve:
    return measured(tmp_path_factory.mktemp("curve") / "run", mixes())


def point(weight: float, composition: float, recognition: float) -> CurvePoint:
    """Two benchmarks and one of brittleness, which must not count."""
    rows: list[tuple[str, Side, str, float]] = [
        ("a", "composition", "augmented", composition),
        ("a", "composition", "brittleness", 0.9),
        ("b", "recognition", "accuracy", recognition),
        ("b", "recognition", "brittleness", 0.9),
        ("c", "neither", "tau_c", 0.1),
    ]
    values = (CurveValue(b, s, m, "micro", Estimate(v, v, v, 10), None) for b, s, m, v in rows)
    return CurvePoint(weight, "print", tuple(values))


def test_every_weight_has_every_number(curve: Curve) -> None:
    assert [p.weight for p in curve.points] == [0.0, 0.5, 1.0]
    for one in curve.points:
        found = {(v.benchmark, v.metric): v for v in one.values}
        assert set(found) == {
            ("small-swap", "augmented"),
            ("small-swap", "brittleness"),
            ("small-find", "text_to_image@1"),
        }
        assert found["small-swap", "augmented"].estimate.n == 24
        assert found["small-find", "text_to_image@1"].estimate.n == 12
        assert one.composition == found["small-swap", "augmented"].estimate.value
        assert one.recognition == found["small-find", "text_to_image@1"].estimate.value
        assert one.brittleness == found["small-swap", "brittleness"].estimate.value


def test_differences_are_from_weight_0(curve: Curve) -> None:
    start = {(v.benchmark, v.metric): v.estimate.value for v in curve.points[0].values}
    assert all(value.change is None for value in curve.points[0].values)
    for one in curve.points[1:]:
        for value in one.values:
            assert value.change is not None
            assert (value.change.first, value.change.second) == ("mix 0", f"mix {one.weight:g}")
            apart = value.estimate.value - start[value.benchmark, value.metric]
            assert value.change.difference == pytest.approx(apart, abs=1e-12)


def test_a_stopped_curve_goes_on(
    curve: Curve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = mixes()

    def stop(captions: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(made[2].encoder, "encode_texts", stop)
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "run", made)
    again = mixes()
    # What was scored before the stop is not asked for again.
    monkeypatch.setattr(again[0].encoder, "encode_texts", stop)
    monkeypatch.setattr(again[1].encoder, "encode_texts", stop)
    found = measured(tmp_path / "run", again)
    assert replace(found, folder=curve.folder) == curve


def test_most_composition_within_the_budget_is_kept() -> None:
    points = [point(0, 0.5, 0.9), point(0.5, 0.7, 0.89), point(1, 0.8, 0.88)]
    assert choose(points, 1.0).weight == 0.5
    assert choose(points, 2.0).weight == 1
    assert choose(points, 0.5).weight == 0
    why = choose(points, 0.5).why
    assert "lose at most 0.5 points of recognition" in why
    assert "chosen on these benchmarks" in why
    assert "at most 1 point of" in choose(points).why


def test_of_equals_the_nearest_to_the_base_is_kept() -> None:
    points = [point(0, 0.5, 0.9), point(0.5, 0.7, 0.9), point(1, 0.7, 0.95)]
    assert choose(points).weight == 0.5


def test_a_side_without_a_number_is_an_error() -> None:
    with pytest.raises(UnbagError, match="a weight could not be chosen: a side has no number"):
        choose([replace(point(0, 0.5, 0.5), values=())])


def test_weights_are_sorted_and_start_at_the_base() -> None:
    assert check_weights([1, 0.5, 0.5], None) == (0.0, 0.5, 1.0)
    assert check_weights([1], 0.3) == (0.0, 0.3, 1.0)


@pytest.mark.parametrize("weight", [-0.1, 1.5, float("nan")])
def test_weights_outside_are_refused(weight: float) -> None:
    with pytest.raises(UnbagError, match=r"the weight .*\n  expected: a number from 0 to 1"):
        check_weights([0.5, weight], None)


def test_the_base_alone_is_no_curve() -> None:
    with pytest.raises(UnbagError, match="no weight besides 0, which is the base itself"):
        check_weights([0.0], None)


def test_one_side_alone_needs_a_weight(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="no recognition benchmark among small-swap") as caught:
        measure_curve(
            mixes(),
            names=("old", "new"),
            benchmarks=[SWAP],
            sides={"small-swap": "composition"},
            out=tmp_path / "run",
        )
    assert "choose the weight yourself with --pick" in str(caught.value)


def test_json_and_csv_hold_every_number(curve: Curve) -> None:
    said = json.loads(curve_json(curve))
    assert said["chosen"] == {"weight": 0.5, "why": "given with --pick", "budget": None}
    assert [p["weight"] for p in said["points"]] == [0, 0.5, 1]
    assert said["points"][1]["composition"] == curve.points[1].composition
    rows = list(csv.DictReader(StringIO(curve_csv(curve))))
    assert len(rows) == 3 * 3
    values = [value for p in curve.points for value in p.values]
    assert [float(row["value"]) for row in rows] == [value.estimate.value for value in values]
    assert [row["is_chosen"] for row in rows] == ["False"] * 3 + ["True"] * 3 + ["False"] * 3
    assert {row["difference"] for row in rows[:3]} == {""}


def test_the_table_marks_what_is_kept() -> None:
    points = (point(0, 0.5, 0.9), point(1, 0.625, 0.89))
    found = Curve("old", "new", points, ChosenWeight(1, "so"), 1.0, Path("run"))
    console = Console(file=StringIO(), width=120)
    console.print(curve_table(found))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert any(line.split() == ["0", "50.0", "90.0", "90.0"] for line in lines)
    last = ["1", "62.5", "(+12.5)", "89.0", "(-1.0)", "90.0", "(+0.0)", "chosen"]
    assert any(line.split() == last for line in lines)


def test_the_card_has_base_and_mix(curve: Curve) -> None:
    lines = curve_markdown(curve).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 3
    assert table[2].startswith("| composition | small-swap | augmented | ")
    assert "- 0.5 of the tuned weights: given with --pick." in lines


def test_the_page_shows_points_and_escapes_names(curve: Curve) -> None:
    page = curve_page(replace(curve, base="<script>alert(1)</script>", budget=1.0))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count('<g class="mark s0">') == 3
    assert page.count('<circle class="ring"') == 1
    assert "weight 0.5: recognition" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_points_that_lie_on_each_other_share_a_name() -> None:
    points = (point(0, 0.5, 0.9), point(0.5, 0.5, 0.9), point(1, 0.8, 0.5))
    page = curve_page(Curve("old", "new", points, ChosenWeight(1, "so"), None, Path("run")))
    assert ">0, 0.5</text>" in page


def test_a_page_of_one_side_says_so() -> None:
    alone = replace(point(0, 0.5, 0.9), values=point(0, 0.5, 0.9).values[:1])
    page = curve_page(Curve("a", "b", (alone,), ChosenWeight(0, "so"), None, Path("run")))
    assert "No curve: benchmarks of one side only." in page


def test_axis_by_hand() -> None:
    axis = curve_axis([0.5, 0.88])
    # A margin of .12 at each end: .38 is .76 of the axis, which is .5 long.
    assert (axis.low, axis.high) == pytest.approx((0.44, 0.94))
    assert axis.part(0.69) == pytest.approx(0.5)
    assert ticks_of(axis) == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9])


def test_no_tick_above_everything() -> None:
    assert max(ticks_of(curve_axis([0.9, 1.0]))) == pytest.approx(1.0)
