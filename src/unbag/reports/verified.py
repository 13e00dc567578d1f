"""References come in; a terminal table of ours and theirs, with notes under it, goes out."""

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


def notes(references: Sequence[Reference]) -> dict[str, int]:
    """Every source and then every doubt once, with the number that stands for it in the table."""
    sources = (reference.published.source for reference in references)
    doubts = (doubt for reference in references for doubt in reference.doubts)
    said = dict.fromkeys([*sources, *doubts])
    return {text: at for at, text in enumerate(said, start=1)}


def verified_table(references: Sequence[Reference]) -> Table:
    """A row a published number: ours with interval, theirs, the difference and the verdict."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    numbers = notes(references)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("benchmark", "metric, rule"):
        table.add_column(name, overflow="fold")
    for name in ("n", "ours", "theirs", "differ"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("notes")
    earlier = ""
    for reference in references:
        row, name = beside(reference), reference.benchmark
        ours = f"{row.ours} {row.interval.replace(', ', '–')}".strip()
        cells = ["" if name == earlier else name, f"{row.metric}, {row.rule}", f"{row.n:,}", ours]
        # Text, since a rule such as micro[kind=add_obj] would be read as markup.
        texts = [Text(cell) for cell in (*cells, row.theirs, row.difference)]
        said = ",".join(str(numbers[text]) for text in (row.source, *row.doubts))
        table.add_row(*texts, Text(row.verdict, style=_STYLES[row.verdict]), said)
        earlier = name
    return table
