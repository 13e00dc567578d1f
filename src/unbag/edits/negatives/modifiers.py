"""Hard negatives that exchange adjectives, verbs or adverbs.

Adjectives move between different nouns only, and only where the caption becomes false: "a small
plate on a white table" may well be true where "a white plate on a small table" is, "a blue girl
near a small fence" is not where "a small girl near a blue fence" is. Verbs are of one form and one
frame: both with an object or both without, and those without take each other's prepositions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

from unbag.edits.filters import LEAVES_MARKED_WORDS
from unbag.edits.inflection import verb_lemma
from unbag.edits.kinds import Changes, Kind, by_rule
from unbag.edits.lexicon import (
    AGES,
    ALIVE,
    COLOURS,
    MATERIALS,
    NO_THINGS,
    NOT_ATTRIBUTES,
    PEOPLE,
    PICTURES,
    REPLACED_SIZES,
    REPLACED_STATES,
    is_fixed,
    is_near,
    word_lists,
)
from unbag.edits.negatives.swaps import exchanged
from unbag.edits.nouns import doer
from unbag.edits.parsed import NOUN_TAGS, Attribute, Parsed

# What swap_adjectives and swap_attributes look up.
_ATTRIBUTES = word_lists("attributes")
_SHADES = frozenset(("light", "dark", "bright", "pale", "deep", "neon", "solid", "navy", "hot"))
_PARTS = _ATTRIBUTES.words("parts")
_NEAR_ADJECTIVES = _ATTRIBUTES.pairs("near")
_WEAK = _ATTRIBUTES.words("weak") | frozenset(REPLACED_SIZES)
_TELLING = _ATTRIBUTES.words("telling")
_SKIN_COLOURS = _ATTRIBUTES.words("skin_colours")
_TOYS = frozenset(("stuffed", "toy", "plush", "teddy", "fake", "plastic"))
_JOINING = frozenset(("and", "or", ",", "/", "&"))
_INNER_TAGS = frozenset(("JJ", "JJR", "JJS", "VBN", "VBG", "RB", "CC", ",", "HYPH"))

# What swap_verbs and swap_adverbs look up.
_ACTIONS = word_lists("actions")
_ANYWHERE = _ACTIONS.words("anywhere")
_NEAR_VERBS = _ACTIONS.pairs("near")
_ADVERBS: Mapping[str, str] = MappingProxyType(
    {word: name for name, words in _ACTIONS.table("adverbs").items() for word in words}
)
_BEFORE_NOUNS = frozenset(("of", "by", "into", "for", "from", "with", "before"))
_DEPENDENT = frozenset(("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg"))


def swap_adjectives(parsed: Parsed) -> list[Changes]:
    """One adjective each of two nouns."""
    if len(parsed.attributes) < 2:
        return []
    movable = [one for one in parsed.attributes if _is_movable(parsed, one)]
    return [
        exchanged(parsed, (one.word, one.word), (other.word, other.word))
        for one, other in combinations(movable, 2)
        if _are_two_things(parsed, one.noun, other.noun)
        and not _has_attribute(parsed, one.noun, other.word)
        and not _has_attribute(parsed, other.noun, one.word)
        and _become_false(parsed, one, other)
    ]


SWAP_ADJECTIVES = Kind(
    name="swap_adjectives",
    keeps_meaning=False,
    about="an adjective each: a red cup on a wooden table -> a wooden cup on a red table",
    source="NegCLIP",
    editor=by_rule(swap_adjectives),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)


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


SWAP_ATTRIBUTES = Kind(
    name="swap_attributes",
    keeps_meaning=False,
    about="all adjectives: a small black dog and a white cat -> a white dog and a small black cat",
    source="CREPE, SugarCrepe",
    editor=by_rule(swap_attributes),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)


def swap_verbs(parsed: Parsed) -> list[Changes]:
    """Two verbs of the same form."""
    if len(parsed.verbs) < 2:
        return []
    return [
        exchanged(parsed, (one, one), (other, other))
        for one, other in combinations(parsed.verbs, 2)
        if parsed.words[one].tag == parsed.words[other].tag
        and not _are_near(parsed, one, other)
        and _fit(parsed, one, other)
    ]


SWAP_VERBS = Kind(
    name="swap_verbs",
    keeps_meaning=False,
    about="two verbs: a man holding a cup and reading a book -> reading a cup and holding a book",
    source="NegCLIP",
    editor=by_rule(swap_verbs),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)


def swap_adverbs(parsed: Parsed) -> list[Changes]:
    """Two adverbs of one kind that belong to different words."""
    found = [
        at for at, text in enumerate(parsed.lower) if text in _ADVERBS and _is_free(parsed, at)
    ]
    return [
        exchanged(parsed, (one, one), (other, other))
        for one, other in combinations(found, 2)
        if parsed.lower[one] != parsed.lower[other]
        and _ADVERBS[parsed.lower[one]] == _ADVERBS[parsed.lower[other]]
        and parsed.words[one].head != parsed.words[other].head
        and parsed.words[one].dep == parsed.words[other].dep
    ]


SWAP_ADVERBS = Kind(
    name="swap_adverbs",
    keeps_meaning=False,
    about="two adverbs: a cat outside while a dog sits inside -> a cat inside, a dog outside",
    source="NegCLIP",
    editor=by_rule(swap_adverbs),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
    # Too rare in captions to be judged: one in thousands.
    is_default=False,
)


def _is_movable(parsed: Parsed, one: Attribute) -> bool:
    text, after = parsed.lower[one.word], parsed.lower[one.word + 1]
    if text in NOT_ATTRIBUTES or text in _SHADES or not text.isalpha():
        return False
    if is_fixed(text, after) or parsed.words[one.noun].lemma in PICTURES | NO_THINGS:
        return False
    before = parsed.lower_at(one.word - 1)
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


def _has_attribute(parsed: Parsed, noun: int, attribute: int) -> bool:
    """Whether the noun's phrase has that word already, in a list too."""
    phrase = parsed.phrase_of(noun)
    first = noun if phrase is None else phrase.first
    return parsed.lower[attribute] in parsed.lower[first:noun]


def _become_false(parsed: Parsed, one: Attribute, other: Attribute) -> bool:
    """Whether at least one noun gets what it surely has not."""
    a, b = parsed.lower[one.word], parsed.lower[other.word]
    if (
        a == b
        or (a, b) in _NEAR_ADJECTIVES
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
    if _is_strong(a) == _is_strong(b) or not {a, b} & _WEAK:
        return False
    strong, giver, receiver = (a, one, other) if _is_strong(a) else (b, other, one)
    if strong in _TELLING or not _is_alive(parsed, receiver.noun):
        return False
    return not (_is_listed(parsed, giver) or _has_colour(parsed, receiver.noun))


def _is_alive(parsed: Parsed, noun: int) -> bool:
    is_toy = any(parsed.lower[at] in _TOYS for at in parsed.children[noun])
    return parsed.words[noun].lemma in ALIVE and not is_toy


def _is_strong(adjective: str) -> bool:
    return adjective in COLOURS or adjective in MATERIALS or adjective in _TELLING


def _is_one_class(a: str, b: str) -> bool:
    return any(a in some and b in some for some in (COLOURS, MATERIALS, _TELLING))


def _is_of_person(parsed: Parsed, adjective: str, noun: int) -> bool:
    return adjective in _SKIN_COLOURS and parsed.words[noun].lemma in PEOPLE


def _is_part(parsed: Parsed, one: int, other: int) -> bool:
    """Whether one may be a part of the other: a curly dog with white hair has curly hair."""
    return not _PARTS.isdisjoint((parsed.words[one].lemma, parsed.words[other].lemma))


def _is_listed(parsed: Parsed, one: Attribute) -> bool:
    """Whether it stands in a list: "red" in "red and white"."""
    around = parsed.lower[max(one.word - 1, 0)], parsed.lower[one.word + 1]
    return not _JOINING.isdisjoint(around)


def _has_colour(parsed: Parsed, noun: int) -> bool:
    return any(one.noun == noun and parsed.lower[one.word] in COLOURS for one in parsed.attributes)


class _List(NamedTuple):
    """All adjectives before one noun."""

    first: int
    last: int
    noun: int


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


def _is_free(parsed: Parsed, at: int) -> bool:
    """Whether it is an adverb and no part of "up and down" or "inside of"."""
    word = parsed.words[at]
    return word.dep in ("advmod", "prt") and at not in parsed.bound and not parsed.children[at]


def _are_near(parsed: Parsed, one: int, other: int) -> bool:
    a, b = verb_lemma(parsed, one), verb_lemma(parsed, other)
    return a == b or (a, b) in _NEAR_VERBS


def _fit(parsed: Parsed, one: int, other: int) -> bool:
    """Whether each can stand where the other stands, and says something else there."""
    if any(
        parsed.child(at, *_DEPENDENT) is not None or _is_noun_like(parsed, at)
        for at in (one, other)
    ):
        return False
    objects = [parsed.child(at, "dobj") for at in (one, other)]
    doers = [doer(parsed, one), doer(parsed, other)]
    if objects[0] is not None and objects[1] is not None:
        # "holding a cup and pointing it" is one cup.
        if doers[0] == doers[1] and any(parsed.words[at].tag == "PRP" for at in objects if at):
            return False
        return _lemma(parsed, objects[0]) != _lemma(parsed, objects[1]) or doers[0] != doers[1]
    if objects[0] is not None or objects[1] is not None or None in doers:
        return False
    if _lemma(parsed, doers[0]) == _lemma(parsed, doers[1]):
        return False
    return _take_same_places(parsed, one, other)


def _is_noun_like(parsed: Parsed, verb: int) -> bool:
    """Whether it stands before a noun or as one: "of smiling people", "by shaking"."""
    before = verb - 1
    if before < 0 or parsed.words[verb].tag not in ("VBG", "VBN"):
        return False
    return parsed.words[before].tag in ("DT", "JJ", "CD") or parsed.lower[before] in _BEFORE_NOUNS


def _take_same_places(parsed: Parsed, one: int, other: int) -> bool:
    """Whether both go with any preposition, or with the same one."""
    lemmas = verb_lemma(parsed, one), verb_lemma(parsed, other)
    if lemmas[0] in _ANYWHERE and lemmas[1] in _ANYWHERE:
        return _is_done_by_living(parsed, one) and _is_done_by_living(parsed, other)
    links = [parsed.child(at, "prep") for at in (one, other)]
    if links[0] is None or links[1] is None:
        return False
    return parsed.lower[links[0]] == parsed.lower[links[1]]


def _is_done_by_living(parsed: Parsed, verb: int) -> bool:
    subject = doer(parsed, verb)
    return subject is not None and parsed.words[subject].lemma in ALIVE


def _lemma(parsed: Parsed, at: int | None) -> str:
    return "" if at is None else parsed.words[at].lemma
