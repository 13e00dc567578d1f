"""The table of the terminal, as plain text and with styles."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from unbag.reports.join import merge_runs
from unbag.reports.terminal import terminal_table
from unbag.types import Estimate, EvalProtocol, Result, RunContents, RunRecord


def printed(run: RunContents, width: int, *, terminal: bool = False) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
    )
    console.print(terminal_table(run))
    return file.getvalue()


def test_at_100_columns_a_metric_is_one_line(run: RunContents) -> None:
    lines = printed(run, 100).splitlines()
    (line,) = [line for line in lines if line.split()[:2] == ["original", "99.8"]]
    assert line.split() == [
        "original", "99.8", "[99.3–99.9]", "49.4=", "[46.3–52.5]", "50.3=", "[47.2–53.4]", "50.0",
    ]  # fmt: skip
    assert max(len(line) for line in lines) <= 100


def test_at_80_columns_an_interval_stays_whole(run: RunContents) -> None:
    lines = printed(run, 80).splitlines()
    assert max(len(line) for line in lines) <= 80
    at = next(i for i, line in enumerate(lines) if line.split()[:2] == ["original", "99.8"])
    assert lines[at].split() == ["original", "99.8", "49.4=", "50.3=", "50.0"]
    assert lines[at + 1].split() == ["[99.3–99.9]", "[46.3–52.5]", "[47.2–53.4]"]
    assert any("caption:length" in line for line in lines)


def test_piped_output_is_plain_and_a_terminal_dims_chance(run: RunContents) -> None:
    assert "\x1b" not in printed(run, 100)
    assert "\x1b[2m 50.3=" in printed(run, 100, terminal=True)


def test_ties_and_invalid_items_stand_beside_the_name_once(run: RunContents) -> None:
    lines = [line.split() for line in printed(run, 100).splitlines()]
    assert ["world-swap", "1,000", "ties"] in lines
    assert ["world-count", "1", "invalid"] in lines
    assert "world-texture" in [line[0] for line in lines if len(line) == 1]


def test_the_legend_explains_the_signs(run: RunContents) -> None:
    text = " ".join(printed(run, 100).split())
    meaning = "= the interval contains chance or lies between its two levels"
    assert f"percent [interval]; {meaning}; ↓ lower is better" in text
    assert "blind: never sees an image" in text
    assert "percent [interval]; = the interval contains chance\n" in printed(many(1), 100)


def test_what_stands_once_is_said_under_the_table() -> None:
    text = printed(merge_runs([many(1), many(1)], folders=["runs/b", "runs/b"]), 100)
    assert text.endswith("\nruns/b was given more than once and is shown once\n")


@pytest.mark.parametrize("width", [80, 100])
def test_markup_in_names_is_text(width: int) -> None:
    record = RunRecord("", "", 0, "cpu", {}, {})
    found = {"accuracy": Estimate(float("nan"), float("nan"), float("nan"), 0, ties=2)}
    result = Result("[red]b[/]", "[bold]m", EvalProtocol(), "micro", "accuracy", found)
    other = Result("[red]b[/]", "n", EvalProtocol(), "micro", "accuracy", {})
    text = printed(RunContents(record, (result, other)), width)
    assert "[red]b[/]" in text
    assert "[bold]m" in text
    assert "2 ties" in text
    assert "↓" not in text


def test_ties_of_another_metric_are_shown_in_its_own_row() -> None:
    record = RunRecord("", "", 0, "cpu", {}, {})
    found = {
        "individual": Estimate(0.5, 0.4, 0.6, 10, chance=0.5),
        "pair": Estimate(0.25, 0.2, 0.3, 5, ties=1, chance=0.25),
    }
    result = Result("b", "m", EvalProtocol(), "micro", "individual", found)
    lines = [line.split() for line in printed(RunContents(record, (result,)), 80).splitlines()]
    assert lines[lines.index(["pair", "25.0=", "[20.0–30.0]", "25.0"]) + 1] == ["1", "tie"]


def many(count: int) -> RunContents:
    """One benchmark and many scorers, each with a number of its own."""
    record = RunRecord("", "", 0, "cpu", {}, {})
    results = [
        Result("bench mark", f"scorer:number-{at}", EvalProtocol(), "micro", "accuracy",
               {"accuracy": Estimate(0.10 + at / 100, 0.05, 0.35, 100, chance=0.2)})
        for at in range(count)
    ]  # fmt: skip
    return RunContents(record, tuple(results))


def test_a_long_name_of_several_words_takes_no_column_away() -> None:
    long = "a name of many words that is " * 2
    run = many(3)
    named = replace(run, results=tuple(replace(r, benchmark=long) for r in run.results))
    text = printed(named, 80)
    assert text.count("20.0") == 3
    assert all(f"{10 + at}.0" in text for at in range(3))


@pytest.mark.parametrize("width", [30, 40, 60, 80, 110, 150, 200, 10_000])
def test_no_number_is_lost_at_any_width(width: int) -> None:
    text = printed(many(8), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert all(f"{10 + at}.0" in text for at in range(8))
    assert "…" not in text
    assert "".join(text.split()).count("percent[interval]") == 1


@pytest.mark.parametrize(("width", "tables"), [(60, 4), (100, 2), (200, 1), (10_000, 1)])
def test_each_of_the_few_tables_names_benchmarks_and_chance(width: int, tables: int) -> None:
    # 13 for the names, 18 a scorer and 8 for chance: 2 scorers at 60 columns and 4 at 100.
    lines = [line.split() for line in printed(many(8), width).splitlines()]
    heads = [line for line in lines if line[:1] == ["benchmark"]]
    rows = [line for line in lines if line[:1] == ["accuracy"]]
    assert [line[-1] for line in heads] == ["chance"] * tables
    assert [line[-1] for line in rows] == ["20.0"] * tables


@pytest.mark.parametrize("width", range(50, 120))
def test_names_of_any_length_leave_room_for_chance(width: int) -> None:
    names = ["tiny:base", "tiny:hard_negative", "tiny:random", "caption:short"]
    run = many(4)
    results = (replace(r, scorer=n) for r, n in zip(run.results, names, strict=True))
    text = printed(replace(run, results=tuple(results)), width)
    lines = [line.split() for line in text.splitlines()]
    heads = [line for line in lines if line[:1] == ["benchmark"]]
    assert {line[-1] for line in heads} == {"chance"}
    assert [name for line in heads for name in line[1:-1]] == names
