"""The tables of the repair page and of the card of the weights are those of the data file."""

from pathlib import Path

import pytest

from unbag.lab.arm_result import BEFORE, UNTRAINED, ArmResult, read_results
from unbag.lab.repair_arms import ARMS, LOCKED
from unbag.lab.repair_leak import BLIND
from unbag.lab.repair_table import table
from unbag.lab.shipped import RESULTS
from unbag.models.tiny import SHIPPED, load

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "repair-on-the-world.md"
RUN = (
    "positives_only",
    "hard_positive-n25",
    "swap_only",
    "replace_only",
    "ce_clip_fixed-intra",
    "ce_clip_fixed-rank",
    "ce_clip",
)
"""Variants that were run; the others wait for a GPU."""
CARD = ROOT / "src" / "unbag" / "models" / "weights" / "README.md"


@pytest.fixture(scope="module")
def results() -> list[ArmResult]:
    return read_results(RESULTS / "default.json")


def test_every_arm_of_every_base_is_there_once(results: list[ArmResult]) -> None:
    arms = (UNTRAINED, BEFORE, BLIND, *ARMS, *RUN)
    wanted = {(f"tiny-{i}", arm) for i in range(5) for arm in arms}
    assert sorted((one.base, one.arm) for one in results) == sorted(wanted)


def test_the_page_shows_what_the_command_prints(results: list[ArmResult]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    assert table(results) in said
    assert table(read_results(RESULTS / "ordered.json")) in said


def test_losses_of_the_page_are_those_of_the_file(results: list[ArmResult]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    for arm in [arm for arm in ARMS if not arm.endswith(LOCKED)]:
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
