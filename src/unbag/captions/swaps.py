"""A parsed caption comes in; the same words with two of a kind exchanged go out (NegCLIP, CREPE).

Only exchanges that make the caption false: not "a dog next to a cat", not two nouns joined by
"and", and never "a dogs".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from unbag.captions.agreement import agreeing
from unbag.captions.attribute_lists import is_fixed
from unbag.captions.facts import Facts, facts_of
from unbag.captions.filters import LEAVES_MARKED_WORDS
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import NOUN_TAGS, Parsed, Phrase
from unbag.captions.things import (
    Thing,
    content_of,
    fits,
    goes_on,
    is_bare_count,
    is_joined,
    is_plural,
    is_told_as_person,
    owner_pronoun,
    whole_phrase,
)

_TOLD = frozenset(("nsubj", "nsubjpass", "dobj", "attr", "ROOT"))
_PRONOUNS = frozenset(("PRP", "PRP$"))
_TOGETHER = frozenset(("each", "together", "both", "side-by-side", "another"))


def exchanged(parsed: Parsed, one: Sequence[int], other: Sequence[int]) -> Changes:
    """The words from one[0] to one[1] and those from other[0] to other[1] change places."""
    return (
        parsed.change(one[0], one[1], parsed.text_of(other[0], other[1])),
        parsed.change(other[0], other[1], parsed.text_of(one[0], one[1])),
    )


def swap_nouns(parsed: Parsed) -> list[Changes]:
    """Two nouns, with the nouns that specify them; articles and adjectives stay."""
    if len(parsed.nouns) < 2:
        return []
    facts = facts_of(parsed)
    things = [thing for thing in facts.things if not ends_name(parsed, thing.first)]
    return [
        exchanged(parsed, one[:2], other[:2])
        for one, other in combinations(things, 2)
        if fits(one, other)
        and fits(other, one)
        and goes(parsed, one, other)
        and facts.differ(one, other, keep_attributes=True)
    ]


def ends_name(parsed: Parsed, noun: int) -> bool:
    """Whether the word before it makes a name with it, as in "hot dog": it cannot move alone."""
    return noun > 0 and is_fixed(parsed.lower[noun - 1], parsed.lower[noun])


def swap_phrases(parsed: Parsed) -> list[Changes]:
    """Two noun phrases, with article, number and adjectives; verbs agree."""
    if len(parsed.phrases) < 2:
        return []
    facts = facts_of(parsed)
    return [
        exchanged_phrases(parsed, one, other)
        for (one, a), (other, b) in combinations(_whole_phrases(facts), 2)
        if _keeps_grammar(parsed, one, other)
        and _is_told(parsed, one, other)
        and _stands_alone(parsed, a, b)
        and goes(parsed, a, b)
        and facts.differ(a, b, keep_attributes=False)
    ]


def swap_arguments(parsed: Parsed) -> list[Changes]:
    """Who does it and to whom: subject and object of one relation."""
    if len(parsed.phrases) < 2:
        return []
    facts = facts_of(parsed)
    linked = {
        frozenset((fact.subject, fact.object))
        for fact in facts.facts
        if not fact.is_even and fact.link != "of"
    }
    return [
        exchanged_phrases(parsed, one, other)
        for (one, a), (other, b) in combinations(_whole_phrases(facts), 2)
        if frozenset((a.head, b.head)) in linked
        and _keeps_grammar(parsed, one, other)
        and _stands_alone(parsed, a, b)
        and goes(parsed, a, b)
        and facts.differ(a, b, keep_attributes=False)
    ]


def exchanged_phrases(parsed: Parsed, one: Phrase, other: Phrase) -> Changes:
    """Two phrases change places, and verbs agree with what stands before them now."""
    pieces = list(exchanged(parsed, one[:2], other[:2]))
    numbers = _counts_many(parsed, one), _counts_many(parsed, other)
    if numbers[0] != numbers[1]:
        pieces += agreeing(parsed, one.head, is_plural=numbers[1])
        pieces += agreeing(parsed, other.head, is_plural=numbers[0])
    return tuple(dict.fromkeys(pieces))


def _counts_many(parsed: Parsed, phrase: Phrase) -> bool:
    """Whether a verb after it is plural: "a couple of dogs are"."""
    return is_plural(parsed, content_of(parsed, phrase.head))


def _whole_phrases(facts: Facts) -> Iterator[tuple[Phrase, Thing]]:
    """Phrases with what "of" adds, and the thing each is about."""
    parsed = facts.parsed
    things = {thing.head: thing for thing in facts.things}
    for phrase in parsed.phrases:
        thing = things.get(content_of(parsed, phrase.head))
        if thing is None or owner_pronoun(parsed, phrase.head) is not None:
            continue
        before = phrase.first - 1
        if before >= 0 and parsed.lower[before] == "of" and before not in parsed.bound:
            continue
        whole = whole_phrase(parsed, phrase)
        if whole is not None and not _is_cut(parsed, whole):
            yield whole, thing


def _keeps_grammar(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether nothing but verbs must follow the number, and no new compound comes about.

    "Bike riding person" says what "person riding bike" says.
    """
    if one.last >= other.first:
        return False
    is_pair = not _TOGETHER.isdisjoint(parsed.lower)
    if is_pair and _counts_many(parsed, one) != _counts_many(parsed, other):
        return False
    is_bare = one.first == one.last and parsed.words[other.first].tag in NOUN_TAGS
    between = parsed.words[one.last + 1]
    return not (is_bare and between.tag in ("VBG", "VBN") and other.first == one.last + 2)


def _is_told(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether something is said of one of them.

    Between two circumstances of a third thing the exchange often leaves the picture as it is: "he
    walks along tracks in a forest".
    """
    return any(parsed.words[phrase.head].dep in _TOLD for phrase in (one, other))


def _stands_alone(parsed: Parsed, one: Thing, other: Thing) -> bool:
    """Whether each can stand where the other does: no "sits in man", no pronoun of one of them."""
    if any(word.tag in _PRONOUNS for word in parsed.words):
        return False
    bare = [is_bare_count(thing) for thing in (one, other)]
    joined = [
        is_joined(parsed, thing.head) or parsed.words[thing.head].dep == "conj"
        for thing in (one, other)
    ]
    return not any(joined) and bare[0] == bare[1]


def _is_cut(parsed: Parsed, phrase: Phrase) -> bool:
    """Whether the parser ended it inside a word with hyphens, or before "'s" or "of"."""
    after = parsed.lower[phrase.last + 1] if phrase.last + 1 < len(parsed.words) else ""
    before = parsed.lower[phrase.first - 1] if phrase.first else ""
    return after in ("-", "'s", "'", "of") or before == "-" or goes_on(parsed, phrase.last)


def goes(parsed: Parsed, one: Thing, other: Thing) -> bool:
    """Whether nothing else in the caption points at one of them: no "a sofa who", no "his man"."""
    if one.lemma == other.lemma:
        return False
    told = is_told_as_person(parsed, one) or is_told_as_person(parsed, other)
    if told and not (one.is_person and other.is_person):
        return False
    owned = [thing for thing in (one, other) if owner_pronoun(parsed, thing.head) is not None]
    return not owned or not (one.is_alive or other.is_alive)


SWAP_NOUNS = Kind(
    name="swap_nouns",
    keeps_meaning=False,
    about="two nouns change places: a dog on a sofa -> a sofa on a dog",
    source="NegCLIP",
    editor=by_rule(swap_nouns),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)
SWAP_PHRASES = Kind(
    name="swap_phrases",
    keeps_meaning=False,
    about="two noun phrases: a man rides two horses -> two horses ride a man",
    source="NegCLIP",
    editor=by_rule(swap_phrases),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)
SWAP_ARGUMENTS = Kind(
    name="swap_arguments",
    keeps_meaning=False,
    about="subject and object of a relation: the horse eats grass -> grass eats the horse",
    source="CREPE, SugarCrepe",
    editor=by_rule(swap_arguments),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)
