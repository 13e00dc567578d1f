"""Two scorers on the same units: the paired difference with its interval and tests.

Dimensions: U shared units, G clusters, R resamples, F flips, D distinct sizes of differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.aggregate import UnitGroup, groups_of, share_out
from unbag.metrics.intervals import (
    CELLS,
    Stratum,
    cluster_rows,
    draws,
    generator,
    percentile,
    ratio,
)
from unbag.types import MICRO, Aggregate, Comparison, EvalProtocol, FloatArray, IntArray, Outcomes

MCNEMAR, SIGN_FLIP = "mcnemar", "sign flip over clusters"
ENUMERATED = 12
"""Clusters with a difference up to which all flips are tried: 4,096."""
FLIPS = 10_000


@dataclass(frozen=True, eq=False)
class Contest:
    """Two scorers on one metric of one benchmark."""

    benchmark: str
    names: tuple[str, str]
    first: Outcomes
    second: Outcomes
    aggregate: Aggregate = MICRO
    """The averaging rule of the two values."""


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
            aggregate=contest.aggregate,
            protocol=protocol,
            seed=seed,
        )
        for contest in contests
    ]
    return correct(found)


def correct(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The same comparisons with Holm's correction over all of them that have a test."""
    corrected = iter(holm([one.p_value for one in comparisons if one.p_value is not None]))
    return tuple(
        one if one.p_value is None else replace(one, p_holm=next(corrected)) for one in comparisons
    )


def compare(
    first: Outcomes,
    second: Outcomes,
    *,
    names: tuple[str, str],
    benchmark: str,
    aggregate: Aggregate = MICRO,
    protocol: EvalProtocol,
    seed: int,
) -> Comparison:
    """Second minus first on the units that both were judged on, with a paired, clustered bootstrap.

    Both values are averages by the rule over the shared units; a rule that has no meaning for this
    metric gives way to micro. `p_holm` is left open: it needs all the other comparisons (see
    `compare_all`).
    """
    aggregate = aggregate if groups_of(first, aggregate) else MICRO
    groups, row_U4 = _paired(first, second, aggregate, names=names, benchmark=benchmark)
    strata = [
        Stratum.of(row_U4[at_U], [first.clusters[i] for i in at_U], share) for at_U, share in groups
    ]
    source = (benchmark, first.metric, *names)
    rng = generator(seed, *source)
    draw_R = draws(strata, resamples=protocol.resamples, rng=rng, statistic=_difference)
    low, high, _ = percentile(draw_R, protocol.confidence, "paired bootstrap")
    p, test = _test(first, groups, row_U4, generator(seed, *source, SIGN_FLIP))
    return Comparison(
        benchmark=benchmark,
        metric=first.metric,
        first=names[0],
        second=names[1],
        difference=sum(s.share * float(_difference(s.row_GM.sum(axis=0))) for s in strata),
        low=low,
        high=high,
        n=sum(len(group.index_U) for group in groups),
        p_value=p,
        p_holm=None,
        test=test,
        aggregate=aggregate.name,
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


def sign_flip(difference_G: FloatArray, *, rng: np.random.Generator) -> float:
    """Two-sided p of a sum of cluster differences, had each cluster been as likely to be reversed.

    All flips are tried where 12 clusters or fewer differ; else 10,000 are drawn, and the one that
    was seen is counted among them, so that p is never 0.
    """
    size_K = np.abs(difference_G[difference_G != 0])
    if not len(size_K):
        return 1.0
    # Rounding must not make a flip that is as extreme look less so.
    seen = abs(float(difference_G.sum())) - 1e-9 * float(size_K.sum())
    if len(size_K) <= ENUMERATED:
        sign_FK = 1 - 2 * (np.arange(2 ** len(size_K))[:, None] >> np.arange(len(size_K)) & 1)
        return float(np.mean(np.abs(sign_FK @ size_K) >= seen))
    size_D, count_D = np.unique(size_K, return_counts=True)
    step, hits = max(1, CELLS // len(size_D)), 0
    for start in range(0, FLIPS, step):
        kept_FD = rng.binomial(count_D, 0.5, size=(min(step, FLIPS - start), len(size_D)))
        hits += int(np.sum(np.abs((2 * kept_FD - count_D) @ size_D) >= seen))
    return (1 + hits) / (1 + FLIPS)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: bounds the chance of any false alarm, in the given order."""
    tests, adjusted, largest = len(p_values), [0.0] * len(p_values), 0.0
    for place, test in enumerate(sorted(range(tests), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (tests - place) * p_values[test]))
        adjusted[test] = largest
    return adjusted


def _difference(sum_X4: FloatArray) -> FloatArray:
    """Ratio of the second minus ratio of the first; NaN where one has no weight."""
    return ratio(sum_X4[..., 2:]) - ratio(sum_X4[..., :2])


def _paired(
    first: Outcomes,
    second: Outcomes,
    aggregate: Aggregate,
    *,
    names: tuple[str, str],
    benchmark: str,
) -> tuple[list[UnitGroup], FloatArray]:
    """Groups of shared units by their place in the first, and both scorers' values and weights.

    Rows of units that do not count are NaN.
    """
    members = groups_of(first, aggregate)
    counted = {i for found in members.values() for i in found}
    if first.metric != second.metric:
        raise UnbagError(
            f"{benchmark}: {first.metric!r} of {names[0]} against {second.metric!r} of {names[1]}",
            expected="the same metric of both",
        )
    place = {unit: i for i, unit in enumerate(second.units) if np.isfinite(second.value_U[i])}
    pairs = [
        (i, place[unit])
        for i, unit in enumerate(first.units)
        if i in counted and unit in place and np.isfinite(first.value_U[i])
    ]
    if not pairs:
        raise UnbagError(
            f"{benchmark}: {names[0]} and {names[1]} share no valid unit of {first.metric!r}",
            expected="two scorers judged on the same items",
            hint="score both on the same benchmark and the same part of it",
        )
    index_first, index_second = map(list, zip(*pairs, strict=True))
    row_U4 = np.full((len(first.units), 4), np.nan)
    row_U4[index_first, 0] = first.value_U[index_first]
    row_U4[index_first, 1] = first.weight_U[index_first]
    row_U4[index_first, 2] = second.value_U[index_second]
    row_U4[index_first, 3] = second.weight_U[index_second]
    kept = set(index_first)
    shared = {key: [i for i in found if i in kept] for key, found in members.items()}
    return share_out(first, shared), row_U4


def _test(
    first: Outcomes, groups: Sequence[UnitGroup], row_U4: FloatArray, rng: np.random.Generator
) -> tuple[float | None, str]:
    """McNemar's test takes units as independent and alike: else clusters are flipped as a whole.

    In a macro average a unit's difference counts with its part in the average.
    """
    index_U: IntArray = np.concatenate([group.index_U for group in groups])
    row_U4 = row_U4[index_U]
    # The tests are for right and wrong, not for means, ratios or half credits.
    is_right_or_wrong = np.isin(row_U4[:, 0::2], (0.0, 1.0)).all()
    if not (first.is_rate and is_right_or_wrong and (row_U4[:, 1::2] == 1).all()):
        return None, ""
    clusters = [first.clusters[i] for i in index_U]
    if len(groups) == 1 and len(set(clusters)) == len(clusters):
        return mcnemar(row_U4[:, 0], row_U4[:, 2]), MCNEMAR
    part_U = np.ones(len(index_U))
    if len(groups) > 1:
        part_U = np.concatenate([np.full(len(g.index_U), g.share / len(g.index_U)) for g in groups])
    difference_U1 = (part_U * (row_U4[:, 2] - row_U4[:, 0]))[:, None]
    return sign_flip(cluster_rows(difference_U1, clusters)[:, 0], rng=rng), SIGN_FLIP
