"""JSON, CSV and Markdown of a run."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from unbag.reports.exports import CSV_HEAD, to_csv, to_json, to_markdown
from unbag.reports.table import guarded, in_markdown
from unbag.types import Comparison, Estimate, EvalProtocol, Result, RunContents, RunRecord
from unbag.types.json import from_json

NAN = float("nan")
RECORD = RunRecord("unbag run", "2026-01-02T03:04:05Z", 0, "cpu", {}, {})
HALF = Estimate(0.513, 0.482, 0.544, 1000, ties=3, chance=0.5)
RESULT = Result(
    "swap", "m", EvalProtocol(), "macro(kind)", "original", {"original": HALF},
    {"kind=a=b": {"original": Estimate(0.25, 0.1, 0.4, 10)}},
)  # fmt: skip


def rows(run: RunContents) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(run), newline="")))


def test_json_has_the_list_of_results_and_it_comes_back(run: RunContents) -> None:
    read = json.loads(to_json(run))["results"]
    assert [from_json(Result, one, "result") for one in read] == [
        replace(one, run=None) for one in run.results
    ]


def test_json_has_null_for_what_was_not_measured() -> None:
    nothing = replace(RESULT, overall={"original": Estimate(NAN, NAN, NAN, 0)})
    (entry,) = json.loads(to_json(RunContents(RECORD, (nothing,))))["results"]
    assert entry["overall"]["original"]["value"] is None


def test_csv_has_a_row_for_each_result_tag_and_metric(run: RunContents) -> None:
    expected = sum(
        len(r.overall) + sum(len(found) for found in r.by_tag.values()) for r in run.results
    )
    assert len(rows(run)) == expected


def test_csv_rows_by_hand() -> None:
    overall, by_tag = rows(RunContents(RECORD, (RESULT,)))
    assert tuple(overall) == CSV_HEAD
    assert overall == {
        "benchmark": "swap", "scorer": "m", "protocol": "cosine, ties=wrong",
        "aggregate": "macro(kind)", "is_blind": "false", "is_headline": "true", "tag": "",
        "tag_value": "", "metric": "original", "value": "0.513", "low": "0.482", "high": "0.544",
        "n": "1000", "ties": "3", "invalid": "0", "unparsed": "0", "chance": "0.5",
        "chance_independent": "", "interval": "wilson", "is_rate": "true", "source": "",
    }  # fmt: skip
    assert (by_tag["tag"], by_tag["tag_value"], by_tag["aggregate"]) == ("kind", "a=b", "micro")


def test_comparisons_are_in_json_and_markdown(run: RunContents) -> None:
    first = json.loads(to_json(run))["comparisons"][0]
    assert from_json(Comparison, first, "comparison") == run.comparisons[0]
    text = to_markdown(run)
    assert "## world-relation: compared, item by item" in text
    assert "| in words | metric | difference | interval | p | p (Holm) | n |" in text
    assert (
        "| no difference shown between tiny:base and tiny:random | original | +0.9 | "
        "[-3.5, +5.3] | 0.710 | 1.000 | 1000 |"
    ) in text
    assert "| -17.1 | [-22.0, -12.0] | &lt; 0.001 | &lt; 0.001 | 800 |" in text
    assert "compared" not in to_markdown(replace(run, comparisons=()))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_a_name_that_looks_like_a_formula_is_guarded(text: str) -> None:
    assert guarded(text) == f"'{text}"
    bad = replace(RESULT, scorer=text, benchmark=text, by_tag={f"{text}": RESULT.overall})
    row = rows(RunContents(RECORD, (bad,)))[0]
    assert row["scorer"].startswith("'")
    assert row["benchmark"].startswith("'")


def test_negative_numbers_are_not_guarded() -> None:
    mean = Estimate(-0.25, -0.5, 0.0, 8, is_rate=False)
    (row,) = rows(RunContents(RECORD, (replace(RESULT, overall={"tau": mean}, by_tag={}),)))
    assert (row["value"], row["low"]) == ("-0.25", "-0.5")
    assert guarded("plain") == "plain"


def test_markdown_by_hand() -> None:
    blind = Result(
        "swap", "length", EvalProtocol(), "macro(kind)", "original",
        {"original": Estimate(0.0, 0.0, 0.004, 1000, ties=1000, chance=0.5)}, is_blind=True,
    )  # fmt: skip
    text = to_markdown(RunContents(RECORD, (RESULT, blind)))
    assert "| benchmark | metric | m | length (blind) | chance | n |" in text
    row = "| original | 51.3 [48.2, 54.4] = (3 ties) | 0.0 [0.0, 0.4] (1,000 ties) | 50.0 | 1000 |"
    assert f"| swap {row}" in text
    assert f"\n{row}" in text
    assert "Averaged: macro(kind)." in text
    assert "Percent [interval]; = the interval contains chance; ↓" in text


def test_markdown_keeps_pipes_and_tags_in_their_cell(hostile_text: str) -> None:
    assert in_markdown("a|b") == "a\\|b"
    assert in_markdown("a\nb") == "a b"
    bad = replace(RESULT, benchmark=f"|{hostile_text}\n|", scorer="_x_|y")
    text = to_markdown(RunContents(RECORD, (bad,)))
    assert "<script" not in text
    assert "\\_x\\_\\|y" in text
    bars = {
        line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("|")
    }
    assert bars == {6, 5}
