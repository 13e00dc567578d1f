"""Axes, strips, words and views of the verdict page, with known answers."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from io import BytesIO
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unbag.probes.base import (
    Bar,
    Bars,
    Known,
    Lines,
    Maps,
    ProbeData,
    Scatter,
    ScatterPoint,
    Series,
    WordMap,
)
from unbag.probes.diagnosis.charts import MAX_POINTS, bar, column_of, lines, references, scatter
from unbag.probes.diagnosis.page import AGAINST, NEAR, plot_views, render_diagnosis
from unbag.probes.diagnosis.text import counted, gap_sentence, standing
from unbag.probes.maps import examples
from unbag.reports.charts import Axis
from unbag.reports.formatting import estimate_text
from unbag.types import Estimate

from .made_diagnosis import HOSTILE, MODEL, OTHER, answer, made
from .small_probes import small_material

FINITE = st.floats(-1e6, 1e6)


@given(st.lists(FINITE, min_size=1, max_size=5))
def test_an_axis_holds_its_values_and_has_ticks(values: list[float]) -> None:
    axis = Axis.over(values)
    assert all(0 <= axis.part(value) <= 1 for value in values)
    assert axis.low < min(values)
    assert axis.high > max(values)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(axis.low - 1e-6 <= tick <= axis.high + 1e-6 for tick in ticks)
    assert len({axis.text(tick) for tick in ticks}) == len(ticks)


def test_rates_run_from_0_to_100() -> None:
    axis = Axis.of_rates([0.2, nan, 0.9])
    assert (axis.low, axis.high) == (0, 1)
    assert [axis.text(tick) for tick in axis.ticks()] == ["0", "20", "40", "60", "80", "100"]
    assert axis.place(0.25) == "25.00%"
    assert Axis.of_rates([1.2]).high > 1.2
    assert Axis.of_rates([1.2]).low < 0


def test_an_axis_without_numbers_is_one_all_the_same() -> None:
    axis = Axis.over([nan, inf])
    assert axis.low < 0 < 1 < axis.high
    assert Axis.over([2, 2]).part(2) == pytest.approx(0.5)
    assert Axis.over([0]).part(0) == pytest.approx(0.5)
    assert axis.part(99) == 1


def test_equal_references_share_a_line() -> None:
    found = references(Known(bag=0.5, perfect=1.0, chance=0.5))
    assert [(one.names, one.value, one.kind) for one in found] == [
        (("bag of words", "chance"), 0.5, "bag"),
        (("perfect",), 1.0, "perfect"),
    ]
    assert references(Known()) == ()
    assert [one.kind for one in references(Known(chance=0.25, bag=nan))] == ["chance"]


def test_a_bar_starts_at_zero_on_either_side() -> None:
    axis = Axis(-1, 1)
    for value, start in ((0.5, "50.00%"), (-0.5, "25.00%")):
        drawn = bar(axis, value=value, low=nan, high=nan, chance=None, column=column_of(0))
        assert f'x="{start}" y="4" width="25.00%"' in drawn
        assert "whisker" not in drawn
    none = bar(axis, value=nan, low=nan, high=nan, chance=0.5, column=column_of(0))
    assert "rect" not in none
    assert "ref chance" in none


def test_a_scatter_draws_what_is_finite_and_says_what_it_leaves_out() -> None:
    points = tuple(ScatterPoint(i, i, f"g{i % 3}", HOSTILE) for i in range(MAX_POINTS + 10))
    plot = Scatter("t", "x", "y", (ScatterPoint(nan, 1), *points))
    found = scatter(plot, [plot])
    assert found.body.count("<circle") == MAX_POINTS
    assert found.more == "11 more points are not drawn."
    assert [name for _, name in found.legend] == ["g0", "g1", "g2"]
    assert "<script>" not in found.body


def test_two_scatters_side_by_side_have_one_axis() -> None:
    small = Scatter("t", "x", "y", (ScatterPoint(0, 0),))
    large = Scatter("t", "x", "y", (ScatterPoint(10, 10),))
    (view,) = plot_views([("a", [small]), ("b", [large])])
    assert [side.model for side in view.sides] == ["a", "b"]
    first, second = (side.numbers for side in view.sides)
    assert first == second
    titles = [one.title for one in plot_views([("a", [small]), ("b", [replace(large, title="u")])])]
    assert titles == ["t", "u"]


def test_a_curve_of_one_point_is_a_mark() -> None:
    plot = Lines("t", "layer", "y", (Series("s", (3,), (0.5,), (0.4,), (0.6,)),), chance=0.5)
    found = lines(plot, [plot])
    assert 'class="curve' not in found.body
    assert found.body.count('class="mark') == 1
    assert "s 3: 50.0 %" in found.body
    gap = Lines("t", "layer", "y", (Series("s", (0, 1, 2), (0.1, nan, 0.3)),), is_rate=False)
    assert lines(gap, [gap]).body.count('class="mark') == 2


def test_bars_without_a_value_say_so() -> None:
    (view,) = plot_views([("a", [Bars("t", (Bar("b", nan, nan, nan), Bar("c", 0.5, 0.4, 0.6)))])])
    assert [one.text for one in view.sides[0].bars] == ["–", "50.0 % [40.0, 60.0]"]


def test_estimates_as_people_read_them() -> None:
    assert estimate_text(Estimate(0.741, 0.731, 0.751, 9), with_unit=True) == "74.1 % [73.1, 75.1]"
    assert estimate_text(Estimate(0.9731, nan, nan, 9, is_rate=False), with_unit=True) == "0.973"
    assert estimate_text(Estimate(nan, nan, nan, 0), with_unit=True) == "–"


@pytest.mark.parametrize(
    ("value", "better", "said"),
    [
        (0.2, "higher", "tiny:base is above tiny:hard_negative by +20.0 [+10.0, +30.0] points, "
         "which is better."),
        (0.2, "lower", "tiny:base is above tiny:hard_negative by +20.0 [+10.0, +30.0] points, "
         "which is worse."),
        (-0.2, "lower", "tiny:base is below tiny:hard_negative by -20.0 [-30.0, -10.0] points, "
         "which is better."),
        (-0.2, "neither", "tiny:base is below tiny:hard_negative by -20.0 [-30.0, -10.0] points."),
        (0.05, "higher", "No significant difference between the two models: +5.0 [-5.0, +15.0] "
         "points."),
    ],
)  # fmt: skip
def test_a_difference_is_called_one_only_if_the_interval_is(
    value: float, better: str, said: str
) -> None:
    one = answer("order", "fails", 0.5)
    made = replace(one.differences[0], difference=value, low=value - 0.1, high=value + 0.1)
    quantities = (replace(one.finding.quantities[0], better=better),)  # type: ignore[arg-type]
    finding = replace(one.finding, quantities=quantities)
    assert gap_sentence(replace(one, finding=finding), made) == said


def test_tones_are_counted_in_words() -> None:
    found = made()
    assert counted(found.answers) == "1 fails, 1 holds, 1 is mixed and 1 is a fact"
    assert counted([found.answers[0]] * 2) == "2 fail"
    assert counted([]) == ""
    assert standing(found) == "not finished: 5 questions so far"


def test_the_page_says_what_is_missing() -> None:
    page = render_diagnosis(made(against=False))
    assert "not finished" not in page
    assert "compared with" not in page
    assert "How much is the prior?" in page
    assert "<script" not in page
    nothing = replace(made(), answers=made().answers[-1:], maps=(), is_whole=False)
    page = render_diagnosis(nothing)
    assert f"No probe could run on <strong>{MODEL}</strong>" in page
    assert "not finished: 1 question so far" in page
    assert "No probe has a plot." in page


def test_the_page_tells_why_the_other_was_not_asked() -> None:
    first = answer("order", "fails", 0.5)
    assert first.other is not None
    assert first.random_init is not None
    alone = replace(first, other=replace(first.other, skipped="it sleeps"), other_verdict=None)
    page = render_diagnosis(replace(made(), answers=(alone,)))
    assert f"<li>{OTHER}: skipped; it sleeps</li>" in page
    both = replace(alone, random_init=replace(first.random_init, skipped="it sleeps"))
    assert "it sleeps" not in render_diagnosis(replace(made(), answers=(both,)))


def test_examples_are_a_pair_of_sides_and_a_swap_of_colours() -> None:
    material = small_material()
    found = examples(material)
    pairs = material.pairs
    assert pairs[0].captions is not None
    assert pairs[2].captions is not None
    assert [image for image, _ in found] == [pairs[0].first, pairs[0].second, pairs[2].first]
    assert [caption for _, caption in found] == [*pairs[0].captions, pairs[2].captions[0]]
    rows = replace(material, pairs=())
    assert all(caption in {row.caption for row in rows.rows} for _, caption in examples(rows))
    assert examples(ProbeData("nothing")) == ()


@pytest.mark.parametrize(
    ("is_signed", "expected"),
    [
        # From the lowest of each word, 4 wide in all: the first word's range.
        (False, [(*NEAR, 0), (*NEAR, 48), (*NEAR, 142), (*NEAR, 190)]),
        # From zero, 3 at most.
        (True, [(*AGAINST, 190), (*AGAINST, 127), (*NEAR, 0), (*NEAR, 63)]),
    ],
)
def test_a_map_glows_from_its_lowest_or_from_zero(
    is_signed: bool, expected: list[tuple[int, ...]]
) -> None:
    words = (WordMap("star", ((-3, -2), (0, 1))), WordMap("cup", ((0.5, 0.5), (0.5, 0.5))))
    (view,) = plot_views(
        [("a model", [Maps("a model", "data:,", "star cup", words, "", is_signed)])]
    )
    star, cup = view.sides[0].tiles
    assert star.text == "-3.00 to 1.00"
    assert _pixels(star.glow) == expected
    flat = (*NEAR, 32) if is_signed else (*NEAR, 0)
    assert _pixels(cup.glow) == [flat] * 4


def test_small_numbers_have_another_digit() -> None:
    words = (WordMap("star", ((0.0, 0.0156), (0.0, 0.0))),)
    (view,) = plot_views([("a model", [Maps("a model", "data:,", "star", words)])])
    assert view.sides[0].tiles[0].text == "0.000 to 0.016"
    words = (WordMap("star", ((-0.001, 0.2), (0.0, 0.0))),)
    (view,) = plot_views([("a model", [Maps("a model", "data:,", "star", words)])])
    assert view.sides[0].tiles[0].text == "0.00 to 0.20"
    words = (WordMap("star", ((-0.001, 0.0042), (0.0, 0.0))),)
    (view,) = plot_views([("a model", [Maps("a model", "data:,", "star", words)])])
    assert view.sides[0].tiles[0].text == "-0.0010 to 0.0042"


def _pixels(address: str) -> list[tuple[int, ...]]:
    image = Image.open(BytesIO(b64decode(address.partition(",")[2])))
    return [image.getpixel((x, y)) for y in range(2) for x in range(2)]  # type: ignore[misc]
