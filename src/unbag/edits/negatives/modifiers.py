"""Hard negatives that exchange adjectives, verbs or adverbs.

Adjectives move between different nouns only, and only where the caption becomes false: "a small
plate on a white table" may well be true where "a white plate on a small table" is, "a blue girl
near a small fence" is not where "a small girl near a blue fence" is. Verbs are of one form and one
frame: both with an object or both without, and those without take each other's prepositions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from unbag.edits.inflection import verb_lemma
from unbag.edits.kinds import Changes
from unbag.edits.lexicon import (
    AGES,
    ALIVE,
    COLOURS,
    IMAGES,
    MATERIALS,
    NO_THINGS,
    NOT_ATTRIBUTES,
    PEOPLE,
    REPLACED_SIZES,
    REPLACED_STATES,
    is_fixed,
    is_near,
    word_lists,
)
from unbag.edits.negatives.swaps import exchanged, swap_kind
from unbag.edits.nouns import doer
from unbag.edits.parsed import NOUN_TAGS, Attribute, Parsed

# What swap_adjectives and swap_attributes look up.
_ATTRIBUTES = word_lists("attributes")
_SHADES = _ATTRIBUTES.words("shades_and_heat")
_PARTS = _ATTRIBUTES.words("parts")
_NEAR_ADJECTIVES = _ATTRIBUTES.pairs("near")
_WEAK = _ATTRIBUTES.words("weak") | frozenset(REPLACED_SIZES)
_TELLING = _ATTRIBUTES.words("telling")
_STRONG = (COLOURS, MATERIALS, _TELLING)
_SKIN_COLOURS = _ATTRIBUTES.words("skin_colours")
_TOYS = _ATTRIBUTES.words("toys")
_JOINING = frozenset(("and", "or", ",", "/", "&"))
_INNER_TAGS = frozenset(("JJ", "JJR", "JJS", "VBN", "VBG", "RB", "CC", ",", "HYPH"))

# What swap_verbs and swap_adverbs look up.
_ACTIONS = word_lists("actions")
_ANYWHERE = _ACTIONS.words("anywhere")
_NEAR_VERBS = _ACTIONS.pairs("near")
_ADVERBS = _ACTIONS.classes("adverbs")
_BEFORE_NOUNS = _ACTIONS.words("before_nouns")
_DEPENDENT = ("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg")


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


SWAP_ADJECTIVES = swap_kind(
    swap_adjectives,
    "an adjective each: a red cup on a wooden table -> a wooden cup on a red table",
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
            for a in parsed.attributes
            for b in parsed.attributes
            if (a.noun, b.noun) == (one.noun, other.noun)
            and parsed.lower[a.word] not in parsed.lower[other.first : other.last + 1]
            and parsed.lower[b.word] not in parsed.lower[one.first : one.last + 1]
        )
    ]


SWAP_ATTRIBUTES = swap_kind(
    swap_attributes,
    "all adjectives: a small black dog and a white cat -> a white dog and a small black cat",
    "CREPE, SugarCrepe",
)


def swap_verbs(parsed: Parsed) -> list[Changes]:
    """Two verbs of the same form that do not mean nearly the same."""
    if len(parsed.verbs) < 2:
        return []
    found = []
    for one, other in combinations(parsed.verbs, 2):
        lemmas = verb_lemma(parsed, one), verb_lemma(parsed, other)
        is_one_form = parsed.words[one].tag == parsed.words[other].tag
        is_near_other = lemmas[0] == lemmas[1] or lemmas in _NEAR_VERBS
        if is_one_form and not is_near_other and _fit(parsed, one, other):
            found.append(exchanged(parsed, (one, one), (other, other)))
    return found


SWAP_VERBS = swap_kind(
    swap_verbs,
    "two verbs: a man holding a cup and reading a book -> reading a cup and holding a book",
)


def swap_adverbs(parsed: Parsed) -> list[Changes]:
    """Two adverbs of one kind that belong to different words; no part of "up and down"."""
    found = [
        (at, text, word)
        for at, (text, word) in enumerate(zip(parsed.lower, parsed.words, strict=True))
        if text in _ADVERBS
        and word.dep in ("advmod", "prt")
        and at not in parsed.bound
        and not parsed.children[at]
    ]
    return [
        exchanged(parsed, (one, one), (other, other))
        for (one, text, word), (other, other_text, other_word) in combinations(found, 2)
        if text != other_text
        and _ADVERBS[text] == _ADVERBS[other_text]
        and word.head != other_word.head
        and word.dep == other_word.dep
    ]


SWAP_ADVERBS = swap_kind(
    swap_adverbs,
    "two adverbs: a cat outside while a dog sits inside -> a cat inside, a dog outside",
    # Too rare in captions to be judged: one in thousands.
    is_default=False,
)


def _is_movable(parsed: Parsed, one: Attribute) -> bool:
    text, after = parsed.lower[one.word], parsed.lower[one.word + 1]
    if text in NOT_ATTRIBUTES or text in _SHADES or not text.isalpha():
        return False
    if is_fixed(text, after) or parsed.words[one.noun].lemma in IMAGES | NO_THINGS:
        return False
    before = parsed.lower_at(one.word - 1)
    if "-" in (before, after) or before in _SHADES or _follows_noun(parsed, one.word):
        return False
    # "snow covered", "horse drawn": half of such a pair says nothing.
    return parsed.child(one.word, "npadvmod", "compound", "prep", "amod") is None


def _follows_noun(parsed: Parsed, at: int) -> bool:
    return at > 0 and parsed.words[at - 1].tag in NOUN_TAGS


def _are_two_things(parsed: Parsed, one: int, other: int) -> bool:
    return one != other and not is_near(parsed.lemma_at(one), parsed.lemma_at(other))


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
    lemmas = parsed.words[one.noun].lemma, parsed.words[other.noun].lemma
    if (a in _SKIN_COLOURS and lemmas[1] in PEOPLE) or (b in _SKIN_COLOURS and lemmas[0] in PEOPLE):
        return False
    if not _PARTS.isdisjoint(lemmas):
        # One may be a part of the other: a curly dog with white hair has curly hair.
        return a in COLOURS and b in COLOURS
    is_strong = any(a in some for some in _STRONG), any(b in some for some in _STRONG)
    if all(is_strong):
        is_one_class = any(a in some and b in some for some in _STRONG)
        return is_one_class or not (_is_listed(parsed, one) or _is_listed(parsed, other))
    if any(b in of.get(a, ()) for of in (REPLACED_SIZES, AGES, REPLACED_STATES)):
        return True
    if not any(is_strong) or not {a, b} & _WEAK:
        return False
    strong, giver, receiver = (a, one, other) if is_strong[0] else (b, other, one)
    noun = receiver.noun
    is_toy = any(parsed.lower[at] in _TOYS for at in parsed.children[noun])
    if strong in _TELLING or is_toy or parsed.words[noun].lemma not in ALIVE:
        return False
    return not _is_listed(parsed, giver) and not any(
        its.noun == noun and parsed.lower[its.word] in COLOURS for its in parsed.attributes
    )


def _is_listed(parsed: Parsed, one: Attribute) -> bool:
    """Whether it stands in a list: "red" in "red and white"."""
    around = parsed.lower[max(one.word - 1, 0)], parsed.lower[one.word + 1]
    return not _JOINING.isdisjoint(around)


class _List(NamedTuple):
    """All adjectives before one noun."""

    first: int
    last: int
    noun: int


def _lists(parsed: Parsed) -> Iterator[_List]:
    for noun in dict.fromkeys(one.noun for one in parsed.attributes):
        words = [one.word for one in parsed.attributes if one.noun == noun]
        # Up to the nouns that specify the noun.
        end = next(found.first for found in parsed.nouns if found.head == noun)
        found = _List(min(words), end - 1, noun)
        if found.first and parsed.lower[found.first - 1] in _JOINING | _SHADES:
            continue
        if all(word.tag in _INNER_TAGS for word in parsed.words[found.first : end]) and all(
            _is_movable_inside(parsed, at, noun) for at in words
        ):
            yield found


def _is_movable_inside(parsed: Parsed, at: int, noun: int) -> bool:
    text = parsed.lower[at]
    if text in NOT_ATTRIBUTES or parsed.words[noun].lemma in IMAGES | NO_THINGS:
        return False
    before = parsed.words[at - 1] if at else None
    if before is not None and (before.text == "-" or before.dep in ("npadvmod", "advmod")):
        return False
    return not _follows_noun(parsed, at) and not is_fixed(text, parsed.lower[at + 1])


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
    # Both must go with any preposition, or with the same one.
    if {verb_lemma(parsed, one), verb_lemma(parsed, other)} <= _ANYWHERE:
        return all(_lemma(parsed, at) in ALIVE for at in doers)
    links = [parsed.child(at, "prep") for at in (one, other)]
    if links[0] is None or links[1] is None:
        return False
    return parsed.lower[links[0]] == parsed.lower[links[1]]


def _is_noun_like(parsed: Parsed, verb: int) -> bool:
    """Whether it stands before a noun or as one: "of smiling people", "by shaking"."""
    before = verb - 1
    if before < 0 or parsed.words[verb].tag not in ("VBG", "VBN"):
        return False
    return parsed.words[before].tag in ("DT", "JJ", "CD") or parsed.lower[before] in _BEFORE_NOUNS


def _lemma(parsed: Parsed, at: int | None) -> str:
    return "" if at is None else parsed.words[at].lemma
