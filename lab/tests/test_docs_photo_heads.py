"""What the page on photographs says of order, mixing and diagnosis is what the data files hold."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "photos.md").read_text(encoding="utf-8")


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


def test_every_arm_has_the_same_seeds_and_the_page_says_so(script: dict[str, Any]) -> None:
    alone = script["read"]("photo_heads.json")
    assert {arm for arm, _ in alone} >= {*script["HEADS"], script["BLIND"]}
    [seeds] = {len(one.by_seed) for (arm, _), one in alone.items() if arm != script["BLIND"]}
    assert ("seed 0 only" in PAGE) == (seeds == 1)
    assert all(one.low <= one.mean <= one.high for one in alone.values())


def test_the_ends_of_the_curve_are_the_models_that_were_mixed(of: Any, script: Any) -> None:
    alone = script["read"]("photo_heads.json")
    for metric in script["CURVE"]:
        assert alone["mix 0", metric].by_seed == alone["heads", metric].by_seed
        assert alone["mix 1", metric].by_seed == alone["hard_negative-heads", metric].by_seed


def test_what_was_diagnosed_stands_on_the_page() -> None:
    told = json.loads((DOCS / "photo_diagnosis.json").read_text(encoding="utf-8"))
    words = " ".join(PAGE.split())
    for answer in told["answers"]:
        for model in ("before", "after"):
            assert answer[model] is None or answer[model] in words
