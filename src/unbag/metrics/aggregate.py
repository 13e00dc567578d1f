"""From scores to the numbers of a benchmark: judge every unit, average by a rule, with interval.

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

MOST_INVALID = 0.01
TAG_RESAMPLES = 10_000
MOST_VALUES = 60
"""A tag with more values than this is an identity, not a breakdown."""


def measure(
    benchmark: Benchmark,
    cases: Sequence[Case],
    *,
    protocol: EvalProtocol,
    seed: int,
    allow_invalid: bool = False,
) -> Measured:
    """Judge all cases with all metrics of the benchmark and average by all of its rules."""
    _check_cases(benchmark, cases)
    outcomes = judge(benchmark, cases, protocol=protocol)
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
                found,
                aggregate,
                protocol=protocol,
                seed=seed,
                benchmark=benchmark.name,
                allow_invalid=allow_invalid,
            )
            for name, found in outcomes.items()
            # A rule over tags that no unit has leaves the metric out; no unit at all is an error.
            if not found.units or groups_of(found, aggregate)
        }
    if not any(benchmark.headline in found for found in overall.values()):
        rules = ", ".join(aggregate.name for aggregate in benchmark.aggregates)
        raise UnbagError(
            f"no averaging rule of benchmark {benchmark.name!r} ({rules}) fits any unit of "
            f"{benchmark.headline!r}",
            expected="tags that the items have",
            hint="check the tags of the loader and `aggregates` of the benchmark",
        )
    tagged: dict[str, dict[str, Estimate]] = {}
    for name, found in outcomes.items():
        for key, value in by_tag(found, protocol=protocol, seed=seed).items():
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
                f"scores of item {case.scores.item!r} stand beside item {case.item.id!r}",
                expected="the scores of that very item",
            )


def judge(
    benchmark: Benchmark, cases: Sequence[Case], *, protocol: EvalProtocol
) -> Mapping[str, Outcomes]:
    """Outcomes of every metric, by name."""
    outcomes: dict[str, Outcomes] = {}
    for metric in benchmark.metrics:
        for found in metric(cases, ties=protocol.ties, tie_eps=protocol.tie_eps):
            if found.metric in outcomes:
                raise UnbagError(
                    f"benchmark {benchmark.name!r} has the metric {found.metric!r} twice",
                    expected="every metric once",
                )
            outcomes[found.metric] = found
    if benchmark.headline not in outcomes:
        raise UnbagError(
            f"no metric of benchmark {benchmark.name!r} gives its headline {benchmark.headline!r}",
            expected=f"one of {', '.join(outcomes)}",
        )
    return outcomes


def averages(
    benchmark: Benchmark, cases: Sequence[Case], *, protocol: EvalProtocol
) -> dict[str, float]:
    """What `measure` gives by the benchmark's first rule, without intervals: a hundredth the time.

    By metric; an average of nothing is NaN.
    """
    rule = benchmark.aggregates[0]
    found = {}
    for name, one in judge(benchmark, cases, protocol=protocol).items():
        found[name] = 0.0
        for group in share_out(one, groups_of(one, rule)):
            weight = one.weight_U[group.index_U].sum()
            value = one.value_U[group.index_U].sum()
            found[name] += group.share * (float(value / weight) if weight else float("nan"))
    return found


@dataclass(frozen=True, eq=False)
class Measured:
    """All numbers of one scorer on one benchmark under one protocol."""

    benchmark: Benchmark
    protocol: EvalProtocol
    outcomes: Mapping[str, Outcomes]
    """By metric, unit by unit: what comparisons need."""
    overall: Mapping[str, Mapping[str, Estimate]]
    """By name of the averaging rule, then by metric. A rule that has no meaning for a metric (its
    units lack the tag) leaves that metric out."""
    by_tag: Mapping[str, Mapping[str, Estimate]]
    """By tag=value, then by metric; micro averages."""

    def results(
        self, scorer: str, *, is_blind: bool = False, run: RunRecord | None = None
    ) -> tuple[Result, ...]:
        """One result an averaging rule, the published one first."""
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
    """Average by the rule, with interval, ties, invalid units and chance.

    Invalid units are left out of every average. More than 1 % of them, or none left, is an error
    unless `allow_invalid`; then an average of nothing is NaN with n = 0.
    """
    members = groups_of(outcomes, aggregate)
    index_U = np.array(sorted(i for found in members.values() for i in found), dtype=np.int64)
    if not allow_invalid:
        where = f"{benchmark}: {outcomes.metric}" if benchmark else outcomes.metric
        if not len(index_U):
            raise UnbagError(
                f"{where}: no unit to judge under {aggregate.name}",
                expected="at least one item this metric applies to",
                hint="check the loader and the metrics of this benchmark",
            )
        invalid = int((~np.isfinite(outcomes.value_U[index_U])).sum())
        if invalid > MOST_INVALID * len(index_U):
            raise UnbagError(
                f"{where}: {invalid} of {len(index_U)} units have a score that is not a finite "
                "number",
                expected=f"at most {MOST_INVALID:.0%}; the rest would no longer be the benchmark",
                hint="look for damaged images or an overflowing model, or use --allow-invalid",
            )
    rng = generator(seed, outcomes.metric, aggregate.name)
    groups = share_out(outcomes, members)
    return _estimate(outcomes, groups, index_U, bool(aggregate.by), protocol, rng)


def by_tag(outcomes: Outcomes, *, protocol: EvalProtocol, seed: int) -> Mapping[str, Estimate]:
    """The micro average for every value of every tag with 2 to 60 values, keyed as tag=value.

    A benchmark has a few overall numbers and hundreds of these, so their intervals are resampled
    at most 10,000 times.
    """
    protocol = replace(protocol, resamples=min(protocol.resamples, TAG_RESAMPLES))
    values: dict[str, dict[str, list[int]]] = {}
    for i, tags in enumerate(outcomes.tags):
        for tag, value in tags.items():
            values.setdefault(tag, {}).setdefault(value, []).append(i)
    found = {}
    for tag, members in sorted(values.items()):
        if not 2 <= len(members) <= MOST_VALUES:
            continue
        for value, index in sorted(members.items()):
            rng = generator(seed, outcomes.metric, MICRO.name, tag, value)
            groups = share_out(outcomes, {(): index})
            found[f"{tag}={value}"] = _estimate(
                outcomes, groups, np.array(index), False, protocol, rng
            )
    return found


def groups_of(outcomes: Outcomes, aggregate: Aggregate) -> dict[tuple[str, ...], list[int]]:
    """The units that count, by group of the rule; group sizes count invalid units too.

    Empty where the rule does not apply: no unit is among the chosen ones, or none has its tags.
    """
    if not aggregate.by and (aggregate.least or aggregate.without):
        raise UnbagError(
            f"aggregate {aggregate.name!r} leaves out groups but has none",
            expected="`by`, the tags that make the groups",
        )
    chosen = [
        i
        for i, tags in enumerate(outcomes.tags)
        if all(tags.get(tag) == value for tag, value in aggregate.only)
    ]
    if aggregate.by and not any(aggregate.by[-1] in outcomes.tags[i] for i in chosen):
        return {}
    members: dict[tuple[str, ...], list[int]] = {}
    for i in chosen:
        tags = outcomes.tags[i]
        for tag in aggregate.by:
            if tag not in tags:
                every = ", ".join(aggregate.by)
                raise UnbagError(
                    f"{outcomes.metric}: unit {outcomes.units[i]!r} has no tag {tag!r}",
                    expected=f"every unit tagged with {every} for {aggregate.name}",
                    hint="check the loader of this benchmark",
                )
        members.setdefault(tuple(tags[tag] for tag in aggregate.by), []).append(i)
    return {
        key: found
        for key, found in members.items()
        if len(found) >= aggregate.least and not (key and key[-1] in aggregate.without)
    }


class UnitGroup(NamedTuple):
    """Units averaged together first, and the share of their mean in the whole."""

    index_U: IntArray
    share: float


def share_out(
    outcomes: Outcomes, members: Mapping[tuple[str, ...], Sequence[int]]
) -> list[UnitGroup]:
    """Valid units of each group with its share; a group without any is left out."""
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
        Stratum.of(row_U2[at_U], [outcomes.clusters[i] for i in at_U], share)
        for at_U, share in groups
    ]
    is_clustered = sum(len(s.row_GM) for s in strata) < sum(len(g.index_U) for g in groups)
    value = sum(stratum.share * stratum.value for stratum in strata) if strata else float("nan")
    if outcomes.is_rate and math.isclose(value, 1):
        # A mean of means that are all 1 may come out a last bit beside it.
        value = 1.0
    chance = sum(group.share * float(outcomes.chance_U[group.index_U].mean()) for group in groups)
    found = Interval(float("nan"), float("nan"), "none")
    if value == value:
        is_zero_or_one = np.isin(outcomes.value_U[valid_U], (0.0, 1.0)).all()
        has_equal_weights = (outcomes.weight_U[valid_U] == 1).all()
        found = interval(
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
        low=found.low,
        high=found.high,
        n=len(valid_U),
        ties=int(outcomes.tie_U[valid_U].sum()),
        invalid=int((~is_valid_U).sum()),
        unparsed=int(outcomes.unparsed_U[index_U].sum()),
        chance=chance if groups and chance == chance else None,
        chance_independent=outcomes.chance_independent,
        interval=found.name,
        is_rate=outcomes.is_rate,
    )
