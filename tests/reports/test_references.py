"""Published numbers on the page, in tables and in words."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.exports import to_csv, to_markdown
from unbag.reports.join import merge_runs
from unbag.reports.page import render_page
from unbag.reports.references import published_row, published_text, same_model, scales
from unbag.reports.terminal import notes, published_lines, verified_table
from unbag.types import Estimate, Published, Reference, RunContents

OURS = Estimate(0.60, 0.55, 0.65, 1200, chance=0.5)
THEIRS = Published("NegCLIP", "accuracy", 0.612, "a paper, table 1", "micro")
INSIDE = Reference("world-order", "mine", THEIRS, OURS, True, True, ("one doubt",))
OUTSIDE = replace(INSIDE, published=replace(THEIRS, value=0.7, aggregate="micro[kind=a]"))
UNKNOWN = replace(INSIDE, published=replace(THEIRS, aggregate=""), is_comparable=False)
OTHERS = tuple(
    Reference("world-order", "mine", Published(f"model {i}", "accuracy", i / 20, "b, table 2"),
              OURS, False)
    for i in range(1, 11)
)  # fmt: skip
ALL = (INSIDE, OUTSIDE, UNKNOWN, *OTHERS)


def test_a_line_by_hand() -> None:
    row = published_row(INSIDE)
    assert (row.ours, row.interval, row.theirs, row.difference) == (
        "60.0",
        "[55.0, 65.0]",
        "61.2",
        "-1.2",
    )
    assert (row.verdict, row.n, row.model) == ("inside", 1200, "NegCLIP")
    assert [row.verdict for row in same_model(ALL)] == ["inside", "outside", "not comparable"]
    assert published_row(UNKNOWN).rule == "rule not stated"
    nan = float("nan")
    assert published_row(replace(INSIDE, ours=replace(OURS, low=nan))).verdict == "no interval"


@pytest.mark.parametrize(
    ("value", "digits", "is_rate", "text"),
    [(0.8, 0, True, "80"), (0.612, 1, True, "61.2"), (0.234, 1, False, "0.234")],
)
def test_theirs_keep_their_digits(value: float, digits: int, is_rate: bool, text: str) -> None:
    assert published_text(Published("m", "x", value, "p", digits=digits), is_rate=is_rate) == text


def test_a_scale_lines_up_ours_and_theirs() -> None:
    (scale,) = scales(ALL)
    assert scale.is_folded
    assert [mark.name for mark in scale.marks][:2] == ["mine", "model 10"]
    assert [mark.value for mark in scale.marks] == sorted(
        (mark.value for mark in scale.marks), reverse=True
    )
    assert [mark.is_ours for mark in scale.marks].count(True) == 1
    two = [*OTHERS[:3], *(replace(r, scorer="second") for r in OTHERS[:3])]
    (short,) = scales(two)
    assert not short.is_folded
    assert len(short.marks) == 5


def test_lower_is_better_turns_the_scale_round() -> None:
    some = [replace(r, published=replace(r.published, metric="brittleness")) for r in OTHERS[:3]]
    (scale,) = scales(some)
    assert [mark.name for mark in scale.marks] == ["model 1", "model 2", "model 3", "mine"]


def test_the_page_shows_numbers_doubts_scale_and_warnings(run: RunContents) -> None:
    page = render_page(replace(run, references=ALL, warnings=("it has seen <this>",)), DEFINITIONS)
    assert page.count("<h4>Published numbers</h4>") == 1
    for text in ("outside</span>", "not comparable</span>", "one doubt", "a paper, table 1"):
        assert text in page
    assert "accuracy of 10 published models" in page
    assert "it has seen &lt;this&gt;" in page
    without = render_page(run, DEFINITIONS)
    assert "<h4>Published numbers</h4>" not in without
    assert 'id="warnings"' not in without


def test_the_page_escapes_what_a_folder_says(run: RunContents, hostile_text: str) -> None:
    bad = replace(
        INSIDE,
        scorer=hostile_text,
        published=replace(THEIRS, model=hostile_text, source=hostile_text, aggregate=hostile_text),
        doubts=(hostile_text,),
    )
    scale = replace(bad, is_same_model=False)
    page = render_page(replace(run, references=(bad, scale)), DEFINITIONS)
    assert hostile_text not in page
    assert "<script" not in page


def test_merged_runs_keep_references_and_say_warnings_once(run: RunContents) -> None:
    one = replace(run, references=(INSIDE,), warnings=("seen",))
    two = replace(run, references=(OUTSIDE,), warnings=("seen", "more"))
    merged = merge_runs([one, two])
    assert merged.references == (INSIDE, OUTSIDE)
    assert merged.warnings == ("seen", "more")


def test_csv_has_each_published_number_once_with_its_source(run: RunContents) -> None:
    twice = (*ALL, *(replace(r, scorer="second") for r in ALL))
    contents = RunContents(run.record, (), references=twice)
    rows = list(csv.DictReader(io.StringIO(to_csv(contents), newline="")))
    assert len(rows) == len(ALL)
    assert rows[0]["scorer"] == "NegCLIP"
    assert (rows[0]["value"], rows[0]["source"]) == ("0.612", "a paper, table 1")
    assert (rows[1]["aggregate"], rows[1]["tag"], rows[1]["tag_value"]) == ("micro", "kind", "a")


def test_markdown_has_both_tables(run: RunContents) -> None:
    text = to_markdown(replace(run, references=ALL, warnings=("seen",)))
    assert text.startswith("# unbag report\n\n**Warning:** seen")
    assert "## world-order: published numbers" in text
    assert "| mine | accuracy | micro | 60.0 \\[55.0, 65.0\\] | 61.2 | -1.2 | inside |" in text
    assert "| model 3 | 15.0 | b, table 2 |" in text


def test_words_for_the_terminal() -> None:
    assert published_lines(ALL) == [
        "mine: 3 published numbers of NegCLIP beside ours (1 inside, 1 outside, 1 not comparable)"
    ]
    assert published_lines(OTHERS) == []


def test_the_table_of_verify() -> None:
    from rich.console import Console

    console = Console(width=110, record=True, file=io.StringIO())
    console.print(verified_table((INSIDE, OUTSIDE, UNKNOWN)))
    said = console.export_text()
    assert "accuracy, micro[kind=a]" in said
    assert "60.0 [55.0–65.0]" in said
    assert "outside" in said
    assert notes((INSIDE, OUTSIDE)) == {"a paper, table 1": 1, "one doubt": 2}
