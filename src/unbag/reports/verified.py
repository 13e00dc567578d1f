"""References come in; a terminal table of ours and theirs, with numbered doubts, goes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unbag.reports.beside import Verdict, beside
from unbag.types import Reference

if TYPE_CHECKING:
    from rich.table import Table

_STYLES: dict[Verdict, str] = {
    "inside": "green",
    "outside": "bold red",
    "not comparable": "dim",
    "no interval": "dim",
}


def numbered_doubts(references: Sequence[Reference]) -> dict[str, int]:
    """Every doubt once, with the number that stands for it in the table."""
    said = dict.fromkeys(doubt for reference in references for doubt in reference.doubts)
    return {doubt: at for at, doubt in enumerate(said, start=1)}


def verified_table(references: Sequence[Reference]) -> Table:
    """A row a published number: ours with interval, theirs, the difference and the verdict."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    doubts = numbered_doubts(references)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("benchmark", "metric", "rule"):
        table.add_column(name, overflow="fold")
    for name in ("n", "ours", "theirs", "difference"):
        table.add_column(name, justify="right", no_wrap=name != "ours")
    for name in ("verdict", "doubts", "source"):
        table.add_column(name, overflow="fold")
    earlier = ""
    for reference in references:
        row = beside(reference)
        name = reference.benchmark if reference.benchmark != earlier else ""
        earlier = reference.benchmark
        numbers = ",".join(str(doubts[doubt]) for doubt in reference.doubts)
        cells = (name, row.metric, row.rule, f"{row.n:,}", f"{row.ours} {row.interval}".strip())
        after = (row.theirs, row.difference, row.verdict, numbers, row.source)
        style = _STYLES[row.verdict]
        texts = [Text(cell) for cell in (*cells, *after)]
        texts[7].stylize(style)
        table.add_row(*texts)
    return table
