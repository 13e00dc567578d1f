"""What is read from a collection: pictures with their captions, and where each stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from unbag.captions.edit import Given

MOST_TOGETHER = 100
"""Rows in a row with the same picture that are taken as its captions; a column that says the same
everywhere would otherwise make one entry of a whole file."""


class Caption(NamedTuple):
    """A caption as found."""

    id: str
    text: str
    where: str
    """Such as "captions.jsonl, line 17", for messages."""


@dataclass(frozen=True)
class Entry:
    """A picture and its captions, which stay together: each is checked against the others."""

    picture: str
    """As the file names it; empty where it names none."""
    captions: tuple[Caption, ...]
    rest: tuple[object, ...] = ()
    """What the writer of the same form needs, for each caption."""

    def given(self) -> Iterator[Given]:
        """What the editor is given."""
        texts = tuple(caption.text for caption in self.captions)
        for at, caption in enumerate(self.captions):
            yield Given(caption.id, caption.text, texts[:at] + texts[at + 1 :])


@dataclass(frozen=True)
class Chunk:
    """Captions that are edited and saved together."""

    index: int
    given: tuple[Given, ...]

    def __str__(self) -> str:
        """For messages."""
        first, last = self.given[0].id, self.given[-1].id
        return f"chunk {self.index} (captions {first!r} to {last!r})"


def together(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Entries that follow each other and have the same picture become one."""
    held: list[Entry] = []
    count = 0
    for entry in entries:
        is_same = held and entry.picture and entry.picture == held[0].picture
        if held and (not is_same or count >= MOST_TOGETHER):
            yield _merged(held)
            held, count = [], 0
        held.append(entry)
        count += len(entry.captions)
    if held:
        yield _merged(held)


def limited(entries: Iterable[Entry], limit: int | None) -> Iterator[Entry]:
    """Entries until so many captions were read; the last picture is whole."""
    read = 0
    for entry in entries:
        if limit is not None and read >= limit:
            return
        read += len(entry.captions)
        yield entry


def chunks(entries: Iterable[Entry], size: int) -> Iterator[Chunk]:
    """Chunks of so many captions or a few more: a picture's captions are never parted."""
    flow = iter(entries)
    index = 0
    while first := next(flow, None):
        found = list(first.given())
        while len(found) < size and (more := next(islice(flow, 1), None)):
            found += more.given()
        yield Chunk(index, tuple(found))
        index += 1


def _merged(entries: list[Entry]) -> Entry:
    first = entries[0]
    if len(entries) == 1:
        return first
    captions = tuple(caption for entry in entries for caption in entry.captions)
    rest = tuple(one for entry in entries for one in entry.rest)
    return Entry(first.picture, captions, rest)
