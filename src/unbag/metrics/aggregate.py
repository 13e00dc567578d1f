"""Compute a benchmark's numbers from scores: outcomes of all units, averages and intervals.

Dimensions: U units, G clusters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.intervals import Interval, Stratum, generator, interval
from unbag.types import (
    MICRO,
    Aggregate,
    Benchmark,
    Case,
    Estimate,
    EvalProtocol,
    IntArray,
    Outcomes,
    Result,
    RunRecord,
)

MAX_INVALID = 0.01
TAG_RESAMPLES = 10_000
MAX_TAG_VALUES = 60
"""A tag with more values than this identifies units instead of grouping them."""


def measure(
    benchmark: Benchmark,
    cases: Sequence[Case],
    *,
    protocol: EvalProtocol,
    seed: int,
    allow_invalid: bool = False,
) -> Measured:
    """Apply all metrics of the benchmark to all cases, and average by all of its rules."""
    _check_cases(benchmark, cases)
    outcomes = outcomes_by_metric(benchmark, cases, protocol=protocol)
    overall: dict[str, Mapping[str, Estimate]] = {}
    for aggregate in benchmark.aggregates:
        if aggregate.name in overall:
            raise UnbagError(
                f"benchmark {benchmark.name!r} has two averaging rules named {aggregate.name!r}",
                expected="a name for each",
                hint="give one of them a label",
            )
        overall[aggregate.name] = {
            name: estimate(
                outcome,
                aggregate,
                protocol=protocol,
                seed=seed,
                benchmark=benchmark.name,
                allow_invalid=allow_invalid,
            )
            for name, outcome in outcomes.items()
            # A metric whose units lack the tags of a rule is left out; no units at all is an error.
            if not outcome.units or groups_of(outcome, aggregate)
        }
    if not any(benchmark.headline in outcome for outcome in overall.values()):
        rules = ", ".join(aggregate.name for aggregate in benchmark.aggregates)
        raise UnbagError(
            f"no averaging rule of benchmark {benchmark.name!r} ({rules}) fits any unit of "
            f"{benchmark.headline!r}",
            expected="tags that the items have",
            hint="check the tags of the loader and `aggregates` of the benchmark",
        )
    tagged: dict[str, dict[str, Estimate]] = {}
    for name, outcome in outcomes.items():
        for key, value in by_tag(outcome, protocol=protocol, seed=seed).items():
            tagged.setdefault(key, {})[name] = value
    return Measured(benchmark, protocol, outcomes, overall, tagged)


def _check_cases(benchmark: Benchmark, cases: Sequence[Case]) -> None:
    if not cases:
        raise UnbagError(
            f"benchmark {benchmark.name!r} has no items",
            expected="at least one item with scores",
            hint="check its data folder, and any limit on the number of items",
        )
    repeated = [name for name, n in Counter(case.item.id for case in cases).items() if n > 1]
    if repeated:
        raise UnbagError(
            f"benchmark {benchmark.name!r} has {len(repeated)} item ids more than once, "
            f"such as {repeated[0]!r}",
            expected="every item id once",
            hint="check the loader of this benchmark",
        )
    for case in cases:
        if case.item.id != case.scores.item:
            raise UnbagError(
                f"item {case.item.id!r} comes with the scores of item {case.scores.item!r}",
                expected="the scores of that item",
            )


def outcomes_by_metric(
    benchmark: Benchmark, cases: Sequence[Case], *, protocol: EvalProtocol
) -> Mapping[str, Outcomes]:
    """The outcomes of every metric, by its name."""
    outcomes: dict[str, Outcomes] = {}
    for metric in benchmark.metrics:
        for metric_outcomes in metric(cases, ties=protocol.ties, tie_eps=protocol.tie_eps):
            if metric_outcomes.metric in outcomes:
                raise UnbagError(
                    f"benchmark {benchmark.name!r} has the metric {metric_outcomes.metric!r} twice",
                    expected="every metric once",
                )
            outcomes[metric_outcomes.metric] = metric_outcomes
    if benchmark.headline not in outcomes:
        raise UnbagError(
            f"no metric of benchmark {benchmark.name!r} gives its headline {benchmark.headline!r}",
            expected=f"one of {', '.join(outcomes)}",
        )
    return outcomes


def averages(
    benchmark: Benchmark, cases: Sequence[Case], *, protocol: EvalProtocol
) -> dict[str, float]:
    """Averages by metric under the benchmark's first rule, without intervals.

    This takes a hundredth of the time of `measure`. An average of nothing is NaN.
    """
    rule = benchmark.aggregates[0]
    values = {}
    for name, outcome in outcomes_by_metric(benchmark, cases, protocol=protocol).items():
        values[name] = 0.0
        for group in weighted_groups(outcome, groups_of(outcome, rule)):
            weight = outcome.weight_U[group.index_U].sum()
            value = outcome.value_U[group.index_U].sum()
            values[name] += group.share * (float(value / weight) if weight else float("nan"))
    return values


@dataclass(frozen=True, eq=False)
class Measured:
    """All numbers of one scorer on one benchmark under one protocol."""

    benchmark: Benchmark
    protocol: EvalProtocol
    outcomes: Mapping[str, Outcomes]
    """By metric; comparisons need them."""
    overall: Mapping[str, Mapping[str, Estimate]]
    """By name of the averaging rule, then by metric; without metrics whose units lack the tags of
    the rule."""
    by_tag: Mapping[str, Mapping[str, Estimate]]
    """By tag=value, then by metric; micro averages."""

    def results(
        self, scorer: str, *, is_blind: bool = False, run: RunRecord | None = None
    ) -> tuple[Result, ...]:
        """One result per averaging rule, the published one first."""
        return tuple(
            Result(
                benchmark=self.benchmark.name,
                scorer=scorer,
                protocol=self.protocol,
                aggregate=aggregate,
                headline=self.benchmark.headline,
                overall=overall,
                by_tag=self.by_tag,
                is_blind=is_blind,
                about=self.benchmark.about,
                run=run,
            )
            for aggregate, overall in self.overall.items()
        )


def estimate(
    outcomes: Outcomes,
    aggregate: Aggregate = MICRO,
    *,
    protocol: EvalProtocol,
    seed: int,
    benchmark: str = "",
    allow_invalid: bool = False,
) -> Estimate:
    """The average by the rule, with interval, ties, invalid units and chance.

    Invalid units are left out of every average. More than 1 % of them, or none left, is an error
    unless `allow_invalid`; then an average of nothing is NaN with n = 0.
    """
    members = groups_of(outcomes, aggregate)
    index_U = np.array(sorted(i for indices in members.values() for i in indices), dtype=np.int64)
    if not allow_invalid:
        where = f"{benchmark}: {outcomes.metric}" if benchmark else outcomes.metric
        if not len(index_U):
            raise UnbagError(
                f"{where}: no unit to average under {aggregate.name}",
                expected="at least one item this metric applies to",
                hint="check the loader and the metrics of this benchmark",
            )
        invalid = int((~np.isfinite(outcomes.value_U[index_U])).sum())
        if invalid > MAX_INVALID * len(index_U):
            raise UnbagError(
                f"{where}: {invalid} of {len(index_U)} units have a score that is not a finite "
                "number",
                expected=f"at most {MAX_INVALID:.0%}; the rest would no longer be the benchmark",
                hint="look for damaged images or an overflowing model, or use --allow-invalid",
            )
    rng = generator(seed, outcomes.metric, aggregate.name)
    groups = weighted_groups(outcomes, members)
    return _estimate(outcomes, groups, index_U, bool(aggregate.by), protocol, rng)


def by_tag(outcomes: Outcomes, *, protocol: EvalProtocol, seed: int) -> Mapping[str, Estimate]:
    """The micro average for every value of every tag with 2 to 60 values, keyed as tag=value.

    There can be hundreds of them, so their intervals use at most 10,000 resamples.
    """
    protocol = replace(protocol, resamples=min(protocol.resamples, TAG_RESAMPLES))
    values: dict[str, dict[str, list[int]]] = {}
    for i, tags in enumerate(outcomes.tags):
        for tag, value in tags.items():
            values.setdefault(tag, {}).setdefault(value, []).append(i)
    estimates = {}
    for tag, members in sorted(values.items()):
        if not 2 <= len(members) <= MAX_TAG_VALUES:
            continue
        for value, index in sorted(members.items()):
            rng = generator(seed, outcomes.metric, MICRO.name, tag, value)
            groups = weighted_groups(outcomes, {(): index})
            estimates[f"{tag}={value}"] = _estimate(
                outcomes, groups, np.array(index), False, protocol, rng
            )
    return estimates


def groups_of(outcomes: Outcomes, aggregate: Aggregate) -> dict[tuple[str, ...], list[int]]:
    """The indices of the units to average, by group of the rule; invalid units are included.

    Empty if the rule does not apply: it selects no unit, or no unit has its tags.
    """
    if not aggregate.by and (aggregate.least or aggregate.without):
        raise UnbagError(
            f"aggregate {aggregate.name!r} leaves out groups but has none",
            expected="`by`, the tags that make the groups",
        )
    selected = [
        i
        for i, tags in enumerate(outcomes.tags)
        if all(tags.get(tag) == value for tag, value in aggregate.only)
    ]
    if aggregate.by and not any(aggregate.by[-1] in outcomes.tags[i] for i in selected):
        return {}
    members: dict[tuple[str, ...], list[int]] = {}
    for i in selected:
        tags = outcomes.tags[i]
        for tag in aggregate.by:
            if tag not in tags:
                tag_list = ", ".join(aggregate.by)
                raise UnbagError(
                    f"{outcomes.metric}: unit {outcomes.units[i]!r} has no tag {tag!r}",
                    expected=f"every unit tagged with {tag_list} for {aggregate.name}",
                    hint="check the loader of this benchmark",
                )
        members.setdefault(tuple(tags[tag] for tag in aggregate.by), []).append(i)
    return {
        key: indices
        for key, indices in members.items()
        if len(indices) >= aggregate.least and not (key and key[-1] in aggregate.without)
    }


class UnitGroup(NamedTuple):
    """Units that are averaged first, and the weight of their mean in the whole."""

    index_U: IntArray
    share: float


def weighted_groups(
    outcomes: Outcomes, members: Mapping[tuple[str, ...], Sequence[int]]
) -> list[UnitGroup]:
    """The valid units of each group, with its share; groups without any are left out."""
    valid: dict[tuple[str, ...], IntArray] = {}
    for key, index in sorted(members.items()):
        index_U = np.asarray(index, dtype=np.int64)
        index_U = index_U[np.isfinite(outcomes.value_U[index_U])]
        if len(index_U):
            valid[key] = index_U
    children: dict[tuple[str, ...], set[str]] = {}
    for key in valid:
        for depth, value in enumerate(key):
            children.setdefault(key[:depth], set()).add(value)
    groups = []
    for key, index_U in valid.items():
        shares = [1 / len(children[key[:depth]]) for depth in range(len(key))]
        groups.append(UnitGroup(index_U, float(np.prod(shares))))
    return groups


def _estimate(
    outcomes: Outcomes,
    groups: Sequence[UnitGroup],
    index_U: IntArray,
    is_macro: bool,
    protocol: EvalProtocol,
    rng: np.random.Generator,
) -> Estimate:
    is_valid_U = np.isfinite(outcomes.value_U[index_U])
    valid_U = index_U[is_valid_U]
    row_U2 = np.stack([outcomes.value_U, outcomes.weight_U], axis=1)
    strata = [
        Stratum.of(row_U2[member_U], [outcomes.clusters[i] for i in member_U], share)
        for member_U, share in groups
    ]
    is_clustered = sum(len(s.row_GM) for s in strata) < sum(len(g.index_U) for g in groups)
    value = sum(stratum.share * stratum.value for stratum in strata) if strata else float("nan")
    if outcomes.is_rate and math.isclose(value, 1):
        # Rounding may move a mean of means that are all 1 by one bit.
        value = 1.0
    chance = sum(group.share * float(outcomes.chance_U[group.index_U].mean()) for group in groups)
    bounds = Interval(float("nan"), float("nan"), "none")
    if value == value:
        is_zero_or_one = np.isin(outcomes.value_U[valid_U], (0.0, 1.0)).all()
        has_equal_weights = (outcomes.weight_U[valid_U] == 1).all()
        bounds = interval(
            strata,
            is_macro=is_macro,
            is_clustered=is_clustered,
            is_count=outcomes.is_rate and bool(is_zero_or_one and has_equal_weights),
            is_rate=outcomes.is_rate,
            confidence=protocol.confidence,
            resamples=protocol.resamples,
            rng=rng,
        )
    return Estimate(
        value=value,
        low=bounds.low,
        high=bounds.high,
        n=len(valid_U),
        ties=int(outcomes.tie_U[valid_U].sum()),
        invalid=int((~is_valid_U).sum()),
        unparsed=int(outcomes.unparsed_U[index_U].sum()),
        chance=chance if groups and chance == chance else None,
        chance_independent=outcomes.chance_independent,
        interval=bounds.name,
        is_rate=outcomes.is_rate,
    )
