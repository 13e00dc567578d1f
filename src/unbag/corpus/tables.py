"""TSV and CSV in and out: a row is a caption; the same rows go out with their edits as JSON.

In a TSV a line is a row. Many are written without quoting, so that a quotation mark may begin a
caption and mean nothing; others by `csv` or pandas, with quotes around some cells.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from unbag.corpus.edits_read import check_wanted, edits_in_cell
from unbag.corpus.entries import Caption, Entry, together
from unbag.corpus.source import (
    Bad,
    Source,
    find_column,
    no_captions_column,
)
from unbag.corpus.written import COLUMNS, EDITS, SKIPPED, Pair, Pairs, cells, row
from unbag.errors import UserError
from unbag.types.json_fields import is_whole_text

CAPTIONS = ("caption", "title", "text")
PICTURES = ("filepath", "image", "url")
_SEPARATORS = {"tsv": "\t", "csv": ","}


class _Rows:
    """Rows of a file, with the lines they stand on."""

    def __init__(self, file: BinaryIO, source: Source) -> None:
        # Bytes that are not UTF-8 are kept apart and refused row by row: a row may span lines.
        lines = (raw.decode("utf-8", "surrogateescape") for raw in file)
        self.reader = _Lines(lines) if source.form == "tsv" else csv.reader(lines, strict=True)
        self.name = source.name
        self.where = ""

    def __iter__(self) -> Iterator[list[str] | UserError]:
        while True:
            first = self.reader.line_num + 1
            found: list[str] | UserError
            try:
                found = next(self.reader)
            except StopIteration:
                return
            except csv.Error as error:
                self.where = self._place(first)
                found = UserError(f"{self.where}: {error}", expected="closed quotes around a cell")
            self.where = self._place(first)
            if isinstance(found, UserError) or found:
                yield found

    def _place(self, first: int) -> str:
        last = self.reader.line_num
        lines = f"line {first}" if last <= first else f"lines {first} to {last}"
        return f"{self.name}, {lines}"


class _Lines:
    """Rows of a TSV, each from one line; the first says how many cells a row has."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = iter(lines)
        self.line_num = 0
        self.width = 0

    def __next__(self) -> list[str]:
        line = next(self.lines).rstrip("\r\n")
        self.line_num += 1
        if not line:
            return []
        cells = line.split("\t")
        self.width = self.width or len(cells)
        if len(cells) == self.width:
            return [_unquoted(cell) for cell in cells]
        return self._with_tabs_inside(line) or cells

    def _with_tabs_inside(self, line: str) -> list[str]:
        """Nothing unless quotes around a cell explain why there are too many tabs."""
        try:
            [cells] = csv.reader([line], delimiter="\t", strict=True)
        except (csv.Error, ValueError):
            return []
        return cells if len(cells) == self.width else []


def _unquoted(cell: str) -> str:
    """Only quotes that `csv` would have written: on both sides, and doubled inside."""
    inside = cell[1:-1]
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return inside.replace('""', '"') if is_quoted and '"' not in inside.replace('""', "") else cell


@dataclass(frozen=True)
class _Columns:
    """Where in a row things stand; -1 where they do not."""

    header: tuple[str, ...]
    """Empty in a table without one."""
    width: int
    caption: int
    picture: int
    id: int
    edits: int


def read(source: Source, bad: Bad) -> Iterator[Entry]:
    """One entry a picture: rows that follow each other with the same picture are one."""
    return together(_entries(source, bad))


def write_tsv(pairs: Pairs, path: Path) -> None:
    """Tabs between the columns."""
    _write(pairs, path, "tsv")


def write_csv(pairs: Pairs, path: Path) -> None:
    """Commas between the columns."""
    _write(pairs, path, "csv")


def _entries(source: Source, bad: Bad) -> Iterator[Entry]:
    with source.opened() as file:
        rows = _Rows(file, source)
        flow = iter(rows)
        first = _first(flow, source)
        columns = _columns(first, source)
        if not columns.header:
            yield _entry(first, columns, rows.where)
        for found in flow:
            try:
                yield _entry(found, columns, rows.where)
            except UserError as error:
                bad(error)


def _first(flow: Iterator[list[str] | UserError], source: Source) -> list[str]:
    found = next(flow, [])
    if isinstance(found, UserError):
        raise found
    if found:
        found[0] = found[0].removeprefix("\ufeff")
    return found


def _columns(first: list[str], source: Source) -> _Columns:
    if not first:
        raise UserError(f"{source.name} is empty", expected="a table with a column of captions")
    if not is_whole_text("".join(first)):
        raise UserError(f"{source.name}, line 1 is not UTF-8", expected="text in UTF-8")
    header = list(first)
    if source.caption_column.isdigit() and source.caption_column not in header:
        header = [str(number) for number in range(1, len(first) + 1)]
    caption = find_column(source.caption_column, CAPTIONS, header, source)
    if not caption:
        raise no_captions_column(header, source)
    if EDITS in header:
        check_wanted(source, source.name)
    picture = find_column(source.picture_column, PICTURES, header, source)
    at = {name: position for position, name in enumerate(header)}
    is_headed = header == first
    places = at[caption], at.get(picture, -1), at.get("id", -1), at.get(EDITS, -1)
    return _Columns(tuple(header) if is_headed else (), len(header), *places)


def _entry(found: list[str] | UserError, columns: _Columns, where: str) -> Entry:
    if isinstance(found, UserError):
        raise found
    if len(found) != columns.width:
        raise UserError(
            f"{where} has {len(found)} columns", expected=f"{columns.width}, as in the first line"
        )
    if not is_whole_text("".join(found)):
        raise UserError(f"{where} is not UTF-8", expected="text in UTF-8")
    number = where.rpartition(" ")[2]
    name = (found[columns.id] if columns.id >= 0 else "") or number
    picture = found[columns.picture] if columns.picture >= 0 else ""
    edits = edits_in_cell(found[columns.edits], None, where) if columns.edits >= 0 else ()
    return Entry(picture, (Caption(name, found[columns.caption], where),), (found,), edits)


def _write(pairs: Pairs, path: Path, form: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=_SEPARATORS[form], lineterminator="\n")
        if pairs.source.form in _SEPARATORS:
            header = _header(pairs.source)
            if header:
                writer.writerow((*header, EDITS, SKIPPED))
            for pair in pairs:
                writer.writerows(_same_rows(pair))
        else:
            writer.writerow(COLUMNS)
            for pair in pairs:
                writer.writerows(row(pair))


def _header(source: Source) -> Sequence[str]:
    with source.opened() as file:
        return _columns(_first(iter(_Rows(file, source)), source), source).header


def _same_rows(pair: Pair) -> Iterator[list[str]]:
    for rest, one in pair.rows():
        assert isinstance(rest, list)
        yield [*rest, *cells([one], is_list=False)]
