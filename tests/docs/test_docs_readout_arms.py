"""The tables and the words of the page on read-outs are those of the shipped numbers."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

import pytest

from unbag.lab.arm_result import ArmResult, read_results
from unbag.lab.readout_table import table
from unbag.lab.shipped import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "readouts-on-the-world.md"


@pytest.fixture(scope="module")
def results() -> list[ArmResult]:
    return read_results(RESULTS / "readouts.json")


@pytest.fixture(scope="module")
def words() -> str:
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def test_page_holds_the_tables_of_the_shipped_numbers(results: list[ArmResult]) -> None:
    assert table(results) in PAGE.read_text(encoding="utf-8")


def test_every_arm_has_the_first_bases(results: list[ArmResult]) -> None:
    """The tables say how many bases an arm has, and show them in order."""
    arms = {result.arm for result in results}
    assert {"base", "pooled", "dcsm_fixed", "pacl", "sparc_fixed", "vlm2vec", "decoder"} <= arms
    for arm in arms:
        bases = sorted(one.base for one in results if one.arm == arm)
        assert len(bases) >= 3
        assert bases == [f"tiny-{n}" for n in range(len(bases))]


def values(results: list[ArmResult], arm: str, bench: str, metric: str) -> list[float]:
    found = sorted((one for one in results if one.arm == arm), key=lambda one: one.base)
    return [100 * one.numbers[bench][metric] for one in found]


@pytest.mark.parametrize(
    ("said", "arm", "bench", "metric"),
    [
        ("a coin about who is left of whom ({}", "base", "world-relation", "original"),
        ("has {} on three of them", "vlm2vec", "world-relation", "original"),
        ("and {} strict and", "vlm2vec", "world-pairs-a", "pair"),
        ("strict and {} relaxed", "vlm2vec", "world-pairs-a", "relaxed"),
        ("to a coin ({} from", "vlm2vec", "world-swap", "original"),
        ("exchanged colours ({}) where the decoder", "decoder-cls", "world-swap", "original"),
        ("on relations ({} against", "dcsm_fixed-shuffled", "world-relation", "original"),
        ("against {}): there was no gain", "dcsm_fixed", "world-relation", "original"),
        ("`pooled-text` has {} (three", "pooled-text", "world-relation", "original"),
        ("(three bases; pairs-a {} strict)", "pooled-text", "world-pairs-a", "pair"),
        ("fall to a coin too ({})", "pooled-text", "world-swap", "original"),
        ("replaced words from {} to", "base", "world-replace", "original"),
        ("words from 88.8 to {};", "vlm2vec", "world-replace", "original"),
        ("`world-binding` (group) falls from {} to", "base", "world-binding", "group"),
        ("`world-count` (group) from {} to", "base", "world-count", "group"),
        ("(group) falls from 99.5 to {},", "vlm2vec", "world-binding", "group"),
        ("(group) from 74.3 to {},", "vlm2vec", "world-count", "group"),
        ("`world-negation` (group) from {} to", "base", "world-negation", "group"),
        ("(group) from 41.7 to {},", "vlm2vec", "world-negation", "group"),
        ("as by chance ({} from", "vlm2vec", "world-order", "accuracy"),
        ("`world-order` from {} to 28.0.", "base", "world-order", "accuracy"),
    ],
)
def test_means_that_the_page_says(
    said: str, arm: str, bench: str, metric: str, results: list[ArmResult], words: str
) -> None:
    assert said.format(f"{mean(values(results, arm, bench, metric)):.1f}") in words


def test_bases_that_the_page_says(results: list[ArmResult], words: str) -> None:
    asked = values(results, "vlm2vec", "world-relation", "original")
    assert f"({', '.join(f'{one:.1f}' for one in asked)})" in words
    decoder = values(results, "decoder", "world-relation", "original")
    assert f"({', '.join(f'{one:.1f}' for one in decoder)})" in words
    swaps = values(results, "decoder", "world-swap", "original")
    assert f"{swaps[0]:.1f} and {swaps[1]:.1f} on exchanged colours" in words
    cosine = values(results, "base", "world-relation", "original")[: len(asked)]
    gained = mean(a - b for a, b in zip(asked, cosine, strict=True))
    assert f"`vlm2vec` gains {gained:.1f} points" in words
    first = values(results, "vlm2vec-first", "world-relation", "original")
    plain = values(results, "vlm2vec-plain-first", "world-relation", "original")
    both = (", ".join(f"{one:.1f}" for one in some) for some in (plain, first))
    assert f"({' against '.join(both)})" in words
    apart = [a - b for a, b in zip(first, plain, strict=True)]
    assert "by {:.0f}, {:.0f} and {:.0f} points".format(*apart) in words
    # 4.303: Student's t of two degrees of freedom.
    half = 4.303 * stdev(apart) / len(apart) ** 0.5
    low, high = mean(apart) - half, mean(apart) + half
    assert f"the mean, {mean(apart):.1f} [{low:+.1f}, {high:+.1f}], holds 0" in words


def test_decoder_that_describes_and_does_not_answer(results: list[ArmResult], words: str) -> None:
    kinds = ("yes", "letters", "answer")
    found = [
        f"`{kind}` {values(results, 'decoder', 'fit', f'held {kind}')[2]:.0f}" for kind in kinds
    ]
    assert f"(of held out questions, {', '.join(found)} %)" in words
    first, second, third = values(results, "decoder", "fit", "held describe")
    said = (
        f"({third:.1f} % to the last word; {first:.1f} and {second:.1f} on the other two, 0 without"
    )
    assert said in words
    assert max(values(results, "decoder-nothing", "fit", "held describe")) < 0.5
    blind = mean(values(results, "decoder-nothing", "fit", "held"))
    assert f"50 % by chance: {blind:.0f} in all" in words


@pytest.mark.parametrize(
    ("said", "arm", "metric"),
    [
        ("`pooled` ({} %)", "pooled", "few"),
        ("`pooled-text` can, all of it ({} %)", "pooled-text", "few"),
        ("DCSM ({} %,", "dcsm_fixed", "few"),
        ("{} % with shuffled patches", "dcsm_fixed-shuffled", "few"),
        ("`decoder` ({} %)", "decoder", "few"),
        ("`decoder-cls` ({} %)", "decoder-cls", "few"),
        ("`vlm2vec` can ({} %)", "vlm2vec", "few"),
        ("PACL and SPARC ({} to", "pacl_rotary", "few"),
        ("to {} %) do not", "sparc_fixed", "few"),
    ],
)
def test_what_was_learned_by_heart(
    said: str, arm: str, metric: str, results: list[ArmResult], words: str
) -> None:
    assert said.format(f"{mean(values(results, arm, 'fit', metric)):.0f}") in words
