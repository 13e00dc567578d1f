"""Makes the pages of the study from claims and results: Markdown with SVG figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from unbag.reports.table import Marked, Table, markdown

START, END = "<!-- {}: start -->\n", "<!-- {}: end -->\n"


def renewed(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with each generated part, between its marks, replaced."""
    for name, text in parts.items():
        start, end = START.format(name), END.format(name)
        before, _, rest = page.partition(start)
        page = before + start + "\n" + text + "\n" + end + rest.partition(end)[2]
    return page


def style(name: str) -> str:
    """Return the CSS rules in a file of this package as one line."""
    return "".join((files(__name__) / f"{name}.css").read_text(encoding="utf-8").splitlines())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose cells are Markdown."""
    marked = ([Marked(cell) for cell in row] for row in rows)
    return markdown(Table.of(map(Marked, head), marked)) + "\n"
