"""The word lists of the edit rules: TOML files in this folder, each read on first use.

Every entry of a file has one of four forms:

- words, separated by spaces;
- lines; a line that begins with four spaces continues the one before;
- a table, of lines "word: others" or "word word: others";
- replacements, of lines "old > new", or "one = other" for both ways.

Words are lemmas in lower case, written for captions of photographs. A missing
word makes a rule skip a place or be less strict, never fail. Shared lists are constants here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True)
class WordLists:
    """The entries of one file."""

    texts: Mapping[str, str]

    def words(self, key: str) -> frozenset[str]:
        """The words of an entry."""
        return frozenset(self.texts[key].split())

    def sequence(self, key: str) -> tuple[str, ...]:
        """The words of an entry in their order."""
        return tuple(self.texts[key].split())

    def lines(self, key: str) -> tuple[str, ...]:
        """The lines of an entry, continued lines joined."""
        return tuple(self.texts[key].replace("\n    ", " ").strip().splitlines())

    def table(self, key: str) -> Mapping[str, tuple[str, ...]]:
        """Lines "word: a b c" as a mapping. A word on several lines gets the words of all."""
        table: dict[str, tuple[str, ...]] = {}
        for line in self.lines(key):
            words, _, others = line.partition(":")
            for word in words.split():
                table[word] = (*table.get(word, ()), *others.split())
        return MappingProxyType(table)

    def sets(self, key: str) -> Mapping[str, frozenset[str]]:
        """A table with its words as sets."""
        return MappingProxyType(
            {word: frozenset(others) for word, others in self.table(key).items()}
        )

    def classes(self, key: str) -> Mapping[str, str]:
        """For each word after the colons of a table, the word before its colon."""
        table = self.table(key)
        return MappingProxyType({word: name for name, words in table.items() for word in words})

    def replacements(self, key: str) -> Mapping[str, str]:
        """Lines "old > new" and "one = other" as a mapping. The first line of a key decides."""
        table: dict[str, str] = {}
        for line in self.lines(key):
            old, separator, new = line.partition(" = ") if " = " in line else line.partition(" > ")
            table.setdefault(old, new)
            if separator == " = ":
                table.setdefault(new, old)
        return MappingProxyType(table)

    def pairs(self, key: str) -> frozenset[tuple[str, str]]:
        """All pairs of a word before and a word after the colon of a table, in both orders."""
        pairs = [(word, other) for word, others in self.table(key).items() for other in others]
        return frozenset([*pairs, *((other, word) for word, other in pairs)])


@cache
def word_lists(name: str) -> WordLists:
    """The file NAME.toml of this folder."""
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    return WordLists(tomllib.loads(text))


_NOUNS = word_lists("nouns")
PEOPLE = _NOUNS.words("people")
ANIMALS = _NOUNS.words("animals")
ALIVE = PEOPLE | ANIMALS
MASS = _NOUNS.words("mass")
GROUPINGS = _NOUNS.words("groupings")
IMAGES = _NOUNS.words("pictures")
NO_THINGS = _NOUNS.words("no_things")
DOINGS = _NOUNS.words("doings")
_NEAR = _NOUNS.pairs("near")

_ATTRIBUTES = word_lists("attributes")
REPLACED_COLOURS = _ATTRIBUTES.table("colours")
REPLACED_MATERIALS = _ATTRIBUTES.table("materials")
REPLACED_FABRICS = _ATTRIBUTES.table("fabrics")
REPLACED_PAVINGS = _ATTRIBUTES.table("pavings")
REPLACED_SIZES = _ATTRIBUTES.table("sizes")
REPLACED_STATES = _ATTRIBUTES.table("states")
AGES = _ATTRIBUTES.table("ages")
COLOURS = frozenset(REPLACED_COLOURS) | _ATTRIBUTES.words("more_colours")
MATERIALS = (
    frozenset(REPLACED_MATERIALS) | frozenset(REPLACED_FABRICS) | frozenset(REPLACED_PAVINGS)
)
NOT_ATTRIBUTES = _ATTRIBUTES.words("not_attributes")
_NAMES = frozenset(
    (word, noun) for word, nouns in _ATTRIBUTES.table("names").items() for noun in nouns
)

_TRUTH = word_lists("truth")
NEGATIONS = _TRUTH.words("negations")
COLOUR_NAMES: Mapping[str, str] = MappingProxyType(
    {word: word for word in _TRUTH.sequence("colours")}
    | {word: name for word, (name,) in _TRUTH.table("colours_spelt_otherwise").items()}
)
"""Words for colours, each with the colour in a canonical spelling."""

LOOKING_BACK = word_lists("reorder").words("looking_back")
WORD_GROUPS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        name: word_lists("synonyms").words(name)
        for name in ("@people", "@grazers", "@vehicles", "@things", "@clothes")
    }
)
"""Groups of words that the conditions of synonyms use by name."""


def is_near(noun: str, other: str) -> bool:
    """Whether two nouns may denote the same thing: a sofa is a couch, a man is a person."""
    return noun == other or (noun, other) in _NEAR


def is_fixed(adjective: str, noun: str) -> bool:
    """Whether two lower-case words form a fixed name ("hot dog", "red wine")."""
    return (adjective, noun) in _NAMES
