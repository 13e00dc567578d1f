"""The tables of the page on read-outs are those of the shipped numbers."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from unbag.lab.arm_result import ArmResult, read_results
from unbag.lab.readout_table import table
from unbag.lab.shipped import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "readouts-on-the-world.md"


@pytest.fixture(scope="module")
def results() -> list[ArmResult]:
    return read_results(RESULTS / "readouts.json")


def test_page_holds_the_tables_of_the_shipped_numbers(results: list[ArmResult]) -> None:
    assert table(results) in PAGE.read_text(encoding="utf-8")


def test_every_arm_has_every_base(results: list[ArmResult]) -> None:
    bases = {result.base for result in results}
    assert bases == {"tiny-0", "tiny-1", "tiny-2"}
    arms = {result.arm for result in results}
    assert {(one.arm, one.base) for one in results} == {(a, b) for a in arms for b in bases}


def test_words_of_the_page_are_the_numbers(results: list[ArmResult]) -> None:
    """What the text claims in figures, recomputed."""
    relation = {
        (one.arm, one.base): 100 * one.numbers["world-relation"]["original"] for one in results
    }
    bases = ("tiny-0", "tiny-1", "tiny-2")
    asked, plain, cosine = (
        [relation[arm, base] for base in bases] for arm in ("vlm2vec", "vlm2vec-plain", "base")
    )
    text = PAGE.read_text(encoding="utf-8")
    assert f"({', '.join(f'{value:.1f}' for value in asked)})" in text
    assert f"({', '.join(f'{value:.1f}' for value in plain)})" in text
    assert f"a coin about who is left of whom ({sum(cosine) / 3:.1f})" in text
    apart = sum(a - b for a, b in zip(asked, plain, strict=True)) / 3
    assert f"the difference, {apart:.1f} points" in text
    few = {
        arm: [100 * one.numbers["fit"]["few"] for one in results if one.arm == arm]
        for arm in ("dcsm_fixed", "sparc_fixed", "pacl_rotary", "decoder")
    }
    for arm, said in (("dcsm_fixed", "90 %"), ("sparc_fixed", "76 %"), ("pacl_rotary", "70 %")):
        assert f"{sum(few[arm]) / 3:.0f} %" == said
        assert said in text
    assert f"`decoder` has {sum(few['decoder']) / 3:.0f} %" in text


def test_the_price_that_the_tables_leave_out_is_in_the_words(results: list[ArmResult]) -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    group = {
        (bench, arm): mean(100 * one.numbers[bench]["group"] for one in results if one.arm == arm)
        for bench in ("world-binding", "world-count")
        for arm in ("base", "vlm2vec", "vlm2vec-plain", "dcsm_fixed")
    }
    for bench in ("world-binding", "world-count"):
        cosine, asked, plain = (
            f"{group[bench, arm]:.1f}" for arm in ("base", "vlm2vec", "vlm2vec-plain")
        )
        assert f"`{bench}` (group)" in page
        assert f"from {cosine} to {asked} and {plain}" in page
    counts = group["world-count", "base"], group["world-count", "dcsm_fixed"]
    assert f"`world-count` (group) falls from {counts[0]:.1f} to {counts[1]:.1f}" in page
