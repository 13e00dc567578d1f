"""A claim and results come in; a warning of readers that learned by heart and no more goes out.

A reader may learn a few fixed examples and then fail to train. Its bases count by the rule, which
was fixed before, but an effect over them says little of what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from types import MappingProxyType

from unbag.lab.arm_result import ArmResult
from unbag.lab.base_names import in_order
from unbag.lab.claim import Claim
from unbag.lab.verdict import by_base

METRIC, CHANCE = "original", 0.5
QUADS: Mapping[str, int] = MappingProxyType({"world-swap": 100, "world-relation": 120})
"""Of the registered benchmarks; the eight items of one share pictures and words, and count as one.
"""


def told_nothing(claim: Claim, results: Sequence[ArmResult]) -> dict[str, list[str]]:
    """By arm, the bases that count though it is at chance on all of these benchmarks there."""
    found: dict[str, list[str]] = {}
    bases = by_base(results)
    for base in in_order(bases):
        arms = bases[base]
        for name in claim.must_fit if claim.counts(arms) else ():
            if all(is_coin(arms[claim.experiment, name], benchmark) for benchmark in QUADS):
                found.setdefault(name, []).append(base)
    return found


def is_coin(one: ArmResult, benchmark: str) -> bool:
    """Within 95 % of what tossing a coin gives; small runs ask fewer items and decide nothing."""
    share = one.numbers.get(benchmark, {}).get(METRIC)
    if one.size == "small" or share is None or benchmark not in QUADS:
        return False
    return abs(share - CHANCE) <= 1.96 * sqrt(0.25 / (QUADS[benchmark] * one.times))


def warning(claim: Claim, results: Sequence[ArmResult]) -> str:
    """To stand beside a verdict; empty where every reader tells something apart."""
    found = told_nothing(claim, results)
    if not found:
        return ""
    where = "; ".join(f"`{arm}` on {', '.join(bases)}" for arm, bases in found.items())
    names = " and ".join(f"`{name}`" for name in QUADS)
    return (
        "Mind: some readers learned fixed examples by heart and yet, trained, are within sampling "
        f"noise of chance on both {names}: {where}. A reader that tells nothing "
        "apart says little of what it reads, and so does an effect averaged over such bases."
    )
