"""The page as text: everything is in it, escaped, and nothing outside it is named."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser

import pytest

from unbag.metrics.definitions import DEFINITIONS, Definition
from unbag.reports.formatting import comparison_sentence, p_text
from unbag.reports.join import merge_runs
from unbag.reports.page import SHOWN_CARDS, render_page
from unbag.types import Comparison, Estimate, EvalProtocol, Result, RunContents, RunRecord

OWN = {
    "original": Definition("original", "A title", "A <b>meaning</b>.", "s(c) > s(n)", "1/2"),
    "mean_*": Definition("mean_*", "Mean score", "Mean of the scores.", "", ""),
}
VOID = {"meta", "link", "img", "br", "wbr"}


class Page(HTMLParser):
    """Collects text, ids, links and addresses, and checks that tags are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found["href"] or ""] if tag == "a" else []
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not [name for name in found if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def page(run: RunContents) -> Page:
    return Page(render_page(run, DEFINITIONS))


def test_it_is_well_formed_and_every_anchor_exists(page: Page) -> None:
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(page.links) == 6 + 11


def test_nothing_is_fetched_and_nothing_is_run(run: RunContents, page: Page) -> None:
    outside = [a for a in page.addresses if not a.startswith(("#", "data:"))]
    assert outside == []
    assert not page.tags & {"script", "iframe", "object", "form"}
    html = render_page(run, DEFINITIONS)
    assert "default-src 'none'" in html
    assert not re.search(r"url\(|@import|https?:", html)


def test_numbers_intervals_chance_marks_and_baseline_are_there(page: Page) -> None:
    text = " ".join(page.text.split())
    assert "99.8 [99.3, 99.9]" in text
    assert "50.3 [47.2, 53.4]= chance" in text
    assert "0.0 [0.0, 0.4]below chance · 1,000 ties" in text
    assert "33.3/25.0" in text
    assert "= the interval contains chance or lies between its two levels; ↓" in text
    assert "tiny:base is above chance on 6 of 11 benchmarks" in text
    assert "caption:length never sees an image" in text


def test_comparisons_are_in_words_and_numbers(page: Page) -> None:
    text = " ".join(page.text.split())
    assert "tiny:base is 50.4 points above tiny:random" in text
    assert "no difference shown between tiny:base and tiny:random" in text
    assert "tiny:base is 17.1 points below caption:length" in text
    assert "[+47.3, +53.5]" in text


def test_failures_say_in_words_what_is_true_and_what_was_preferred(page: Page) -> None:
    text = " ".join(page.text.split())
    assert "a blue circle and a red square 0.439 ✗ false swap attributes ▲ scored above" in text
    assert "= tied with a true caption" in text
    assert "no score" in text
    assert sum(a.startswith("data:image/png") for a in page.addresses) == 4 + 4 + 2 + 3


def test_the_record_is_there(page: Page, run: RunContents) -> None:
    text = " ".join(page.text.split())
    for part in (
        run.record.command, "sha256:9f2c41d07be35a68", "torch 2.5.1", "world-count/00017.png",
        "tiny:base: 3", "cosine, ties=wrong", "caption only, ties=wrong",
    ):  # fmt: skip
        assert part in text


def test_definitions_are_looked_up_by_name_then_pattern_and_escaped(run: RunContents) -> None:
    html = render_page(run, OWN)
    text = " ".join(Page(html).text.split())
    for part in ("original A title", "A <b>meaning</b>.", "s(c) > s(n)", "Chance: 1/2"):
        assert part in text
    assert text.count("Mean of the scores.") == 2
    assert "No definition is registered for this metric." in text


def test_hostile_texts_stay_texts(hostile_run: RunContents, hostile_text: str) -> None:
    html = render_page(hostile_run, DEFINITIONS)
    page = Page(html)
    assert page.open == []
    assert "script" not in page.tags
    assert "<script" not in html
    assert "example.com" not in html
    assert "image not stored" in page.text
    assert page.text.count(hostile_text) >= 8


def test_more_failures_and_many_tags_are_folded(run: RunContents) -> None:
    first = run.results[0]
    tags = {f"shape={at}": first.overall for at in range(13)}
    many = replace(
        run,
        results=(replace(first, by_tag=tags), *run.results[1:]),
        failures=(run.failures[0],) * (SHOWN_CARDS + 2),
    )
    text = " ".join(Page(render_page(many, DEFINITIONS)).text.split())
    assert "2 more failures" in text
    assert "original by shape (13 values)" in text


def test_an_empty_run_still_gives_a_page(run: RunContents) -> None:
    page = Page(render_page(RunContents(run.record, ()), DEFINITIONS))
    assert "This run has no results." in page.text


def test_merged_runs_show_both_records(run: RunContents) -> None:
    other = replace(
        run,
        record=replace(run.record, command="unbag run --again"),
        results=tuple(replace(r, scorer=f"{r.scorer}+", run=None) for r in run.results),
    )
    text = Page(render_page(merge_runs([run, other]), DEFINITIONS)).text
    assert "unbag run --again" in text
    assert run.record.command in text
    assert "tiny:base+" in text


def test_a_long_name_may_be_broken_after_a_sign(run: RunContents) -> None:
    renamed = [
        replace(r, scorer="open_clip:ViT-B<32") for r in run.results if r.scorer == "tiny:base"
    ]
    html = render_page(replace(run, results=tuple(renamed)), DEFINITIONS)
    assert "open_<wbr>clip:ViT-<wbr>B&lt;32" in html


@dataclass(frozen=True)
class Wording:
    difference: float
    low: float
    high: float
    is_rate: bool
    sentence: str


@pytest.mark.parametrize(
    "case",
    [
        Wording(0.125, 0.1, 0.15, True, "b is 12.5 points above a"),
        Wording(-0.125, -0.15, -0.1, True, "b is 12.5 points below a"),
        Wording(0.125, 0.0, 0.25, True, "no difference shown between b and a"),
        Wording(0.125, 0.1, 0.15, False, "b is 0.125 above a"),
        Wording(float("nan"), float("nan"), float("nan"), True, "b and a share no units"),
    ],
)
def test_comparisons_in_words(case: Wording) -> None:
    made = Comparison("x", "m", "a", "b", case.difference, case.low, case.high, 8, None, None)
    assert comparison_sentence(made, is_rate=case.is_rate) == case.sentence


def test_a_comparison_names_its_rule_unless_it_is_micro(run: RunContents) -> None:
    macro = replace(run.comparisons[0], aggregate="macro(kind)")
    text = Page(render_page(replace(run, comparisons=(macro,)), DEFINITIONS)).text
    assert "original, macro(kind)" in text
    assert ", micro" not in Page(render_page(run, DEFINITIONS)).text


def test_p_values_are_never_zero() -> None:
    assert [p_text(p) for p in (None, 1e-9, 0.001, 0.0456)] == ["–", "< 0.001", "0.001", "0.046"]


def test_one_model_under_several_protocols_is_one_scorer_whose_benchmark_is_told_once() -> None:
    half = Estimate(0.5, 0.4, 0.6, 100, chance=0.5)
    first = Result("swap", "m", EvalProtocol(), "macro7", "accuracy", {"accuracy": half},
                   about="Which of two is it?")  # fmt: skip
    micro = replace(first, aggregate="micro")
    ties = EvalProtocol(ties="half")
    same = replace(first, protocol=ties)
    other = replace(micro, protocol=ties, overall={"accuracy": replace(half, value=0.55)})
    record = RunRecord("", "2026-01-02T03:04:05Z", 0, "cpu", {}, {})
    html = render_page(RunContents(record, (first, micro, same, other)), OWN)
    assert "1 scorer · 1 benchmark ·" in html
    assert html.count("Which of two is it?") == 1
    assert "<summary>swap, macro7, ties=half: no main number changes</summary>" in html
    assert "<summary>swap, micro, ties=half" not in html
    assert "averaged: micro · ties=half" in html
