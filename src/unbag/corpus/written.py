"""An entry with its edited captions as the records that all forms write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from unbag.corpus.entries import Entry
from unbag.corpus.source import Source
from unbag.types import Edited
from unbag.types.as_json import edit_as_json

EDITS, SKIPPED = "edits", "skipped"
"""Names of the columns and fields that are added."""
COLUMNS = ("id", "image", "caption", EDITS, SKIPPED)
"""Of a table that is written from captions of another form."""


class Pair(NamedTuple):
    """An entry and what came of its captions, in their order."""

    entry: Entry
    edited: tuple[Edited, ...]

    def rows(self) -> Iterator[tuple[object, Edited]]:
        """For each caption what else the source knew of it, and what came of it."""
        rest = self.entry.rest or (None,) * len(self.edited)
        return zip(rest, self.edited, strict=True)


class Pairs(Protocol):
    """All entries with their edits, in the order of the source; can be gone through again."""

    @property
    def source(self) -> Source:
        """Where the captions came from."""

    def __iter__(self) -> Iterator[Pair]:
        """From the first."""


def record(one: Edited, picture: str = "") -> dict[str, object]:
    """A caption with its edits."""
    said: dict[str, object] = {"id": one.id}
    if picture:
        said["image"] = picture
    said["caption"] = one.text
    return said | what_came(one)


def what_came(one: Edited) -> dict[str, object]:
    """The fields that are added to a caption."""
    said: dict[str, object] = {EDITS: [edit_as_json(edit) for edit in one.edits]}
    return said | ({SKIPPED: one.skipped} if one.skipped else {})


def cells(several: Sequence[Edited], is_list: bool) -> tuple[str, str]:
    """The cells `edits` and `skipped` of a row; lists of both where it holds a list of captions."""
    edits = [[edit_as_json(edit) for edit in one.edits] for one in several]
    skipped = [one.skipped for one in several]
    if is_list:
        return as_json(edits), as_json(skipped) if any(skipped) else ""
    return as_json(edits[0]), skipped[0]


def row(pair: Pair) -> Iterator[tuple[str, ...]]:
    """Rows of COLUMNS."""
    for one in pair.edited:
        yield (one.id, pair.entry.picture, one.text, *cells([one], is_list=False))


def as_json(value: object) -> str:
    """On one line, with every letter as it is."""
    return json.dumps(value, ensure_ascii=False)
