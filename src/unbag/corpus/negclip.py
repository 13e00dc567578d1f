"""Captions with hard negatives out as the TSV that NegCLIP's public training code reads.

Columns: a number without a name, title, filepath, neg_caption, neg_image; the last two are lists
as Python writes them. For every row the trainer draws one of neg_caption and one of neg_image,
the numbers of rows whose pictures are near. It has no way to do without: a list that is empty
stops it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from unbag.corpus.source import Source, json_record
from unbag.corpus.written import Pair, Pairs
from unbag.errors import UserError
from unbag.types.json_fields import Fields

HEADER = ("", "title", "filepath", "neg_caption", "neg_image")
_NEAREST = 3
"""Numbers of rows in neg_image, as in the published file."""
Neighbours = Mapping[str, Sequence[str]]
"""From a picture to the nearest others, the nearest first."""


class _Rows(NamedTuple):
    """Rows of one picture."""

    first: int
    many: int


def write(pairs: Pairs, path: Path, neighbours: Neighbours | None = None) -> int:
    """One row for each caption with a hard negative; gives how many rows have no near picture."""
    rows = _rows_of_pictures(pairs) if neighbours else {}
    number, without = count(), 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(HEADER)
        for pair in pairs:
            near = [
                rows[one] for one in (neighbours or {}).get(pair.entry.picture, ()) if one in rows
            ]
            for turn, (title, negatives) in enumerate(_negatives(pair)):
                # Each caption of this picture meets another caption of that one.
                chosen = [one.first + turn % one.many for one in near[:_NEAREST]]
                without += not chosen
                writer.writerow((next(number), title, pair.entry.picture, negatives, chosen))
    return without


def read_neighbours(path: Path) -> dict[str, tuple[str, ...]]:
    """JSON lines of {"picture", "neighbours": [picture, ...]}."""
    found: dict[str, tuple[str, ...]] = {}
    if not path.is_file():
        raise UserError(
            f"there is no file {path}",
            expected="JSON lines of pictures and their neighbours",
            way_out="check the path given with --neighbours; `unbag nearest` makes such a file",
        )
    source = Source(str(path), "jsonl")
    with source.opened() as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                where = f"{path.name}, line {number}"
                fields = Fields(json_record(raw, where), where)
                picture = fields.text("picture")
                # A picture is not its own neighbour, though searches often return it.
                found[picture] = tuple(n for n in fields.texts("neighbours") if n != picture)
    if not found:
        raise UserError(
            f"{path} names no neighbours",
            expected='lines such as {"picture": "a.jpg", "neighbours": ["b.jpg", "c.jpg"]}',
        )
    return found


def _rows_of_pictures(pairs: Pairs) -> dict[str, _Rows]:
    found: dict[str, _Rows] = {}
    first = 0
    for pair in pairs:
        many = sum(1 for _ in _negatives(pair))
        if many:
            found.setdefault(pair.entry.picture, _Rows(first, many))
        first += many
    return found


def _negatives(pair: Pair) -> Iterator[tuple[str, list[str]]]:
    for one in pair.edited:
        texts = [edit.text for edit in one.edits if not edit.keeps_meaning]
        if texts:
            yield one.text, texts


def notes(without: int, has_neighbours: bool) -> list[str]:
    """What a reader must know of rows whose neg_image is empty."""
    if not without:
        return []
    why = (
        "none of their neighbours has a row: name more of them"
        if has_neighbours
        else "name the nearest pictures with --neighbours"
    )
    return [
        f"neg_image is empty in {without:,} rows; NegCLIP's public training code draws from it for "
        f"every row and stops at an empty one; {why}"
    ]
