"""A run comes in; the columns (scorers) and sheets (benchmarks) of its report go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from unbag.reports.formatting import comparison_sentence, difference_text, p_text
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
class Row:
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

    def row(self, metric: str) -> Row:
        """The estimates of one metric over all items."""
        return Row(metric, tuple(r.overall.get(metric) if r else None for r in self.results))

    def tag_row(self, tag: str, metric: str) -> Row:
        """The estimates of one metric over the items with this tag=value."""
        return Row(
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


class _Place(NamedTuple):
    """What makes a sheet."""

    benchmark: str
    aggregate: str
    ties: str
    errata: str


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


def _place(result: Result) -> _Place:
    protocol = result.protocol
    return _Place(result.benchmark, result.aggregate, protocol.ties, protocol.errata)


def _sheet(
    place: _Place,
    places: Iterable[_Place],
    results: tuple[Result | None, ...],
    first: Sheet | None,
) -> Sheet:
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
    return replace(made, is_overview=first is None or _differ(made, first))


def _variant(place: _Place, others: Sequence[_Place]) -> list[str]:
    """Tie rule and errata, each where some of the others has another."""
    parts = [f"ties={place.ties}"] if any(o.ties != place.ties for o in others) else []
    if any(other.errata != place.errata for other in others):
        parts.append(f"errata={place.errata}" if place.errata else "no errata")
    return parts


def _differ(sheet: Sheet, first: Sheet) -> bool:
    """Some main number of this sheet is not that of the first."""
    return any(
        one is not None and (other is None or one.show(one.value) != other.show(other.value))
        for metric in sheet.main_metrics
        for one, other in zip(sheet.row(metric).estimates, first.row(metric).estimates, strict=True)
    )


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


def records(run: RunContents) -> tuple[RunRecord, ...]:
    """Every different record behind these results, the run's own first."""
    found = [run.record]
    for result in run.results:
        if result.run is not None and result.run not in found:
            found.append(result.run)
    return tuple(found)


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


def compared(
    comparisons: Sequence[Comparison], sheets: Sequence[Sheet], *, benchmark: str
) -> tuple[ComparedPair, ...]:
    """Those made on one benchmark; its sheets say which metrics are rates."""
    return tuple(_pair(made, sheets) for made in comparisons if made.benchmark == benchmark)


def _pair(made: Comparison, sheets: Sequence[Sheet]) -> ComparedPair:
    is_rate = any(sheet.row(made.metric).is_rate for sheet in sheets)
    low, high = (difference_text(end, is_rate=is_rate) for end in (made.low, made.high))
    return ComparedPair(
        words=comparison_sentence(made, is_rate=is_rate),
        metric=made.metric if made.aggregate == "micro" else f"{made.metric}, {made.aggregate}",
        difference=difference_text(made.difference, is_rate=is_rate),
        interval=f"[{low}, {high}]",
        n=made.n,
        p=p_text(made.p_value),
        p_holm=p_text(made.p_holm),
    )
