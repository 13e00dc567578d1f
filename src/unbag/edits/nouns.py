"""What a caption says of its things: which nouns name things, and how they relate.

The swaps ask it whether two nouns can change places without saying the same: "a dog next to a cat"
and "a cat next to a dog" are one image, "a dog on a sofa" and "a sofa on a dog" are two. Nouns
joined by "and" take part in each other's relations. No things are places in the image ("top",
"background"), times, names, owners ("the man's") and words of measure: in "a group of people" the
thing is people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from unbag.edits.lexicon import (
    ALIVE,
    COLOURS,
    DOINGS,
    GROUPINGS,
    IMAGES,
    MASS,
    MATERIALS,
    NO_THINGS,
    PEOPLE,
    is_near,
    word_lists,
)
from unbag.edits.parsed import NOUN_TAGS, NounRelation, Parsed, Phrase, relations_in, subject_of

_PAIRED = word_lists("nouns").words("paired")
_QUANTITIES = word_lists("nouns").words("quantities")
_RELATIONS = word_lists("relations")
_EVEN = _RELATIONS.words("even")
_EVEN_AFTER_VERB = _RELATIONS.words("even_after_verb")
_FILLING = _RELATIONS.words("filling")
_MUTUAL = _RELATIONS.words("mutual")
_MUTUAL_BETWEEN_ALIVE = _RELATIONS.words("mutual_between_alive")
_LOOSE_VERBS = _RELATIONS.words("done_by_things")
_PLACES = frozenset(("nsubj", "nsubjpass", "dobj", "pobj", "conj", "attr", "ROOT", "appos", "dep"))
_ONES = frozenset(("a", "an", "one", "another", "each", "every", "single"))
_PLURAL_TAGS = frozenset(("NNS", "NNPS"))
_RELATIVES_OF_PEOPLE = frozenset(("who", "whom", "whose"))


class Determined(Enum):
    """What stands before a noun."""

    BARE = "bare"
    A = "a"
    THE = "the"
    SOME = "some"
    MANY = "many"


class ThingNoun(NamedTuple):
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


class NounFact(NamedTuple):
    """Two nouns in a relation, by the first of those they are joined to."""

    subject: int
    link: str
    object: int
    verb: int | None
    is_direct: bool
    is_even: bool
    """Whether it says the same, or nothing false, the other way round."""


@dataclass(frozen=True)
class Facts:
    """What a caption says of its things."""

    parsed: Parsed
    things: tuple[ThingNoun, ...]
    facts: tuple[NounFact, ...]

    def differ(self, one: ThingNoun, other: ThingNoun, *, keep_attributes: bool) -> bool:
        """Whether the caption becomes false when the two change places.

        Args:
            one: A noun.
            other: Another.
            keep_attributes: Whether adjectives and numbers stay where they are.
        """
        if is_near(one.lemma, other.lemma):
            return False
        a, b = self.group_of(one.head), self.group_of(other.head)
        # Colours, materials and numbers stay where they are while the nouns move.
        if keep_attributes and self._marks(one.head) != self._marks(other.head):
            return True
        if a == b or self.belong_together(one.head, other.head):
            return False
        return self._relations_change(a, b) or self._acts_change(one, other)

    def group_of(self, noun: int) -> int:
        """The first of the nouns that are joined to it."""
        words = self.parsed.words
        while words[noun].dep in ("conj", "appos") and words[noun].head < noun:
            noun = words[noun].head
        return noun

    def _relations_change(self, a: int, b: int) -> bool:
        between = [f for f in self.facts if {f.subject, f.object} == {a, b}]
        if any(not f.is_even for f in between):
            return True
        for fact in self.facts:
            if fact.is_even or fact in between:
                continue
            if fact.object in (a, b):
                # The subject may stand in the same relation to the other noun too.
                same = fact.subject, fact.link, a if fact.object == b else b
                if all((f.subject, f.link, f.object) != same for f in self.facts):
                    return True
            if fact.subject in (a, b) and fact.is_direct:
                return True
        return False

    def _acts_change(self, one: ThingNoun, other: ThingNoun) -> bool:
        """Whether a thing would do what only the living do."""
        if one.is_alive == other.is_alive:
            return False
        alive = one if one.is_alive else other
        verbs = [at for at in self.parsed.verbs if doer(self.parsed, at) == alive.head]
        return any(self.parsed.words[at].lemma not in _LOOSE_VERBS for at in verbs)

    def _marks(self, noun: int) -> frozenset[str]:
        words, lower = self.parsed.words, self.parsed.lower
        return frozenset(
            lower[at]
            for at in self.parsed.children[noun]
            if at < noun
            and (words[at].dep == "nummod" or lower[at] in COLOURS or lower[at] in MATERIALS)
        )

    def belong_together(self, one: int, other: int) -> bool:
        """Whether "of" or an owner links them: a slice of cake, the man's hat."""
        low, high = min(one, other), max(one, other)
        words, lower = self.parsed.words, self.parsed.lower
        at = high
        while words[at].head != at and at > low:
            if words[at].dep not in ("pobj", "prep", "poss", "conj") or (
                words[at].dep == "prep" and lower[at] != "of"
            ):
                return False
            at = words[at].head
        return at == low


def facts_of(parsed: Parsed) -> Facts:
    """Everything the caption says of its things; found out once."""
    known = parsed.notes.get("facts")
    if isinstance(known, Facts):
        return known
    things = (_thing(parsed, noun) for noun in parsed.nouns if _names_thing(parsed, noun))
    facts = Facts(parsed, tuple(things), ())
    found: list[NounFact] = []
    for relation in relations_in(parsed):
        subject = facts.group_of(content_of(parsed, relation.subject.head))
        object_ = facts.group_of(content_of(parsed, relation.object.head))
        link = "_".join(parsed.lower[relation.link.first : relation.link.last + 1])
        is_even = _is_even(parsed, relation, link)
        found.append(NounFact(subject, link, object_, relation.verb, relation.is_direct, is_even))
    made = parsed.notes["facts"] = replace(facts, facts=tuple(found))
    return made


def _is_even(parsed: Parsed, relation: NounRelation, link: str) -> bool:
    verb = None if relation.verb is None else parsed.words[relation.verb]
    if verb is None:
        return link in _EVEN
    if verb.lemma in _MUTUAL:
        return True
    if verb.lemma in _MUTUAL_BETWEEN_ALIVE:
        heads = (content_of(parsed, one.head) for one in (relation.subject, relation.object))
        if all(parsed.words[at].lemma in ALIVE for at in heads):
            return True
    if relation.is_direct or parsed.words[relation.link.last].dep == "agent":
        return False
    return link in _EVEN_AFTER_VERB and not (verb.lemma in _FILLING and verb.tag == "VBN")


def _thing(parsed: Parsed, noun: Phrase) -> ThingNoun:
    first, last, head = noun
    plural = is_plural(parsed, head)
    return ThingNoun(first, last, head, parsed.lemma_at(head), plural, determined(parsed, head))


def _names_thing(parsed: Parsed, noun: Phrase) -> bool:
    word = parsed.words[noun.head]
    lemma = word.lemma.lower()
    if word.tag not in ("NN", "NNS") or word.dep not in _PLACES:
        return False
    if lemma in NO_THINGS or lemma in DOINGS or lemma in IMAGES or not word.text.isalpha():
        return False
    has_article = parsed.child(noun.head, "det", "poss") is not None
    if word.dep == "attr" and word.text.endswith("ing") and not has_article:
        # "A man is rock climbing" says what he does.
        return False
    # A parking lot and a couple on a bench are things, a lot of cars is not.
    is_thing = lemma in PEOPLE or noun.first < noun.head
    if lemma in GROUPINGS and (not is_thing or _object_of_of(parsed, noun.head) is not None):
        return False
    # The parser may have cut it out of a longer word or name.
    is_whole = parsed.lower_at(noun.last + 1) not in ("-", "'s", "'")
    return is_whole and parsed.lower_at(noun.first - 1) != "-" and not goes_on(parsed, noun.last)


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
        if parsed.words[noun].lemma not in GROUPINGS and parsed.words[noun].lemma not in IMAGES:
            return noun
        inner = _object_of_of(parsed, noun)
        if inner is None:
            return noun
        noun = inner
    return noun


def _object_of_of(parsed: Parsed, noun: int) -> int | None:
    """The noun after "of" that belongs to this noun."""
    for at in parsed.children[noun]:
        if parsed.lower[at] == "of" and at > noun:
            inner = parsed.child(at, "pobj")
            if inner is not None:
                return inner
    return None


def whole_phrase(parsed: Parsed, phrase: Phrase) -> Phrase | None:
    """The phrase with what "of" adds to it: "a bowl of soup"; None where that is unclear."""
    last, noun = phrase.last, phrase.head
    for _ in parsed.words:
        inner = _object_of_of(parsed, noun)
        if inner is None or parsed.lower_at(last + 1) != "of":
            return Phrase(phrase.first, last, phrase.head)
        chunk = next((c for c in parsed.chunks if c.head == inner), None)
        if chunk is None or chunk.first != last + 2 or is_joined(parsed, inner):
            return None
        last, noun = chunk.last, inner
    return None


def doer(parsed: Parsed, verb: int) -> int | None:
    """The noun that does what the verb says, groups looked through."""
    phrase = subject_of(parsed, verb)
    return None if phrase is None else content_of(parsed, phrase.head)


def fits(thing: ThingNoun, place: ThingNoun) -> bool:
    """Whether a noun goes well with what stands before another noun: no "a dogs", no "a water"."""
    if thing.is_plural != place.is_plural:
        return False
    if thing.is_plural:
        return place.determined is not Determined.A and not (
            place.determined is Determined.MANY and thing.lemma in _PAIRED
        )
    is_mass = thing.lemma in MASS
    if place.determined in (Determined.A, Determined.MANY):
        return not is_mass
    if place.determined is Determined.THE or thing.determined is place.determined:
        return True
    return is_mass


def is_bare_count(thing: ThingNoun) -> bool:
    """A single thing without an article, as captions begin: "Man on a horse"."""
    is_one = not thing.is_plural and thing.lemma not in MASS
    return is_one and thing.determined is Determined.BARE


def is_told_as_person(parsed: Parsed, thing: ThingNoun) -> bool:
    """Whether "who" says more of it."""
    return any(
        parsed.words[at].dep == "relcl"
        and any(parsed.lower[c] in _RELATIVES_OF_PEOPLE for c in parsed.children[at])
        for at in parsed.children[thing.head]
    )


def owner_pronoun(parsed: Parsed, noun: int) -> int | None:
    """The word "his" of "his dog"."""
    tags = ((at, parsed.words[at].tag) for at in parsed.children[noun])
    return next((at for at, tag in tags if tag in ("PRP$", "WP$")), None)


def is_joined(parsed: Parsed, noun: int) -> bool:
    """Whether "and" or "or" joins something to it."""
    return parsed.child(noun, "conj", "cc") is not None
