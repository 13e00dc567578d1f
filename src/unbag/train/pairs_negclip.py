"""NegCLIP's TSV comes in, rows with their negatives and near pictures go out.

Columns title, filepath, neg_caption, neg_image; the last two are lists as Python writes them:
texts, and numbers of rows. As in the public training code each row is a pair of its own.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from unbag.corpus.source import Source
from unbag.errors import UserError
from unbag.train.packed import Row
from unbag.types import Edit

T = TypeVar("T")

ABOUT = "NegCLIP's TSV"
KIND = "neg_clip_swap"
"""Kind of its negatives: the published rule made them."""
_COLUMNS = ("title", "filepath", "neg_caption", "neg_image")


def is_negclip(path: str) -> bool:
    """Whether the header of a TSV says so."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return {b"title", b"neg_caption"} <= set(file.readline().strip().split(b"\t"))


def negclip_rows(source: Source) -> Iterator[Row]:
    """One row each; a number of a row that does not exist is an error."""
    count = sum(1 for _ in _cells(source))
    for number, (where, cells) in enumerate(_cells(source)):
        negatives = _list(cells["neg_caption"], where, "neg_caption", of=str)
        nearest = _list(cells["neg_image"], where, "neg_image", of=int)
        _check_numbers(nearest, count, where)
        edits = tuple(Edit(text, KIND, False, (0, 0)) for text in negatives if text.strip())
        caption = " ".join(cells["title"].split())
        if not caption:
            raise UserError(f"{where} has an empty title", expected="a caption")
        near = tuple(one for one in nearest if one != number)
        yield Row(f"row {number}", cells["filepath"], (caption,), (edits,), near)


def _cells(source: Source) -> Iterator[tuple[str, Mapping[str, str]]]:
    with source.file.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t", strict=True)
        try:
            header = next(reader, [])
            _check_header(header, source)
            for row in reader:
                if not row:
                    continue
                where = f"{source.name}, line {reader.line_num}"
                if len(row) != len(header):
                    raise UserError(
                        f"{where} has {len(row)} columns", expected=f"{len(header)}, as the header"
                    )
                yield where, dict(zip(header, row, strict=True))
        except csv.Error as error:
            where = f"{source.name}, line {reader.line_num}"
            raise UserError(f"{where}: {error}", expected="closed quotes around a cell") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{source.name} is not UTF-8: {error}") from error


def _check_header(header: list[str], source: Source) -> None:
    lacking = [name for name in _COLUMNS if name not in header]
    if lacking:
        raise UserError(
            f"{source.name} has no column {', '.join(lacking)}, only {', '.join(header)}",
            expected=f"the columns {', '.join(_COLUMNS)}",
            way_out="a table without them is read with --form tsv",
        )


def _list(cell: str, where: str, name: str, *, of: type[T]) -> list[T]:
    try:
        found = ast.literal_eval(cell.strip() or "[]")
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise _bad_list(cell, where, name) from error
    if not isinstance(found, list) or not all(type(one) is of for one in found):
        raise _bad_list(cell, where, name)
    return found


def _bad_list(cell: str, where: str, name: str) -> UserError:
    what = "texts" if name == "neg_caption" else "numbers of rows"
    return UserError(
        f"{where}: {name} is {cell[:60]!r}",
        expected=f"a list of {what} as Python writes it",
        way_out="write the file with `unbag edit --format negclip`, or mend the cell",
    )


def _check_numbers(numbers: list[int], count: int, where: str) -> None:
    beyond = [number for number in numbers if not 0 <= number < count]
    if beyond:
        raise UserError(
            f"{where}: neg_image names row {beyond[0]}",
            expected=f"numbers from 0 to {count - 1}, as there are {count:,} rows",
            way_out="rows are counted from 0 below the header; the file may have been cut",
        )
