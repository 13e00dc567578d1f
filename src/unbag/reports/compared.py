"""Comparisons come in; what tables say of each goes out, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unbag.reports.layout import Sheet
from unbag.reports.wording import comparison_sentence, difference_text, p_text
from unbag.types import Comparison


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
