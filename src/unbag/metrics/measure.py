"""A benchmark and its scored items come in; outcomes and estimates by every rule go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unbag.errors import UserError
from unbag.metrics.aggregate import by_tag, estimate, groups_of
from unbag.types import (
    Aggregate,
    Benchmark,
    Case,
    Estimate,
    EvalProtocol,
    Outcomes,
    Result,
    RunRecord,
)


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
            raise UserError(
                f"benchmark {benchmark.name!r} has two averaging rules named {aggregate.name!r}",
                expected="a name for each",
                way_out="give one of them a label",
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
            if _applies(aggregate, found)
        }
    if not any(benchmark.headline in found for found in overall.values()):
        rules = ", ".join(aggregate.name for aggregate in benchmark.aggregates)
        raise UserError(
            f"no averaging rule of benchmark {benchmark.name!r} ({rules}) fits any unit of "
            f"{benchmark.headline!r}",
            expected="tags that the items have",
            way_out="check the tags of the loader and `aggregates` of the benchmark",
        )
    tagged: dict[str, dict[str, Estimate]] = {}
    for name, found in outcomes.items():
        for key, value in by_tag(found, protocol=protocol, seed=seed).items():
            tagged.setdefault(key, {})[name] = value
    return Measured(benchmark, protocol, outcomes, overall, tagged)


def judge(
    benchmark: Benchmark, cases: Sequence[Case], *, protocol: EvalProtocol
) -> Mapping[str, Outcomes]:
    """Outcomes of every metric, by name."""
    outcomes: dict[str, Outcomes] = {}
    for metric in benchmark.metrics:
        for found in metric(cases, ties=protocol.ties, tie_eps=protocol.tie_eps):
            if found.metric in outcomes:
                raise UserError(
                    f"benchmark {benchmark.name!r} has the metric {found.metric!r} twice",
                    expected="every metric once",
                )
            outcomes[found.metric] = found
    if benchmark.headline not in outcomes:
        raise UserError(
            f"no metric of benchmark {benchmark.name!r} gives its headline {benchmark.headline!r}",
            expected=f"one of {', '.join(outcomes)}",
        )
    return outcomes


def _applies(aggregate: Aggregate, outcomes: Outcomes) -> bool:
    """A rule over tags that no unit has leaves the metric out; no unit at all is an error."""
    return not outcomes.units or bool(groups_of(outcomes, aggregate))


def _check_cases(benchmark: Benchmark, cases: Sequence[Case]) -> None:
    if not cases:
        raise UserError(
            f"benchmark {benchmark.name!r} has no items",
            expected="at least one item with scores",
            way_out="check its data folder, and any limit on the number of items",
        )
    repeated = [name for name, n in Counter(case.item.id for case in cases).items() if n > 1]
    if repeated:
        raise UserError(
            f"benchmark {benchmark.name!r} has {len(repeated)} item ids more than once, "
            f"such as {repeated[0]!r}",
            expected="every item id once",
            way_out="check the loader of this benchmark",
        )
    for case in cases:
        if case.item.id != case.scores.item:
            raise UserError(
                f"scores of item {case.scores.item!r} stand beside item {case.item.id!r}",
                expected="the scores of that very item",
            )
