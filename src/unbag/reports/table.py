"""One table builder: a `Table` for a terminal, as Markdown, LaTeX or HTML; and CSV."""

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
"""Styles of a span that every form shows; other styles are those of rich, for terminals alone."""
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
    # A row that begins with a bracket would be read as an option of the line break before it.
    "[": "{[}",
    "]": "{]}",
    "–": "--",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "\n": " ",
    "\r": " ",
}


class Marked(str):
    """Text in Markdown: `code` and **strong** are the marks that other forms show too."""


@dataclass(frozen=True)
class Span:
    """A piece of plain text with one style."""

    text: str
    style: str = ""


Cell = str | Span | tuple[str | Span, ...]
"""Plain text, text that is `Marked`, or pieces one after the other."""


@dataclass(frozen=True)
class Column:
    """Name and alignment of a column; the widths are for terminals."""

    name: Cell = ""
    align: Align = "left"
    is_whole: bool = False
    """Never broken into lines."""
    min_width: int | None = None
    max_width: int | None = None
    ratio: int | None = None
    """Share of the width of the terminal."""


@dataclass(frozen=True)
class Table:
    """What every form shows. A row that is shorter than the columns is filled up with nothing."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    has_head: bool = True
    look: Look = "ruled"
    """On a terminal: with a rule under the head, with a free line after each row too, or plain."""

    @classmethod
    def of(
        cls, names: Iterable[Cell], rows: Iterable[Sequence[Cell]], *, right: Iterable[int] = ()
    ) -> Table:
        """A table whose columns are named; those at the places of `right` hold numbers."""
        places = set(right)
        columns = (
            Column(name, "right" if at in places else "left") for at, name in enumerate(names)
        )
        return cls(tuple(columns), tuple(rows))

    @property
    def full_rows(self) -> Iterator[Sequence[Cell]]:
        """Every row with a cell for each column."""
        for row in self.rows:
            yield (*row, *[""] * (len(self.columns) - len(row)))

    def __rich__(self) -> RichTable:
        """For a terminal; a console prints a `Table` as it is."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        is_plain = self.look == "plain"
        made = RichTable(
            box=None if is_plain else SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 2) if is_plain else (0, 1),
            header_style="" if is_plain else "table.header",
            show_header=self.has_head,
            caption=self.caption or None,
            caption_justify="left",
        )
        for column in self.columns:
            made.add_column(
                _text(column.name),
                justify=column.align,
                no_wrap=column.is_whole,
                overflow="fold",
                min_width=column.min_width,
                max_width=column.max_width,
                ratio=column.ratio,
            )
        for row in self.full_rows:
            made.add_row(*map(_text, row), end_section=self.look == "spaced")
        return made


def markdown(table: Table) -> str:
    """A pipe table without a line break at its end; its caption is left to the page around it."""
    rules = ["---:" if column.align == "right" else "---" for column in table.columns]
    head = [_in_markdown(column.name) for column in table.columns]
    rows = ([_in_markdown(cell) for cell in row] for row in table.full_rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rules, *rows))


def latex(table: Table) -> str:
    """A `table` with a `tabular` in the style of booktabs."""
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
    """A bare `<table>` with escaped texts, for a notebook; its caption is that of the table."""

    def row(cells: Sequence[Cell], tag: str) -> str:
        shown = (
            f'<{tag} style="text-align: {column.align}">{_in_html(cell)}</{tag}>'
            for column, cell in zip(table.columns, cells, strict=True)
        )
        return f"<tr>{''.join(shown)}</tr>"

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
    """Comma separated values as RFC 4180 has them; no number is rounded.

    A text that a spreadsheet would take for a formula gets an apostrophe; what is no number is
    left empty.
    """
    file = io.StringIO(newline="")
    # With "\n" a carriage return inside a name would go unquoted.
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows([_in_csv(cell) for cell in row] for row in rows)
    return file.getvalue()


def _spans(cell: Cell) -> tuple[Span, ...]:
    """The pieces of a cell."""
    if isinstance(cell, tuple):
        return tuple(span for piece in cell for span in _spans(piece))
    if isinstance(cell, Span):
        return (cell,)
    if not isinstance(cell, Marked):
        return (Span(cell),)
    found, end = [], 0
    for mark in _MARKS.finditer(cell):
        found += [Span(cell[end : mark.start()])] if mark.start() > end else []
        found.append(Span(mark[1], CODE) if mark[1] else Span(mark[2], STRONG))
        end = mark.end()
    return (*found, *([Span(cell[end:])] if end < len(cell) else []))


def _text(cell: Cell) -> Text:
    # As Text, since a name such as micro[kind=add_obj] would be read as markup.
    from rich.text import Text

    made = Text()
    for span in _spans(cell):
        made.append(span.text, style="" if span.style == CODE else span.style)
    return made


def in_markdown(text: str) -> str:
    """A text that Markdown shows as it is and that stays in its cell."""
    return "".join(_MARKDOWN.get(sign, sign) for sign in text)


def _in_markdown(cell: Cell) -> str:
    if isinstance(cell, Marked):
        return cell.replace("|", _BAR)
    found = []
    for span in _spans(cell):
        if span.style == CODE:
            # Nothing but the end of the cell has a meaning inside of code.
            found.append(f"`{span.text.replace('|', _BAR)}`")
        else:
            mark = "**" if span.style == STRONG else ""
            found.append(f"{mark}{in_markdown(span.text)}{mark}")
    return "".join(found)


def _in_latex(cell: Cell) -> str:
    commands = {CODE: "texttt", STRONG: "textbf"}
    found = []
    for span in _spans(cell):
        text = "".join(_LATEX.get(sign, sign) for sign in span.text)
        command = commands.get(span.style)
        found.append(rf"\{command}{{{text}}}" if command else text)
    return "".join(found)


def _in_html(cell: Cell) -> str:
    tags = {CODE: "code", STRONG: "strong"}
    found = []
    for span in _spans(cell):
        text, tag = escape(span.text).replace("\n", "<br>"), tags.get(span.style)
        found.append(f"<{tag}>{text}</{tag}>" if tag else text)
    return "".join(found)


def guarded(text: str) -> str:
    """A text no spreadsheet takes for a formula: those that start like one get an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _in_csv(cell: object) -> object:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        return guarded(cell)
    return "" if cell is None or cell != cell else cell
