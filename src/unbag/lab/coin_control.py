"""A claim and results come in; a warning of brittleness that could only fall goes out.

What is a coin on originals is as brittle as can be. Where the arm that a prediction compares with
is one, whatever teaches the benchmark lowers brittleness, and the prediction that it rises could
hardly come out: its verdict says little of rewordings.
"""

from __future__ import annotations

from collections.abc import Sequence

from unbag.lab.arm_result import ArmResult
from unbag.lab.claim import Claim, Number
from unbag.lab.told_nothing import is_coin, warning
from unbag.lab.verdict import by_base

BRITTLENESS = "brittleness"


def coin_controls(claim: Claim, results: Sequence[ArmResult]) -> tuple[Number, ...]:
    """Of predictions that brittleness rises, controls that are coins on every base that counts."""
    bases = [arms for arms in by_base(results).values() if claim.counts(arms)]
    found: dict[Number, None] = {}
    for one in claim.predictions:
        control = one.control
        if not isinstance(control, Number) or control.metric != BRITTLENESS or one.side != "above":
            continue
        key = control.key(claim.experiment)
        asked = [arms[key] for arms in bases if key in arms]
        if asked and all(is_coin(result, control.benchmark) for result in asked):
            found[control] = None
    return tuple(found)


def minds(claim: Claim, results: Sequence[ArmResult]) -> list[str]:
    """All that a reader of a verdict must mind, a text each."""
    return [one for one in (warning(claim, results), coin_warning(claim, results)) if one]


def coin_warning(claim: Claim, results: Sequence[ArmResult]) -> str:
    """To stand beside a verdict; empty where brittleness has room to rise."""
    found = coin_controls(claim, results)
    if not found:
        return ""
    where = ", ".join(f"`{one.arm}` on `{one.benchmark}`" for one in found)
    return (
        f"Mind: what brittleness is compared with is a coin ({where}, within sampling noise of "
        "chance on every base), and a coin is as brittle as can be. Whatever teaches the benchmark "
        "lowers brittleness, so that it rises could hardly come out there. What is told apart "
        "before the repair stands beside."
    )
