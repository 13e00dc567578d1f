"""Tables of the page on repairs, and the model card of the weights, are those of the results."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import pytest

from unbag.models.tiny import OF_THE_STUDY, SHIPPED, load
from unbag_lab.experiments.repair import BLIND
from unbag_lab.experiments.repair_training import ARMS, LOCKED
from unbag_lab.pages.tables import repair_tables
from unbag_lab.results import BEFORE, RESULTS, UNTRAINED, ArmResult, read_results

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "lab" / "docs" / "repair-on-the-world.md"
PUBLISHED = tuple(arm for arm in ARMS if not arm.endswith(LOCKED))
FIRST, OTHER, ALL = (0, 1, 2, 3, 4), (0, 5, 6, 7, 8), tuple(range(9))
"""Bases that arms have, by their numbers."""
RUN = (
    "positives_only",
    "swap_only",
    "replace_only",
    "ce_clip_fixed-intra",
    "ce_clip_fixed-rank",
    "ce_clip",
)
"""Variants that were run on all bases."""
LATER = (
    "hard_positive-n50",
    "ce_clip_fixed-margin2",
    "ce_clip_fixed-margin10",
    "ce_clip_fixed-unbounded",
)
"""Variants that were run on five others."""
RUN_ON: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "default": dict.fromkeys((UNTRAINED, BEFORE, *PUBLISHED, *RUN), ALL)
    | dict.fromkeys((BLIND, *(arm + LOCKED for arm in PUBLISHED), "hard_positive-n25"), FIRST)
    | dict.fromkeys(LATER, OTHER),
    "ordered": dict.fromkeys(
        (UNTRAINED, BEFORE, "clip_ft", "hard_negative", "hard_positive", "rephrased"), ALL
    )
    | {BLIND: FIRST, "positives_only": OTHER},
    "held_out": dict.fromkeys((UNTRAINED, BEFORE, "hard_positive"), OTHER),
}
"""Bases of every arm, by experiment."""
MODELS = (*SHIPPED, *OF_THE_STUDY)
CARD = ROOT / "src" / "unbag" / "models" / "weights" / "README.md"


@pytest.fixture(scope="module")
def everything() -> list[ArmResult]:
    return [one for name in RUN_ON for one in read_results(RESULTS / f"{name}.json")]


@pytest.fixture(scope="module")
def results(everything: list[ArmResult]) -> list[ArmResult]:
    return [one for one in everything if one.experiment == "default"]


@pytest.mark.parametrize("name", RUN_ON)
def test_every_arm_of_every_base_is_there_once(name: str, everything: list[ArmResult]) -> None:
    found = [(one.base, one.arm) for one in everything if one.experiment == name]
    wanted = {(f"tiny-{i}", arm) for arm, bases in RUN_ON[name].items() for i in bases}
    assert sorted(found) == sorted(wanted)


def test_the_page_has_the_tables_of_the_results(everything: list[ArmResult]) -> None:
    script = runpy.run_path(str(PAGE.parent / "make_repairs.py"))
    page, tables = PAGE.read_text(encoding="utf-8"), script["made"](everything)
    assert script["renewed"](page, tables) == page, "run: python lab/docs/make_repairs.py"
    assert all(table in page for table in tables.values())


def test_a_row_about_synonyms_is_that_of_the_file(everything: list[ArmResult]) -> None:
    """Without the code that made the table."""
    own = [one.numbers for one in everything
           if (one.experiment, one.arm) == ("held_out", "hard_positive")]  # fmt: skip
    cells = [
        " / ".join(
            f"{100 * fmean(one[benchmark][metric] for one in own):.1f}"
            for metric in ("original", "augmented", "brittleness")
        )
        for benchmark in ("world-swap", "world-relation")
    ]
    row = f"| yes | synonyms | `hard_positive` of `held_out` | {' | '.join(cells)} |"
    assert row in PAGE.read_text(encoding="utf-8")


def test_every_arm_that_was_trained_stands_in_the_tables(everything: list[ArmResult]) -> None:
    for name in ("default", "ordered"):
        shown = repair_tables([one for one in everything if one.experiment == name])
        assert "so far, and so in no table" not in shown
        assert all(f"| {arm} |" in shown for arm in RUN_ON[name] if arm != BLIND)


def test_the_card_has_the_numbers_of_the_shipped_arms(results: list[ArmResult]) -> None:
    arms = {one.arm: one for one in results if one.base == "tiny-0"}
    assert {arms[name].fingerprint for name in MODELS} == {load("base").fingerprint}
    rows = [line.split(" | ") for line in CARD.read_text(encoding="utf-8").splitlines()]
    head = ["| benchmark", "metric", *(f"tiny:{name}" for name in MODELS[:-1])]
    start = next(at for at, row in enumerate(rows) if row[: len(head)] == head)
    found = 0
    for row in rows[start + 2 : rows.index([""], start)]:
        metric = row[1].removesuffix(" ↓").replace("\\_", "_")
        values = [arms[name].numbers[row[0].removeprefix("| ")][metric] for name in MODELS]
        assert [f"{100 * value:.1f}" for value in values] == [
            cell.removesuffix(" |") for cell in row[2:]
        ]
        found += 1
    assert found == 18
