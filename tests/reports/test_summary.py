"""Verdicts against chance and the blind baseline, worked out by hand, and the summary."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.reports.layout import lay_out
from unbag.reports.summary import (
    Standing,
    against_blind,
    against_chance,
    chance_legend,
    summarise,
    verdicts,
)
from unbag.types import Comparison, Estimate, EvalProtocol, Result, RunContents, RunRecord

NAN = float("nan")
RECORD = RunRecord("unbag run", "2026-01-02T03:04:05Z", 0, "cpu", {}, {})


def result(
    scorer: str, benchmark: str, found: Estimate, *, blind: bool = False, metric: str = "accuracy"
) -> Result:
    protocol = EvalProtocol(scoring="caption only" if blind else "cosine")
    return Result(benchmark, scorer, protocol, "micro", metric, {metric: found}, is_blind=blind)


def rate(value: float, half: float = 0.05, chance: float | None = 0.5, ties: int = 0) -> Estimate:
    return Estimate(value, value - half, value + half, 100, ties=ties, chance=chance)


@pytest.mark.parametrize(
    ("low", "high", "chance", "second", "standing"),
    [
        (0.51, 0.60, 0.5, None, "above"),
        (0.50, 0.60, 0.5, None, "at"),
        (0.40, 0.50, 0.5, None, "at"),
        (0.40, 0.49, 0.5, None, "below"),
        (0.40, 0.49, None, None, "unknown"),
        (NAN, NAN, 0.5, None, "unknown"),
        # Two chance levels, 1/3 and 1/4: only clear of both is above or below.
        (0.34, 0.40, 1 / 3, 0.25, "above"),
        (0.26, 0.32, 1 / 3, 0.25, "at"),
        (0.24, 0.32, 1 / 3, 0.25, "at"),
        (0.20, 0.24, 1 / 3, 0.25, "below"),
    ],
)
def test_against_chance(
    low: float, high: float, chance: float | None, second: float | None, standing: Standing
) -> None:
    middle = (low + high) / 2
    estimate = Estimate(middle, low, high, 100, chance=chance, chance_independent=second)
    assert against_chance(estimate) == standing


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_at_chance_is_exactly_the_interval_holding_chance(a: float, b: float, c: float) -> None:
    low, high = sorted((a, b))
    estimate = Estimate(low, low, high, 10, chance=c)
    assert (against_chance(estimate) == "at") == (low <= c <= high)


@pytest.mark.parametrize(
    ("value", "blind", "standing"),
    [(0.9, 0.5, "above"), (0.55, 0.5, "at"), (0.5, 0.71, "below")],
)
def test_against_blind_by_intervals(value: float, blind: float, standing: Standing) -> None:
    assert against_blind(rate(value), rate(blind)) == standing


def test_against_blind_prefers_the_paired_comparison() -> None:
    paired = Comparison("b", "accuracy", "blind", "model", 0.05, 0.01, 0.09, 100, 0.01, 0.01)
    assert against_blind(rate(0.55), rate(0.5)) == "at"
    assert against_blind(rate(0.55), rate(0.5), paired) == "above"
    assert against_blind(rate(0.55), None) == "unknown"


def run_of(*results: Result, comparisons: tuple[Comparison, ...] = ()) -> RunContents:
    return RunContents(RECORD, results, comparisons)


def test_the_paragraph_names_each_group_with_its_numbers() -> None:
    run = run_of(
        result("m", "replace", rate(0.998, 0.001)),
        result("m", "relation", rate(0.503)),
        result("m", "order", rate(0.0, 0.0, 0.2, ties=100)),
        result("m", "negation", rate(0.6, 0.02)),
        result("len", "negation", rate(0.712), blind=True),
    )
    seen, blind = summarise(lay_out(run))
    assert seen.subject == "m"
    assert seen.text == (
        "is above chance on 2 of 4 benchmarks (replace 99.8, negation 60.0), "
        "at chance on 1 (relation 50.3 against 50.0) and below chance on 1 "
        "(order 0.0 with 100 of 100 tied against 20.0). "
        "It falls below the blind baseline on negation (60.0; len 71.2)."
    )
    assert blind.subject == "len"
    assert blind.text == (
        "never sees an image and is still above chance on 1 of 1 benchmark "
        "(negation 71.2 against 50.0): these can be solved "
        "in part from the captions alone."
    )


def test_two_chance_levels_are_a_range() -> None:
    between = replace(rate(0.29, 0.02, 1 / 3), chance_independent=0.25)
    (paragraph,) = summarise(lay_out(run_of(result("m", "swap", between))))
    assert paragraph.text == "is at chance on 1 of 1 benchmark (swap 29.0 against 25.0 to 33.3)."


def test_the_legend_mentions_two_levels_only_if_there_are_two() -> None:
    one, two = rate(0.5), replace(rate(0.29), chance_independent=0.25)
    assert chance_legend(lay_out(run_of(result("m", "swap", one)))) == (
        "= the interval contains chance"
    )
    assert chance_legend(lay_out(run_of(result("m", "swap", two)))) == (
        "= the interval contains chance or lies between its two levels"
    )


def test_a_tie_with_the_blind_baseline_is_mentioned_only_above_chance() -> None:
    run = run_of(
        result("m", "texture", rate(0.6)),
        result("m", "swap", rate(0.5)),
        result("len", "texture", rate(0.58), blind=True),
        result("len", "swap", rate(0.5), blind=True),
    )
    text = summarise(lay_out(run))[0].text
    assert text.endswith("It does not beat the blind baseline on texture (60.0; len 58.0).")


def test_a_blind_baseline_at_chance() -> None:
    run = run_of(result("len", "swap", rate(0.5), blind=True))
    (paragraph,) = summarise(lay_out(run))
    assert paragraph.text == (
        "never sees an image, and is above chance on no benchmark, as it should be."
    )


def test_the_best_of_several_blind_baselines_counts() -> None:
    run = run_of(
        result("m", "swap", rate(0.6)),
        result("weak", "swap", rate(0.3), blind=True),
        result("strong", "swap", rate(0.8), blind=True),
    )
    layout = lay_out(run)
    (verdict,) = verdicts(layout, layout.columns[0])
    assert (verdict.blind, verdict.blind_text) == ("below", "strong 80.0")


def test_a_reversed_comparison_changes_its_sign() -> None:
    made = Comparison("swap", "accuracy", "m", "len", -0.05, -0.09, -0.01, 100, 0.01, 0.01)
    layout = lay_out(
        run_of(result("m", "swap", rate(0.55)), result("len", "swap", rate(0.5), blind=True))
    )
    assert verdicts(layout, layout.columns[0], [made])[0].blind == "above"


def test_long_lists_are_counted_and_missing_chance_is_mentioned() -> None:
    many = [result("m", f"b{at}", rate(0.9)) for at in range(7)]
    assert (
        "(b0 90.0, b1 90.0, b2 90.0, b3 90.0; 3 more)" in summarise(lay_out(run_of(*many)))[0].text
    )
    assert "all 7 benchmarks" in summarise(lay_out(run_of(*many)))[0].text
    none = run_of(result("m", "b", rate(0.9, chance=None)))
    assert summarise(lay_out(none))[0].text == "was measured where no chance level is known."


def test_without_measurements_there_is_no_summary() -> None:
    assert summarise(lay_out(run_of(result("m", "b", Estimate(NAN, NAN, NAN, 0))))) == ()


def test_each_benchmark_has_one_verdict_by_its_first_rule() -> None:
    first = result("m", "sugarcrepe", rate(0.7))
    macro = replace(first, aggregate="macro3", overall={"accuracy": rate(0.5)})
    official = replace(first, protocol=EvalProtocol(ties="half"), overall={"accuracy": rate(0.2)})
    (paragraph,) = summarise(lay_out(run_of(first, macro, official)))
    assert paragraph.text == "is above chance on 1 of 1 benchmark (sugarcrepe 70.0)."
