"""The summary of a run in words: where each scorer stands against chance and the blind baseline.

A number is above chance only if its whole interval is. Where random scores can mean two things
(two chance levels), it must clear both.
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
"""Benchmarks named in one list of a sentence; the others are counted."""


def summarise(layout: Layout, comparisons: Sequence[Comparison] = ()) -> tuple[Paragraph, ...]:
    """One paragraph a scorer, the blind baselines last."""
    paragraphs = []
    for column in layout.columns:
        judged = verdicts(layout, column, comparisons)
        if judged:
            text = _blind_text(judged) if column.is_blind else _seeing_text(judged)
            paragraphs.append(Paragraph(column.label, text))
    return tuple(paragraphs)


@dataclass(frozen=True)
class Paragraph:
    """What the summary says of one scorer."""

    subject: str
    text: str


def _seeing_text(judged: Sequence[HeadlineVerdict]) -> str:
    groups = {word: [v for v in judged if v.chance == word] for word in ("above", "at", "below")}
    groups["above"].sort(key=lambda v: -v.estimate.value)
    parts: list[str] = []
    for word, group in groups.items():
        if group:
            count = str(len(group)) if parts else _share(len(group), len(judged))
            parts.append(f"{word} chance on {count}{_names(group, chance=word != 'above')}")
    text = f"is {and_list(parts)}." if parts else "was measured where no chance level is known."
    under = [v for v in judged if v.blind == "below"]
    level = [v for v in judged if v.blind == "at" and v.chance == "above"]
    if under:
        text += f" It falls below the blind baseline on {_rivals(under)}."
    if level:
        text += f" It does not beat the blind baseline on {_rivals(level)}."
    return text


def _blind_text(judged: Sequence[HeadlineVerdict]) -> str:
    above = [v for v in judged if v.chance == "above"]
    if not above:
        return "never sees an image, and is above chance on no benchmark, as it should be."
    return (
        "never sees an image and is still above chance on "
        f"{_share(len(above), len(judged))}{_names(above, chance=True)}: that much can be had "
        "there from the captions alone."
    )


def _share(count: int, total: int) -> str:
    noun = "benchmark" if total == 1 else "benchmarks"
    return f"all {total} {noun}" if count == total > 1 else f"{count} of {total} {noun}"


def _names(judged: Sequence[HeadlineVerdict], *, chance: bool = False) -> str:
    """In brackets; with `chance`, those that share a chance level share its mention."""
    named: dict[str, list[str]] = {}
    for verdict in judged[:_NAMED]:
        # Two levels are a range: a number between them is at chance.
        levels = map(verdict.estimate.show, sorted(chance_levels(verdict.estimate)))
        level = f" against {' to '.join(levels)}" if chance else ""
        named.setdefault(level, []).append(f"{verdict.title} {_value(verdict.estimate)}")
    parts = [", ".join(names) + level for level, names in named.items()]
    parts += [f"{len(judged) - _NAMED} more"] if len(judged) > _NAMED else []
    return f" ({'; '.join(parts)})"


def _value(estimate: Estimate) -> str:
    """With the ties where they, not the scores, made the number."""
    tied = f" with {estimate.ties} of {estimate.n} tied" if 2 * estimate.ties >= estimate.n else ""
    return value_text(estimate) + tied


def _rivals(judged: Sequence[HeadlineVerdict]) -> str:
    named = [f"{v.title} ({value_text(v.estimate)}; {v.blind_text})" for v in judged[:_NAMED]]
    rest = [f"{len(judged) - _NAMED} more"] if len(judged) > _NAMED else []
    return and_list(named + rest)


def verdicts(
    layout: Layout, column: Column, comparisons: Sequence[Comparison] = ()
) -> tuple[HeadlineVerdict, ...]:
    """Every benchmark this scorer was measured on, by its headline metric.

    A benchmark is judged once: by its first averaging rule, which is the published one, under the
    first tie rule and errata.
    """
    found: dict[str, HeadlineVerdict] = {}
    for sheet in layout.sheets:
        result = sheet.results[column.place]
        estimate = result.overall.get(sheet.headline) if result else None
        if sheet.benchmark not in found and estimate is not None and estimate.n > 0:
            found[sheet.benchmark] = _verdict(layout, sheet, column, estimate, comparisons)
    return tuple(found.values())


@dataclass(frozen=True)
class HeadlineVerdict:
    """One scorer's headline number on one benchmark, judged."""

    title: str
    estimate: Estimate
    chance: Standing
    blind: Standing
    """Against the best blind baseline; `at` means no difference is shown."""
    blind_text: str = ""
    """That baseline's name and value."""


def _verdict(
    layout: Layout,
    sheet: Sheet,
    column: Column,
    estimate: Estimate,
    comparisons: Sequence[Comparison],
) -> HeadlineVerdict:
    estimates = sheet.row(sheet.headline).estimates
    rivals = [
        (rival, found)
        for rival, found in zip(layout.columns, estimates, strict=True)
        if rival.is_blind and found is not None and found.n > 0
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
    """The paired comparison with `first` as baseline, turned round if it was made that way."""
    for made in comparisons:
        asked = (sheet.benchmark, sheet.headline, sheet.aggregate)
        if (made.benchmark, made.metric, made.aggregate) != asked:
            continue
        if (made.first, made.second) == (first, second):
            return made
        if (made.first, made.second) == (second, first):
            turned = replace(made, first=first, second=second, difference=-made.difference)
            return replace(turned, low=-made.high, high=-made.low)
    return None


def against_chance(estimate: Estimate) -> Standing:
    """Where the interval lies; `unknown` without a chance level or without a measurement."""
    levels = chance_levels(estimate)
    if not levels or estimate.low != estimate.low or estimate.high != estimate.high:
        return "unknown"
    if estimate.low > max(levels):
        return "above"
    return "below" if estimate.high < min(levels) else "at"


def against_blind(
    estimate: Estimate, blind: Estimate | None, comparison: Comparison | None = None
) -> Standing:
    """By the paired comparison (second minus first = blind) if there is one, else by intervals.

    Asking for intervals that do not touch is the more careful test of the two.
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
    """What the sign = says in the tables of a run."""
    rows = [sheet.row(metric) for sheet in layout.overview for metric in sheet.main_metrics]
    if any(row.first and len(chance_levels(row.first)) > 1 for row in rows):
        return "= the interval contains chance or lies between its two levels"
    return "= the interval contains chance"
