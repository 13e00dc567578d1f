"""Summarize a run in sentences: each scorer against chance and the blind baseline.

A number is above chance only if its whole interval is. With two chance levels, it must be above
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from unbag.reports.formatting import and_list, chance_levels, value_text
from unbag.reports.layout import Column, Layout, Sheet
from unbag.types import Comparison, Estimate

Standing = Literal["above", "at", "below", "unknown"]
_NAMED = 4
"""Benchmarks listed by name in a sentence; the others are counted."""


def summarise(layout: Layout, comparisons: Sequence[Comparison] = ()) -> tuple[Paragraph, ...]:
    """Return one paragraph per scorer, the blind baselines last."""
    paragraphs = []
    for column in layout.columns:
        benchmarks = verdicts(layout, column, comparisons)
        if benchmarks:
            text = _blind_text(benchmarks) if column.is_blind else _seeing_text(benchmarks)
            paragraphs.append(Paragraph(column.label, text))
    return tuple(paragraphs)


@dataclass(frozen=True)
class Paragraph:
    """The summary of one scorer."""

    subject: str
    text: str


def _seeing_text(benchmarks: Sequence[HeadlineVerdict]) -> str:
    groups = {
        word: [v for v in benchmarks if v.chance == word] for word in ("above", "at", "below")
    }
    groups["above"].sort(key=lambda v: -v.estimate.value)
    parts: list[str] = []
    for word, group in groups.items():
        if group:
            count = str(len(group)) if parts else _share(len(group), len(benchmarks))
            parts.append(f"{word} chance on {count}{_names(group, chance=word != 'above')}")
    text = f"is {and_list(parts)}." if parts else "was measured where no chance level is known."
    under = [v for v in benchmarks if v.blind == "below"]
    level = [v for v in benchmarks if v.blind == "at" and v.chance == "above"]
    if under:
        text += f" It falls below the blind baseline on {_rivals(under)}."
    if level:
        text += f" It does not beat the blind baseline on {_rivals(level)}."
    return text


def _blind_text(benchmarks: Sequence[HeadlineVerdict]) -> str:
    above = [v for v in benchmarks if v.chance == "above"]
    if not above:
        return "never sees an image, and is above chance on no benchmark, as it should be."
    return (
        "never sees an image and is still above chance on "
        f"{_share(len(above), len(benchmarks))}{_names(above, chance=True)}: these can be solved "
        "in part from the captions alone."
    )


def _share(count: int, total: int) -> str:
    noun = "benchmark" if total == 1 else "benchmarks"
    return f"all {total} {noun}" if count == total > 1 else f"{count} of {total} {noun}"


def _names(benchmarks: Sequence[HeadlineVerdict], *, chance: bool = False) -> str:
    """List benchmarks in brackets; with `chance`, grouped by chance level."""
    named: dict[str, list[str]] = {}
    for verdict in benchmarks[:_NAMED]:
        # Two levels form a range, in which a number is at chance.
        levels = map(verdict.estimate.show, sorted(chance_levels(verdict.estimate)))
        level = f" against {' to '.join(levels)}" if chance else ""
        named.setdefault(level, []).append(f"{verdict.title} {_value(verdict.estimate)}")
    parts = [", ".join(names) + level for level, names in named.items()]
    parts += [f"{len(benchmarks) - _NAMED} more"] if len(benchmarks) > _NAMED else []
    return f" ({'; '.join(parts)})"


def _value(estimate: Estimate) -> str:
    """Format a value, with the ties if at least half of the items are tied."""
    tied = f" with {estimate.ties} of {estimate.n} tied" if 2 * estimate.ties >= estimate.n else ""
    return value_text(estimate) + tied


def _rivals(benchmarks: Sequence[HeadlineVerdict]) -> str:
    names = [f"{v.title} ({value_text(v.estimate)}; {v.blind_text})" for v in benchmarks[:_NAMED]]
    rest = [f"{len(benchmarks) - _NAMED} more"] if len(benchmarks) > _NAMED else []
    return and_list(names + rest)


def verdicts(
    layout: Layout, column: Column, comparisons: Sequence[Comparison] = ()
) -> tuple[HeadlineVerdict, ...]:
    """Return the verdict on each benchmark of a scorer, by the headline metric.

    Each benchmark has one verdict: by its first averaging rule, which is the published one, under
    the first tie rule and errata.
    """
    verdict_of: dict[str, HeadlineVerdict] = {}
    for sheet in layout.sheets:
        result = sheet.results[column.place]
        estimate = result.overall.get(sheet.headline) if result else None
        if sheet.benchmark not in verdict_of and estimate is not None and estimate.n > 0:
            verdict_of[sheet.benchmark] = _verdict(layout, sheet, column, estimate, comparisons)
    return tuple(verdict_of.values())


@dataclass(frozen=True)
class HeadlineVerdict:
    """One scorer's headline number on one benchmark, against chance and the blind baseline."""

    title: str
    estimate: Estimate
    chance: Standing
    blind: Standing
    """Against the best blind baseline; `at` means that no difference is shown."""
    blind_text: str = ""
    """Name and value of that baseline."""


def _verdict(
    layout: Layout,
    sheet: Sheet,
    column: Column,
    estimate: Estimate,
    comparisons: Sequence[Comparison],
) -> HeadlineVerdict:
    estimates = sheet.row(sheet.headline).estimates
    rivals = [
        (rival, estimate_of_rival)
        for rival, estimate_of_rival in zip(layout.columns, estimates, strict=True)
        if rival.is_blind and estimate_of_rival is not None and estimate_of_rival.n > 0
    ]
    if column.is_blind or not rivals:
        return HeadlineVerdict(sheet.benchmark, estimate, against_chance(estimate), "unknown")
    best, blind = max(rivals, key=lambda rival: rival[1].value)
    paired = _comparison(comparisons, sheet, first=best.scorer, second=column.scorer)
    return HeadlineVerdict(
        title=sheet.benchmark,
        estimate=estimate,
        chance=against_chance(estimate),
        blind=against_blind(estimate, blind, paired),
        blind_text=f"{best.label} {value_text(blind)}",
    )


def _comparison(
    comparisons: Sequence[Comparison], sheet: Sheet, *, first: str, second: str
) -> Comparison | None:
    """Return the paired comparison with `first` as baseline, with its sign reversed if needed."""
    for comparison in comparisons:
        key = (sheet.benchmark, sheet.headline, sheet.aggregate)
        if (comparison.benchmark, comparison.metric, comparison.aggregate) != key:
            continue
        if (comparison.first, comparison.second) == (first, second):
            return comparison
        if (comparison.first, comparison.second) == (second, first):
            reversed_ = replace(
                comparison, first=first, second=second, difference=-comparison.difference
            )
            return replace(reversed_, low=-comparison.high, high=-comparison.low)
    return None


def against_chance(estimate: Estimate) -> Standing:
    """Compare the interval with chance; `unknown` without a chance level or an interval."""
    levels = chance_levels(estimate)
    if not levels or estimate.low != estimate.low or estimate.high != estimate.high:
        return "unknown"
    if estimate.low > max(levels):
        return "above"
    return "below" if estimate.high < min(levels) else "at"


def against_blind(
    estimate: Estimate, blind: Estimate | None, comparison: Comparison | None = None
) -> Standing:
    """Compare by the paired difference (second minus first = blind), or else by the intervals.

    Requiring disjoint intervals is the more conservative test.
    """
    if comparison is not None and comparison.low == comparison.low:
        if comparison.low > 0:
            return "above"
        return "below" if comparison.high < 0 else "at"
    if blind is None or estimate.low != estimate.low or blind.low != blind.low:
        return "unknown"
    if estimate.low > blind.high:
        return "above"
    return "below" if estimate.high < blind.low else "at"


def chance_legend(layout: Layout) -> str:
    """Return the meaning of the sign = in the tables of a run."""
    rows = [sheet.row(metric) for sheet in layout.overview for metric in sheet.main_metrics]
    if any(row.first and len(chance_levels(row.first)) > 1 for row in rows):
        return "= the interval contains chance or lies between its two levels"
    return "= the interval contains chance"
