"""What tests of the page on read-outs share: the page, the numbers, and how they are said."""

from __future__ import annotations

from pathlib import Path

from unbag_lab.results import RESULTS, ArmResult, in_order, place, read_results
from unbag_lab.verdict import interval

ROOT = Path(__file__).parents[3]
DOCS, LAB = ROOT / "docs", ROOT / "lab" / "docs"
PAGE = LAB / "readouts-on-the-world.md"
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


def takes_many_steps(arm: str) -> bool:
    """Whether it was taught for 20,000 steps, or goes on from a decoder that was."""
    return arm.endswith(("-long", "-relations"))


def values(results: list[ArmResult], arm: str, bench: str, metric: str) -> list[float]:
    """In percent, by base."""
    found = sorted((one for one in results if one.arm == arm), key=lambda one: place(one.base))
    return [100 * one.numbers[bench][metric] for one in found]


def apart_of(
    results: list[ArmResult],
    arm: str,
    other: str,
    asked: tuple[str, str] = RELATION,
    bases: tuple[str, ...] | None = None,
) -> list[float]:
    """Points by which one arm is above another, on the bases that both have."""
    bench, metric = asked
    found = {
        (one.arm, one.base): one.numbers[bench][metric]
        for one in results
        if bases is None or one.base in bases
    }
    both = in_order(base for name, base in found if name == arm and (other, base) in found)
    return [100 * (found[arm, base] - found[other, base]) for base in both]


def ends(found: list[float], digits: int = 1) -> str:
    """The least and the most, as a sentence says it."""
    return f"{min(found):.{digits}f} to {max(found):.{digits}f}"


def with_interval(apart: list[float]) -> str:
    """Their mean and its 95 % interval, as pages say it."""
    middle, half = interval(apart)
    return f"{shown(middle)} [{shown(middle - half, '+')}, {shown(middle + half, '+')}]"


def listed(found: list[float]) -> str:
    """All of them, as a sentence says it."""
    said = [shown(one) for one in found]
    return f"{', '.join(said[:-1])} and {said[-1]}"


def shown(value: float, sign: str = "") -> str:
    """With one digit, and zero without a sign."""
    text = f"{value:{sign}.1f}"
    return "0.0" if float(text) == 0 else text
