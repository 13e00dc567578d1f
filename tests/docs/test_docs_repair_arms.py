"""Tables and words of the repair page, and the card of the weights, are those of the data file."""

from pathlib import Path
from statistics import fmean

import pytest

from unbag.lab.arm_result import BEFORE, UNTRAINED, ArmResult, read_results
from unbag.lab.repair_arms import ARMS, LOCKED
from unbag.lab.repair_leak import BLIND
from unbag.lab.repair_table import interval, table
from unbag.lab.shipped import RESULTS
from unbag.models.tiny import SHIPPED, load

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "repair-on-the-world.md"
PUBLISHED = tuple(arm for arm in ARMS if not arm.endswith(LOCKED))
RUN = (
    "positives_only",
    "hard_positive-n25",
    "swap_only",
    "replace_only",
    "ce_clip_fixed-intra",
    "ce_clip_fixed-rank",
    "ce_clip",
)
"""Variants that were run on five bases."""
BEGUN = (
    "hard_positive-n50",
    "ce_clip_fixed-margin2",
    "ce_clip_fixed-margin10",
    "ce_clip_fixed-unbounded",
)
"""Variants that were run on one base."""
SHORT = (
    ("base", "world-relation", "original", 9),
    ("hard_negative", "world-relation", "original", 9),
    ("hard_negative", "world-relation", "augmented", 9),
    ("hard_negative", "world-relation", "brittleness", 9),
    ("clip_ft", "world-relation", "original", 9),
    ("hard_negative", "world-negation", "group", 9),
    ("clip_ft", "world-negation", "group", 9),
    ("hard_negative", "world-count", "group", 9),
    ("clip_ft", "world-count", "group", 9),
    ("ce_clip_fixed", "world-count", "group", 9),
    ("clip_ft-locked", "world-relation", "original", 5),
    ("ce_clip_fixed-locked", "world-relation", "original", 5),
)
"""Means that the page begins with, in its order, and on how many bases."""
SAID = (
    ("hard_negative", "clip_ft", "world-relation", "original", 9),
    ("hard_negative", "clip_ft", "world-relation", "brittleness", 9),
    ("hard_negative", "clip_ft", "world-count", "group", 9),
    ("hard_negative", "clip_ft", "world-negation", "group", 9),
    ("ce_clip_fixed", "clip_ft", "world-count", "group", 9),
    ("ce_clip_fixed", "clip_ft", "world-negation", "group", 9),
    ("hard_positive", "hard_negative", "world-relation", "original", 9),
    ("hard_positive", "hard_negative", "world-relation", "augmented", 9),
    ("hard_positive", "hard_negative", "world-relation", "brittleness", 9),
    ("clip_ft", "base", "world-count", "group", 9),
    ("clip_ft", "base", "world-texture", "image", 9),
    ("positives_only", "clip_ft", "world-relation", "original", 5),
    ("positives_only", "clip_ft", "world-relation", "brittleness", 5),
    ("positives_only", "clip_ft", "world-replace", "brittleness", 5),
    ("hard_negative-locked", "clip_ft-locked", "world-relation", "original", 5),
    ("hard_negative-locked", "clip_ft-locked", "world-count", "group", 5),
    ("hard_negative-locked", "clip_ft-locked", "world-negation", "group", 5),
    ("ce_clip_fixed-locked", "clip_ft-locked", "world-count", "group", 5),
    ("ce_clip_fixed-locked", "clip_ft-locked", "world-negation", "group", 5),
)
"""Differences in the words of the page: arm, what it is compared with, number, bases of both."""
CARD = ROOT / "src" / "unbag" / "models" / "weights" / "README.md"


@pytest.fixture(scope="module")
def results() -> list[ArmResult]:
    return read_results(RESULTS / "default.json")


def test_every_arm_of_every_base_is_there_once(results: list[ArmResult]) -> None:
    on = dict.fromkeys((UNTRAINED, BEFORE, *PUBLISHED), 9)
    on |= dict.fromkeys((BLIND, *(arm + LOCKED for arm in PUBLISHED), *RUN), 5)
    on |= dict.fromkeys(BEGUN, 1)
    wanted = {(f"tiny-{i}", arm) for arm, bases in on.items() for i in range(bases)}
    assert sorted((one.base, one.arm) for one in results) == sorted(wanted)


def test_the_page_shows_what_the_command_prints(results: list[ArmResult]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    assert table(results) in said
    assert table(read_results(RESULTS / "ordered.json")) in said


def test_what_the_page_begins_with_is_in_the_file(results: list[ArmResult]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    short = said[said.index("**In short.**") : said.index("## Question and arms")]
    at = 0
    for arm, benchmark, metric, bases in SHORT:
        found = _numbers(results, arm, benchmark, metric)
        assert len(found) == bases
        at = short.index(f"{100 * fmean(found.values()):.1f}", at) + 1


@pytest.mark.parametrize(("arm", "other", "benchmark", "metric", "bases"), SAID)
def test_differences_in_words_are_those_of_bases_that_both_have(
    arm: str, other: str, benchmark: str, metric: str, bases: int, results: list[ArmResult]
) -> None:
    words = PAGE.read_text(encoding="utf-8").replace(table(results), "")
    one, two = (_numbers(results, name, benchmark, metric) for name in (arm, other))
    apart = [100 * (one[base] - two[base]) for base in one if base in two]
    assert len(apart) == bases
    middle, half = interval(apart)
    assert f"{middle:+.1f} [{middle - half:+.1f}, {middle + half:+.1f}]" in words


def _numbers(results: list[ArmResult], arm: str, benchmark: str, metric: str) -> dict[str, float]:
    return {one.base: one.numbers[benchmark][metric] for one in results if one.arm == arm}


def test_arms_on_one_base_stand_in_no_table(results: list[ArmResult]) -> None:
    shown = table(results)
    for arm in BEGUN:
        assert f"| {arm} |" not in shown
        assert f"`{arm}` (1)" in shown


def test_losses_of_the_page_are_those_of_the_file(results: list[ArmResult]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    for arm in PUBLISHED:
        row = f"| `{arm}` | {_losses(results, arm)} | {_losses(results, arm + LOCKED)} |"
        assert row in said


def _losses(results: list[ArmResult], arm: str) -> str:
    found = [one.loss for one in results if one.arm == arm]
    return ", ".join(f"{loss:.3f}" for loss in found if loss is not None)


def test_the_card_has_the_numbers_of_the_shipped_arms(results: list[ArmResult]) -> None:
    arms = {one.arm: one for one in results if one.base == "tiny-0"}
    assert {arms[name].fingerprint for name in SHIPPED} == {load("base").fingerprint}
    rows = [line.split(" | ") for line in CARD.read_text(encoding="utf-8").splitlines()]
    head = ["| benchmark", "metric", *(f"tiny:{name}" for name in SHIPPED[:-1])]
    start = next(at for at, row in enumerate(rows) if row[: len(head)] == head)
    found = 0
    for row in rows[start + 2 : rows.index([""], start)]:
        metric = row[1].removesuffix(" ↓").replace("\\_", "_")
        values = [arms[name].numbers[row[0].removeprefix("| ")][metric] for name in SHIPPED]
        assert [f"{100 * value:.1f}" for value in values] == [
            cell.removesuffix(" |") for cell in row[2:]
        ]
        found += 1
    assert found == 18
