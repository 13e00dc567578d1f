"""Outcomes of two scorers come in; their paired difference with interval and tests goes out.

Dimensions: U shared units, R resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbag.errors import UserError
from unbag.metrics.intervals import cluster_rows, percentile
from unbag.metrics.resample import generator, resampled_sums
from unbag.types import Comparison, EvalProtocol, FloatArray, Outcomes


@dataclass(frozen=True, eq=False)
class Contest:
    """Two scorers on one metric of one benchmark."""

    benchmark: str
    names: tuple[str, str]
    first: Outcomes
    second: Outcomes


def compare_all(
    contests: Sequence[Contest], *, protocol: EvalProtocol, seed: int
) -> tuple[Comparison, ...]:
    """All comparisons, with Holm's correction over them."""
    found = [
        compare(
            contest.first,
            contest.second,
            names=contest.names,
            benchmark=contest.benchmark,
            protocol=protocol,
            seed=seed,
        )
        for contest in contests
    ]
    tested = [one.p_mcnemar for one in found if one.p_mcnemar is not None]
    corrected = iter(holm(tested))
    return tuple(
        one if one.p_mcnemar is None else replace(one, p_holm=next(corrected)) for one in found
    )


def compare(
    first: Outcomes,
    second: Outcomes,
    *,
    names: tuple[str, str],
    benchmark: str,
    protocol: EvalProtocol,
    seed: int,
) -> Comparison:
    """Second minus first on the units that both were judged on, with a paired, clustered bootstrap.

    `p_holm` is left open: it needs all the other comparisons (see `compare_all`). McNemar's test
    takes units as independent, the interval does not: where clusters are large, trust the interval.
    """
    index_first, index_second = _shared(first, second, names=names, benchmark=benchmark)
    row_U4 = np.stack(
        [
            first.value_U[index_first],
            first.weight_U[index_first],
            second.value_U[index_second],
            second.weight_U[index_second],
        ],
        axis=1,
    )
    row_G4 = cluster_rows(row_U4, [first.clusters[i] for i in index_first])
    rng = generator(seed, benchmark, first.metric, *names)
    draw_R = _difference(resampled_sums(row_G4, resamples=protocol.resamples, rng=rng))
    low, high, _ = percentile(draw_R, protocol.confidence, "paired bootstrap")
    p = mcnemar(row_U4[:, 0], row_U4[:, 2]) if _is_testable(first, row_U4) else None
    return Comparison(
        benchmark=benchmark,
        metric=first.metric,
        first=names[0],
        second=names[1],
        difference=float(_difference(row_G4.sum(axis=0, keepdims=True))[0]),
        low=low,
        high=high,
        n=len(row_U4),
        p_mcnemar=p,
        p_holm=None,
    )


def mcnemar(first_U: FloatArray, second_U: FloatArray) -> float:
    """Exact two-sided p of the units that only one of the two got right; 1 if there are none."""
    from scipy.special import bdtr

    only_first = int(np.sum(first_U > second_U))
    only_second = int(np.sum(second_U > first_U))
    discordant = only_first + only_second
    if not discordant:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), discordant, 0.5)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: bounds the chance of any false alarm, in the given order."""
    tests, adjusted, largest = len(p_values), [0.0] * len(p_values), 0.0
    for place, test in enumerate(sorted(range(tests), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (tests - place) * p_values[test]))
        adjusted[test] = largest
    return adjusted


def _difference(sum_R4: FloatArray) -> FloatArray:
    """Ratio of the second minus ratio of the first; NaN where one has no weight."""
    weight_R2 = np.where(sum_R4[:, 1::2] == 0, np.nan, sum_R4[:, 1::2])
    ratio_R2 = sum_R4[:, 0::2] / weight_R2
    return ratio_R2[:, 1] - ratio_R2[:, 0]


def _is_testable(first: Outcomes, row_U4: FloatArray) -> bool:
    """McNemar's test is for right and wrong, not for means, ratios or half credits."""
    is_right_or_wrong = bool(np.isin(row_U4[:, 0::2], (0.0, 1.0)).all())
    return first.is_rate and is_right_or_wrong and bool((row_U4[:, 1::2] == 1).all())


def _shared(
    first: Outcomes, second: Outcomes, *, names: tuple[str, str], benchmark: str
) -> tuple[list[int], list[int]]:
    """Positions of the units that are valid in both, in the order of the first."""
    if first.metric != second.metric:
        raise UserError(
            f"{benchmark}: {first.metric!r} of {names[0]} against {second.metric!r} of {names[1]}",
            expected="the same metric of both",
        )
    place = {unit: i for i, unit in enumerate(second.units) if np.isfinite(second.value_U[i])}
    pairs = [
        (i, place[unit])
        for i, unit in enumerate(first.units)
        if unit in place and np.isfinite(first.value_U[i])
    ]
    if not pairs:
        raise UserError(
            f"{benchmark}: {names[0]} and {names[1]} share no valid unit of {first.metric!r}",
            expected="two scorers judged on the same items",
            way_out="score both on the same benchmark and the same part of it",
        )
    return [i for i, _ in pairs], [j for _, j in pairs]
