"""Tables and figures of the page on read-outs are those of the shipped results."""

from __future__ import annotations

import runpy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from unbag.models.shipped import WEIGHTS
from unbag.readouts.reader import read_head
from unbag_lab.pages.curves import PATCHES, TOKEN, learned_of
from unbag_lab.results import RESULTS, ArmResult, read_results

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "readouts-on-the-world.md"


@pytest.fixture(scope="module")
def results() -> list[ArmResult]:
    return read_results(RESULTS / "readouts.json")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_readouts.py"))


def test_tables_and_figures_are_those_of_the_results(
    script: dict[str, Any], results: list[ArmResult]
) -> None:
    tables, images = script["made"](results)
    page = PAGE.read_text(encoding="utf-8")
    assert script["renewed"](page, tables) == page, "run: python lab/docs/make_readouts.py"
    assert all(table in page for table in tables.values())
    for name, image in images.items():
        drawn = (script["IMAGES"] / name).read_text(encoding="utf-8")
        assert drawn == image, "run: python lab/docs/make_readouts.py"
        assert f"](images/{name})" in page


def test_a_row_of_the_short_table_is_that_of_the_file(results: list[ArmResult]) -> None:
    """Without the code that made the table."""
    own = [one.numbers for one in results if one.arm == "decoder-long"]
    relation, colours, strict, found, counts, denials = (
        f"{100 * fmean(one[benchmark][metric] for one in own):.1f}"
        for benchmark, metric in (
            ("world-relation", "original"),
            ("world-swap", "original"),
            ("world-pairs-a", "pair"),
            ("world-retrieval", "text_to_image@1"),
            ("world-count", "group"),
            ("world-negation", "group"),
        )
    )
    cells = (
        "decoder on patches", "20,000 (8)", relation, colours, strict, found,
        f"{counts} / {denials}",
    )  # fmt: skip
    row = " | ".join(f"**{cell}**" for cell in cells)
    assert f"| {row} |" in PAGE.read_text(encoding="utf-8")


def test_every_arm_is_explained(results: list[ArmResult]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    explained = page[page.index("| arm | what reads") : page.index("## Can the read-outs fit?")]
    assert all(f"`{one.arm}`" in explained for one in results)


def test_every_arm_but_four_has_three_bases_and_all_have_their_cosine(
    results: list[ArmResult],
) -> None:
    arms = {one.arm for one in results}
    cosines = {one.base for one in results if one.arm == "base"}
    fewer = {}
    for arm in arms:
        bases = {one.base for one in results if one.arm == arm}
        assert bases <= cosines
        if len(bases) < 3:
            fewer[arm] = bases
    assert fewer == {
        "vlm2vec-long": {"tiny-0"},
        "dcsm_fixed-cls_eos-long": {"tiny-12", "tiny-13"},
        "dcsm_fixed-mlp-long": {"tiny-0"},
        "dcsm_fixed-mlp-shuffled-long": {"tiny-0"},
    }


def test_long_arms_have_20000_steps_and_others_fewer(results: list[ArmResult]) -> None:
    steps: dict[str, set[int]] = {}
    for one in results:
        steps.setdefault(one.arm, set()).add(one.steps)
    long = {arm: some for arm, some in steps.items() if arm.endswith(("-long", "-relations"))}
    assert long.pop("vlm2vec-long") == steps["vlm2vec"] == {1_200}, "which starts from a decoder"
    assert all(some == {20_000} for some in long.values())
    assert max(max(some) for arm, some in steps.items() if arm not in long) < 20_000


def test_the_last_evaluation_of_a_decoder_is_its_result(results: list[ArmResult]) -> None:
    curves = learned_of(PATCHES, results)
    every = {one.base for one in results if one.arm == PATCHES}
    assert every - set(curves) == {"tiny-5", "tiny-6"}
    assert set(learned_of(TOKEN, results)) == every
    for one in results:
        if one.arm == PATCHES and one.base in curves:
            last = curves[one.base][20_000]
            assert last == pytest.approx(one.numbers["world-relation"]["original"], abs=5e-3)


def test_a_decoder_without_an_image_is_at_chance(results: list[ArmResult]) -> None:
    own = [one.numbers for one in results if one.arm == "decoder-nothing"]
    for benchmark, metric, chance in (
        ("world-relation", "original", 0.5),
        ("world-swap", "original", 0.5),
        ("world-replace", "original", 0.5),
        ("world-pairs-a", "pair", 0.0),
    ):
        assert {one[benchmark][metric] for one in own} == {chance}


def test_the_shipped_reader_is_that_of_the_study(results: list[ArmResult]) -> None:
    [small] = [one for one in results if one.arm == "dcsm_fixed-mlp-long"]
    head, _ = read_head(WEIGHTS / "tiny-base.dcsm_fixed.reader.safetensors")
    settings = head.settings
    assert (settings["net"], settings["length"], settings["steps"]) == ("mlp", 16, small.steps)
