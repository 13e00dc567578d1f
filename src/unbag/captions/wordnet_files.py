"""WordNet's files come in, from a folder or a zip; its synsets by lemma or by place go out.

The format is that of Princeton's database (wndb, senseidx), which NLTK's data and Debian's package
share. The files are sorted and stay where they are: a lookup is a binary search and a read, so
opening takes no time and processes share the memory. NLTK's own reader is not used, because since
3.10 it refuses files outside its search path and files with two names, as uv installs them.
"""

from __future__ import annotations

import mmap
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Pos: TypeAlias = Literal["n", "v", "a", "r"]
"""Noun, verb, adjective, adverb."""
_FILES: Mapping[Pos, str] = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Adjectives have two types: heads of clusters and their satellites.
_SENSE_TYPES: Mapping[Pos, str] = {"n": "1", "v": "2", "a": "35", "r": "4"}
NEEDED = (
    *(f"data.{name}" for name in _FILES.values()),
    *(f"index.{name}" for name in _FILES.values()),
    "index.sense",
    "lexnames",
)


class Pointer(NamedTuple):
    """From a synset, or from one of its words, to another."""

    symbol: str
    """! antonym, @ hypernym, ~ hyponym, & similar, ^ see also, $ verb group."""
    offset: int
    pos: Pos
    source: int
    """Number of the word in this synset, from 1; 0 for the synset as a whole."""
    target: int
    """Number of the word in the other."""


class Synset(NamedTuple):
    """Words with one meaning."""

    offset: int
    pos: Pos
    field: str
    """Lexical file, such as noun.animal."""
    words: tuple[str, ...]
    """In lower case, with spaces."""
    pointers: tuple[Pointer, ...]


Buffer: TypeAlias = bytes | mmap.mmap


@dataclass(frozen=True, eq=False)
class Database:
    """WordNet's files, opened."""

    place: str
    files: Mapping[str, Buffer]
    fields: tuple[str, ...]

    def offsets(self, lemma: str, pos: Pos) -> tuple[int, ...]:
        """Where the synsets of a lemma stand, the commonest sense first."""
        line = next(_lines_with(self.files[f"index.{_FILES[pos]}"], _spelt(lemma) + b" "), None)
        if line is None:
            return ()
        parts = line.split()
        count = int(parts[2])
        return tuple(int(part) for part in parts[len(parts) - count :])

    def uses(self, lemma: str, pos: Pos) -> dict[int, int]:
        """By synset: how often the lemma stood for it in tagged text."""
        found: dict[int, int] = {}
        for line in _lines_with(self.files["index.sense"], _spelt(lemma) + b"%"):
            key, offset, _, count = line.split()
            if chr(key[key.index(b"%") + 1]) in _SENSE_TYPES[pos]:
                found[int(offset)] = int(count)
        return found

    def synset(self, offset: int, pos: Pos) -> Synset:
        """The synset that stands there."""
        data = self.files[f"data.{_FILES[pos]}"]
        end = data.find(b"\n", offset)
        parts = data[offset:end].split(b" | ")[0].decode().split()
        count = int(parts[3], 16)
        words = tuple(_plain(word) for word in parts[4 : 4 + 2 * count : 2])
        rest = parts[5 + 2 * count :]
        pointers = (_pointer(rest[4 * at : 4 * at + 4]) for at in range(int(parts[4 + 2 * count])))
        return Synset(offset, pos, self.fields[int(parts[1])], words, tuple(pointers))


def open_database(place: Path) -> Database | None:
    """WordNet in a folder, or in "wordnet/" of a zip; None where that is not what lies there."""
    files = _packed(place) if place.suffix == ".zip" else _mapped(place)
    if files is None:
        return None
    fields = tuple(line.split()[1].decode() for line in bytes(files["lexnames"]).splitlines())
    return Database(str(place), files, fields)


def _mapped(folder: Path) -> dict[str, Buffer] | None:
    if not all((folder / name).is_file() and (folder / name).stat().st_size for name in NEEDED):
        return None
    found: dict[str, Buffer] = {}
    for name in NEEDED:
        with (folder / name).open("rb") as file:
            found[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return found


def _packed(place: Path) -> dict[str, Buffer] | None:
    if not place.is_file() or not zipfile.is_zipfile(place):
        return None
    with zipfile.ZipFile(place) as archive:
        held = set(archive.namelist())
        if not all(f"wordnet/{name}" in held for name in NEEDED):
            return None
        return {name: archive.read(f"wordnet/{name}") for name in NEEDED}


def _lines_with(data: Buffer, start: bytes) -> Iterator[bytes]:
    """Lines of a sorted file that begin so."""
    at = _first_not_before(data, start)
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[at:end]
        if not line.startswith(start):
            return
        yield line
        at = end + 1


def _first_not_before(data: Buffer, start: bytes) -> int:
    """Where the first line stands that is not before these bytes in order."""
    low, high = 0, len(data)
    while low < high:
        middle = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = data.find(b"\n", middle)
        end = len(data) if end < 0 else end
        if data[middle:end] < start:
            low = end + 1
        else:
            high = middle
    return low


def _pointer(parts: list[str]) -> Pointer:
    symbol, offset, pos, ends = parts
    kind: Pos = "a" if pos == "s" else pos  # type: ignore[assignment]
    return Pointer(symbol, int(offset), kind, int(ends[:2], 16), int(ends[2:], 16))


def _spelt(lemma: str) -> bytes:
    return lemma.replace(" ", "_").encode()


def _plain(word: str) -> str:
    # Adjectives carry a marker of where they stand: "afloat(p)".
    return word.partition("(")[0].replace("_", " ").lower()
