"""JSON lines in and out: a record with one caption or several in, one line a caption out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unbag.corpus.edits_read import check_wanted, edits_in
from unbag.corpus.entries import Caption, Entry, together
from unbag.corpus.source import Bad, Source, captions_in, json_record, name_in
from unbag.corpus.written import EDITS, SKIPPED, Pairs, as_json, record
from unbag.errors import UserError

PICTURES = ("image", "filepath", "url", "file_name", "filename")
"""Fields that can name the picture."""
_OURS = ("id", "image", "caption", "captions", EDITS, SKIPPED)


def read(source: Source, bad: Bad) -> Iterator[Entry]:
    """One entry a picture: lines that follow each other with the same picture are one."""
    return together(_records(source, bad))


def write(pairs: Pairs, path: Path) -> None:
    """One line a caption, with the other fields that its line had."""
    with path.open("w", encoding="utf-8") as file:
        for pair in pairs:
            for rest, one in pair.rows():
                said = record(one, pair.entry.picture)
                if isinstance(rest, dict):
                    said |= rest
                file.write(as_json(said) + "\n")


def entry_of(said: dict[str, object], number: int, where: str, source: Source) -> Entry:
    """A record as an entry; without an id the number stands for it."""
    if EDITS in said:
        check_wanted(source, where)
    found = captions_in(said, source.caption_column, where)
    name = name_in(said, ("id",), where)
    texts = (found,) if isinstance(found, str) else found
    names = (
        [name or str(number)]
        if isinstance(found, str)
        else [f"{name or number}#{at}" for at in range(len(texts))]
    )
    wanted = (source.picture_column,) if source.picture_column else PICTURES
    picture = name_in(said, wanted, where)
    captions = tuple(Caption(*both, where) for both in zip(names, texts, strict=True))
    dropped = {*_OURS, source.caption_column}
    rest = {key: value for key, value in said.items() if key not in dropped}
    many = None if isinstance(found, str) else len(captions)
    edits = edits_in(said[EDITS], many, where) if EDITS in said else ()
    return Entry(picture, captions, (rest,) * len(captions), edits)


def _records(source: Source, bad: Bad) -> Iterator[Entry]:
    name = source.name
    with source.opened() as file:
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            where = f"{name}, line {number}"
            try:
                entry = entry_of(json_record(raw, where), number, where, source)
            except UserError as error:
                bad(error)
            else:
                yield entry
