"""Published numbers beside ours: of the very model that was run, and of others on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from unbag.reports.formatting import difference_text, interval_text, number_text, value_text
from unbag.reports.layout import LOWER_IS_BETTER
from unbag.types import Published, Reference

BesideVerdict = Literal["inside", "outside", "not comparable", "no interval"]
_SHOWN_SCALE = 8
"""Lines of a scale before it is folded away."""


def same_model(references: Iterable[Reference]) -> tuple[Beside, ...]:
    """Those of the very models that were run."""
    return tuple(beside(reference) for reference in references if reference.is_same_model)


def beside(reference: Reference) -> Beside:
    """One reference as a line of a table."""
    ours, published = reference.ours, reference.published
    return Beside(
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
class Beside:
    """One published number of this very model."""

    scorer: str
    metric: str
    rule: str
    n: int
    ours: str
    interval: str
    model: str
    theirs: str
    difference: str
    verdict: BesideVerdict
    source: str
    doubts: tuple[str, ...]


def verdict_of(reference: Reference) -> BesideVerdict:
    """Whether their number lies in our interval, where both are the same thing."""
    if not reference.is_comparable:
        return "not comparable"
    if reference.is_inside is None:
        return "no interval"
    return "inside" if reference.is_inside else "outside"


def scales(references: Sequence[Reference]) -> tuple[Scale, ...]:
    """Published models and ours by the number they share; one scale a metric and rule."""
    found: dict[tuple[str, str], list[Reference]] = {}
    for reference in references:
        if not reference.is_same_model:
            published = reference.published
            found.setdefault((published.metric, published.aggregate), []).append(reference)
    merged: dict[tuple[str, str], list[Reference]] = {}
    for (metric, rule), some in found.items():
        stated = next((r for m, r in found if m == metric and r), rule)
        merged.setdefault((metric, stated), []).extend(some)
    return tuple(_scale(metric, rule, some) for (metric, rule), some in merged.items())


def _scale(metric: str, rule: str, references: Sequence[Reference]) -> Scale:
    marks = []
    for published, reference in {r.published: r for r in references}.items():
        shown = published_text(published, is_rate=reference.ours.is_rate)
        how = "" if published.scoring == "cosine" else f"; {published.scoring}"
        source = f"{published.source}{how}"
        marks.append(Mark(published.model, published.value, shown, "", source, reference.doubts))
    for scorer, ours in {r.scorer: r.ours for r in references}.items():
        shown, interval = value_text(ours), interval_text(ours)
        marks.append(Mark(scorer, ours.value, shown, interval, "", (), is_ours=True))
    sign = 1 if metric in LOWER_IS_BETTER else -1
    return Scale(metric, rule, tuple(sorted(marks, key=lambda mark: sign * mark.value)))


@dataclass(frozen=True)
class Scale:
    """Models lined up by one number, the best first."""

    metric: str
    rule: str
    marks: tuple[Mark, ...]

    @property
    def is_folded(self) -> bool:
        """Long ones are folded away."""
        return len(self.marks) > _SHOWN_SCALE


@dataclass(frozen=True)
class Mark:
    """One model on a scale, ours or a published one."""

    name: str
    value: float
    shown: str
    interval: str
    source: str
    """How it was scored is said too where it is not the usual way; empty for ours."""
    doubts: tuple[str, ...]
    is_ours: bool = False


def published_text(published: Published, *, is_rate: bool) -> str:
    """A published number with the digits it was printed with."""
    digits = published.digits if is_rate else published.digits + 2
    return number_text(published.value, is_rate=is_rate, digits=digits)
