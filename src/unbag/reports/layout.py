"""Arrange a run for tables: columns (scorers), sheets (benchmarks), comparisons and prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from unbag.reports.formatting import (
    comparison_sentence,
    difference_interval,
    difference_text,
    p_text,
    value_text,
)
from unbag.types import Comparison, Estimate, EvalProtocol, Result, RunContents, RunRecord

FAMILIES: tuple[tuple[str, ...], ...] = (
    ("original", "augmented", "brittleness"),
    ("individual", "pair", "accuracy"),
    ("text", "image", "group"),
    ("question_pair", "image_pair", "all_four", "accuracy"),
    ("threshold_accuracy", "auc"),
    ("text_to_image@1", "image_to_text@1", "retention", "image_to_text_retention"),
)
"""Metrics that belong together; the overview shows the whole family of the headline metric."""
LOWER_IS_BETTER = frozenset({"brittleness", "same_answer", "order_flip"})
PUBLISHED = "published"
"""Name of the paper's prompt in a protocol."""


def lay_out(run: RunContents) -> Layout:
    """Sort results into columns and sheets; no result is dropped, duplicates get a number."""
    labels = _labels(run.results)
    blind = {label: r.is_blind for label, r in zip(labels, run.results, strict=True)}
    scorer = {label: r.scorer for label, r in zip(labels, run.results, strict=True)}
    ordered = sorted(blind, key=lambda label: blind[label])
    columns = tuple(
        Column(label, scorer[label], blind[label], i) for i, label in enumerate(ordered)
    )
    results_of: dict[_Place, dict[str, Result]] = {}
    for label, result in zip(labels, run.results, strict=True):
        results_of.setdefault(_place(result), {})[label] = result
    sheets: dict[str, dict[str, list[Sheet]]] = {}
    for place, results in results_of.items():
        rules = sheets.setdefault(place.benchmark, {}).setdefault(place.aggregate, [])
        results_row = tuple(results.get(column.label) for column in columns)
        rules.append(_sheet(place, results_of, results_row, rules[0] if rules else None))
    return Layout(
        columns,
        tuple(
            sheet
            for rules in sheets.values()
            for results_row in rules.values()
            for sheet in results_row
        ),
    )


class _Place(NamedTuple):
    benchmark: str
    aggregate: str
    ties: str
    errata: str


def _place(result: Result) -> _Place:
    protocol = result.protocol
    return _Place(result.benchmark, result.aggregate, protocol.ties, protocol.errata)


def _sheet(
    place: _Place,
    places: Iterable[_Place],
    results: tuple[Result | None, ...],
    first: Sheet | None,
) -> Sheet:
    """Return a sheet; `first` is the first one of the same benchmark and averaging rule."""
    variants = [other for other in places if other.benchmark == place.benchmark]
    has_rules = len({other.aggregate for other in variants}) > 1
    title = [place.benchmark, *([place.aggregate] if has_rules else [])]
    sheet = Sheet(
        benchmark=place.benchmark,
        aggregate=place.aggregate,
        title=", ".join([*title, *_variant(place, variants[:1])]),
        headline=next(result.headline for result in results if result),
        results=results,
        variant=", ".join(_variant(place, variants)),
    )
    if first is None:
        return sheet
    differs = any(
        estimate is not None
        and (
            first_estimate is None
            or estimate.show(estimate.value) != first_estimate.show(first_estimate.value)
        )
        for metric in sheet.main_metrics
        for estimate, first_estimate in zip(
            sheet.row(metric).estimates, first.row(metric).estimates, strict=True
        )
    )
    return replace(sheet, is_overview=differs)


def _variant(place: _Place, others: Sequence[_Place]) -> list[str]:
    """Return tie rule and errata, each only if it differs between the others."""
    parts = [f"ties={place.ties}"] if any(o.ties != place.ties for o in others) else []
    if any(other.errata != place.errata for other in others):
        parts.append(f"errata={place.errata}" if place.errata else "no errata")
    return parts


def _labels(results: Sequence[Result]) -> list[str]:
    protocols: dict[str, set[str]] = {}
    for result in results:
        protocols.setdefault(result.scorer, set()).add(_column_key(result))
    seen: Counter[tuple[_Place, str]] = Counter()
    labels = []
    for result in results:
        has_protocols = len(protocols[result.scorer]) > 1
        label = f"{result.scorer} ({_column_key(result)})" if has_protocols else result.scorer
        place = (_place(result), label)
        seen[place] += 1
        labels.append(label if seen[place] == 1 else f"{label} #{seen[place]}")
    return labels


def _column_key(result: Result) -> str:
    """Return the protocol without tie rule and errata, which make rows."""
    usual = EvalProtocol()
    key = replace(result.protocol, ties=usual.ties, errata=usual.errata).key
    return key.replace(f", ties={usual.ties}", "")


@dataclass(frozen=True)
class Layout:
    """A run arranged for tables."""

    columns: tuple[Column, ...]
    """Scorers that see the image first, blind baselines last."""
    sheets: tuple[Sheet, ...]

    @property
    def overview(self) -> tuple[Sheet, ...]:
        """The sheets without tie rules and errata that change no main number."""
        return tuple(sheet for sheet in self.sheets if sheet.is_overview)

    @property
    def scorers(self) -> int:
        """Number of scorers, each counted once."""
        return len({column.scorer for column in self.columns})


@dataclass(frozen=True)
class Column:
    """One scorer under one protocol. Tie rules and errata make rows instead."""

    label: str
    """The scorer's name, with its protocol if the run has several."""
    scorer: str
    is_blind: bool
    place: int
    """Index among all columns; determines colour and marker."""


@dataclass(frozen=True)
class Sheet:
    """One benchmark under one averaging rule, one tie rule and one list of errata."""

    benchmark: str
    aggregate: str
    title: str
    """The benchmark's name, with its averaging rule if the run has several, and with the tie rule
    or errata if they differ from those of the first result."""
    headline: str
    results: tuple[Result | None, ...]
    """One per column; None if the scorer was not run on the benchmark."""
    variant: str = ""
    """Tie rule and errata, if the benchmark's results differ in them."""
    is_overview: bool = True
    """Whether a main number differs from that under the first tie rule and errata."""

    @property
    def about(self) -> str:
        """Description of the benchmark; empty if no result has one."""
        return next((result.about for result in self.results if result and result.about), "")

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics of any column, the headline first."""
        names = dict.fromkeys(m for result in self.results if result for m in result.overall)
        first = [self.headline] if self.headline in names else []
        return tuple(dict.fromkeys([*first, *names]))

    @property
    def main_metrics(self) -> tuple[str, ...]:
        """The headline and its family, if they were measured."""
        family = next((f for f in FAMILIES if self.headline in f), (self.headline,))
        names = (self.headline, *(metric for metric in family if metric != self.headline))
        return tuple(metric for metric in names if metric in self.metrics)

    def row(self, metric: str) -> MetricRow:
        """Return the estimates of a metric over all items."""
        return MetricRow(metric, tuple(r.overall.get(metric) if r else None for r in self.results))

    def tag_row(self, tag: str, metric: str) -> MetricRow:
        """Return the estimates of a metric over the items with this tag=value."""
        return MetricRow(
            metric,
            tuple(r.by_tag.get(tag, {}).get(metric) if r else None for r in self.results),
        )

    @property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """The tag=value keys of each tag, in the order of the results."""
        groups: dict[str, dict[str, None]] = {}
        for result in self.results:
            for key in result.by_tag if result else ():
                groups.setdefault(key.partition("=")[0], {})[key] = None
        return {tag: tuple(values) for tag, values in groups.items()}


@dataclass(frozen=True)
class MetricRow:
    """One metric of one benchmark: an estimate per column, None if it was not measured."""

    metric: str
    estimates: tuple[Estimate | None, ...]

    @property
    def first(self) -> Estimate | None:
        """The first estimate; chance level and type of number are the same for all."""
        return next((estimate for estimate in self.estimates if estimate is not None), None)

    @property
    def is_rate(self) -> bool:
        """Whether the metric is a rate, shown as percent."""
        return self.first is not None and self.first.is_rate


def records(run: RunContents) -> tuple[RunRecord, ...]:
    """Return every different record of these results, the run's own first."""
    all_records = [run.record]
    for result in run.results:
        if result.run is not None and result.run not in all_records:
            all_records.append(result.run)
    return tuple(all_records)


def compared(
    comparisons: Sequence[Comparison], sheets: Sequence[Sheet], *, benchmark: str
) -> tuple[ComparedPair, ...]:
    """Format the comparisons on one benchmark; its sheets tell which metrics are rates."""
    pairs = []
    for comparison in comparisons:
        if comparison.benchmark != benchmark:
            continue
        is_rate = any(sheet.row(comparison.metric).is_rate for sheet in sheets)
        rule = "" if comparison.aggregate == "micro" else f", {comparison.aggregate}"
        pairs.append(
            ComparedPair(
                words=comparison_sentence(comparison, is_rate=is_rate),
                metric=comparison.metric + rule,
                difference=difference_text(comparison.difference, is_rate=is_rate),
                interval=difference_interval(comparison, is_rate=is_rate),
                n=comparison.n,
                p=p_text(comparison.p_value),
                p_holm=p_text(comparison.p_holm),
            )
        )
    return tuple(pairs)


@dataclass(frozen=True)
class ComparedPair:
    """A comparison in words and numbers."""

    words: str
    metric: str
    difference: str
    interval: str
    n: int
    p: str
    p_holm: str


def published_only(run: RunContents) -> RunContents:
    """Return the run with one column per model: other prompts have their own section.

    A model that was run only with other prompts keeps them.
    """
    has_published = {
        (r.benchmark, model_name(r)) for r in run.results if r.protocol.prompt == PUBLISHED
    }
    return replace(
        run,
        results=tuple(
            result
            for result in run.results
            if result.protocol.prompt in ("", PUBLISHED)
            or (result.benchmark, model_name(result)) not in has_published
        ),
    )


def over_prompts(results: Sequence[Result]) -> tuple[OverPrompts, ...]:
    """Return the headline over prompts of every model that was run with several of them."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        if result.protocol.prompt and result.headline in result.overall:
            rest = replace(result.protocol, prompt="").key
            place = (result.benchmark, model_name(result), result.aggregate, rest)
            groups.setdefault(place, []).append(result)
    by_model: dict[tuple[str, str, str], OverPrompts] = {}
    for (benchmark, scorer, aggregate, protocol), results_group in groups.items():
        pairs = [(r.protocol.prompt, r.overall[r.headline]) for r in results_group]
        measured = [(prompt, estimate) for prompt, estimate in pairs if estimate.n]
        if len({prompt for prompt, _ in measured}) < 2:
            continue
        measured.sort(key=lambda pair: pair[0] != PUBLISHED)
        over = OverPrompts(
            benchmark, aggregate, scorer, results_group[0].headline, protocol, tuple(measured)
        )
        by_model.setdefault((benchmark, scorer, results_group[0].protocol.scoring), over)
    return tuple(by_model.values())


@dataclass(frozen=True)
class OverPrompts:
    """One metric of one model on one benchmark, by prompt.

    Published tables often show the best of several prompts, selected on the test set. The spread
    over a fixed set of prompts shows how much depends on the wording.
    """

    benchmark: str
    aggregate: str
    scorer: str
    metric: str
    protocol: str
    """The protocol without the prompt."""
    values: tuple[tuple[str, Estimate], ...]
    """Prompt and number, the published prompt first."""

    @property
    def mean(self) -> Estimate:
        """Mean over the prompts, without an interval."""
        numbers = [estimate.value for _, estimate in self.values]
        nothing = float("nan")
        value = sum(numbers) / len(numbers)
        return replace(self.values[0][1], value=value, low=nothing, high=nothing)

    @property
    def lowest(self) -> tuple[str, Estimate]:
        """The prompt with the smallest number."""
        return min(self.values, key=lambda pair: pair[1].value)

    @property
    def highest(self) -> tuple[str, Estimate]:
        """The prompt with the largest number."""
        return max(self.values, key=lambda pair: pair[1].value)

    @property
    def sentence(self) -> str:
        """The values in one sentence, for the terminal."""
        (worst, low), (best, high) = self.lowest, self.highest
        text = (
            f"{self.scorer} on {self.benchmark}, {self.metric} over {len(self.values)} prompts: "
            f"mean {value_text(self.mean)}, from {value_text(low)} ({worst}) to {value_text(high)} "
            f"({best})"
        )
        first, published = self.values[0]
        return text + (f"; {first} {value_text(published)}" if first == PUBLISHED else "")


def model_name(result: Result) -> str:
    """Return the scorer's name without the prompt, which is appended unless it is published."""
    return result.scorer.removesuffix(f" ({result.protocol.prompt})")
