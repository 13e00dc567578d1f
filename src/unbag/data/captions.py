"""Types and helpers that all formats of caption files share.

`Source` is a caption file, `Entry` an image with its captions, and `EditedEntries` the entries
with their edits, to be written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, TypeVar

from unbag.errors import UnbagError
from unbag.types import Edit, Edited, Given
from unbag.types.json import from_json, is_whole_text, read_field, to_json

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


T = TypeVar("T")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_BUFFER = 1 << 20
_HEAD = 1 << 16
"""Bytes of a file that are part of its fingerprint."""
_NAMED = 5
"""Malformed lines listed in a message; the others are counted."""
MOST_TOGETHER = 100
"""Captions of one image that are edited together and checked against each other. The limit bounds
the size of an entry where an image field has the same value in every line."""
EDITS, SKIPPED = "edits", "skipped"
"""Names of the columns and fields that an edit job adds."""
CAPTION_COLUMNS = ("caption", "title", "text")
IMAGE_COLUMNS = ("filepath", "image", "url")
"""Default column names in tables."""
COLUMNS = ("id", "image", "caption", EDITS, SKIPPED)
"""Columns of a table that is written from captions in another format."""


Edits = tuple[tuple[Edit, ...], ...]
"""For each caption."""


@dataclass(frozen=True)
class Source:
    """A caption file, and how to read it."""

    path: str
    """A file; for shards also a folder or a glob pattern."""
    form: str
    """See `unbag.data.readers`."""
    caption_column: str = ""
    """Column or field with the caption; empty for the default names."""
    image_column: str = ""
    skips_bad: bool = False
    """Skip and count malformed lines, instead of raising at the first."""
    limit: int | None = None
    """Largest number of captions to read; the last image is read completely."""
    keeps_edits: bool = False
    """Read existing edits, instead of raising an error for them."""

    @property
    def name(self) -> str:
        """The file name, for messages."""
        return Path(self.path).name

    @property
    def file(self) -> Path:
        """The one file of a format other than shards."""
        [path] = self.files()
        return path

    def files(self) -> list[Path]:
        """All files, in order."""
        paths = expand(self.path)
        if not paths and Path(self.path).is_dir():
            raise UnbagError(
                f"the folder {self.path} contains no shards",
                expected="files that end in .tar",
                hint="give the caption file itself, or check the folder",
            )
        if not paths:
            raise UnbagError(
                f"there is no file {self.path}",
                expected="a file of captions",
                hint="check the path given with --captions",
            )
        if len(paths) > 1 and self.form != "shards":
            raise UnbagError(
                f"{self.path} matches {len(paths)} files",
                expected="one file; only shards (.tar) can be several",
                hint="edit them one after the other",
            )
        return paths

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the one file for reading; only errors of the file itself become UnbagError."""
        path = self.file
        with _read_errors(path):
            raw = _NamedFile(path)
        with BufferedReader(raw, _BUFFER) as file:
            yield file

    def fingerprint(self) -> str:
        """Hash of the sizes, modification times and first bytes of all files."""
        digest = blake2b(digest_size=16)
        for path in self.files():
            state = path.stat()
            digest.update(f"{path.name}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
            with path.open("rb") as file:
                digest.update(file.read(_HEAD))
        return digest.hexdigest()


@dataclass(eq=False)
class Bad:
    """Handles malformed lines: raises at the first, or skips and counts them."""

    skips: bool = False
    count: int = 0
    named: list[str] = field(default_factory=list)
    """The first few."""

    def __call__(self, error: UnbagError) -> None:
        """Handle one malformed line."""
        if not self.skips:
            usual = "fix it, or skip such lines with --bad-lines skip"
            hint = error.hint or usual
            raise UnbagError(error.message, expected=error.expected, hint=hint) from error
        self.count += 1
        if len(self.named) < _NAMED:
            self.named.append(error.message)


@dataclass(frozen=True)
class Entry:
    """An image and its captions."""

    image: str
    """Path or name of the image in the file; empty if it has none."""
    captions: tuple[CaptionAt, ...]
    rest: tuple[object, ...] = ()
    """Format-specific data for each caption, for the writer of the same format."""
    edits: tuple[tuple[Edit, ...], ...] = ()
    """Existing edits of each caption, if they are read."""

    def given(self) -> Iterator[tuple[Given, ...]]:
        """Yield groups of captions for the editor, each caption with the others of its group."""
        for start in range(0, len(self.captions), MOST_TOGETHER):
            part = self.captions[start : start + MOST_TOGETHER]
            texts = tuple(caption.text for caption in part)
            yield tuple(
                Given(caption.id, caption.text, texts[:at] + texts[at + 1 :])
                for at, caption in enumerate(part)
            )


class CaptionAt(NamedTuple):
    """A caption and its location in the file."""

    id: str
    text: str
    where: str
    """Such as "captions.jsonl, line 17", for messages."""


@dataclass(frozen=True)
class Chunk:
    """Captions that are edited and saved together."""

    index: int
    given: tuple[Given, ...]

    def __str__(self) -> str:
        """Number, first and last caption, for messages."""
        first, last = self.given[0].id, self.given[-1].id
        return f"chunk {self.index} (captions {first!r} to {last!r})"


def chunks(entries: Iterable[Entry], size: int) -> Iterator[Chunk]:
    """Yield chunks of at least `size` captions; groups of one image are never split."""
    flow = (part for entry in entries for part in entry.given())
    index = 0
    while first := next(flow, None):
        captions = list(first)
        while len(captions) < size and (more := next(flow, None)):
            captions += more
        yield Chunk(index, tuple(captions))
        index += 1


def limited(entries: Iterable[Entry], limit: int | None) -> Iterator[Entry]:
    """Yield entries until `limit` captions were read; the last entry is complete."""
    read = 0
    for entry in entries:
        if limit is not None and read >= limit:
            return
        read += len(entry.captions)
        yield entry


def together(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Merge consecutive entries of the same image."""
    group: list[Entry] = []
    count = 0
    for entry in entries:
        is_same = group and entry.image and entry.image == group[0].image
        if group and (not is_same or count >= MOST_TOGETHER):
            yield _merged(group)
            group, count = [], 0
        group.append(entry)
        count += len(entry.captions)
    if group:
        yield _merged(group)


def _merged(entries: list[Entry]) -> Entry:
    if len(entries) == 1:
        return entries[0]
    captions = tuple(caption for entry in entries for caption in entry.captions)
    rest = tuple(value for entry in entries for value in entry.rest)
    edits: Edits = ()
    if any(entry.edits for entry in entries):
        edits = tuple(value for e in entries for value in e.edits or ((),) * len(e.captions))
    return Entry(entries[0].image, captions, rest, edits)


class EditedEntry(NamedTuple):
    """An entry and its edited captions, in their order."""

    entry: Entry
    edited: tuple[Edited, ...]

    def rows(self) -> Iterator[tuple[object, Edited]]:
        """Yield each caption's format-specific data and the caption with its edits."""
        rest = self.entry.rest or (None,) * len(self.edited)
        return zip(rest, self.edited, strict=True)


class EditedEntries(Protocol):
    """All entries with their edits, in source order; can be iterated several times."""

    @property
    def source(self) -> Source:
        """Where the captions came from."""

    def __iter__(self) -> Iterator[EditedEntry]:
        """Iterate over all entries from the first."""


def edited_record(edited: Edited, image: str = "") -> dict[str, object]:
    """Return the JSON record of a caption with its edits."""
    record: dict[str, object] = {"id": edited.id}
    if image:
        record["image"] = image
    record["caption"] = edited.text
    return record | edit_fields(edited)


def edit_fields(edited: Edited) -> dict[str, object]:
    """Return the fields that edits add to the record of a caption."""
    fields: dict[str, object] = {EDITS: to_json(edited.edits)}
    return fields | ({SKIPPED: edited.skipped} if edited.skipped else {})


def edit_cells(captions: Sequence[Edited], is_list: bool) -> tuple[str, str]:
    """Return the cells `edits` and `skipped` of a row; JSON lists for a list of captions."""
    edits = [to_json(caption.edits) for caption in captions]
    skipped = [caption.skipped for caption in captions]
    if is_list:
        return json_line(edits), json_line(skipped) if any(skipped) else ""
    return json_line(edits[0]), skipped[0]


def new_rows(pair: EditedEntry) -> Iterator[tuple[str, ...]]:
    """Yield rows of a new table with the columns COLUMNS."""
    for edited in pair.edited:
        yield (edited.id, pair.entry.image, edited.text, *edit_cells([edited], is_list=False))


def json_line(value: object) -> str:
    """Return JSON on one line, without escaping non-ASCII characters."""
    return json.dumps(value, ensure_ascii=False)


def clean_captions(captions: tuple[str, ...] | str, where: str) -> tuple[str, ...]:
    """Normalize spaces and drop empty captions; UnbagError if none is left."""
    texts = (captions,) if isinstance(captions, str) else captions
    cleaned = tuple(text for raw in texts if (text := " ".join(raw.split())))
    if not cleaned:
        raise UnbagError(f"{where} has an empty caption", expected="a caption that is not empty")
    return cleaned


def captions_in(record: dict[str, object], column: str, where: str) -> tuple[str, ...] | str:
    """Return the caption or captions of a record: the field `column`, "caption" or "captions"."""
    name = caption_field(record, column)
    if name not in record:
        fields = ", ".join(map(str, list(record)[:8])) or "nothing"
        raise UnbagError(
            f"{where} has {f'no field {column!r}' if column else 'neither caption nor captions'}, "
            f"only {fields}",
            expected='{"caption": "..."} or {"captions": ["...", "..."]}, or the name of another '
            "field with --caption-column",
        )
    value = record[name]
    if isinstance(value, list) and value:
        return tuple(
            from_json(str, text, f"{where}, {name}[{at}]") for at, text in enumerate(value)
        )
    if not isinstance(value, str):
        description = "an empty list" if value == [] else f"{value!r:.60}"
        raise UnbagError(f"{where}: {name} is {description}", expected="a text, or a list of texts")
    return value


def read_entries(records: Iterable[T], read: Callable[[T], Entry], bad: Bad) -> Iterator[Entry]:
    """Read each record as an entry; those that raise UnbagError go to `bad`."""
    for record in records:
        try:
            entry = read(record)
        except UnbagError as error:
            bad(error)
        else:
            yield entry


def captions_at(texts: tuple[str, ...] | str, id_: str, where: str) -> tuple[CaptionAt, ...]:
    """Give captions ids: that of the record, with a number appended in a list."""
    if isinstance(texts, str):
        return (CaptionAt(id_, texts, where),)
    return tuple(CaptionAt(f"{id_}#{at}", text, where) for at, text in enumerate(texts))


def caption_field(record: dict[str, object], column: str) -> str:
    """Return the name of the caption field; empty if there is none."""
    return column or next((name for name in ("caption", "captions") if name in record), "")


def name_in(record: dict[str, object], names: tuple[str, ...], where: str) -> str:
    """Return the first present field of `names` as text; it must be a string or an integer."""
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise UnbagError(f"{where}: {name} is {value!r:.60}", expected="a text or a whole number")
    return ""


def find_columns(columns: list[str], source: Source) -> tuple[str, str]:
    """Return the caption and image columns, given or by default name; "" for no image."""

    def column(name: str, defaults: tuple[str, ...]) -> str:
        if name and name not in columns:
            raise UnbagError(
                f"{source.name} has no column {name!r}, only {', '.join(columns)}",
                expected="the name of a column",
            )
        return name or next((default for default in defaults if default in columns), "")

    caption = column(source.caption_column, CAPTION_COLUMNS)
    if not caption:
        there = ", ".join(columns) or "an empty header"
        raise UnbagError(
            f"{source.name} has no column of captions, only {there}",
            expected="a column caption, title or text",
            hint="name it with --caption-column; in a table without a header, give its number",
        )
    if EDITS in columns:
        check_edits_allowed(source, source.name)
    return caption, column(source.image_column, IMAGE_COLUMNS)


def json_record(raw: bytes, where: str) -> dict[str, object]:
    """Parse a JSON object; UnbagError naming `where` for anything else."""
    value = json_value(raw, where)
    if not isinstance(value, dict):
        raise UnbagError(
            f"{where} holds {type(value).__name__} instead of an object",
            expected='an object such as {"caption": "..."}',
        )
    return value


def json_value(raw: bytes, where: str) -> object:
    """Parse JSON in UTF-8; UnbagError for unpaired surrogates."""
    text = decoded(raw, where)
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnbagError(f"{where} is not JSON: {error}", expected="valid JSON") from error
    # An escape may name half of a surrogate pair, which UTF-8 cannot encode.
    if "\\u" in text and not is_whole_text(json.dumps(value, ensure_ascii=False)):
        raise UnbagError(f"{where} holds half of a character", expected="whole characters")
    return value


def decoded(raw: bytes, where: str) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnbagError(
            f"{where} is not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}",
            expected="text in UTF-8",
        ) from error


def edits_in(value: object, captions: int | None, where: str) -> Edits:
    """Parse a list of edits; with a number of captions, one such list per caption."""
    if captions is None:
        return (_edits(value, where),)
    lists = value if isinstance(value, list) else []
    if len(lists) != captions:
        raise UnbagError(
            f"{where}: edits is not one list for each of {captions} captions",
            expected="as many lists of edits as captions",
        )
    return tuple(_edits(edits, where) for edits in lists)


def edits_in_cell(cell: object, captions: int | None, where: str) -> Edits:
    """Parse edits as `edits_in` does, from JSON in a table cell; an empty cell has no edits."""
    if not cell:
        return ((),) * (1 if captions is None else captions)
    if isinstance(cell, str):
        cell = json_value(cell.encode(), f"{where}, edits")
    return edits_in(cell, captions, where)


def _edits(value: object, where: str) -> tuple[Edit, ...]:
    if not isinstance(value, list):
        raise UnbagError(
            f"{where}: edits is {value!r:.60}",
            expected='a list of {"text", "kind", "is_positive"}',
        )
    edits = []
    for record in value:
        if not isinstance(record, dict):
            raise UnbagError(
                f"{where}: an edit is {record!r:.60}",
                expected='an object {"text", "kind", "is_positive"}',
            )
        text, kind = (read_field(record, name, str, f"{where}, edits") for name in ("text", "kind"))
        # Name of the field in files of earlier versions.
        name = "keeps_meaning" if "keeps_meaning" in record else "is_positive"
        is_positive = read_field(record, name, bool, f"{where}, edits")
        edits.append(Edit(text, kind, is_positive, (0, 0)))
    return tuple(edits)


def check_edits_allowed(source: Source, where: str) -> None:
    """Raise UnbagError for existing edits unless the source reads them."""
    if not source.keeps_edits:
        raise already_edited_error(where)


def already_edited_error(what: str) -> UnbagError:
    """Return the error for captions that already have edits."""
    return UnbagError(
        f"{what} holds edits already",
        expected="captions without edits",
        hint="start from the original captions, or remove the field or column edits",
    )


def expand(text: str) -> list[Path]:
    """List the files of a path, shard folder or pattern (part-{000..017}.tar, part-*.tar)."""
    path = Path(text)
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(path.glob("*.tar"))
    if _RANGE.search(text):
        paths = [Path(name) for name in _ranges(text)]
        if missing := next((name for name in paths if not name.is_file()), None):
            raise UnbagError(
                f"there is no file {missing}",
                expected=f"every file of {text}",
                hint="get the missing file, or give only files that exist",
            )
        return paths
    pattern = str(path.relative_to(path.anchor))
    return sorted(match for match in Path(path.anchor).glob(pattern) if match.is_file())


def _ranges(text: str) -> list[str]:
    """Expand every {first..last}, with leading zeros."""
    match = _RANGE.search(text)
    if not match:
        return [text]
    first, last = match.groups()
    numbers = range(int(first), int(last) + 1)
    head, tail = text[: match.start()], _ranges(text[match.end() :])
    return [f"{head}{n:0{len(first)}}{rest}" for n in numbers for rest in tail]


class _NamedFile(FileIO):
    """A file whose read errors name it."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer."""
        with _read_errors(self.name):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        """Read to the end."""
        with _read_errors(self.name):
            return super().readall()


@contextmanager
def _read_errors(path: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnbagError(f"cannot read {path}: {error.strerror or error}") from error
