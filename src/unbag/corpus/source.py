"""A file of captions as the user names it: its form, its columns, and what is broken in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from unbag.corpus.patterns import expand
from unbag.errors import UserError
from unbag.types.json_fields import as_text, is_whole_text

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER = 1 << 20
_HEAD = 1 << 16
"""Bytes of a file that are looked at to tell it from another."""
_NAMED = 5
"""Broken lines that are named; more are counted."""


@dataclass(frozen=True)
class Source:
    """Captions on disk."""

    path: str
    """A file; for shards also a folder or a pattern."""
    form: str
    """See `unbag.corpus.forms`."""
    caption_column: str = ""
    """Column or field with the caption; empty for the usual names."""
    picture_column: str = ""
    skips_bad: bool = False
    """Leave broken lines out and count them, instead of stopping at the first."""
    limit: int | None = None
    """Captions to read at most, and those that belong to the last picture."""
    keeps_edits: bool = False
    """Read edits that were made before, instead of refusing them."""

    @property
    def name(self) -> str:
        """For messages."""
        return Path(self.path).name

    @property
    def file(self) -> Path:
        """The one file."""
        [path] = self.files()
        return path

    def files(self) -> list[Path]:
        """All files, in order."""
        found = expand(self.path)
        if not found and Path(self.path).is_dir():
            raise UserError(
                f"the folder {self.path} holds no shards",
                expected="files that end in .tar",
                way_out="name the file of captions itself, or check the folder",
            )
        if not found:
            raise UserError(
                f"there is no file {self.path}",
                expected="a file of captions",
                way_out="check the path given with --captions",
            )
        if len(found) > 1 and self.form != "shards":
            raise UserError(
                f"{self.path} names {len(found)} files",
                expected="one file; only shards (.tar) come in several",
                way_out="edit them one after the other",
            )
        return found

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The one file, for reading; errors of whoever reads are left as they are."""
        path = self.file
        with _told(path):
            raw = _Read(path)
        with BufferedReader(raw, _BUFFER) as file:
            yield file

    def fingerprint(self) -> str:
        """Changes when a file does: sizes, times and first bytes of all files."""
        digest = blake2b(digest_size=16)
        for path in self.files():
            state = path.stat()
            digest.update(f"{path.name}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
            with path.open("rb") as file:
                digest.update(file.read(_HEAD))
        return digest.hexdigest()


class _Read(FileIO):
    """A file whose errors say what could not be read."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """As that of any file."""
        with _told(self.name):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        """As that of any file."""
        with _told(self.name):
            return super().readall()


@contextmanager
def _told(path: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


@dataclass(eq=False)
class Bad:
    """What is done about broken lines: an error, or leaving them out and counting."""

    skips: bool = False
    count: int = 0
    named: list[str] = field(default_factory=list)
    """The first few."""

    def __call__(self, error: UserError) -> None:
        """A broken line was met."""
        if not self.skips:
            usual = "mend it, or leave such lines out with --bad-lines skip"
            way_out = error.way_out or usual
            raise UserError(error.found, expected=error.expected, way_out=way_out) from error
        self.count += 1
        if len(self.named) < _NAMED:
            self.named.append(error.found)


def json_record(raw: bytes, where: str) -> dict[str, object]:
    """An object written in JSON."""
    found = json_value(raw, where)
    if not isinstance(found, dict):
        raise UserError(
            f"{where} holds {type(found).__name__} instead of an object",
            expected='an object such as {"caption": "..."}',
        )
    return found


def json_value(raw: bytes, where: str) -> object:
    """Anything written in JSON, in UTF-8, with whole characters."""
    text = decoded(raw, where)
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}", expected="valid JSON") from error
    # An escape may name half of a character, which no file can hold.
    if "\\u" in text and not is_whole_text(json.dumps(found, ensure_ascii=False)):
        raise UserError(f"{where} holds half of a character", expected="whole characters")
    return found


def decoded(raw: bytes, where: str) -> str:
    """Text in UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where} is not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}",
            expected="text in UTF-8",
        ) from error


def captions_in(record: dict[str, object], column: str, where: str) -> tuple[str, ...] | str:
    """The caption of a record, or several; from `column`, else from "caption" or "captions"."""
    name = caption_field(record, column)
    if name not in record:
        raise UserError(
            f"{where} has {f'no field {column!r}' if column else 'neither caption nor captions'}, "
            f"only {_listed(record)}",
            expected='{"caption": "..."} or {"captions": ["...", "..."]}, or the name of another '
            "field with --caption-column",
        )
    value = record[name]
    if isinstance(value, list) and value:
        return tuple(as_text(one, f"{where}, {name}[{at}]") for at, one in enumerate(value))
    if not isinstance(value, str):
        shown = "an empty list" if value == [] else f"{value!r:.60}"
        raise UserError(f"{where}: {name} is {shown}", expected="a text, or a list of texts")
    return value


def caption_field(record: dict[str, object], column: str) -> str:
    """The field that captions are read from."""
    return column or next((name for name in ("caption", "captions") if name in record), "")


def name_in(record: dict[str, object], names: tuple[str, ...], where: str) -> str:
    """A name under the first of these fields that is there: a text or a whole number."""
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise UserError(f"{where}: {name} is {value!r:.60}", expected="a text or a whole number")
    return ""


def find_column(wanted: str, usual: tuple[str, ...], columns: list[str], source: Source) -> str:
    """The column that was named, or the first of the usual ones; empty if there is none."""
    if wanted and wanted not in columns:
        raise UserError(
            f"{source.name} has no column {wanted!r}, only {', '.join(columns)}",
            expected="the name of a column",
        )
    return wanted or next((name for name in usual if name in columns), "")


def no_captions_column(columns: list[str], source: Source) -> UserError:
    """The error for a table without captions."""
    return UserError(
        f"{source.name} has no column of captions, only {', '.join(columns) or 'an empty header'}",
        expected="a column caption, title or text",
        way_out="name it with --caption-column; a number is that of a column in a table without "
        "a header line",
    )


def edited_before(what: str) -> UserError:
    """The error for a collection that holds edits already."""
    return UserError(
        f"{what} holds edits already",
        expected="captions without edits",
        way_out="start from the original captions, or remove what is called edits",
    )


def _listed(record: dict[str, object]) -> str:
    return ", ".join(map(str, list(record)[:8])) or "nothing"
