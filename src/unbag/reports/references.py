"""Compare our numbers with published ones: of the same model, and of others on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from unbag.reports.formatting import difference_text, interval_text, number_text, value_text
from unbag.reports.layout import LOWER_IS_BETTER
from unbag.types import Published, Reference

PublishedVerdict = Literal["inside", "outside", "not comparable", "no interval"]
_SHOWN_SCALE = 8
"""Largest number of lines of a scale that is not collapsed."""


def same_model(references: Iterable[Reference]) -> tuple[PublishedRow, ...]:
    """Return the published numbers of the models that were run."""
    return tuple(published_row(reference) for reference in references if reference.is_same_model)


def published_row(reference: Reference) -> PublishedRow:
    """Format one reference as a table row."""
    ours, published = reference.ours, reference.published
    return PublishedRow(
        scorer=reference.scorer,
        metric=published.metric,
        rule=published.aggregate or "rule not stated",
        n=ours.n,
        ours=value_text(ours),
        interval=interval_text(ours),
        model=published.model,
        theirs=published_text(published, is_rate=ours.is_rate),
        difference=difference_text(reference.difference, is_rate=ours.is_rate),
        verdict=verdict_of(reference),
        source=published.source,
        doubts=reference.doubts,
    )


@dataclass(frozen=True)
class PublishedRow:
    """A published number of a model that was run, and ours, as text."""

    scorer: str
    metric: str
    rule: str
    n: int
    ours: str
    interval: str
    model: str
    theirs: str
    difference: str
    verdict: PublishedVerdict
    source: str
    doubts: tuple[str, ...]


def verdict_of(reference: Reference) -> PublishedVerdict:
    """Return whether the published number lies in our interval, if the two are comparable."""
    if not reference.is_comparable:
        return "not comparable"
    if reference.is_inside is None:
        return "no interval"
    return "inside" if reference.is_inside else "outside"


def scales(references: Sequence[Reference]) -> tuple[Scale, ...]:
    """Rank published models and ours, with one scale per metric and averaging rule."""
    by_rule: dict[tuple[str, str], list[Reference]] = {}
    for reference in references:
        if not reference.is_same_model:
            published = reference.published
            by_rule.setdefault((published.metric, published.aggregate), []).append(reference)
    merged: dict[tuple[str, str], list[Reference]] = {}
    for (metric, rule), group in by_rule.items():
        stated = next((r for m, r in by_rule if m == metric and r), rule)
        merged.setdefault((metric, stated), []).extend(group)
    return tuple(_scale(metric, rule, group) for (metric, rule), group in merged.items())


def _scale(metric: str, rule: str, references: Sequence[Reference]) -> Scale:
    marks = []
    for published, reference in {r.published: r for r in references}.items():
        text = published_text(published, is_rate=reference.ours.is_rate)
        scoring = "" if published.scoring == "cosine" else f"; {published.scoring}"
        source = f"{published.source}{scoring}"
        marks.append(Mark(published.model, published.value, text, "", source, reference.doubts))
    for scorer, ours in {r.scorer: r.ours for r in references}.items():
        text, interval = value_text(ours), interval_text(ours)
        marks.append(Mark(scorer, ours.value, text, interval, "", (), is_ours=True))
    sign = 1 if metric in LOWER_IS_BETTER else -1
    return Scale(metric, rule, tuple(sorted(marks, key=lambda mark: sign * mark.value)))


@dataclass(frozen=True)
class Scale:
    """Models ranked by one number, the best first."""

    metric: str
    rule: str
    marks: tuple[Mark, ...]

    @property
    def is_folded(self) -> bool:
        """Whether the scale is collapsed, since it is long."""
        return len(self.marks) > _SHOWN_SCALE


@dataclass(frozen=True)
class Mark:
    """One model on a scale, ours or a published one."""

    name: str
    value: float
    shown: str
    interval: str
    source: str
    """With the scoring if it is not cosine; empty for our models."""
    doubts: tuple[str, ...]
    is_ours: bool = False


def published_text(published: Published, *, is_rate: bool) -> str:
    """Format a published number with its printed digits."""
    digits = published.digits if is_rate else published.digits + 2
    return number_text(published.value, is_rate=is_rate, digits=digits)
