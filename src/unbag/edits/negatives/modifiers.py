"""Hard negatives that exchange adjectives, verbs or adverbs.

Adjectives are exchanged only between different nouns, and only where the caption becomes false:
"a white plate on a small table" does not exclude "a small plate on a white table", but "a small
girl near a blue fence" excludes "a blue girl near a small fence". Exchanged verbs have the same
form and frame: both with an object, or both without one and with compatible prepositions.
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

# Word lists of swap_adjectives and swap_attributes.
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

# Word lists of swap_verbs and swap_adverbs.
_ACTIONS = word_lists("actions")
_ANYWHERE = _ACTIONS.words("anywhere")
_NEAR_VERBS = _ACTIONS.pairs("near")
_ADVERBS = _ACTIONS.classes("adverbs")
_BEFORE_NOUNS = _ACTIONS.words("before_nouns")
_DEPENDENT = ("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg")


def swap_adjectives(parsed: Parsed) -> list[Changes]:
    """Exchange one adjective of each of two nouns."""
    if len(parsed.attributes) < 2:
        return []
    movable = [attribute for attribute in parsed.attributes if _is_movable(parsed, attribute)]
    return [
        exchanged(parsed, (one.word, one.word), (other.word, other.word))
        for one, other in combinations(movable, 2)
        if _are_two_things(parsed, one.noun, other.noun)
        and not _has_attribute(parsed, one.noun, other.word)
        and not _has_attribute(parsed, other.noun, one.word)
        and _becomes_false(parsed, one, other)
    ]


SWAP_ADJECTIVES = swap_kind(
    swap_adjectives,
    "two adjectives: a red cup on a wooden table -> a wooden cup on a red table",
)


def swap_attributes(parsed: Parsed) -> list[Changes]:
    """Exchange all adjectives of two nouns."""
    if len(parsed.attributes) < 2:
        return []
    return [
        exchanged(parsed, one[:2], other[:2])
        for one, other in combinations(list(_adjective_spans(parsed)), 2)
        if _are_two_things(parsed, one.noun, other.noun)
        and any(
            _becomes_false(parsed, a, b)
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
    """Exchange two verbs of the same form and of different meaning."""
    if len(parsed.verbs) < 2:
        return []
    edits = []
    for one, other in combinations(parsed.verbs, 2):
        lemmas = verb_lemma(parsed, one), verb_lemma(parsed, other)
        is_one_form = parsed.words[one].tag == parsed.words[other].tag
        is_near_other = lemmas[0] == lemmas[1] or lemmas in _NEAR_VERBS
        if is_one_form and not is_near_other and _are_exchangeable(parsed, one, other):
            edits.append(exchanged(parsed, (one, one), (other, other)))
    return edits


SWAP_VERBS = swap_kind(
    swap_verbs,
    "two verbs: a man holding a cup and reading a book -> reading a cup and holding a book",
)


def swap_adverbs(parsed: Parsed) -> list[Changes]:
    """Exchange two adverbs of one class that modify different words, except in "up and down"."""
    adverbs = [
        (i, text, word)
        for i, (text, word) in enumerate(zip(parsed.lower, parsed.words, strict=True))
        if text in _ADVERBS
        and word.dep in ("advmod", "prt")
        and i not in parsed.bound
        and not parsed.children[i]
    ]
    return [
        exchanged(parsed, (one, one), (other, other))
        for (one, text, word), (other, other_text, other_word) in combinations(adverbs, 2)
        if text != other_text
        and _ADVERBS[text] == _ADVERBS[other_text]
        and word.head != other_word.head
        and word.dep == other_word.dep
    ]


SWAP_ADVERBS = swap_kind(
    swap_adverbs,
    "two adverbs: a cat outside while a dog sits inside -> a cat inside, a dog outside",
    # Too rare in captions to be evaluated: one in thousands.
    is_default=False,
)


def _is_movable(parsed: Parsed, attribute: Attribute) -> bool:
    text, after = parsed.lower[attribute.word], parsed.lower[attribute.word + 1]
    if text in NOT_ATTRIBUTES or text in _SHADES or not text.isalpha():
        return False
    if is_fixed(text, after) or parsed.words[attribute.noun].lemma in IMAGES | NO_THINGS:
        return False
    before = parsed.lower_at(attribute.word - 1)
    if "-" in (before, after) or before in _SHADES or _follows_noun(parsed, attribute.word):
        return False
    # "snow covered", "horse drawn": half of such a pair makes no sense.
    return parsed.child(attribute.word, "npadvmod", "compound", "prep", "amod") is None


def _follows_noun(parsed: Parsed, i: int) -> bool:
    return i > 0 and parsed.words[i - 1].tag in NOUN_TAGS


def _are_two_things(parsed: Parsed, one: int, other: int) -> bool:
    return one != other and not is_near(parsed.lemma_at(one), parsed.lemma_at(other))


def _has_attribute(parsed: Parsed, noun: int, attribute: int) -> bool:
    """Whether the phrase of the noun already has the word."""
    phrase = parsed.phrase_of(noun)
    first = noun if phrase is None else phrase.first
    return parsed.lower[attribute] in parsed.lower[first:noun]


def _becomes_false(parsed: Parsed, one: Attribute, other: Attribute) -> bool:
    """Whether at least one noun gets an attribute that it certainly does not have."""
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
    is_strong = any(a in words for words in _STRONG), any(b in words for words in _STRONG)
    if all(is_strong):
        is_one_class = any(a in words and b in words for words in _STRONG)
        return is_one_class or not (_is_listed(parsed, one) or _is_listed(parsed, other))
    if any(b in table.get(a, ()) for table in (REPLACED_SIZES, AGES, REPLACED_STATES)):
        return True
    if not any(is_strong) or not {a, b} & _WEAK:
        return False
    strong, giver, receiver = (a, one, other) if is_strong[0] else (b, other, one)
    noun = receiver.noun
    is_toy = any(parsed.lower[i] in _TOYS for i in parsed.children[noun])
    if strong in _TELLING or is_toy or parsed.words[noun].lemma not in ALIVE:
        return False
    return not _is_listed(parsed, giver) and not any(
        own.noun == noun and parsed.lower[own.word] in COLOURS for own in parsed.attributes
    )


def _is_listed(parsed: Parsed, attribute: Attribute) -> bool:
    """Whether an adjective is in a list: "red" in "red and white"."""
    neighbours = parsed.lower[max(attribute.word - 1, 0)], parsed.lower[attribute.word + 1]
    return not _JOINING.isdisjoint(neighbours)


class _AdjectiveSpan(NamedTuple):
    """All adjectives before one noun."""

    first: int
    last: int
    noun: int


def _adjective_spans(parsed: Parsed) -> Iterator[_AdjectiveSpan]:
    for noun in dict.fromkeys(attribute.noun for attribute in parsed.attributes):
        words = [own.word for own in parsed.attributes if own.noun == noun]
        # Up to the compound modifiers of the noun.
        end = next(phrase.first for phrase in parsed.nouns if phrase.head == noun)
        span = _AdjectiveSpan(min(words), end - 1, noun)
        if span.first and parsed.lower[span.first - 1] in _JOINING | _SHADES:
            continue
        if all(word.tag in _INNER_TAGS for word in parsed.words[span.first : end]) and all(
            _is_movable_inside(parsed, i, noun) for i in words
        ):
            yield span


def _is_movable_inside(parsed: Parsed, i: int, noun: int) -> bool:
    text = parsed.lower[i]
    if text in NOT_ATTRIBUTES or parsed.words[noun].lemma in IMAGES | NO_THINGS:
        return False
    before = parsed.words[i - 1] if i else None
    if before is not None and (before.text == "-" or before.dep in ("npadvmod", "advmod")):
        return False
    return not _follows_noun(parsed, i) and not is_fixed(text, parsed.lower[i + 1])


def _are_exchangeable(parsed: Parsed, one: int, other: int) -> bool:
    """Whether each verb fits the position of the other and changes the meaning there."""
    if any(
        parsed.child(i, *_DEPENDENT) is not None or _is_noun_like(parsed, i) for i in (one, other)
    ):
        return False
    objects = [parsed.child(i, "dobj") for i in (one, other)]
    doers = [doer(parsed, one), doer(parsed, other)]
    if objects[0] is not None and objects[1] is not None:
        # "holding a cup and pointing it" is one cup.
        if doers[0] == doers[1] and any(parsed.words[i].tag == "PRP" for i in objects if i):
            return False
        return _lemma(parsed, objects[0]) != _lemma(parsed, objects[1]) or doers[0] != doers[1]
    if objects[0] is not None or objects[1] is not None or None in doers:
        return False
    if _lemma(parsed, doers[0]) == _lemma(parsed, doers[1]):
        return False
    # Both must take any preposition, or have the same one.
    if {verb_lemma(parsed, one), verb_lemma(parsed, other)} <= _ANYWHERE:
        return all(_lemma(parsed, i) in ALIVE for i in doers)
    links = [parsed.child(i, "prep") for i in (one, other)]
    if links[0] is None or links[1] is None:
        return False
    return parsed.lower[links[0]] == parsed.lower[links[1]]


def _is_noun_like(parsed: Parsed, verb: int) -> bool:
    """Whether a verb modifies a noun or is used as one: "of smiling people", "by shaking"."""
    before = verb - 1
    if before < 0 or parsed.words[verb].tag not in ("VBG", "VBN"):
        return False
    return parsed.words[before].tag in ("DT", "JJ", "CD") or parsed.lower[before] in _BEFORE_NOUNS


def _lemma(parsed: Parsed, i: int | None) -> str:
    return "" if i is None else parsed.words[i].lemma
