"""A parsed caption comes in; the same caption with adjectives of two nouns exchanged goes out.

Of different nouns only, and only where the caption becomes false: "a small plate on a white table"
may well be true where "a white plate on a small table" is, "a blue girl near a small fence" is not
where "a small girl near a blue fence" is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from unbag.captions.attribute_lists import (
    AGES,
    COLOURS,
    MATERIALS,
    NOT_ATTRIBUTES,
    REPLACED_SIZES,
    REPLACED_STATES,
    SKIN_COLOURS,
    TELLING,
    WEAK,
    is_fixed,
)
from unbag.captions.filters import LEAVES_MARKED_WORDS
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import NOUN_TAGS, Attribute, Parsed
from unbag.captions.swaps import exchanged
from unbag.captions.word_lists import (
    ALIVE,
    NO_THINGS,
    PEOPLE,
    PICTURES,
    both_ways,
    is_near,
    word_set,
)

_SHADES = frozenset(("light", "dark", "bright", "pale", "deep", "neon", "solid", "navy", "hot"))
_PARTS = word_set(
    """
    arm beard body coat ear eye face feather feet foot fur hair hand head leg mane mane marking
    mustache paw skin spot tail wing
    """
)
_NEAR = both_ways(
    """
    tan: beige brown gold golden white sandy
    beige: brown white cream sandy
    brown: wooden sandy
    gray: grey silver white rocky
    white: snowy cream blond blonde cloudy
    green: grassy leafy wooded
    blue: navy teal turquoise
    red: maroon
    yellow: gold golden blond blonde
    snowy: icy
    striped: plaid checkered
    """
)
"""Adjectives that may be true of one thing."""
_TOYS = frozenset(("stuffed", "toy", "plush", "teddy", "fake", "plastic"))
_JOINING = frozenset(("and", "or", ",", "/", "&"))
_INNER_TAGS = frozenset(("JJ", "JJR", "JJS", "VBN", "VBG", "RB", "CC", ",", "HYPH"))


class _List(NamedTuple):
    """All adjectives before one noun."""

    first: int
    last: int
    noun: int


def swap_adjectives(parsed: Parsed) -> list[Changes]:
    """One adjective each of two nouns."""
    if len(parsed.attributes) < 2:
        return []
    movable = [one for one in parsed.attributes if _is_movable(parsed, one)]
    return [
        exchanged(parsed, (one.word, one.word), (other.word, other.word))
        for one, other in combinations(movable, 2)
        if _are_two_things(parsed, one.noun, other.noun)
        and not _has(parsed, one.noun, other.word)
        and not _has(parsed, other.noun, one.word)
        and _become_false(parsed, one, other)
    ]


def swap_attributes(parsed: Parsed) -> list[Changes]:
    """All adjectives of one noun and all of another."""
    if len(parsed.attributes) < 2:
        return []
    return [
        exchanged(parsed, one[:2], other[:2])
        for one, other in combinations(list(_lists(parsed)), 2)
        if _are_two_things(parsed, one.noun, other.noun)
        and any(
            _become_false(parsed, a, b)
            for a in _inside(parsed, one)
            for b in _inside(parsed, other)
            if parsed.lower[a.word] not in _texts(parsed, other)
            and parsed.lower[b.word] not in _texts(parsed, one)
        )
    ]


def _is_movable(parsed: Parsed, one: Attribute) -> bool:
    text, after = parsed.lower[one.word], parsed.lower[one.word + 1]
    if text in NOT_ATTRIBUTES or text in _SHADES or not text.isalpha():
        return False
    if is_fixed(text, after) or parsed.words[one.noun].lemma in PICTURES | NO_THINGS:
        return False
    before = parsed.lower[one.word - 1] if one.word else ""
    if "-" in (before, after) or before in _SHADES or _follows_noun(parsed, one.word):
        return False
    # "snow covered", "horse drawn": half of such a pair says nothing.
    modifiers = [parsed.words[at].dep for at in parsed.children[one.word]]
    return not any(dep in ("npadvmod", "compound", "prep", "amod") for dep in modifiers)


def _follows_noun(parsed: Parsed, at: int) -> bool:
    return at > 0 and parsed.words[at - 1].tag in NOUN_TAGS


def _are_two_things(parsed: Parsed, one: int, other: int) -> bool:
    if one == other:
        return False
    return not is_near(parsed.words[one].lemma.lower(), parsed.words[other].lemma.lower())


def _has(parsed: Parsed, noun: int, attribute: int) -> bool:
    """Whether the noun's phrase has that word already, in a list too."""
    phrase = parsed.phrase_of(noun)
    first = noun if phrase is None else phrase.first
    return parsed.lower[attribute] in parsed.lower[first:noun]


def _become_false(parsed: Parsed, one: Attribute, other: Attribute) -> bool:
    """Whether at least one noun gets what it surely has not."""
    a, b = parsed.lower[one.word], parsed.lower[other.word]
    if (
        a == b
        or (a, b) in _NEAR
        or is_fixed(a, parsed.lower[other.noun])
        or is_fixed(b, parsed.lower[one.noun])
    ):
        return False
    if _is_of_person(parsed, a, other.noun) or _is_of_person(parsed, b, one.noun):
        return False
    if _is_part(parsed, one.noun, other.noun):
        return a in COLOURS and b in COLOURS
    if _is_strong(a) and _is_strong(b):
        return _is_one_class(a, b) or not (_is_listed(parsed, one) or _is_listed(parsed, other))
    if any(b in of.get(a, ()) for of in (REPLACED_SIZES, AGES, REPLACED_STATES)):
        return True
    if _is_strong(a) == _is_strong(b) or not {a, b} & WEAK:
        return False
    strong, giver, receiver = (a, one, other) if _is_strong(a) else (b, other, one)
    if strong in TELLING or not _is_alive(parsed, receiver.noun):
        return False
    return not (_is_listed(parsed, giver) or _has_colour(parsed, receiver.noun))


def _is_alive(parsed: Parsed, noun: int) -> bool:
    is_toy = any(parsed.lower[at] in _TOYS for at in parsed.children[noun])
    return parsed.words[noun].lemma in ALIVE and not is_toy


def _is_strong(adjective: str) -> bool:
    return adjective in COLOURS or adjective in MATERIALS or adjective in TELLING


def _is_one_class(a: str, b: str) -> bool:
    return any(a in some and b in some for some in (COLOURS, MATERIALS, TELLING))


def _is_of_person(parsed: Parsed, adjective: str, noun: int) -> bool:
    return adjective in SKIN_COLOURS and parsed.words[noun].lemma in PEOPLE


def _is_part(parsed: Parsed, one: int, other: int) -> bool:
    """Whether one may be a part of the other: a curly dog with white hair has curly hair."""
    return not _PARTS.isdisjoint((parsed.words[one].lemma, parsed.words[other].lemma))


def _is_listed(parsed: Parsed, one: Attribute) -> bool:
    """Whether it stands in a list: "red" in "red and white"."""
    around = parsed.lower[max(one.word - 1, 0)], parsed.lower[one.word + 1]
    return not _JOINING.isdisjoint(around)


def _has_colour(parsed: Parsed, noun: int) -> bool:
    return any(one.noun == noun and parsed.lower[one.word] in COLOURS for one in parsed.attributes)


def _lists(parsed: Parsed) -> Iterator[_List]:
    for noun in dict.fromkeys(one.noun for one in parsed.attributes):
        words = [one.word for one in parsed.attributes if one.noun == noun]
        found = _List(min(words), _end(parsed, noun), noun)
        if found.first and parsed.lower[found.first - 1] in _JOINING | _SHADES:
            continue
        inner = range(found.first, found.last + 1)
        if all(parsed.words[at].tag in _INNER_TAGS for at in inner) and all(
            _is_movable_inside(parsed, Attribute(at, noun)) for at in words
        ):
            yield found


def _is_movable_inside(parsed: Parsed, one: Attribute) -> bool:
    text = parsed.lower[one.word]
    if text in NOT_ATTRIBUTES or parsed.words[one.noun].lemma in PICTURES | NO_THINGS:
        return False
    before = parsed.words[one.word - 1] if one.word else None
    if before is not None and (before.text == "-" or before.dep in ("npadvmod", "advmod")):
        return False
    if _follows_noun(parsed, one.word):
        return False
    return not is_fixed(text, parsed.lower[one.word + 1])


def _end(parsed: Parsed, noun: int) -> int:
    """The word before the noun and the nouns that specify it."""
    return next(found.first for found in parsed.nouns if found.head == noun) - 1


def _inside(parsed: Parsed, one: _List) -> list[Attribute]:
    return [a for a in parsed.attributes if a.noun == one.noun]


def _texts(parsed: Parsed, one: _List) -> Sequence[str]:
    return parsed.lower[one.first : one.last + 1]


SWAP_ADJECTIVES = Kind(
    name="swap_adjectives",
    keeps_meaning=False,
    about="an adjective each: a red cup on a wooden table -> a wooden cup on a red table",
    source="NegCLIP",
    editor=by_rule(swap_adjectives),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)
SWAP_ATTRIBUTES = Kind(
    name="swap_attributes",
    keeps_meaning=False,
    about="all adjectives: a small black dog and a white cat -> a white dog and a small black cat",
    source="CREPE, SugarCrepe",
    editor=by_rule(swap_attributes),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)
