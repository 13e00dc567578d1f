"""A run laid out for tables: columns (scorers), sheets (benchmarks), comparisons and prompts."""

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
"""Metrics that are only understood together; the overview shows the headline's whole family."""
LOWER_IS_BETTER = frozenset({"brittleness", "same_answer", "order_flip"})
PUBLISHED = "published"
"""The prompt of the paper, by its name in a protocol."""


def lay_out(run: RunContents) -> Layout:
    """Sort results into columns and sheets; no result is dropped, repeats get a number."""
    labels = _labels(run.results)
    blind = {label: r.is_blind for label, r in zip(labels, run.results, strict=True)}
    scorer = {label: r.scorer for label, r in zip(labels, run.results, strict=True)}
    ordered = sorted(blind, key=lambda label: blind[label])
    columns = tuple(Column(at, scorer[at], blind[at], i) for i, at in enumerate(ordered))
    found: dict[_Place, dict[str, Result]] = {}
    for label, result in zip(labels, run.results, strict=True):
        found.setdefault(_place(result), {})[label] = result
    sheets: dict[str, dict[str, list[Sheet]]] = {}
    for place, results in found.items():
        rules = sheets.setdefault(place.benchmark, {}).setdefault(place.aggregate, [])
        some = tuple(results.get(column.label) for column in columns)
        rules.append(_sheet(place, found, some, rules[0] if rules else None))
    return Layout(
        columns,
        tuple(sheet for rules in sheets.values() for some in rules.values() for sheet in some),
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
    """The sheet of one place; `first` is that of the same benchmark and averaging rule."""
    here = [other for other in places if other.benchmark == place.benchmark]
    several = len({other.aggregate for other in here}) > 1
    title = [place.benchmark, *([place.aggregate] if several else [])]
    made = Sheet(
        benchmark=place.benchmark,
        aggregate=place.aggregate,
        title=", ".join([*title, *_variant(place, here[:1])]),
        headline=next(result.headline for result in results if result),
        results=results,
        variant=", ".join(_variant(place, here)),
    )
    if first is None:
        return made
    differs = any(
        one is not None and (other is None or one.show(one.value) != other.show(other.value))
        for metric in made.main_metrics
        for one, other in zip(made.row(metric).estimates, first.row(metric).estimates, strict=True)
    )
    return replace(made, is_overview=differs)


def _variant(place: _Place, others: Sequence[_Place]) -> list[str]:
    """Tie rule and errata, each where some of the others has another."""
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
        several = len(protocols[result.scorer]) > 1
        label = f"{result.scorer} ({_column_key(result)})" if several else result.scorer
        place = (_place(result), label)
        seen[place] += 1
        labels.append(label if seen[place] == 1 else f"{label} #{seen[place]}")
    return labels


def _column_key(result: Result) -> str:
    """The protocol without what makes rows."""
    usual = EvalProtocol()
    key = replace(result.protocol, ties=usual.ties, errata=usual.errata).key
    return key.replace(f", ties={usual.ties}", "")


@dataclass(frozen=True)
class Layout:
    """A run as tables show it."""

    columns: tuple[Column, ...]
    """Scorers that see first, blind baselines last."""
    sheets: tuple[Sheet, ...]

    @property
    def overview(self) -> tuple[Sheet, ...]:
        """Without the tie rules and errata that change no main number."""
        return tuple(sheet for sheet in self.sheets if sheet.is_overview)

    @property
    def scorers(self) -> int:
        """How many there are, however many protocols each has."""
        return len({column.scorer for column in self.columns})


@dataclass(frozen=True)
class Column:
    """One scorer. Tie rules and errata make rows; any other protocol has a column of its own."""

    label: str
    """The scorer's name, with its protocol where the run has it under several."""
    scorer: str
    is_blind: bool
    place: int
    """Among all columns; gives colour and mark."""


@dataclass(frozen=True)
class Sheet:
    """One benchmark under one averaging rule, one tie rule and one list of errata."""

    benchmark: str
    aggregate: str
    title: str
    """The benchmark's name, with its averaging rule where the run has several, and with the tie
    rule or errata where they are not those of its first result."""
    headline: str
    results: tuple[Result | None, ...]
    """One a column, None where the scorer was not run on it."""
    variant: str = ""
    """Tie rule and errata, as far as the benchmark's results differ in them."""
    is_overview: bool = True
    """Some main number differs from that under the benchmark's first tie rule and errata."""

    @property
    def about(self) -> str:
        """What the benchmark asks, where a result says so."""
        return next((result.about for result in self.results if result and result.about), "")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that any column has, the headline first."""
        found = dict.fromkeys(m for result in self.results if result for m in result.overall)
        first = [self.headline] if self.headline in found else []
        return tuple(dict.fromkeys([*first, *found]))

    @property
    def main_metrics(self) -> tuple[str, ...]:
        """The headline and its family, as far as they were measured."""
        family = next((f for f in FAMILIES if self.headline in f), (self.headline,))
        wanted = (self.headline, *(metric for metric in family if metric != self.headline))
        return tuple(metric for metric in wanted if metric in self.metrics)

    def row(self, metric: str) -> MetricRow:
        """The estimates of one metric over all items."""
        return MetricRow(metric, tuple(r.overall.get(metric) if r else None for r in self.results))

    def tag_row(self, tag: str, metric: str) -> MetricRow:
        """The estimates of one metric over the items with this tag=value."""
        return MetricRow(
            metric,
            tuple(r.by_tag.get(tag, {}).get(metric) if r else None for r in self.results),
        )

    @property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """Tag to the tag=value keys it occurs with, in the order of the results."""
        groups: dict[str, dict[str, None]] = {}
        for result in self.results:
            for key in result.by_tag if result else ():
                groups.setdefault(key.partition("=")[0], {})[key] = None
        return {tag: tuple(keys) for tag, keys in groups.items()}


@dataclass(frozen=True)
class MetricRow:
    """One metric of one benchmark: an estimate a column, None where it was not measured."""

    metric: str
    estimates: tuple[Estimate | None, ...]

    @property
    def first(self) -> Estimate | None:
        """The first estimate there is; chance and kind of number are shared by all."""
        return next((estimate for estimate in self.estimates if estimate is not None), None)

    @property
    def is_rate(self) -> bool:
        """Fit for an axis from 0 to 100."""
        return self.first is not None and self.first.is_rate


def records(run: RunContents) -> tuple[RunRecord, ...]:
    """Every different record behind these results, the run's own first."""
    found = [run.record]
    for result in run.results:
        if result.run is not None and result.run not in found:
            found.append(result.run)
    return tuple(found)


def compared(
    comparisons: Sequence[Comparison], sheets: Sequence[Sheet], *, benchmark: str
) -> tuple[ComparedPair, ...]:
    """Those made on one benchmark; its sheets say which metrics are rates."""
    pairs = []
    for made in comparisons:
        if made.benchmark != benchmark:
            continue
        is_rate = any(sheet.row(made.metric).is_rate for sheet in sheets)
        rule = "" if made.aggregate == "micro" else f", {made.aggregate}"
        pairs.append(
            ComparedPair(
                words=comparison_sentence(made, is_rate=is_rate),
                metric=made.metric + rule,
                difference=difference_text(made.difference, is_rate=is_rate),
                interval=difference_interval(made, is_rate=is_rate),
                n=made.n,
                p=p_text(made.p_value),
                p_holm=p_text(made.p_holm),
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
    """The same run with one column a model: other prompts stand in a section of their own.

    A model that was run with other prompts only keeps them.
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
    """The headline of every model that was run with several prompts, by its first protocol."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        if result.protocol.prompt and result.headline in result.overall:
            rest = replace(result.protocol, prompt="").key
            place = (result.benchmark, model_name(result), result.aggregate, rest)
            groups.setdefault(place, []).append(result)
    found: dict[tuple[str, str, str], OverPrompts] = {}
    for (benchmark, scorer, aggregate, protocol), some in groups.items():
        pairs = [(r.protocol.prompt, r.overall[r.headline]) for r in some]
        known = [(prompt, one) for prompt, one in pairs if one.n]
        if len({prompt for prompt, _ in known}) < 2:
            continue
        known.sort(key=lambda pair: pair[0] != PUBLISHED)
        made = OverPrompts(benchmark, aggregate, scorer, some[0].headline, protocol, tuple(known))
        found.setdefault((benchmark, scorer, some[0].protocol.scoring), made)
    return tuple(found.values())


@dataclass(frozen=True)
class OverPrompts:
    """One metric of one model on one benchmark, prompt by prompt.

    Published tables often show the best of several prompts, chosen on the test set itself. A fixed
    set with its spread says what a model does and how much of it is the wording.
    """

    benchmark: str
    aggregate: str
    scorer: str
    metric: str
    protocol: str
    """Without the prompt."""
    values: tuple[tuple[str, Estimate], ...]
    """Prompt and number, the published prompt first."""

    @property
    def mean(self) -> Estimate:
        """The mean of the numbers, to be shown; it has no interval of its own."""
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
        """For the terminal."""
        (worst, low), (best, high) = self.lowest, self.highest
        said = (
            f"{self.scorer} on {self.benchmark}, {self.metric} over {len(self.values)} prompts: "
            f"mean {value_text(self.mean)}, from {value_text(low)} ({worst}) to {value_text(high)} "
            f"({best})"
        )
        first, published = self.values[0]
        return said + (f"; {first} {value_text(published)}" if first == PUBLISHED else "")


def model_name(result: Result) -> str:
    """The scorer without its prompt, which stands in brackets after all but the published one."""
    return result.scorer.removesuffix(f" ({result.protocol.prompt})")
