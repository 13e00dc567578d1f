"""A collection that `unbag edit` reads or has written comes in; a row for each picture goes out."""

from __future__ import annotations

from collections.abc import Iterator

from unbag.corpus.entries import Entry
from unbag.corpus.forms import entries
from unbag.corpus.source import Bad, Source
from unbag.errors import UserError
from unbag.train.packed import Row


def entry_rows(source: Source, bad: Bad) -> Iterator[Row]:
    """One row a picture, with the captions that say anything."""
    for entry in entries(source, bad):
        row = _row(entry)
        if not row.picture:
            bad(_no_picture(entry))
        elif row.captions:
            yield row


def _row(entry: Entry) -> Row:
    texts = [" ".join(caption.text.split()) for caption in entry.captions]
    kept = [at for at, text in enumerate(texts) if text]
    edits = tuple(entry.edits[at] for at in kept) if entry.edits else ()
    return Row(entry.picture, entry.picture, tuple(texts[at] for at in kept), edits)


def _no_picture(entry: Entry) -> UserError:
    return UserError(
        f"{entry.captions[0].where} names no picture",
        expected="a picture for each caption, such as the field image",
        way_out="name the field or column with --picture-column",
    )
