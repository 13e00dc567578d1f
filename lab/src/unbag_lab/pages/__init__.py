"""Pages of the study, made from claims and results: Markdown with figures in SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from unbag.reports.table import Marked, Table, markdown

START, END = "<!-- {}: start -->\n", "<!-- {}: end -->\n"


def renewed(page: str, parts: Mapping[str, str]) -> str:
    """The page with every generated part, which stands between marks, as it is now."""
    for name, text in parts.items():
        start, end = START.format(name), END.format(name)
        before, _, rest = page.partition(start)
        page = before + start + "\n" + text + "\n" + end + rest.partition(end)[2]
    return page


def style(name: str) -> str:
    """Rules for figures, from the file of this name, in one line."""
    return "".join((files(__name__) / f"{name}.css").read_text(encoding="utf-8").splitlines())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown."""
    marked = ([Marked(cell) for cell in row] for row in rows)
    return markdown(Table.of(map(Marked, head), marked)) + "\n"
