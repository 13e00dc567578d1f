"""A parsed caption comes in; the nouns that name things, and how they are determined, go out.

Left out are places in the picture ("top", "background"), times, names, owners ("the man's") and
words of measure: in "a group of people" the thing is people.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from unbag.captions.parsed import NOUN_TAGS, Parsed, Phrase
from unbag.captions.word_lists import (
    ALIVE,
    DOINGS,
    GROUPINGS,
    MASS,
    NO_THINGS,
    PAIRED,
    PEOPLE,
    PICTURES,
    word_set,
)

_PLACES = frozenset(("nsubj", "nsubjpass", "dobj", "pobj", "conj", "attr", "ROOT", "appos", "dep"))
_ONES = frozenset(("a", "an", "one", "another", "each", "every", "single"))
_QUANTITIES = word_set("several many few various multiple numerous these those both")
_PLURAL_TAGS = frozenset(("NNS", "NNPS"))
_RELATIVES_OF_PEOPLE = frozenset(("who", "whom", "whose"))


class Determined(Enum):
    """What stands before a noun."""

    BARE = "bare"
    A = "a"
    THE = "the"
    SOME = "some"
    MANY = "many"


class Thing(NamedTuple):
    """A noun that names a thing."""

    first: int
    """With the nouns that specify it."""
    last: int
    head: int
    lemma: str
    is_plural: bool
    determined: Determined

    @property
    def is_person(self) -> bool:
        """Whether it names people."""
        return self.lemma in PEOPLE

    @property
    def is_alive(self) -> bool:
        """Whether it names people or animals."""
        return self.lemma in ALIVE


def things_in(parsed: Parsed) -> list[Thing]:
    """Every noun that names a thing, in order."""
    return [_thing(parsed, noun) for noun in parsed.nouns if _names_thing(parsed, noun)]


def is_plural(parsed: Parsed, noun: int) -> bool:
    """By its form or a number before it ("two sheep")."""
    if parsed.words[noun].tag in _PLURAL_TAGS:
        return True
    return any(
        parsed.words[at].dep == "nummod" and parsed.lower[at] not in ("one", "1")
        for at in parsed.children[noun]
    )


def content_of(parsed: Parsed, noun: int) -> int:
    """What a word of measure measures: people in "a group of people"; else the noun itself."""
    for _ in parsed.words:
        if parsed.words[noun].lemma not in GROUPINGS and parsed.words[noun].lemma not in PICTURES:
            return noun
        inner = object_of_of(parsed, noun)
        if inner is None:
            return noun
        noun = inner
    return noun


def object_of_of(parsed: Parsed, noun: int) -> int | None:
    """The noun after "of" that belongs to this noun."""
    for at in parsed.children[noun]:
        if parsed.lower[at] == "of" and at > noun:
            for inner in parsed.children[at]:
                if parsed.words[inner].dep == "pobj":
                    return inner
    return None


def whole_phrase(parsed: Parsed, phrase: Phrase) -> Phrase | None:
    """The phrase with what "of" adds to it: "a bowl of soup"; None where that is unclear."""
    last, noun = phrase.last, phrase.head
    for _ in parsed.words:
        inner = object_of_of(parsed, noun)
        if inner is None or parsed.lower[last + 1 : last + 2] != ("of",):
            return Phrase(phrase.first, last, phrase.head)
        chunk = next((c for c in parsed.chunks if c.head == inner), None)
        if chunk is None or chunk.first != last + 2 or is_joined(parsed, inner):
            return None
        last, noun = chunk.last, inner
    return None


def fits(thing: Thing, place: Thing) -> bool:
    """Whether a noun goes well with what stands before another noun: no "a dogs", no "a water"."""
    if thing.is_plural != place.is_plural:
        return False
    if thing.is_plural:
        return place.determined is not Determined.A and not (
            place.determined is Determined.MANY and thing.lemma in PAIRED
        )
    is_mass = thing.lemma in MASS
    if place.determined in (Determined.A, Determined.MANY):
        return not is_mass
    if place.determined is Determined.THE or thing.determined is place.determined:
        return True
    return is_mass


def is_bare_count(thing: Thing) -> bool:
    """A single thing without an article, as captions begin: "Man on a horse"."""
    is_one = not thing.is_plural and thing.lemma not in MASS
    return is_one and thing.determined is Determined.BARE


def is_told_as_person(parsed: Parsed, thing: Thing) -> bool:
    """Whether "who" says more of it."""
    return any(
        parsed.words[at].dep == "relcl"
        and any(parsed.lower[c] in _RELATIVES_OF_PEOPLE for c in parsed.children[at])
        for at in parsed.children[thing.head]
    )


def owner_pronoun(parsed: Parsed, noun: int) -> int | None:
    """The word "his" of "his dog"."""
    for at in parsed.children[noun]:
        if parsed.words[at].tag in ("PRP$", "WP$"):
            return at
    return None


def _thing(parsed: Parsed, noun: Phrase) -> Thing:
    word = parsed.words[noun.head]
    lemma = word.lemma.lower()
    plural = is_plural(parsed, noun.head)
    return Thing(noun.first, noun.last, noun.head, lemma, plural, determined(parsed, noun.head))


def _names_thing(parsed: Parsed, noun: Phrase) -> bool:
    word = parsed.words[noun.head]
    lemma = word.lemma.lower()
    if word.tag not in ("NN", "NNS") or word.dep not in _PLACES:
        return False
    if lemma in NO_THINGS or lemma in DOINGS or lemma in PICTURES or not word.text.isalpha():
        return False
    if word.dep == "attr" and word.text.endswith("ing") and not _has_article(parsed, noun.head):
        # "A man is rock climbing" says what he does.
        return False
    # A parking lot and a couple on a bench are things, a lot of cars is not.
    is_thing = lemma in PEOPLE or noun.first < noun.head
    if lemma in GROUPINGS and (not is_thing or object_of_of(parsed, noun.head) is not None):
        return False
    return not _is_cut(parsed, noun)


def _has_article(parsed: Parsed, noun: int) -> bool:
    return any(parsed.words[at].dep in ("det", "poss") for at in parsed.children[noun])


def _is_cut(parsed: Parsed, noun: Phrase) -> bool:
    before = parsed.lower[noun.first - 1] if noun.first else ""
    after = parsed.lower[noun.last + 1] if noun.last + 1 < len(parsed.words) else ""
    return before == "-" or after in ("-", "'s", "'") or goes_on(parsed, noun.last)


def goes_on(parsed: Parsed, at: int) -> bool:
    """Whether another noun follows at once: the parser may have cut a name in two."""
    return at + 1 < len(parsed.words) and parsed.words[at + 1].tag in NOUN_TAGS


def determined(parsed: Parsed, noun: int) -> Determined:
    """What stands before the noun: the article, or what counts it."""
    for at in parsed.children[noun]:
        if at > noun:
            break
        word, text = parsed.words[at], parsed.lower[at]
        if text in _ONES:
            return Determined.A
        if text in ("some", "any", "more", "no", "all"):
            return Determined.SOME
        if word.dep == "nummod" or text in _QUANTITIES:
            return Determined.MANY
        if word.dep in ("det", "poss"):
            return Determined.THE
    return Determined.BARE


def is_joined(parsed: Parsed, noun: int) -> bool:
    """Whether "and" or "or" joins something to it."""
    return any(parsed.words[at].dep in ("conj", "cc") for at in parsed.children[noun])
