"""What training gained and cost comes in; a table for the terminal or for a model card goes out."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from unbag.reports.exports import escaped
from unbag.reports.layout import LOWER_IS_BETTER
from unbag.reports.wording import difference_text, interval_text, value_text
from unbag.train.price import Priced, PriceRow
from unbag.types import Comparison, Estimate

if TYPE_CHECKING:
    from rich.table import Table

HEAD = ("benchmark", "metric", "before", "after", "difference", "n")
BLIND = "blind"
UNDER = "percent with 95 % intervals; difference: after minus before, paired over the same units"
MEANS = "mean caption scores are cosines"


def price_table(priced: Priced) -> Table:
    """A row a metric, under the name of its section. What is better is green, worse red."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=_under(priced), caption_justify="left")
    for at, name in enumerate(_head(priced)):
        table.add_column(name, justify="left" if at < 2 else "right", overflow="fold")
    for section, rows in groupby(priced.rows, key=lambda row: row.section):
        table.add_row(Text(section, style="bold"))
        for row in rows:
            benchmark, metric, *numbers = _cells(row)
            # Without its space an interval goes whole to a second line of a narrow terminal.
            cells = [Text(number.replace(", ", ",")) for number in numbers]
            cells[2].stylize(_style(row))
            blind = [Text(_blind(row).replace(", ", ","))] if _has_blind(priced) else []
            table.add_row(Text(benchmark), Text(metric), *cells, *blind)
    return table


def price_markdown(priced: Priced) -> str:
    """The same for a model card, with what is missing said under it."""
    head = _head(priced)
    lines = [f"| | {' | '.join(head)} |", f"| --- | --- | --- |{' ---: |' * (len(head) - 2)}"]
    for section, rows in groupby(priced.rows, key=lambda row: row.section):
        for at, row in enumerate(rows):
            benchmark, metric, *numbers = _cells(row)
            numbers += [_blind(row)] if _has_blind(priced) else []
            cells = ("" if at else section, escaped(benchmark), escaped(metric), *numbers)
            lines.append(f"| {' | '.join(cells)} |")
    notes = [_under(priced), *priced.notes]
    before, after = (name.replace("`", "'") for name in (priced.before, priced.after))
    return "\n".join(
        [
            f"Before: `{before}`; after: `{after}`.",
            "",
            *lines,
            "",
            *(f"- {note[0].upper()}{note[1:]}." for note in notes),
            "",
        ]
    )


def change_text(change: Comparison, *, is_rate: bool) -> str:
    """A difference with its interval, as `+2.1 [+1.0, +3.2]`."""
    value, low, high = (
        difference_text(number, is_rate=is_rate)
        for number in (change.difference, change.low, change.high)
    )
    return f"{value} [{low}, {high}]"


def _has_blind(priced: Priced) -> bool:
    return any(row.blind for row in priced.rows)


def _head(priced: Priced) -> tuple[str, ...]:
    return (*HEAD, BLIND) if _has_blind(priced) else HEAD


def _blind(row: PriceRow) -> str:
    return _estimate(row.blind) if row.blind else ""


def _under(priced: Priced) -> str:
    is_lower = any(row.metric in LOWER_IS_BETTER for row in priced.rows)
    parts = [UNDER]
    parts += [MEANS] if priced.of("mean caption scores") else []
    parts += ["↓ lower is better"] if is_lower else []
    return "; ".join(parts)


def _cells(row: PriceRow) -> tuple[str, str, str, str, str, str]:
    rule = "" if row.change.aggregate == "micro" else f", {row.change.aggregate}"
    arrow = " ↓" if row.metric in LOWER_IS_BETTER else ""
    return (
        row.benchmark,
        f"{row.metric}{rule}{arrow}",
        _estimate(row.before),
        _estimate(row.after),
        change_text(row.change, is_rate=row.before.is_rate),
        f"{row.change.n:,}",
    )


def _estimate(estimate: Estimate) -> str:
    return f"{value_text(estimate)} {interval_text(estimate)}".strip()


def _style(row: PriceRow) -> str:
    """No colour where the interval holds zero, or where neither direction is better."""
    if row.section == "mean caption scores" or row.change.low <= 0 <= row.change.high:
        return ""
    is_better = (row.change.difference > 0) != (row.metric in LOWER_IS_BETTER)
    return "green" if is_better else "red"
