"""Read captions from Parquet and write them with edits.

A row is an image with a caption or a list of captions. Editing reads only the columns of captions,
image paths and ids, not images stored in the file. Writing copies all columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbag.data.captions import (
    COLUMNS,
    EDITS,
    SKIPPED,
    Bad,
    EditedEntries,
    Entry,
    Source,
    captions_at,
    edit_cells,
    edits_in_cell,
    find_columns,
    new_rows,
    read_entries,
    together,
)
from unbag.errors import UnbagError
from unbag.types import Edited

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


_ROWS = 16_384
"""Rows per row group of a file written from another format."""
_BATCH = 1024


def read_parquet(source: Source, bad: Bad) -> Iterator[Entry]:
    """Yield one entry per image; consecutive rows with the same image are merged."""
    with _opened(source) as parquet, _read_errors(source):
        columns = _columns(parquet.schema_arrow, source)
        batches = parquet.iter_batches(_BATCH, columns=columns.names)
        rows = enumerate(values for batch in batches for values in _rows(batch))

        def entry(row: tuple[int, dict[str, Any] | None]) -> Entry:
            return _entry(row[1], columns, row[0], f"{source.name}, row {row[0]}")

        yield from together(read_entries(rows, entry, bad))


def write_parquet(pairs: EditedEntries, path: Path) -> None:
    """Write the same rows and columns, with the columns `edits` (JSON) and `skipped` added."""
    if pairs.source.form == "parquet":
        _write_same(pairs, path)
    else:
        _write_new(pairs, path)


def _entry(
    values: dict[str, Any] | None, columns: _ParquetColumns, number: int, where: str
) -> Entry:
    if values is None:
        raise UnbagError(f"{where} is not UTF-8", expected="text in UTF-8")
    value = values[columns.caption]
    is_list = isinstance(value, list)
    # A null caption is an empty one, and is skipped and counted as such.
    texts = tuple(text or "" for text in value) if is_list else value or ""
    captions = captions_at(texts, str(_inner(values, columns.id, number)), where)
    image = str(_inner(values, columns.image, ""))
    rest = ((number, is_list),) * len(captions)
    count = len(captions) if is_list else None
    edits = edits_in_cell(values[EDITS], count, where) if columns.edits else ()
    return Entry(image, captions, rest, edits)


def _inner(values: dict[str, Any], path: tuple[str, ...], default: object) -> object:
    """Return a value or a struct field; the default if it is null or the column is absent."""
    value: Any = values if path else None
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return default if value is None else value


@dataclass(frozen=True)
class _ParquetColumns:
    caption: str
    image: tuple[str, ...]
    """Column, and field for a struct: ("image", "path"). Empty without an image column."""
    id: tuple[str, ...]
    edits: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        names = (self.caption, ".".join(self.image), *self.id, *self.edits)
        return [name for name in names if name]


def _columns(schema: pa.Schema, source: Source) -> _ParquetColumns:
    import pyarrow as pa

    names = schema.names
    caption, image = find_columns(names, source)
    kind = schema.field(caption).type
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    if not _is_text(inner):
        raise UnbagError(
            f"{source.name}: the column {caption!r} holds {kind}",
            expected="text, or lists of text",
            hint="name another with --caption-column",
        )
    ids, edits = (tuple({name} & {*names}) for name in ("id", EDITS))
    return _ParquetColumns(caption, _image(schema, image), ids, edits)


def _image(schema: pa.Schema, name: str) -> tuple[str, ...]:
    """Return the column, or the path field of a struct; empty if neither holds text."""
    import pyarrow as pa

    if not name:
        return ()
    kind = schema.field(name).type
    if pa.types.is_struct(kind):
        at = kind.get_field_index("path")
        return (name, "path") if at >= 0 and _is_text(kind.field(at).type) else ()
    return (name,) if _is_text(kind) or pa.types.is_integer(kind) else ()


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


@contextmanager
def _opened(source: Source) -> Iterator[pq.ParquetFile]:
    import pyarrow.parquet as pq

    with source.opened() as file:
        with _read_errors(source):
            opened = pq.ParquetFile(file)
        with opened as parquet:
            yield parquet


@contextmanager
def _read_errors(source: Source) -> Iterator[None]:
    """Convert read errors to UnbagError. Writing raises errors of the same types."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise UnbagError(
            f"{source.name} is not a complete Parquet file: {str(error).splitlines()[0]}",
            expected="a Parquet file",
            hint="check that it was copied completely",
        ) from error


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | None]:
    """Yield rows as dicts; None for a row with text that is not UTF-8."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for at in range(batch.num_rows):
            try:
                yield batch.slice(at, 1).to_pylist()[0]
            except UnicodeDecodeError:
                yield None


def _write_same(pairs: EditedEntries, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _opened(pairs.source) as parquet:
        schema = _with_ours(parquet.schema_arrow)
        # Number, edits and skipped of each row.
        flow = (
            (number, *edit_cells([edited for _, edited in rows], is_list=is_list))
            for pair in pairs
            for (number, is_list), rows in groupby(pair.rows(), key=_place)
        )
        pending, start = next(flow, None), 0
        with pq.ParquetWriter(path, schema) as writer:
            for group in range(parquet.num_row_groups):
                with _read_errors(pairs.source):
                    table = parquet.read_row_group(group)
                added: list[tuple[str | None, str | None]] = []
                for number in range(start, start + table.num_rows):
                    if pending is None and pairs.source.limit is not None:
                        break
                    if pending is not None and pending[0] == number:
                        added.append((pending[1], pending[2] or None))
                        pending = next(flow, None)
                    else:
                        added.append((None, None))
                start += table.num_rows
                columns = [pa.array(column, pa.string()) for column in zip(*added, strict=True)]
                if columns:
                    columns_read = table.slice(0, len(added)).columns
                    writer.write_table(
                        pa.Table.from_arrays([*columns_read, *columns], schema=schema)
                    )


def _place(row: tuple[object, Edited]) -> tuple[int, bool]:
    """Return the row number of a caption, and whether the row holds a list."""
    rest = row[0]
    assert isinstance(rest, tuple)
    return rest


def _with_ours(schema: pa.Schema) -> pa.Schema:
    """Add our columns to the schema, and to its copy in the metadata of Hugging Face datasets."""
    import pyarrow as pa

    metadata = dict(schema.metadata or {})
    for name in (EDITS, SKIPPED):
        schema = schema.append(pa.field(name, pa.string()))
    if b"huggingface" in metadata:
        description = json.loads(metadata[b"huggingface"])
        features = description.get("info", {}).get("features")
        if isinstance(features, dict):
            for name in (EDITS, SKIPPED):
                features[name] = {"dtype": "string", "_type": "Value"}
        metadata[b"huggingface"] = json.dumps(description).encode()
    return schema.with_metadata(metadata)


def _write_new(pairs: EditedEntries, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    flow = (cells for pair in pairs for cells in new_rows(pair))
    with pq.ParquetWriter(path, schema) as writer:
        while rows := list(islice(flow, _ROWS)):
            columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
