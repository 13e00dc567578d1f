"""Read captions from JSON lines, COCO's or Karpathy's JSON, TSV and CSV, and write their edits.

COCO's JSON is one value and is read as a whole; all other formats are streamed. In a TSV each line
is a row. Many TSVs are unquoted, so that a caption may begin with a literal quotation mark; others
are written by `csv` or pandas, with quotes around some cells.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from unbag.data.captions import (
    COLUMNS,
    EDITS,
    SKIPPED,
    Bad,
    CaptionAt,
    EditedEntries,
    EditedEntry,
    Edits,
    Entry,
    Source,
    caption_field,
    captions_at,
    captions_in,
    check_edits_allowed,
    edit_cells,
    edit_fields,
    edited_record,
    edits_in,
    edits_in_cell,
    find_columns,
    json_line,
    json_record,
    json_value,
    name_in,
    new_rows,
    read_entries,
    together,
)
from unbag.errors import UnbagError
from unbag.types.json import JsonObject, is_whole_text, read_field

IMAGE_FIELDS = ("image", "filepath", "url", "file_name", "filename")
"""Fields that can hold the image path."""
_SEPARATORS = {"tsv": "\t", "csv": ","}
_OURS = ("id", "image", "caption", "captions", EDITS, SKIPPED)


def read_json_lines(source: Source, bad: Bad) -> Iterator[Entry]:
    """Yield one entry per image; consecutive lines with the same image are merged."""

    def entry(line: tuple[int, bytes]) -> Entry:
        number, raw = line
        where = f"{source.name}, line {number}"
        return entry_of(json_record(raw, where), number, where, source)

    with source.opened() as file:
        lines = ((number, raw) for number, raw in enumerate(file, start=1) if raw.strip())
        yield from together(read_entries(lines, entry, bad))


def write_json_lines(pairs: EditedEntries, path: Path) -> None:
    """Write one line per caption, with the other fields of its original line."""
    with path.open("w", encoding="utf-8") as file:
        for pair in pairs:
            for rest, edited in pair.rows():
                record = edited_record(edited, pair.entry.image)
                if isinstance(rest, dict):
                    record |= rest
                file.write(json_line(record) + "\n")


def entry_of(record: dict[str, object], number: int, where: str, source: Source) -> Entry:
    """Return a record as an entry; without an id field, `number` is the id."""
    if EDITS in record:
        check_edits_allowed(source, where)
    texts = captions_in(record, source.caption_column, where)
    name = name_in(record, ("id",), where)
    fields = (source.image_column,) if source.image_column else IMAGE_FIELDS
    image = name_in(record, fields, where)
    captions = captions_at(texts, name or str(number), where)
    dropped = {*_OURS, source.caption_column}
    rest = {key: value for key, value in record.items() if key not in dropped}
    count = None if isinstance(texts, str) else len(captions)
    edits = edits_in(record[EDITS], count, where) if EDITS in record else ()
    return Entry(image, captions, (rest,) * len(captions), edits)


def read_coco(source: Source, bad: Bad) -> Iterator[Entry]:
    """Yield one entry per image, up to MOST_TOGETHER captions, wherever its captions are."""
    document = _document(source)
    names = _names_of_images(document, source)
    noun = "record"
    if isinstance(document, dict):
        noun = "annotation" if "annotations" in document else "image"

    def read(record: tuple[int, object]) -> Entry:
        at, value = record
        where = f"{source.name}, {noun} {at}"
        if not isinstance(value, dict):
            raise UnbagError(f"{where} is {type(value).__name__}", expected="an object")
        entry = _coco_entry(value, at, where, source, names)
        return replace(entry, rest=(at,) * len(entry.captions))

    by_image: dict[object, list[Entry]] = {}
    records = enumerate(_caption_objects(document, source))
    for at, entry in enumerate(read_entries(records, read, bad)):
        by_image.setdefault(entry.image or at, []).append(entry)
    yield from together(entry for entries in by_image.values() for entry in entries)


def write_coco(pairs: EditedEntries, path: Path) -> None:
    """Write the whole file, with a field `edits` next to every caption that was read."""
    document = _document(pairs.source)
    places = _caption_objects(document)
    for pair in pairs:
        _put_edits(pair, places, pairs.source.caption_column)
    with path.open("w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False)


def _document(source: Source) -> object:
    with source.opened() as file:
        raw = file.read()
    try:
        return json_value(raw, source.name)
    except UnbagError as error:
        lines = "if it has one record per line, give --captions-format jsonl"
        raise UnbagError(error.message, expected=error.expected, hint=lines) from error


def _coco_entry(
    record: JsonObject, at: int, where: str, source: Source, names: JsonObject | None
) -> Entry:
    if EDITS in record:
        check_edits_allowed(source, where)
    if names is None:
        if "sentences" not in record:
            return entry_of(record, at, where, source)
        return _karpathy(record, at, where, source)
    text = read_field(record, "caption", str, where)
    if "image_id" not in record or str(record["image_id"]) not in names:
        raise UnbagError(
            f"{where}: image_id is {record.get('image_id')!r}, which is not among the images",
            expected="the id of an image of this file",
        )
    image = str(names[str(record["image_id"])])
    edits = edits_in(record[EDITS], None, where) if EDITS in record else ()
    caption = CaptionAt(name_in(record, ("id",), where) or str(at), text, where)
    return Entry(image, (caption,), edits=edits)


def _karpathy(record: JsonObject, at: int, where: str, source: Source) -> Entry:
    sentences = record["sentences"]
    if not isinstance(sentences, list) or not all(
        isinstance(sentence, dict) for sentence in sentences
    ):
        raise UnbagError(
            f"{where}: sentences is not a list of objects", expected="a list of objects"
        )
    captions = []
    edits: Edits = ()
    for number, sentence in enumerate(sentences):
        if EDITS in sentence:
            check_edits_allowed(source, where)
            edits += ((),) * (number - len(edits)) + edits_in(sentence[EDITS], None, where)
        name = name_in(sentence, ("sentid",), where) or f"{at}#{number}"
        captions.append(CaptionAt(name, read_field(sentence, "raw", str, where), where))
    if edits:
        edits += ((),) * (len(captions) - len(edits))
    return Entry(name_in(record, IMAGE_FIELDS, where), tuple(captions), edits=edits)


def _names_of_images(document: object, source: Source) -> JsonObject | None:
    """Return the file name of each image id in COCO's format; None in other formats."""
    if not isinstance(document, dict) or "annotations" not in document:
        return None
    images = document.get("images", [])
    if not isinstance(images, list) or not all(isinstance(image, dict) for image in images):
        raise UnbagError(
            f"{source.name}: images is not a list of objects", expected="COCO's format"
        )
    return {
        str(image.get("id")): image.get("file_name")
        or image.get("coco_url")
        or str(image.get("id"))
        for image in images
    }


def _caption_objects(document: object, source: Source | None = None) -> list[object]:
    """Return the objects that contain captions, in order."""
    if isinstance(document, dict):
        document = document.get("annotations", document.get("images"))
    if not isinstance(document, list):
        name = source.name if source else "the file"
        raise UnbagError(
            f"{name} is not a caption file",
            expected='COCO\'s {"images", "annotations"}, Karpathy\'s {"images"} with sentences, '
            'or a list of {"image", "caption"}',
        )
    return document


def _put_edits(pair: EditedEntry, places: list[object], column: str) -> None:
    """Put the edits next to their captions; a list of captions gets a list of lists."""
    by_place: dict[object, list[dict[str, object]]] = {}
    for place, edited in pair.rows():
        by_place.setdefault(place, []).append(edit_fields(edited))
    for place, fields_of in by_place.items():
        assert isinstance(place, int)
        record = places[place]
        assert isinstance(record, dict)
        if "sentences" in record:
            for sentence, fields in zip(record["sentences"], fields_of, strict=True):
                sentence |= fields
        elif isinstance(record.get(caption_field(record, column)), list):
            record[EDITS] = [fields[EDITS] for fields in fields_of]
            if any("skipped" in fields for fields in fields_of):
                record["skipped"] = [fields.get("skipped", "") for fields in fields_of]
        else:
            record |= fields_of[0]


def read_table(source: Source, bad: Bad) -> Iterator[Entry]:
    """Yield one entry per image; consecutive rows with the same image are merged."""
    with source.opened() as file:
        rows = _TableRows(file, source)
        flow = iter(rows)
        columns = _table_columns(flow, source)
        # Without a header, the first row holds a caption; reading stops if it is malformed.
        head = [] if columns.header else [_table_entry(columns.first, columns, rows.where)]
        others = read_entries(flow, lambda row: _table_entry(row, columns, rows.where), bad)
        yield from together(chain(head, others))


def _table_entry(cells: list[str] | UnbagError, columns: _TableColumns, where: str) -> Entry:
    if isinstance(cells, UnbagError):
        raise cells
    if len(cells) != columns.width:
        raise UnbagError(
            f"{where} has {len(cells)} columns", expected=f"{columns.width}, as in the first line"
        )
    if not is_whole_text("".join(cells)):
        raise UnbagError(f"{where} is not UTF-8", expected="text in UTF-8")
    number = where.rpartition(" ")[2]
    name = (cells[columns.id] if columns.id >= 0 else "") or number
    image = cells[columns.image] if columns.image >= 0 else ""
    edits = edits_in_cell(cells[columns.edits], None, where) if columns.edits >= 0 else ()
    return Entry(image, (CaptionAt(name, cells[columns.caption], where),), (cells,), edits)


@dataclass(frozen=True)
class _TableColumns:
    """Positions of the fields in a row; -1 for absent columns."""

    first: list[str]
    """The first row."""
    header: tuple[str, ...]
    """Empty in a table without a header."""
    width: int
    caption: int
    image: int
    id: int
    edits: int


def _table_columns(flow: Iterator[list[str] | UnbagError], source: Source) -> _TableColumns:
    """Read the first row: the header, or in a table without one the number of columns."""
    first = next(flow, [])
    if isinstance(first, UnbagError):
        raise first
    if not first:
        raise UnbagError(f"{source.name} is empty", expected="a table with a column of captions")
    first[0] = first[0].removeprefix("\ufeff")
    if not is_whole_text("".join(first)):
        raise UnbagError(f"{source.name}, line 1 is not UTF-8", expected="text in UTF-8")
    header = list(first)
    if source.caption_column.isdigit() and source.caption_column not in header:
        header = [str(number) for number in range(1, len(first) + 1)]
    caption, image = find_columns(header, source)
    at = {name: position for position, name in enumerate(header)}
    named = tuple(header) if header == first else ()
    places = at[caption], at.get(image, -1), at.get("id", -1), at.get(EDITS, -1)
    return _TableColumns(first, named, len(header), *places)


def write_table(pairs: EditedEntries, path: Path, *, form: str) -> None:
    """Write a table: "tsv" is separated by tabs, "csv" by commas."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=_SEPARATORS[form], lineterminator="\n")
        if pairs.source.form in _SEPARATORS:
            with pairs.source.opened() as table:
                rows = iter(_TableRows(table, pairs.source))
                header = _table_columns(rows, pairs.source).header
            if header:
                writer.writerow((*header, EDITS, SKIPPED))
            for pair in pairs:
                for rest, edited in pair.rows():
                    assert isinstance(rest, list)
                    writer.writerow([*rest, *edit_cells([edited], is_list=False)])
        else:
            writer.writerow(COLUMNS)
            for pair in pairs:
                writer.writerows(new_rows(pair))


class _TableRows:
    """Rows of a file, with their line numbers."""

    def __init__(self, file: BinaryIO, source: Source) -> None:
        # Invalid UTF-8 is decoded reversibly and rejected per row, since a row may span lines.
        lines = (raw.decode("utf-8", "surrogateescape") for raw in file)
        self.reader = _TsvLines(lines) if source.form == "tsv" else csv.reader(lines, strict=True)
        self.name = source.name
        self.where = ""

    def __iter__(self) -> Iterator[list[str] | UnbagError]:
        while True:
            first = self.reader.line_num + 1
            row: list[str] | UnbagError
            try:
                row = next(self.reader)
            except StopIteration:
                return
            except csv.Error as error:
                self.where = self._place(first)
                row = UnbagError(f"{self.where}: {error}", expected="closed quotes around a cell")
            self.where = self._place(first)
            if isinstance(row, UnbagError) or row:
                yield row

    def _place(self, first: int) -> str:
        last = self.reader.line_num
        lines = f"line {first}" if last <= first else f"lines {first} to {last}"
        return f"{self.name}, {lines}"


class _TsvLines:
    """Rows of a TSV, one per line; the first row determines the number of cells."""

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
        # Extra tabs may be inside a quoted cell.
        try:
            [quoted] = csv.reader([line], delimiter="\t", strict=True)
        except (csv.Error, ValueError):
            return cells
        return quoted if len(quoted) == self.width else cells


def _unquoted(cell: str) -> str:
    """Remove quotes that `csv` would have written: on both sides, and doubled inside."""
    inside = cell[1:-1]
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return inside.replace('""', '"') if is_quoted and '"' not in inside.replace('""', "") else cell
