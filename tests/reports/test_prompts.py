"""Mean, lowest and highest over prompts: in words, on the page, and which columns are left."""

from dataclasses import replace
from typing import Any

from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.layout import over_prompts, published_only
from unbag.reports.page import render_page
from unbag.reports.terminal import prompt_lines, terminal_table
from unbag.types import Estimate, EvalProtocol, Result, RunContents, RunRecord

RECORD = RunRecord("unbag run", "2026-01-01T00:00:00+00:00", 0, "cpu", {}, {})
VALUES = {"look-first": 0.8, "published": 0.5, "true-of": 0.35}


def result(prompt: str, value: float, *, ties: Any = "wrong", scorer: str = "chat") -> Result:
    name = scorer if prompt in ("", "published") else f"{scorer} ({prompt})"
    protocol = EvalProtocol(ties=ties, scoring="yes-probability", prompt=prompt)
    estimate = Estimate(value, value - 0.1, value + 0.1, n=100, chance=0.5)
    return Result("toy", name, protocol, "micro", "accuracy", {"accuracy": estimate})


def run(*results: Result) -> RunContents:
    return RunContents(RECORD, results)


MADE = run(*(result(prompt, value) for prompt, value in VALUES.items()))


def test_mean_lowest_and_highest_with_the_published_one_marked() -> None:
    (found,) = over_prompts(MADE.results)
    assert (found.scorer, found.benchmark, found.metric) == ("chat", "toy", "accuracy")
    assert [prompt for prompt, _ in found.values] == ["published", "look-first", "true-of"]
    assert prompt_lines(MADE) == [
        "chat on toy, accuracy over 3 prompts: mean 55.0, from 35.0 (true-of) to 80.0 "
        "(look-first); published 50.0"
    ]


def test_one_prompt_has_no_spread() -> None:
    assert over_prompts([result("published", 0.5), result("", 0.9, scorer="cosine")]) == ()
    empty = result("true-of", 0.5)
    unmeasured = replace(empty, overall={"accuracy": replace(empty.overall["accuracy"], n=0)})
    assert over_prompts([result("published", 0.5), unmeasured]) == ()


def test_another_tie_rule_is_no_other_prompt() -> None:
    both = [result(p, v, ties=t) for t in ("wrong", "right") for p, v in VALUES.items()]
    (found,) = over_prompts(both)
    assert len(found.values) == 3
    assert found.protocol == "yes-probability, ties=wrong"


def test_tables_show_one_column_a_model() -> None:
    kept = published_only(run(*MADE.results, result("", 0.6, scorer="cosine")))
    assert [r.scorer for r in kept.results] == ["chat", "cosine"]
    alone = run(result("true-of", 0.35))
    assert published_only(alone) == alone
    assert [column.label for column in terminal_table(MADE).layout.columns] == ["chat"]


def test_the_page_has_a_section_of_its_own() -> None:
    page = render_page(MADE, DEFINITIONS)
    assert '<section id="prompts">' in page
    assert "<strong>published 50.0</strong>, look-first 80.0, true-of 35.0" in page
    assert "Over prompts" not in render_page(run(result("published", 0.5)), DEFINITIONS)


def test_names_are_escaped() -> None:
    odd = run(result("published", 0.5, scorer="<b>"), result("true-of", 0.4, scorer="<b>"))
    page = render_page(odd, DEFINITIONS)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
