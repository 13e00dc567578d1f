"""Tables and figures of the page on photographs are those of the data files."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from unbag.models.photo import SHIPPED, load
from unbag_lab.experiments.photos_training import (
    ARMS,
    LOCKED,
    ArmNumber,
    difference,
    read_numbers,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "lab" / "docs"
PAGE = (DOCS / "photos.md").read_text(encoding="utf-8")
CARD = ROOT / "src" / "unbag" / "models" / "weights" / "README.md"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_photos.py"))


@pytest.fixture(scope="module")
def of(script: dict[str, Any]) -> Any:
    return script["read"]("photo_heads.json", "photo_arms.json")


def test_tables_and_plots_are_those_of_the_numbers(script: dict[str, Any], of: Any) -> None:
    tables, plots = script["made"](of)
    assert script["renewed"](PAGE, tables) == PAGE, "run: python lab/docs/make_photos.py"
    for table in tables.values():
        assert table in PAGE
    for name, plot in plots.items():
        assert (DOCS / "images" / name).read_text(encoding="utf-8") == plot
        assert f"(images/{name})" in PAGE


@pytest.fixture(scope="module")
def numbers() -> list[ArmNumber]:
    return read_numbers(DOCS / "photo_arms.json")


def test_every_arm_is_there_with_three_seeds(numbers: list[ArmNumber]) -> None:
    built = {"heads", "text", "both"}
    repaired = {f"{name}{lock}" for name in ("clip_ft", *ARMS) for lock in LOCKED}
    assert {one.arm for one in numbers} == built | repaired
    assert {len(one.by_seed) for one in numbers} == {3}
    assert all(one.low <= one.mean <= one.high for one in numbers)


def test_all_arms_with_heads_alone_have_the_same_seeds(script: dict[str, Any]) -> None:
    alone = script["read"]("photo_heads.json")
    assert {arm for arm, _ in alone} >= {*script["HEADS"], script["BLIND"]}
    seeds = {len(one.by_seed) for (arm, _), one in alone.items() if arm != script["BLIND"]}
    assert seeds == {3}
    assert all(one.low <= one.mean <= one.high for one in alone.values())


def test_the_ends_of_the_curve_are_the_models_that_were_mixed(of: Any, script: Any) -> None:
    alone = script["read"]("photo_heads.json")
    for metric in script["CURVE"]:
        assert alone["mix 0", metric].by_seed == alone["heads", metric].by_seed
        assert alone["mix 1", metric].by_seed == alone["hard_negative-heads", metric].by_seed


def test_a_difference_is_paired_within_seeds() -> None:
    one, control = (
        ArmNumber("a", "m", by_seed, 0.0, 1.0, 9) for by_seed in ((0.3, 0.5, 0.4), (0.2, 0.4, 0.3))
    )
    mean, half = difference(one, control)
    assert mean == pytest.approx(0.1)
    assert half == pytest.approx(0.0, abs=1e-12)
    apart = ArmNumber("c", "m", (0.1, 0.4, 0.4), 0.0, 1.0, 9)
    mean, half = difference(apart, control)
    # Differences -.1, 0, .1: deviation .1, and 4.302653 is Student's for three.
    assert mean == pytest.approx(0.0)
    assert half == pytest.approx(4.302653 * 0.1 / 3**0.5)


def test_the_card_is_of_the_shipped_heads() -> None:
    card = CARD.read_text(encoding="utf-8")
    for name in SHIPPED:
        model = load(name)
        assert f"`{model.fingerprint}`" in card
        assert model.encode_texts(["a dog on the grass"]).shape == (1, 256)
