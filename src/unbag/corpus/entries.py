"""What is read from a collection: pictures with their captions, and where each stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from unbag.types import Edit, Given

MOST_TOGETHER = 100
"""Captions of one picture that are edited together and checked against each other; a field that
says the same everywhere would otherwise make one picture of a whole file."""


class Caption(NamedTuple):
    """A caption as found."""

    id: str
    text: str
    where: str
    """Such as "captions.jsonl, line 17", for messages."""


@dataclass(frozen=True)
class Entry:
    """A picture and its captions."""

    picture: str
    """As the file names it; empty where it names none."""
    captions: tuple[Caption, ...]
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
    """Chunks of so many captions or a few more: those that stay together are never parted."""
    flow = (part for entry in entries for part in entry.given())
    index = 0
    while first := next(flow, None):
        found = list(first)
        while len(found) < size and (more := next(flow, None)):
            found += more
        yield Chunk(index, tuple(found))
        index += 1


def _merged(entries: list[Entry]) -> Entry:
    first = entries[0]
    if len(entries) == 1:
        return first
    captions = tuple(caption for entry in entries for caption in entry.captions)
    rest = tuple(one for entry in entries for one in entry.rest)
    edits = tuple(one for entry in entries for one in entry.edits or ((),) * len(entry.captions))
    return Entry(first.picture, captions, rest, edits if any(e.edits for e in entries) else ())
