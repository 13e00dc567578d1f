"""The tables of the page on photographs are those of the data file; the card is of the files."""

from pathlib import Path

import pytest

from unbag.models.photo import SHIPPED, load
from unbag_lab.experiments.photos_training import (
    ARMS,
    LOCKED,
    ArmNumber,
    difference,
    read_numbers,
    tables,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "lab" / "docs" / "photos.md"
CARD = ROOT / "src" / "unbag" / "models" / "weights" / "README.md"


@pytest.fixture(scope="module")
def numbers() -> list[ArmNumber]:
    return read_numbers(ROOT / "lab" / "docs" / "photo_arms.json")


def test_every_arm_is_there_with_three_seeds(numbers: list[ArmNumber]) -> None:
    built = {"heads", "text", "both"}
    repaired = {f"{name}{lock}" for name in ("clip_ft", *ARMS) for lock in LOCKED}
    assert {one.arm for one in numbers} == built | repaired
    assert {len(one.by_seed) for one in numbers} == {3}
    assert all(one.low <= one.mean <= one.high for one in numbers)


def test_the_page_shows_what_the_command_prints(numbers: list[ArmNumber]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    for part in tables(numbers).split("\n\n"):
        assert part in said


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
