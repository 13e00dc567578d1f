"""Read and write the TSV of NegCLIP's public training code.

Columns: an unnamed row number, title, filepath, neg_caption, neg_image. The last two are Python
literals: a list of captions and a list of row numbers, whose images are near. Each row is one pair.
For every row the public code draws one of neg_caption and one of neg_image; it stops at an empty
list.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeVar

from unbag.data.captions import EditedEntries, EditedEntry, Source, json_record
from unbag.data.pairs import PairRow
from unbag.errors import UnbagError
from unbag.types import Edit
from unbag.types.json import read_field

T = TypeVar("T")
HEADER = ("", "title", "filepath", "neg_caption", "neg_image")
KIND = "neg_clip_swap"
"""Edit kind of its negatives, which the published rule generates."""
_NEAREST = 3
"""Row numbers in neg_image, as in the published file."""
Neighbours = Mapping[str, Sequence[str]]
"""The nearest other images of each image, nearest first."""


def write(pairs: EditedEntries, path: Path, neighbours: Neighbours | None = None) -> int:
    """Write a row per caption with negatives; return the number of rows without near images."""
    rows = _rows_of_images(pairs) if neighbours else {}
    number, without = count(), 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(HEADER)
        for pair in pairs:
            near = [
                rows[name] for name in (neighbours or {}).get(pair.entry.image, ()) if name in rows
            ]
            for turn, (title, negatives) in enumerate(_negatives(pair)):
                # Each caption of this image gets a different caption of the near image.
                chosen = [block.first + turn % block.size for block in near[:_NEAREST]]
                without += not chosen
                writer.writerow((next(number), title, pair.entry.image, negatives, chosen))
    return without


def notes(without: int, has_neighbours: bool) -> list[str]:
    """Return notes about rows whose neg_image is empty."""
    if not without:
        return []
    why = "give the nearest images with --neighbours"
    if has_neighbours:
        why = "none of their neighbours has a row: give more neighbours per image"
    return [
        f"neg_image is empty in {without:,} rows; NegCLIP's public training code draws from it for "
        f"every row and stops at an empty one; {why}"
    ]


def _rows_of_images(pairs: EditedEntries) -> dict[str, _ImageRows]:
    rows: dict[str, _ImageRows] = {}
    first = 0
    for pair in pairs:
        count = sum(1 for _ in _negatives(pair))
        if count:
            rows.setdefault(pair.entry.image, _ImageRows(first, count))
        first += count
    return rows


class _ImageRows(NamedTuple):
    """The consecutive rows of one image."""

    first: int
    size: int


def _negatives(pair: EditedEntry) -> Iterator[tuple[str, list[str]]]:
    for caption in pair.edited:
        texts = [edit.text for edit in caption.edits if not edit.is_positive]
        if texts:
            yield caption.text, texts


def is_negclip(path: str) -> bool:
    """Return whether the header of a TSV is that of NegCLIP's format."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return {b"title", b"neg_caption"} <= set(file.readline().strip().split(b"\t"))


def negclip_rows(source: Source) -> Iterator[PairRow]:
    """Yield the rows as pairs; UnbagError for a row number that does not exist."""
    count = sum(1 for _ in _cells(source))
    for number, (where, cells) in enumerate(_cells(source)):
        negatives = _parse_list(cells["neg_caption"], where, "neg_caption", type_=str)
        nearest = _parse_list(cells["neg_image"], where, "neg_image", type_=int)
        beyond = [row for row in nearest if not 0 <= row < count]
        if beyond:
            raise UnbagError(
                f"{where}: neg_image contains row {beyond[0]}",
                expected=f"numbers from 0 to {count - 1}, as there are {count:,} rows",
                hint="rows are counted from 0 below the header; the file may be truncated",
            )
        edits = tuple(Edit(text, KIND, False, (0, 0)) for text in negatives if text.strip())
        caption = " ".join(cells["title"].split())
        if not caption:
            raise UnbagError(f"{where} has an empty title", expected="a caption")
        near = tuple(row for row in nearest if row != number)
        yield PairRow(f"row {number}", cells["filepath"], (caption,), (edits,), near)


def _cells(source: Source) -> Iterator[tuple[str, Mapping[str, str]]]:
    with source.file.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t", strict=True)
        try:
            header = next(reader, [])
            missing = [name for name in HEADER[1:] if name not in header]
            if missing:
                raise UnbagError(
                    f"{source.name} has no column {', '.join(missing)}, only {', '.join(header)}",
                    expected=f"the columns {', '.join(HEADER[1:])}",
                    hint="a table without them is read with --pairs-format tsv",
                )
            for row in reader:
                if not row:
                    continue
                where = f"{source.name}, line {reader.line_num}"
                if len(row) != len(header):
                    raise UnbagError(
                        f"{where} has {len(row)} columns", expected=f"{len(header)}, as the header"
                    )
                yield where, dict(zip(header, row, strict=True))
        except csv.Error as error:
            where = f"{source.name}, line {reader.line_num}"
            raise UnbagError(f"{where}: {error}", expected="closed quotes around a cell") from error
        except UnicodeDecodeError as error:
            raise UnbagError(f"{source.name} is not UTF-8: {error}") from error


def _parse_list(cell: str, where: str, name: str, *, type_: type[T]) -> list[T]:
    cause: Exception | None = None
    try:
        values = ast.literal_eval(cell.strip() or "[]")
        if isinstance(values, list) and all(type(value) is type_ for value in values):
            return values
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        cause = error
    raise UnbagError(
        f"{where}: {name} is {cell[:60]!r}",
        expected=f"a list of {'texts' if type_ is str else 'numbers of rows'} as Python writes it",
        hint="write the file with `unbag edit --format negclip`, or fix the cell",
    ) from cause


def read_neighbours(path: Path) -> dict[str, tuple[str, ...]]:
    """Read JSON lines of {"image", "neighbours": [image, ...]}."""
    neighbours: dict[str, tuple[str, ...]] = {}
    if not path.is_file():
        raise UnbagError(
            f"there is no file {path}",
            expected="JSON lines of images and their neighbours",
            hint="check the path given with --neighbours; `unbag nearest` makes such a file",
        )
    source = Source(str(path), "jsonl")
    with source.opened() as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                where = f"{path.name}, line {number}"
                record = json_record(raw, where)
                # Name of the field in files of earlier versions.
                name = "picture" if "picture" in record else "image"
                image = read_field(record, name, str, where)
                near = read_field(record, "neighbours", tuple[str, ...], where)
                # Searches often return the image itself, which is not its own neighbour.
                neighbours[image] = tuple(name for name in near if name != image)
    if not neighbours:
        raise UnbagError(
            f"{path} contains no neighbours",
            expected='lines such as {"image": "a.jpg", "neighbours": ["b.jpg", "c.jpg"]}',
        )
    return neighbours
