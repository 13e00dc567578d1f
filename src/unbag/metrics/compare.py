"""Compare two scorers on the same units: paired difference, interval and significance tests.

Dimensions: U shared units, G clusters, R resamples, F flips, D distinct sizes of differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.aggregate import UnitGroup, groups_of, weighted_groups
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
"""Up to this many differing clusters, all sign flips (4,096) are enumerated."""
FLIPS = 10_000


@dataclass(frozen=True, eq=False)
class Contest:
    """Two scorers on one metric of one benchmark."""

    benchmark: str
    names: tuple[str, str]
    first: Outcomes
    second: Outcomes
    aggregate: Aggregate = MICRO
    """The averaging rule of both values."""


def compare_all(
    contests: Sequence[Contest], *, protocol: EvalProtocol, seed: int
) -> tuple[Comparison, ...]:
    """Compare all contests, with Holm's correction over them."""
    comparisons = [
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
    return correct(comparisons)


def correct(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Add Holm's correction over all comparisons that have a p-value."""
    corrected = iter(holm([c.p_value for c in comparisons if c.p_value is not None]))
    return tuple(
        c if c.p_value is None else replace(c, p_holm=next(corrected)) for c in comparisons
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
    """Second minus first on their shared units, with a paired, clustered bootstrap.

    Both values are averages by the rule over the shared units, or micro averages if the rule does
    not apply to this metric. `p_holm` stays None: it depends on all comparisons (see
    `compare_all`).
    """
    aggregate = aggregate if groups_of(first, aggregate) else MICRO
    groups, row_U4 = _paired(first, second, aggregate, names=names, benchmark=benchmark)
    strata = [
        Stratum.of(row_U4[member_U], [first.clusters[i] for i in member_U], share)
        for member_U, share in groups
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
    """Exact two-sided p-value from the units that only one scorer got right; 1 without any."""
    from scipy.special import bdtr

    only_first = int(np.sum(first_U > second_U))
    only_second = int(np.sum(second_U > first_U))
    discordant = only_first + only_second
    if not discordant:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), discordant, 0.5)))


def sign_flip(difference_G: FloatArray, *, rng: np.random.Generator) -> float:
    """Two-sided p-value of a sum of cluster differences if the sign of each were random.

    All sign flips are enumerated if at most 12 clusters differ. Otherwise 10,000 are drawn, and the
    observed one is counted too, so that p is never 0.
    """
    size_K = np.abs(difference_G[difference_G != 0])
    if not len(size_K):
        return 1.0
    # Rounding must not make an equally extreme flip look less extreme.
    observed = abs(float(difference_G.sum())) - 1e-9 * float(size_K.sum())
    if len(size_K) <= ENUMERATED:
        sign_FK = 1 - 2 * (np.arange(2 ** len(size_K))[:, None] >> np.arange(len(size_K)) & 1)
        return float(np.mean(np.abs(sign_FK @ size_K) >= observed))
    size_D, count_D = np.unique(size_K, return_counts=True)
    step, hits = max(1, CELLS // len(size_D)), 0
    for start in range(0, FLIPS, step):
        positive_FD = rng.binomial(count_D, 0.5, size=(min(step, FLIPS - start), len(size_D)))
        hits += int(np.sum(np.abs((2 * positive_FD - count_D) @ size_D) >= observed))
    return (1 + hits) / (1 + FLIPS)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, which bounds the family-wise error rate; in the given order."""
    tests, adjusted, largest = len(p_values), [0.0] * len(p_values), 0.0
    for place, test in enumerate(sorted(range(tests), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (tests - place) * p_values[test]))
        adjusted[test] = largest
    return adjusted


def _difference(sum_X4: FloatArray) -> FloatArray:
    """Ratio of the second minus ratio of the first; NaN if one has no weight."""
    return ratio(sum_X4[..., 2:]) - ratio(sum_X4[..., :2])


def _paired(
    first: Outcomes,
    second: Outcomes,
    aggregate: Aggregate,
    *,
    names: tuple[str, str],
    benchmark: str,
) -> tuple[list[UnitGroup], FloatArray]:
    """Groups of shared units (indices into the first), and values and weights of both scorers.

    Rows of units that are not shared are NaN.
    """
    members = groups_of(first, aggregate)
    counted_units = {i for indices in members.values() for i in indices}
    if first.metric != second.metric:
        raise UnbagError(
            f"{benchmark}: {first.metric!r} of {names[0]} against {second.metric!r} of {names[1]}",
            expected="the same metric of both",
        )
    place = {unit: i for i, unit in enumerate(second.units) if np.isfinite(second.value_U[i])}
    pairs = [
        (i, place[unit])
        for i, unit in enumerate(first.units)
        if i in counted_units and unit in place and np.isfinite(first.value_U[i])
    ]
    if not pairs:
        raise UnbagError(
            f"{benchmark}: {names[0]} and {names[1]} share no valid unit of {first.metric!r}",
            expected="two scorers measured on the same items",
            hint="score both on the same benchmark and the same part of it",
        )
    index_first, index_second = map(list, zip(*pairs, strict=True))
    row_U4 = np.full((len(first.units), 4), np.nan)
    row_U4[index_first, 0] = first.value_U[index_first]
    row_U4[index_first, 1] = first.weight_U[index_first]
    row_U4[index_first, 2] = second.value_U[index_second]
    row_U4[index_first, 3] = second.weight_U[index_second]
    shared_units = set(index_first)
    shared = {key: [i for i in indices if i in shared_units] for key, indices in members.items()}
    return weighted_groups(first, shared), row_U4


def _test(
    first: Outcomes, groups: Sequence[UnitGroup], row_U4: FloatArray, rng: np.random.Generator
) -> tuple[float | None, str]:
    """The p-value and the name of the test: McNemar's if units are independent, else sign flips.

    Sign flips reverse whole clusters. In a macro average each unit's difference has its weight in
    the average.
    """
    index_U: IntArray = np.concatenate([group.index_U for group in groups])
    row_U4 = row_U4[index_U]
    # The tests apply to right and wrong, not to means, ratios or half credits.
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
