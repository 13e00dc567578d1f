"""Captions of a file as entries to edit, whatever its form, and the records of their edits.

`Source` is the file as the user names it, `Entry` an image with its captions, `EditedEntries`
what is written back. What the forms share in reading and writing fields follows.
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
"""Bytes of a file that are looked at to tell it from another."""
_NAMED = 5
"""Broken lines that are named; more are counted."""
MOST_TOGETHER = 100
"""Captions of one image that are edited together and checked against each other; a field that
says the same everywhere would otherwise make one image of a whole file."""
EDITS, SKIPPED = "edits", "skipped"
"""Names of the columns and fields that are added."""
CAPTION_COLUMNS = ("caption", "title", "text")
IMAGE_COLUMNS = ("filepath", "image", "url")
"""Usual names in tables."""
COLUMNS = ("id", "image", "caption", EDITS, SKIPPED)
"""Of a table that is written from captions of another form."""


Edits = tuple[tuple[Edit, ...], ...]
"""For each caption."""


@dataclass(frozen=True)
class Source:
    """Captions on disk."""

    path: str
    """A file; for shards also a folder or a pattern."""
    form: str
    """See `unbag.data.readers`."""
    caption_column: str = ""
    """Column or field with the caption; empty for the usual names."""
    image_column: str = ""
    skips_bad: bool = False
    """Leave broken lines out and count them, instead of stopping at the first."""
    limit: int | None = None
    """Captions to read at most, and those that belong to the last image."""
    keeps_edits: bool = False
    """Read edits that were made before, instead of refusing them."""

    @property
    def name(self) -> str:
        """The file name, for messages."""
        return Path(self.path).name

    @property
    def file(self) -> Path:
        """The file; only shards consist of several."""
        [path] = self.files()
        return path

    def files(self) -> list[Path]:
        """All files, in order."""
        found = expand(self.path)
        if not found and Path(self.path).is_dir():
            raise UnbagError(
                f"the folder {self.path} holds no shards",
                expected="files that end in .tar",
                hint="name the file of captions itself, or check the folder",
            )
        if not found:
            raise UnbagError(
                f"there is no file {self.path}",
                expected="a file of captions",
                hint="check the path given with --captions",
            )
        if len(found) > 1 and self.form != "shards":
            raise UnbagError(
                f"{self.path} names {len(found)} files",
                expected="one file; only shards (.tar) come in several",
                hint="edit them one after the other",
            )
        return found

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The one file, for reading; errors of whoever reads are left as they are."""
        path = self.file
        with _read_errors(path):
            raw = _NamedFile(path)
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


@dataclass(eq=False)
class Bad:
    """What is done about broken lines: an error, or leaving them out and counting."""

    skips: bool = False
    count: int = 0
    named: list[str] = field(default_factory=list)
    """The first few."""

    def __call__(self, error: UnbagError) -> None:
        """A broken line was met."""
        if not self.skips:
            usual = "mend it, or leave such lines out with --bad-lines skip"
            hint = error.hint or usual
            raise UnbagError(error.message, expected=error.expected, hint=hint) from error
        self.count += 1
        if len(self.named) < _NAMED:
            self.named.append(error.message)


@dataclass(frozen=True)
class Entry:
    """An image and its captions."""

    image: str
    """As the file names it; empty where it names none."""
    captions: tuple[CaptionAt, ...]
    rest: tuple[object, ...] = ()
    """What the writer of the same form needs, for each caption."""
    edits: tuple[tuple[Edit, ...], ...] = ()
    """For each caption, where edits were made before and are wanted."""

    def given(self) -> Iterator[tuple[Given, ...]]:
        """What the editor is given: captions that stay together, each with the others."""
        for start in range(0, len(self.captions), MOST_TOGETHER):
            part = self.captions[start : start + MOST_TOGETHER]
            texts = tuple(caption.text for caption in part)
            yield tuple(
                Given(caption.id, caption.text, texts[:at] + texts[at + 1 :])
                for at, caption in enumerate(part)
            )


class CaptionAt(NamedTuple):
    """A caption and where it stands in its file."""

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
    """Chunks of so many captions or a few more: those that stay together are never parted."""
    flow = (part for entry in entries for part in entry.given())
    index = 0
    while first := next(flow, None):
        found = list(first)
        while len(found) < size and (more := next(flow, None)):
            found += more
        yield Chunk(index, tuple(found))
        index += 1


def limited(entries: Iterable[Entry], limit: int | None) -> Iterator[Entry]:
    """Entries until so many captions were read; the last image is whole."""
    read = 0
    for entry in entries:
        if limit is not None and read >= limit:
            return
        read += len(entry.captions)
        yield entry


def together(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Entries that follow each other and have the same image become one."""
    held: list[Entry] = []
    count = 0
    for entry in entries:
        is_same = held and entry.image and entry.image == held[0].image
        if held and (not is_same or count >= MOST_TOGETHER):
            yield _merged(held)
            held, count = [], 0
        held.append(entry)
        count += len(entry.captions)
    if held:
        yield _merged(held)


def _merged(entries: list[Entry]) -> Entry:
    if len(entries) == 1:
        return entries[0]
    captions = tuple(caption for entry in entries for caption in entry.captions)
    rest = tuple(one for entry in entries for one in entry.rest)
    edits: Edits = ()
    if any(entry.edits for entry in entries):
        edits = tuple(one for e in entries for one in e.edits or ((),) * len(e.captions))
    return Entry(entries[0].image, captions, rest, edits)


class EditedEntry(NamedTuple):
    """An entry and its edited captions, in their order."""

    entry: Entry
    edited: tuple[Edited, ...]

    def rows(self) -> Iterator[tuple[object, Edited]]:
        """For each caption what the writer needs of its source, and the caption with its edits."""
        rest = self.entry.rest or (None,) * len(self.edited)
        return zip(rest, self.edited, strict=True)


class EditedEntries(Protocol):
    """All entries with their edits, in the order of the source; can be gone through again."""

    @property
    def source(self) -> Source:
        """Where the captions came from."""

    def __iter__(self) -> Iterator[EditedEntry]:
        """All entries from the first, each time anew."""


def edited_record(one: Edited, image: str = "") -> dict[str, object]:
    """The record of a caption with its edits, for forms that hold objects."""
    said: dict[str, object] = {"id": one.id}
    if image:
        said["image"] = image
    said["caption"] = one.text
    return said | edit_fields(one)


def edit_fields(one: Edited) -> dict[str, object]:
    """The fields that edits add to the record of a caption."""
    said: dict[str, object] = {EDITS: to_json(one.edits)}
    return said | ({SKIPPED: one.skipped} if one.skipped else {})


def edit_cells(several: Sequence[Edited], is_list: bool) -> tuple[str, str]:
    """The cells `edits` and `skipped` of a row; lists of both where it holds a list of captions."""
    edits = [to_json(one.edits) for one in several]
    skipped = [one.skipped for one in several]
    if is_list:
        return json_line(edits), json_line(skipped) if any(skipped) else ""
    return json_line(edits[0]), skipped[0]


def new_rows(pair: EditedEntry) -> Iterator[tuple[str, ...]]:
    """Rows of a new table, with the columns COLUMNS."""
    for one in pair.edited:
        yield (one.id, pair.entry.image, one.text, *edit_cells([one], is_list=False))


def json_line(value: object) -> str:
    """JSON on one line; letters beyond ASCII are not escaped."""
    return json.dumps(value, ensure_ascii=False)


def said_captions(found: tuple[str, ...] | str, where: str) -> tuple[str, ...]:
    """Captions with single spaces, without empty ones; UnbagError if that leaves none."""
    texts = (found,) if isinstance(found, str) else found
    kept = tuple(text for one in texts if (text := " ".join(one.split())))
    if not kept:
        raise UnbagError(f"{where} has an empty caption", expected="a caption that says anything")
    return kept


def captions_in(record: dict[str, object], column: str, where: str) -> tuple[str, ...] | str:
    """The caption of a record, or several; from `column`, else from "caption" or "captions"."""
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
        return tuple(from_json(str, one, f"{where}, {name}[{at}]") for at, one in enumerate(value))
    if not isinstance(value, str):
        shown = "an empty list" if value == [] else f"{value!r:.60}"
        raise UnbagError(f"{where}: {name} is {shown}", expected="a text, or a list of texts")
    return value


def read_entries(records: Iterable[T], read: Callable[[T], Entry], bad: Bad) -> Iterator[Entry]:
    """Entries of records; those that `read` refuses are broken lines."""
    for one in records:
        try:
            entry = read(one)
        except UnbagError as error:
            bad(error)
        else:
            yield entry


def captions_at(found: tuple[str, ...] | str, id_: str, where: str) -> tuple[CaptionAt, ...]:
    """What `captions_in` found, with ids: that of the record, with a number in a list."""
    if isinstance(found, str):
        return (CaptionAt(id_, found, where),)
    return tuple(CaptionAt(f"{id_}#{at}", text, where) for at, text in enumerate(found))


def caption_field(record: dict[str, object], column: str) -> str:
    """The name of the field that captions are read from; empty if there is none."""
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
        raise UnbagError(f"{where}: {name} is {value!r:.60}", expected="a text or a whole number")
    return ""


def find_columns(columns: list[str], source: Source) -> tuple[str, str]:
    """The columns of captions and of images, as named or with a usual name; "" for no image."""

    def column(wanted: str, usual: tuple[str, ...]) -> str:
        if wanted and wanted not in columns:
            raise UnbagError(
                f"{source.name} has no column {wanted!r}, only {', '.join(columns)}",
                expected="the name of a column",
            )
        return wanted or next((name for name in usual if name in columns), "")

    caption = column(source.caption_column, CAPTION_COLUMNS)
    if not caption:
        there = ", ".join(columns) or "an empty header"
        raise UnbagError(
            f"{source.name} has no column of captions, only {there}",
            expected="a column caption, title or text",
            hint="name it with --caption-column; a number is that of a column in a table "
            "without a header line",
        )
    if EDITS in columns:
        check_wanted(source, source.name)
    return caption, column(source.image_column, IMAGE_COLUMNS)


def json_record(raw: bytes, where: str) -> dict[str, object]:
    """Parse a JSON object; anything else is an error that names the place."""
    found = json_value(raw, where)
    if not isinstance(found, dict):
        raise UnbagError(
            f"{where} holds {type(found).__name__} instead of an object",
            expected='an object such as {"caption": "..."}',
        )
    return found


def json_value(raw: bytes, where: str) -> object:
    """Parse JSON in UTF-8; halves of surrogate pairs are refused."""
    text = decoded(raw, where)
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnbagError(f"{where} is not JSON: {error}", expected="valid JSON") from error
    # An escape may name half of a character, which no file can hold.
    if "\\u" in text and not is_whole_text(json.dumps(found, ensure_ascii=False)):
        raise UnbagError(f"{where} holds half of a character", expected="whole characters")
    return found


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
    """A list of edits, or where a record has a list of so many captions, a list of such lists."""
    if captions is None:
        return (_edits(value, where),)
    lists = value if isinstance(value, list) else []
    if len(lists) != captions:
        raise UnbagError(
            f"{where}: edits is not one list for each of {captions} captions",
            expected="as many lists of edits as captions",
        )
    return tuple(_edits(one, where) for one in lists)


def edits_in_cell(cell: object, captions: int | None, where: str) -> Edits:
    """As `edits_in`, from JSON in the cell of a table; an empty cell holds no edits."""
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
    found = []
    for one in value:
        if not isinstance(one, dict):
            raise UnbagError(
                f"{where}: an edit is {one!r:.60}",
                expected='an object {"text", "kind", "is_positive"}',
            )
        text, kind = (read_field(one, name, str, f"{where}, edits") for name in ("text", "kind"))
        # Its name in files that an earlier revision wrote.
        name = "keeps_meaning" if "keeps_meaning" in one else "is_positive"
        is_positive = read_field(one, name, bool, f"{where}, edits")
        found.append(Edit(text, kind, is_positive, (0, 0)))
    return tuple(found)


def check_wanted(source: Source, where: str) -> None:
    """Edits were met: an error unless they are wanted."""
    if not source.keeps_edits:
        raise edited_before(where)


def edited_before(what: str) -> UnbagError:
    """The error for a collection that holds edits already."""
    return UnbagError(
        f"{what} holds edits already",
        expected="captions without edits",
        hint="start from the original captions, or remove what is called edits",
    )


def expand(text: str) -> list[Path]:
    """A file; all shards of a folder; or a pattern: part-{000..017}.tar, part-*.tar."""
    path = Path(text)
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(path.glob("*.tar"))
    if _RANGE.search(text):
        paths = [Path(one) for one in _ranges(text)]
        if missing := next((one for one in paths if not one.is_file()), None):
            raise UnbagError(
                f"there is no file {missing}",
                expected=f"every file of {text}",
                hint="get the missing file, or name the ones that are there",
            )
        return paths
    pattern = str(path.relative_to(path.anchor))
    return sorted(found for found in Path(path.anchor).glob(pattern) if found.is_file())


def _ranges(text: str) -> list[str]:
    """Every {first..last} written out; the number of digits is kept."""
    found = _RANGE.search(text)
    if not found:
        return [text]
    first, last = found.groups()
    numbers = range(int(first), int(last) + 1)
    head, tail = text[: found.start()], _ranges(text[found.end() :])
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
