"""Tables for the terminal, Markdown, LaTeX and HTML (`Table`), and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

Align = Literal["left", "right"]
Look = Literal["ruled", "spaced", "plain"]
CODE, STRONG = "code", "bold"
"""Styles of a span that every format shows; other styles are rich's, for terminals only."""
_BAR = "\\|"
_MARKS = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")
_MARKDOWN = {sign: f"\\{sign}" for sign in "\\|`*_[]#~"} | {
    "<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " ",
}  # fmt: skip
_LATEX = {sign: f"\\{sign}" for sign in "{}$&#_%"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    # LaTeX reads a bracket at the start of a row as an option of the preceding line break.
    "[": "{[}",
    "]": "{]}",
    "–": "--",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "\n": " ",
    "\r": " ",
}


class Marked(str):
    """Text in Markdown; other formats render `code` and **strong**."""


@dataclass(frozen=True)
class Span:
    """Plain text with one style."""

    text: str
    style: str = ""


Cell = str | Span | tuple[str | Span, ...]
"""Plain text, `Marked` text, or a sequence of pieces."""


@dataclass(frozen=True)
class Column:
    """Name and alignment of a column; the widths are for terminals."""

    name: Cell = ""
    align: Align = "left"
    is_whole: bool = False
    """Never wrapped."""
    min_width: int | None = None
    max_width: int | None = None
    ratio: int | None = None
    """Share of the width of the terminal."""


@dataclass(frozen=True)
class Table:
    """A table. Rows shorter than the columns are padded with empty cells."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    has_head: bool = True
    look: Look = "ruled"
    """On a terminal: ruled under the head, also with an empty line after each row, or plain."""

    @classmethod
    def of(
        cls, names: Iterable[Cell], rows: Iterable[Sequence[Cell]], *, right: Iterable[int] = ()
    ) -> Table:
        """Return a table with named columns; those with an index in `right` are right-aligned."""
        places = set(right)
        columns = (Column(name, "right" if i in places else "left") for i, name in enumerate(names))
        return cls(tuple(columns), tuple(rows))

    @property
    def full_rows(self) -> Iterator[Sequence[Cell]]:
        """Every row, padded to the number of columns."""
        for row in self.rows:
            yield (*row, *[""] * (len(self.columns) - len(row)))

    def __rich__(self) -> RichTable:
        """Convert to a rich table, so that a console prints a `Table` directly."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        is_plain = self.look == "plain"
        table = RichTable(
            box=None if is_plain else SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 2) if is_plain else (0, 1),
            header_style="" if is_plain else "table.header",
            show_header=self.has_head,
            caption=self.caption or None,
            caption_justify="left",
        )
        for column in self.columns:
            table.add_column(
                _text(column.name),
                justify=column.align,
                no_wrap=column.is_whole,
                overflow="fold",
                min_width=column.min_width,
                max_width=column.max_width,
                ratio=column.ratio,
            )
        for row in self.full_rows:
            table.add_row(*map(_text, row), end_section=self.look == "spaced")
        return table


def markdown(table: Table) -> str:
    """Return a Markdown table without a trailing newline; its caption is left out."""
    rules = ["---:" if column.align == "right" else "---" for column in table.columns]
    head = [_in_markdown(column.name) for column in table.columns]
    rows = ([_in_markdown(cell) for cell in row] for row in table.full_rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rules, *rows))


def latex(table: Table) -> str:
    """Return a LaTeX `table` with a `tabular` in the style of booktabs."""
    kinds = "".join(column.align[0] for column in table.columns)
    head = [[column.name for column in table.columns]] if table.has_head else []
    first, *lines = (rf"{' & '.join(map(_in_latex, row))} \\" for row in (*head, *table.full_rows))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            *([rf"\caption{{{_in_latex(table.caption)}}}"] if table.caption else []),
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            first,
            *([r"\midrule"] if table.has_head else []),
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def html(table: Table) -> str:
    """Return an HTML `<table>` with escaped text, for a notebook."""

    def row(cells: Sequence[Cell], tag: str) -> str:
        cells_html = (
            f'<{tag} style="text-align: {column.align}">{_in_html(cell)}</{tag}>'
            for column, cell in zip(table.columns, cells, strict=True)
        )
        return f"<tr>{''.join(cells_html)}</tr>"

    head = row([column.name for column in table.columns], "th")
    parts = [
        '<table class="unbag">',
        f"<caption>{escape(table.caption)}</caption>" if table.caption else "",
        f"<thead>{head}</thead>" if table.has_head else "",
        f"<tbody>{''.join(row(cells, 'td') for cells in table.full_rows)}</tbody>",
        "</table>",
    ]
    return "\n".join(part for part in parts if part)


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV as in RFC 4180; numbers are not rounded, and NaN is an empty cell.

    Text that a spreadsheet would read as a formula gets a leading apostrophe.
    """
    file = io.StringIO(newline="")
    # With "\n" a carriage return inside a name would go unquoted.
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows([_in_csv(cell) for cell in row] for row in rows)
    return file.getvalue()


def _spans(cell: Cell) -> tuple[Span, ...]:
    """Split a cell into spans."""
    if isinstance(cell, tuple):
        return tuple(span for piece in cell for span in _spans(piece))
    if isinstance(cell, Span):
        return (cell,)
    if not isinstance(cell, Marked):
        return (Span(cell),)
    spans, end = [], 0
    for mark in _MARKS.finditer(cell):
        spans += [Span(cell[end : mark.start()])] if mark.start() > end else []
        spans.append(Span(mark[1], CODE) if mark[1] else Span(mark[2], STRONG))
        end = mark.end()
    return (*spans, *([Span(cell[end:])] if end < len(cell) else []))


def _text(cell: Cell) -> Text:
    # As Text, since rich would parse a name such as micro[kind=add_obj] as markup.
    from rich.text import Text

    text = Text()
    for span in _spans(cell):
        text.append(span.text, style="" if span.style == CODE else span.style)
    return text


def in_markdown(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return "".join(_MARKDOWN.get(sign, sign) for sign in text)


def _in_markdown(cell: Cell) -> str:
    if isinstance(cell, Marked):
        return cell.replace("|", _BAR)
    parts = []
    for span in _spans(cell):
        if span.style == CODE:
            # Inside code only the cell separator needs escaping.
            parts.append(f"`{span.text.replace('|', _BAR)}`")
        else:
            mark = "**" if span.style == STRONG else ""
            parts.append(f"{mark}{in_markdown(span.text)}{mark}")
    return "".join(parts)


def _in_latex(cell: Cell) -> str:
    commands = {CODE: "texttt", STRONG: "textbf"}
    parts = []
    for span in _spans(cell):
        text = "".join(_LATEX.get(sign, sign) for sign in span.text)
        command = commands.get(span.style)
        parts.append(rf"\{command}{{{text}}}" if command else text)
    return "".join(parts)


def _in_html(cell: Cell) -> str:
    tags = {CODE: "code", STRONG: "strong"}
    parts = []
    for span in _spans(cell):
        text, tag = escape(span.text).replace("\n", "<br>"), tags.get(span.style)
        parts.append(f"<{tag}>{text}</{tag}>" if tag else text)
    return "".join(parts)


def guarded(text: str) -> str:
    """Prefix text that a spreadsheet would read as a formula with an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _in_csv(cell: object) -> object:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        return guarded(cell)
    return "" if cell is None or cell != cell else cell
