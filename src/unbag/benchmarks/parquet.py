"""A folder of Parquet files with pictures inside comes in; records and pictures go out.

This is how the hub stores data sets with pictures: a column of pictures is a struct of `bytes`
(the encoded file) and `path`. Text is read at once; a picture only when it is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.benchmarks.files import Folder, Record
from unbag.errors import UserError
from unbag.pictures.members import encoded_key

if TYPE_CHECKING:
    from PIL.Image import Image
    from pyarrow import Schema


@dataclass(frozen=True)
class ParquetPicture:
    """A picture inside a Parquet file: one cell of a column of pictures."""

    path: Path
    column: str
    group: int
    """The row group it stands in; they are read one at a time."""
    row: int
    """Its row in that group."""

    @property
    def name(self) -> str:
        """File, column and row."""
        return f"{self.path}[{self.column}, group {self.group}, row {self.row}]"

    @property
    def key(self) -> str:
        """Hash of the encoded picture; of its place if it cannot be read."""
        return encoded_key(self._encoded, self.name)

    def open(self) -> Image:
        """Decode to RGB; OSError or ValueError if that cannot be done."""
        from PIL import Image

        try:
            with Image.open(BytesIO(self._encoded())) as image:
                return image.convert("RGB")
        except (OSError, ValueError, MemoryError):
            raise
        except Exception as error:
            # Decoders that meet damaged bytes raise anything: struct.error, IndexError, zlib.error.
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def _encoded(self) -> bytes:
        changed = self.path.stat().st_mtime_ns
        encoded = _cells(str(self.path), changed, self.group, self.column)[self.row]
        if encoded is None:
            raise ValueError(f"{self.name} holds no bytes")
        return encoded


def parquet_files(folder: Folder, pattern: str) -> Sequence[Path]:
    """The files of a pattern in their order, or an error if there is none."""
    found = sorted(folder.root.glob(pattern))
    if not found:
        raise UserError(
            f"{folder.benchmark} has no file {folder.root / pattern}",
            expected="the Parquet files of the data set",
            way_out=f"`unbag data check {folder.benchmark} --data ...` says where they come from",
        )
    return found


def parquet_rows(
    folder: Folder, path: Path, *, texts: Sequence[str], pictures: Sequence[str]
) -> list[Record]:
    """The rows as records; a column of pictures gives a `ParquetPicture` under its own name."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            _check_columns(folder, path, file.schema_arrow, texts=texts, pictures=pictures)
            found: list[Record] = []
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, columns=list(texts)).to_pylist()
                for at, row in enumerate(rows):
                    cells = {name: ParquetPicture(path, name, group, at) for name in pictures}
                    key = f"{path.name}/{len(found)}"
                    found.append(Record({**row, **cells}, key, f"{path.name}, row {len(found)}"))
    except (ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{path.name} of {folder.benchmark} cannot be read: {error}",
            expected="the official Parquet file, whole",
            way_out="download it again",
        ) from error
    return found


def _check_columns(
    folder: Folder, path: Path, schema: Schema, *, texts: Sequence[str], pictures: Sequence[str]
) -> None:
    from pyarrow.types import is_struct

    for name in (*texts, *pictures):
        fits = name in schema.names
        if fits and name in pictures:
            kind = schema.field(name).type
            fits = is_struct(kind) and kind.get_field_index("bytes") >= 0
        if not fits:
            what = "picture column" if name in pictures else "column"
            raise UserError(
                f"{path.name} of {folder.benchmark} has no {what} {name!r}",
                expected=f"the columns {', '.join((*texts, *pictures))}",
                way_out=f"found {', '.join(schema.names)}; check that it is the official file",
            )


@lru_cache(maxsize=4)
def _cells(path: str, changed: int, group: int, column: str) -> list[bytes | None]:
    """Encoded pictures of one row group, a hundred or so; `changed` renews what was rewritten."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        table = file.read_row_group(group, columns=[f"{column}.bytes"])
    return [cell and cell["bytes"] for cell in table.column(column).to_pylist()]
