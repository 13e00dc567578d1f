"""Read a benchmark's folder: records of JSON, CSV and Parquet files, and paths of images.

Errors name the file and the record. Loaders never open an image and never drop a record silently.
Parquet files have the layout of the Hugging Face hub: an image column is a struct of `bytes` (the
encoded file) and `path`. Text is read immediately, an image when it is opened.
"""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO, StringIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from unbag.data.images import Box, FileImage, encoded_key
from unbag.errors import IncompleteWarning, UnbagError
from unbag.types import BoolArray
from unbag.types.json import is_whole_text, read_field

if TYPE_CHECKING:
    from PIL.Image import Image
    from pyarrow import Schema


T = TypeVar("T")
FIRST_OF_2: BoolArray = np.array([[True, False]])
"""One image, the true caption first. All items share it, to save memory."""
FIRST_AND_THIRD: BoolArray = np.array([[True, False, True]])
"""One image; original, hard negative, hard positive."""
SECOND_OF_2: BoolArray = np.array([[False, True]])
MATCHING_2: BoolArray = np.eye(2, dtype=np.bool_)
MATCHING_4: BoolArray = np.eye(4, dtype=np.bool_)
MAX_LISTED = 10
"""Absent files listed in a warning."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_NAME_BYTES = 255
"""Longest part of a path, in bytes, that common file systems support."""


for _shared in (FIRST_OF_2, SECOND_OF_2, FIRST_AND_THIRD, MATCHING_2, MATCHING_4):
    _shared.flags.writeable = False


@dataclass(frozen=True)
class Folder:
    """The folder of one benchmark."""

    root: Path
    benchmark: str
    _images: dict[tuple[Path, str, Box | None], FileImage] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(cls, root: Path | None, benchmark: str) -> Folder:
        """The folder passed to `load`; an error if there is none."""
        if root is None:
            raise UnbagError(
                f"benchmark {benchmark!r} is read from files",
                expected="its folder",
                hint="say with --data (data_dir= in Python) where the benchmark folders are",
            )
        return cls(root, benchmark)

    def has(self, name: str) -> bool:
        """Whether the file exists."""
        return (self.root / name).is_file()

    def json(self, name: str) -> object:
        """The content of a JSON file."""
        text = self.text(name)
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise self._broken(name, error) from error

    def records(self, name: str) -> list[Record]:
        """The records of a JSON list, or the values of a JSON object, in their order."""
        content = self.json(name)
        if isinstance(content, list):
            records = [
                Record(value, str(i), f"{name}, record {i}") for i, value in enumerate(content)
            ]
        elif isinstance(content, dict):
            records = [
                Record(value, key, f"{name}, record {key!r}") for key, value in content.items()
            ]
        else:
            raise not_official(
                f"{name} of {self.benchmark} holds a {type(content).__name__}",
                "a list or an object of records",
            )
        return self._nonempty(name, records)

    def lines(self, name: str) -> list[Record]:
        """The records of a JSON-lines file."""
        records = []
        for number, line in enumerate(self.text(name).split("\n"), start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line, object_pairs_hook=_unique)
            except (ValueError, RecursionError) as error:
                raise self._broken(f"{name}, line {number}", error) from error
            records.append(Record(value, str(number), f"{name}, line {number}"))
        return self._nonempty(name, records)

    def table(self, name: str, *, columns: Sequence[str]) -> list[Record]:
        """The rows of a CSV file as records of text; an error if a column is missing."""
        reader = csv.DictReader(StringIO(self.text(name)))
        try:
            rows = list(reader)
        except csv.Error as error:
            raise self._broken(name, error) from error
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise UnbagError(
                f"{name} of {self.benchmark} has no column {missing[0]!r}",
                expected=f"the columns {', '.join(columns)}",
                hint=f"found {', '.join(map(str, reader.fieldnames or ()))}; check the file",
            )
        records = [Record(row, str(i), f"{name}, row {i}") for i, row in enumerate(rows, start=1)]
        return self._nonempty(name, records)

    def image_folder(self, *places: str) -> Path:
        """The first of these folders that exists, or the first one if none does.

        They are relative to the benchmark's folder; ../coco/val2017 shares images between
        benchmarks.
        """
        return next(
            (self.root / place for place in places if (self.root / place).is_dir()),
            self.root / places[0],
        )

    def image(self, folder: Path, name: str, where: str, *, box: Box | None = None) -> FileImage:
        """An image by its official name; the same name gives the same object."""
        # Many items share an image, and building paths dominates the loading time.
        known = self._images.get((folder, name, box))
        if known is not None:
            return known
        relative = PurePosixPath(name)
        if not name or relative.is_absolute() or ".." in relative.parts or _CONTROL.search(name):
            raise not_official(
                f"{where}: {name!r} is not an image name",
                "a path below the image folder, without control characters",
            )
        if len(name) * 4 > _MAX_NAME_BYTES:
            _check_lengths(relative, where)
        return self._images.setdefault((folder, name, box), FileImage(folder / relative, box))

    def images(self, folder: Path, names: Iterable[str], where: str) -> tuple[FileImage, ...]:
        """Several images of one record by their names."""
        return tuple(self.image(folder, name, where) for name in names)

    def text(self, name: str) -> str:
        """The content of a text file."""
        path = self.root / name
        try:
            return path.read_text(encoding="utf-8-sig")
        except FileNotFoundError as error:
            raise UnbagError(
                f"{self.benchmark} has no file {path}",
                expected="the official annotation file",
                hint=f"`unbag data check {self.benchmark} --data ...` says where it comes from",
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise self._broken(name, error) from error

    def _nonempty(self, name: str, records: list[Record]) -> list[Record]:
        if not records:
            raise UnbagError(
                f"{name} of {self.benchmark} has no records",
                expected="at least one: an empty file would leave its part of the number out",
                hint="download it again",
            )
        return records

    def _broken(self, name: str, error: Exception) -> UnbagError:
        return UnbagError(
            f"{name} of {self.benchmark} cannot be read: {error}",
            expected="the official file, whole and in UTF-8",
            hint="download it again",
        )


class Record(NamedTuple):
    """One record of a file, with its location for messages."""

    value: object
    key: str
    """Its number, or its key where the file is an object."""
    where: str
    """Such as "add_att.json, record 17"."""

    def read(self, name: str, kind: type[T]) -> T:
        """A field of this type; raises an UnbagError that names the field otherwise."""
        return read_field(self.value, name, kind, self.where)

    def text(self, name: str) -> str:
        """A text field."""
        return read_field(self.value, name, str, self.where)

    def has(self, name: str) -> bool:
        """Whether the record has this field."""
        return isinstance(self.value, dict) and name in self.value

    def captions(self, *names: str) -> tuple[str, ...]:
        """Several text fields, none of them empty."""
        return tuple(self.caption(name) for name in names)

    def caption(self, name: str) -> str:
        """A text field that must not be empty."""
        text = self.text(name)
        if not text.strip():
            raise bad_record(f"{self.where}: {name} is empty", "a caption")
        return text


def not_official(message: str, expected: str) -> UnbagError:
    """The error for a file that differs from the official one."""
    return UnbagError(message, expected=expected, hint="check that it is the official file")


def bad_record(message: str, expected: str) -> UnbagError:
    """The error for a record of an official file that cannot be used."""
    hint = "fix or remove that record, and say so beside your number"
    return UnbagError(message, expected=expected, hint=hint)


def with_field_names(record: Record, names: Sequence[str]) -> Record:
    """The cells of a list record, under field names."""
    value = record.value
    if not isinstance(value, list) or len(value) != len(names):
        content = f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__
        raise not_official(f"{record.where} is {content}", f"a list [{', '.join(names)}]")
    return Record(dict(zip(names, value, strict=True)), record.key, record.where)


def available_files(folder: Folder, files: Sequence[str]) -> tuple[str, ...]:
    """The files that exist; a warning lists the others, and it is an error if there are none.

    For benchmarks whose release may be incomplete; the score then covers only a part.
    """
    missing = tuple(name for name in files if not folder.has(name))
    if len(missing) == len(files):
        raise UnbagError(
            f"{folder.benchmark}: none of its {len(files)} files is in {folder.root}",
            expected=f"files such as {files[0]}",
            hint=f"`unbag data check {folder.benchmark} --data ...` says how to lay them out",
        )
    if missing:
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        are = "is" if len(missing) == 1 else "are"
        warnings.warn(
            IncompleteWarning(
                f"{len(missing)} of {len(files)} files {are} absent, so averages are over the "
                f"rest: {', '.join(missing[:MAX_LISTED])}{more}"
            ),
            stacklevel=3,
        )
    return tuple(name for name in files if name not in missing)


def _check_lengths(relative: PurePosixPath, where: str) -> None:
    long_part = next(
        (part for part in relative.parts if len(part.encode()) > _MAX_NAME_BYTES), None
    )
    if long_part is not None:
        raise not_official(
            f"{where}: the image name {long_part[:40]!r}... has {len(long_part.encode())} bytes",
            f"at most {_MAX_NAME_BYTES}, which is what a file system holds",
        )


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object with unique keys; json would silently use the last of two equal ones."""
    record = dict(pairs)
    for name in record:
        if not is_whole_text(name):
            raise ValueError(f"the key {name!r} holds half a character")
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} stands twice in one object")
    return record


def parquet_files(folder: Folder, pattern: str) -> Sequence[Path]:
    """The files that match a pattern, sorted; an error if there are none."""
    paths = sorted(folder.root.glob(pattern))
    if not paths:
        raise UnbagError(
            f"{folder.benchmark} has no file {folder.root / pattern}",
            expected="the Parquet files of the data set",
            hint=f"`unbag data check {folder.benchmark} --data ...` says where they come from",
        )
    return paths


def parquet_rows(
    folder: Folder, path: Path, *, texts: Sequence[str], images: Sequence[str]
) -> list[Record]:
    """The rows as records; a column of images gives a `ParquetImage` under its own name."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            _check_columns(folder, path, file.schema_arrow, texts=texts, images=images)
            records: list[Record] = []
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, columns=list(texts)).to_pylist()
                for index, row in enumerate(rows):
                    cells = {name: ParquetImage(path, name, group, index) for name in images}
                    key = f"{path.name}/{len(records)}"
                    records.append(
                        Record({**row, **cells}, key, f"{path.name}, row {len(records)}")
                    )
    except (ArrowException, OSError, ValueError) as error:
        raise UnbagError(
            f"{path.name} of {folder.benchmark} cannot be read: {error}",
            expected="the official Parquet file, whole",
            hint="download it again",
        ) from error
    return records


def _check_columns(
    folder: Folder, path: Path, schema: Schema, *, texts: Sequence[str], images: Sequence[str]
) -> None:
    from pyarrow.types import is_struct

    for name in (*texts, *images):
        fits = name in schema.names
        if fits and name in images:
            kind = schema.field(name).type
            fits = is_struct(kind) and kind.get_field_index("bytes") >= 0
        if not fits:
            column_kind = "image column" if name in images else "column"
            raise UnbagError(
                f"{path.name} of {folder.benchmark} has no {column_kind} {name!r}",
                expected=f"the columns {', '.join((*texts, *images))}",
                hint=f"found {', '.join(schema.names)}; check that it is the official file",
            )


@dataclass(frozen=True)
class ParquetImage:
    """An image inside a Parquet file: one cell of a column of images."""

    path: Path
    column: str
    group: int
    """Its row group; row groups are read one at a time."""
    row: int
    """Its row in that group."""

    @property
    def name(self) -> str:
        """File, column and row."""
        return f"{self.path}[{self.column}, group {self.group}, row {self.row}]"

    @property
    def key(self) -> str:
        """Hash of the encoded image, or of its location if it cannot be read."""
        return encoded_key(self._encoded, self.name)

    def open(self) -> Image:
        """Decode to RGB; raises OSError or ValueError on failure."""
        from PIL import Image

        try:
            with Image.open(BytesIO(self._encoded())) as image:
                return image.convert("RGB")
        except (OSError, ValueError, MemoryError):
            raise
        except Exception as error:
            # On damaged bytes decoders raise anything: struct.error, IndexError, zlib.error.
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def _encoded(self) -> bytes:
        changed = self.path.stat().st_mtime_ns
        encoded = _cells(str(self.path), changed, self.group, self.column)[self.row]
        if encoded is None:
            raise ValueError(f"{self.name} holds no bytes")
        return encoded


@lru_cache(maxsize=4)
def _cells(path: str, changed: int, group: int, column: str) -> list[bytes | None]:
    """Encoded images of one row group (about 100); `changed` invalidates rewritten files."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        table = file.read_row_group(group, columns=[f"{column}.bytes"])
    return [cell and cell["bytes"] for cell in table.column(column).to_pylist()]
