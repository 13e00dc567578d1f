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


def test_every_arm_has_three_bases_and_the_cosine_of_each(results: list[ArmResult]) -> None:
    arms = {result.arm for result in results}
    assert {"base", "pooled", "dcsm_fixed", "pacl", "sparc_fixed", "vlm2vec", "decoder"} <= arms
    cosines = {one.base for one in results if one.arm == "base"}
    for arm in arms:
        bases = {one.base for one in results if one.arm == arm}
        assert len(bases) >= 3
        assert bases <= cosines


def values(results: list[ArmResult], arm: str, bench: str, metric: str) -> list[float]:
    found = sorted((one for one in results if one.arm == arm), key=lambda one: one.base)
    return [100 * one.numbers[bench][metric] for one in found]


def apart_of(results: list[ArmResult], arm: str, other: str) -> list[float]:
    """Points by which relations of one arm are above another's, on the bases that both have."""
    found = {(one.arm, one.base): one.numbers["world-relation"]["original"] for one in results}
    bases = sorted(base for name, base in found if name == arm and (other, base) in found)
    return [100 * (found[arm, base] - found[other, base]) for base in bases]


@pytest.mark.parametrize(
    ("said", "arm", "bench", "metric"),
    [
        ("a coin about who is left of whom ({}", "base", "world-relation", "original"),
        ("has {} on five of them", "vlm2vec", "world-relation", "original"),
        ("and {} strict and", "vlm2vec", "world-pairs-a", "pair"),
        ("strict and {} relaxed", "vlm2vec", "world-pairs-a", "relaxed"),
        ("to a coin ({} from", "vlm2vec", "world-swap", "original"),
        ("Without the question it has {}.", "vlm2vec-plain", "world-relation", "original"),
        ("is the same ({} on exchanged", "vlm2vec-plain", "world-swap", "original"),
        ("is hardly worse on the rest** ({} on", "dcsm", "world-relation", "original"),
        ("on relations, {} on exchanged colours), though", "dcsm", "world-swap", "original"),
        ("reads no relation either ({})", "dcsm_fixed-random", "world-relation", "original"),
        ("exchanged colours ({}) where the decoder", "decoder-cls", "world-swap", "original"),
        ("on relations ({} against", "dcsm_fixed-shuffled", "world-relation", "original"),
        ("against {}): there was no gain", "dcsm_fixed", "world-relation", "original"),
        ("`pooled-text` has {} (three", "pooled-text", "world-relation", "original"),
        ("(three bases; pairs-a {} strict)", "pooled-text", "world-pairs-a", "pair"),
        ("fall to a coin too ({})", "pooled-text", "world-swap", "original"),
        ("replaced words from {} to", "base", "world-replace", "original"),
        ("words from 88.7 to {};", "vlm2vec", "world-replace", "original"),
        ("`world-binding` (group) falls from {} to", "base", "world-binding", "group"),
        ("`world-count` (group) from {} to", "base", "world-count", "group"),
        ("(group) falls from 99.6 to {},", "vlm2vec", "world-binding", "group"),
        ("(group) from 73.1 to {},", "vlm2vec", "world-count", "group"),
        ("`world-negation` (group) from {} to", "base", "world-negation", "group"),
        ("(group) from 41.0 to {},", "vlm2vec", "world-negation", "group"),
        ("as by chance ({} from", "vlm2vec", "world-order", "accuracy"),
        ("`world-order` from {} to 27.6.", "base", "world-order", "accuracy"),
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
    gained = mean(apart_of(results, "vlm2vec", "base"))
    assert f"`vlm2vec` gains {gained:.1f} points" in words
    plain = values(results, "vlm2vec-plain", "world-relation", "original")
    apart = apart_of(results, "vlm2vec", "vlm2vec-plain")
    first = [one + more for one, more in zip(plain, apart, strict=True)]
    both = (", ".join(f"{one:.1f}" for one in some) for some in (plain, first))
    assert f"({' against '.join(both)})" in words
    assert "by {:.1f}, {:.1f} and {:.1f} points".format(*apart) in words
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
        ("{} % on an untrained network", "dcsm_fixed-random", "few"),
        ("DCSM **as released cannot** ({} %)", "dcsm", "few"),
        ("(`cls_eos`) it learns {} %", "dcsm_fixed-cls_eos", "few"),
        ("so can `vlm2vec-plain` ({} %)", "vlm2vec-plain", "few"),
        ("{} % with shuffled patches", "dcsm_fixed-shuffled", "few"),
        ("`decoder` ({} %)", "decoder", "few"),
        ("`decoder-cls` ({} %)", "decoder-cls", "few"),
        ("`vlm2vec` can ({} %)", "vlm2vec", "few"),
    ],
)
def test_what_was_learned_by_heart(
    said: str, arm: str, metric: str, results: list[ArmResult], words: str
) -> None:
    assert said.format(f"{mean(values(results, arm, 'fit', metric)):.0f}") in words


@pytest.mark.parametrize(
    ("said", "few_steps"),
    [("{} to {} % in 800 steps (`tiny-1` to `tiny-4`)", None), ("{} to {} % in 8,000", 8_000)],
)
def test_how_far_readers_of_patches_learned_by_heart(
    said: str, few_steps: int | None, results: list[ArmResult], words: str
) -> None:
    arms = ("pacl", "pacl_fixed", "pacl_rotary", "pacl_fixed-rotary-2d", "sparc_fixed")
    fits = [
        [one.numbers["fit"] for one in results if one.arm == arm]  # by arm, then by base
        for arm in arms
    ]
    assert {fit["few_dropout"] for own in fits for fit in own} == {0.1}
    means = [
        100 * mean(fit["few"] for fit in own if fit.get("few_steps") == few_steps) for own in fits
    ]
    assert said.format(f"{min(means):.0f}", f"{max(means):.0f}") in words
