"""A claim and results come in; its numbers and those beside it go out, as means over bases.

Only bases that count for the claim, so that all arms are of the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean

from unbag.lab.arm_result import ArmResult
from unbag.lab.claim import ArmKey, Claim
from unbag.lab.verdict import by_base
from unbag.lab.wording import points

PAIR, RELAXED = "pair", "relaxed"


@dataclass(frozen=True)
class Beside:
    """One metric of all arms that have it."""

    benchmark: str
    metric: str
    values: Mapping[ArmKey, tuple[float, ...]]
    """One for each base."""

    def text(self, key: ArmKey) -> str:
        """Mean in points, and of how many bases."""
        some = self.values.get(key)
        return f"{points(fmean(some), signed=False)} ({len(some)})" if some else "–"


def numbers_beside(claim: Claim, results: Sequence[ArmResult]) -> tuple[Beside, ...]:
    """Every metric of a claim, of every arm that has it; none if nothing beside it was run.

    Beside strict pairs stand relaxed ones, which vectors that are merely less alike do not raise.
    """
    bases = [arms for arms in by_base(results).values() if claim.counts(arms)]
    tested = [number for one in claim.predictions for number in one.numbers]
    pairs = [replace(one, metric=RELAXED) for one in (*tested, *claim.beside) if one.metric == PAIR]
    beside = (*claim.beside, *pairs)
    if not any(one.of(arms, claim.experiment) is not None for one in beside for arms in bases):
        return ()
    found = []
    for benchmark, metric in dict.fromkeys(
        (one.benchmark, one.metric) for one in (*tested, *beside)
    ):
        values = {}
        for key in (*claim.arms, *claim.arms_beside):
            told = [
                arms[key].numbers.get(benchmark, {}).get(metric) for arms in bases if key in arms
            ]
            if known := tuple(one for one in told if one is not None and isfinite(one)):
                values[key] = known
        found.append(Beside(benchmark, metric, values))
    return tuple(one for one in found if one.values)


def arm_name(key: ArmKey, claim: Claim) -> str:
    """With its experiment, where that is not the claim's own."""
    experiment, arm = key
    return f"`{arm}`" if experiment == claim.experiment else f"`{arm}` of `{experiment}`"
