"""The quality table of docs/edits.md is what the judgements give, and decides what is on."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

import pytest

from unbag.edits.kinds import Kind, find_kinds
from unbag.metrics.intervals import wilson

DOCS = Path(__file__).parents[2] / "docs"
KINDS = find_kinds(["all"])
# Precision under which a kind is off by default.
ENOUGH = 0.85
# Too rare to be judged, or dependent on a model of the user's.
UNJUDGED = {"swap_adverbs", "rewrite_replace", "rewrite_swap"}


@cache
def judged() -> dict[str, list[dict[str, str]]]:
    with (DOCS / "edit_judgements.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {kind.name: [r for r in rows if r["kind"] == kind.name] for kind in KINDS}


def right(kind: Kind) -> float:
    wanted = "true" if kind.is_positive else "false"
    rows = judged()[kind.name]
    good = [
        row[f"truth_{n}"] == wanted and row[f"grammatical_{n}"] == "yes"
        for row in rows
        for n in (1, 2)
    ]
    return sum(good) / len(good)


def test_every_kind_was_judged_or_says_why_not() -> None:
    assert {kind.name for kind in KINDS if not judged()[kind.name]} == UNJUDGED


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kinds_that_are_too_often_wrong_are_off(kind: Kind) -> None:
    if kind.name in UNJUDGED or right(kind) < ENOUGH:
        assert not kind.is_default


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_table_says_what_was_judged(kind: Kind) -> None:
    text = (DOCS / "edits.md").read_text(encoding="utf-8")
    quality = text[text.index("## How good they are") :]
    [row] = re.findall(rf"^\| `{kind.name}` .*$", quality, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    rows = judged()[kind.name]
    assert cells[1] == str(len(rows))
    if not rows:
        assert cells[2] == "not judged"
        return
    low, high, _ = wilson(right(kind) * len(rows), len(rows))
    assert cells[2] == f"{100 * right(kind):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def test_the_table_of_kinds_has_every_kind() -> None:
    text = (DOCS / "edits.md").read_text(encoding="utf-8")
    listed = text[text.index("## The kinds") : text.index("## How good they are")]
    found = re.findall(r"^\| `(\w+)` [+-]( \(off\))? \|", listed, re.MULTILINE)
    assert found == [(kind.name, "" if kind.is_default else " (off)") for kind in KINDS]
