"""What tests of the page on read-outs share: the page, the numbers, and how they are said."""

from __future__ import annotations

from pathlib import Path

from unbag.lab.arm_result import ArmResult, read_results
from unbag.lab.shipped import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "readouts-on-the-world.md"
COUNTED = ("tiny-0", "tiny-5", "tiny-6", "tiny-7", "tiny-8")
"""Bases on which readers of patches learned by heart in the later way."""
RELATION, SWAP = ("world-relation", "original"), ("world-swap", "original")
STRICT = ("world-pairs-a", "pair")


def shipped_readouts() -> list[ArmResult]:
    """Of every arm on every base."""
    return read_results(RESULTS / "readouts.json")


def words_of(page: Path = PAGE) -> str:
    """Its text in one line."""
    return " ".join(page.read_text(encoding="utf-8").split())


def shown(value: float, sign: str = "") -> str:
    """With one digit, and zero without a sign."""
    text = f"{value:{sign}.1f}"
    return "0.0" if float(text) == 0 else text
