"""The things in a caption: which nouns denote things, and how the things relate.

Swaps use it to decide whether exchanging two nouns changes the meaning: "a dog next to a cat" and
"a cat next to a dog" mean the same, "a dog on a sofa" and "a sofa on a dog" do not. Nouns joined by
"and" share their relations. Places in the image ("top", "background"), times, names, owners ("the
man's") and measure words are not things: in "a group of people" the thing is people.
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
_SYMMETRIC = _RELATIONS.words("even")
_SYMMETRIC_AFTER_VERB = _RELATIONS.words("even_after_verb")
_FILLING = _RELATIONS.words("filling")
_MUTUAL = _RELATIONS.words("mutual")
_MUTUAL_BETWEEN_ALIVE = _RELATIONS.words("mutual_between_alive")
_INANIMATE_VERBS = _RELATIONS.words("done_by_things")
_PLACES = frozenset(("nsubj", "nsubjpass", "dobj", "pobj", "conj", "attr", "ROOT", "appos", "dep"))
_ONES = frozenset(("a", "an", "one", "another", "each", "every", "single"))
_PLURAL_TAGS = frozenset(("NNS", "NNPS"))
_RELATIVES_OF_PEOPLE = frozenset(("who", "whom", "whose"))


class Determined(Enum):
    """The determiner of a noun."""

    BARE = "bare"
    A = "a"
    THE = "the"
    SOME = "some"
    MANY = "many"


class ThingNoun(NamedTuple):
    """A noun that denotes a thing."""

    first: int
    """Start of the noun, including its compound modifiers."""
    last: int
    head: int
    lemma: str
    is_plural: bool
    determined: Determined

    @property
    def is_person(self) -> bool:
        """Whether it denotes a person."""
        return self.lemma in PEOPLE

    @property
    def is_alive(self) -> bool:
        """Whether it denotes a person or an animal."""
        return self.lemma in ALIVE


class NounFact(NamedTuple):
    """A relation of two nouns; each stands for the nouns joined to it."""

    subject: int
    link: str
    object: int
    verb: int | None
    is_direct: bool
    is_symmetric: bool
    """Whether it is symmetric: it holds, or may hold, with subject and object exchanged."""


@dataclass(frozen=True)
class Facts:
    """The things of a caption and their relations."""

    parsed: Parsed
    things: tuple[ThingNoun, ...]
    facts: tuple[NounFact, ...]

    def differ(self, one: ThingNoun, other: ThingNoun, *, keep_attributes: bool) -> bool:
        """Whether the caption becomes false when two nouns are exchanged.

        Args:
            one: A noun.
            other: Another.
            keep_attributes: Whether adjectives and numbers keep their positions.
        """
        if is_near(one.lemma, other.lemma):
            return False
        a, b = self.group_of(one.head), self.group_of(other.head)
        # Colours, materials and numbers keep their positions while the nouns move.
        if keep_attributes and self._fixed_attributes(one.head) != self._fixed_attributes(
            other.head
        ):
            return True
        if a == b or self.belong_together(one.head, other.head):
            return False
        return self._relations_change(a, b) or self._subjects_change(one, other)

    def group_of(self, noun: int) -> int:
        """The first of the nouns joined with a noun."""
        words = self.parsed.words
        while words[noun].dep in ("conj", "appos") and words[noun].head < noun:
            noun = words[noun].head
        return noun

    def _relations_change(self, a: int, b: int) -> bool:
        between = [f for f in self.facts if {f.subject, f.object} == {a, b}]
        if any(not f.is_symmetric for f in between):
            return True
        for fact in self.facts:
            if fact.is_symmetric or fact in between:
                continue
            if fact.object in (a, b):
                # The subject may have the same relation to the other noun.
                same = fact.subject, fact.link, a if fact.object == b else b
                if all((f.subject, f.link, f.object) != same for f in self.facts):
                    return True
            if fact.subject in (a, b) and fact.is_direct:
                return True
        return False

    def _subjects_change(self, one: ThingNoun, other: ThingNoun) -> bool:
        """Whether an inanimate thing would become the subject of an animate verb."""
        if one.is_alive == other.is_alive:
            return False
        alive = one if one.is_alive else other
        verbs = [i for i in self.parsed.verbs if doer(self.parsed, i) == alive.head]
        return any(self.parsed.words[i].lemma not in _INANIMATE_VERBS for i in verbs)

    def _fixed_attributes(self, noun: int) -> frozenset[str]:
        words, lower = self.parsed.words, self.parsed.lower
        return frozenset(
            lower[i]
            for i in self.parsed.children[noun]
            if i < noun
            and (words[i].dep == "nummod" or lower[i] in COLOURS or lower[i] in MATERIALS)
        )

    def belong_together(self, one: int, other: int) -> bool:
        """Whether "of" or a possessive links them: a slice of cake, the man's hat."""
        low, high = min(one, other), max(one, other)
        words, lower = self.parsed.words, self.parsed.lower
        i = high
        while words[i].head != i and i > low:
            if words[i].dep not in ("pobj", "prep", "poss", "conj") or (
                words[i].dep == "prep" and lower[i] != "of"
            ):
                return False
            i = words[i].head
        return i == low


def facts_of(parsed: Parsed) -> Facts:
    """The facts of a caption; computed once per caption."""
    cached = parsed.notes.get("facts")
    if isinstance(cached, Facts):
        return cached
    things = (_thing(parsed, noun) for noun in parsed.nouns if _names_thing(parsed, noun))
    facts = Facts(parsed, tuple(things), ())
    relations: list[NounFact] = []
    for relation in relations_in(parsed):
        subject = facts.group_of(content_of(parsed, relation.subject.head))
        object_ = facts.group_of(content_of(parsed, relation.object.head))
        link = "_".join(parsed.lower[relation.link.first : relation.link.last + 1])
        is_symmetric = _is_symmetric(parsed, relation, link)
        relations.append(
            NounFact(subject, link, object_, relation.verb, relation.is_direct, is_symmetric)
        )
    facts = replace(facts, facts=tuple(relations))
    parsed.notes["facts"] = facts
    return facts


def _is_symmetric(parsed: Parsed, relation: NounRelation, link: str) -> bool:
    verb = None if relation.verb is None else parsed.words[relation.verb]
    if verb is None:
        return link in _SYMMETRIC
    if verb.lemma in _MUTUAL:
        return True
    if verb.lemma in _MUTUAL_BETWEEN_ALIVE:
        heads = (content_of(parsed, phrase.head) for phrase in (relation.subject, relation.object))
        if all(parsed.words[i].lemma in ALIVE for i in heads):
            return True
    if relation.is_direct or parsed.words[relation.link.last].dep == "agent":
        return False
    return link in _SYMMETRIC_AFTER_VERB and not (verb.lemma in _FILLING and verb.tag == "VBN")


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
        # "A man is rock climbing" describes an action.
        return False
    # A parking lot and a couple on a bench are things, a lot of cars is not.
    is_thing = lemma in PEOPLE or noun.first < noun.head
    if lemma in GROUPINGS and (not is_thing or _noun_after_of(parsed, noun.head) is not None):
        return False
    # It may be part of a longer word or name.
    is_whole = parsed.lower_at(noun.last + 1) not in ("-", "'s", "'")
    return is_whole and parsed.lower_at(noun.first - 1) != "-" and not goes_on(parsed, noun.last)


def goes_on(parsed: Parsed, i: int) -> bool:
    """Whether another noun follows: the parser may have split a name."""
    return i + 1 < len(parsed.words) and parsed.words[i + 1].tag in NOUN_TAGS


def determined(parsed: Parsed, noun: int) -> Determined:
    """The determiner of a noun: its article, number or quantity."""
    for i in parsed.children[noun]:
        if i > noun:
            break
        word, text = parsed.words[i], parsed.lower[i]
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
    """Whether a noun is plural by its form or a number before it ("two sheep")."""
    if parsed.words[noun].tag in _PLURAL_TAGS:
        return True
    return any(
        parsed.words[i].dep == "nummod" and parsed.lower[i] not in ("one", "1")
        for i in parsed.children[noun]
    )


def content_of(parsed: Parsed, noun: int) -> int:
    """The noun behind a measure word: people in "a group of people"; else the noun itself."""
    for _ in parsed.words:
        if parsed.words[noun].lemma not in GROUPINGS and parsed.words[noun].lemma not in IMAGES:
            return noun
        inner = _noun_after_of(parsed, noun)
        if inner is None:
            return noun
        noun = inner
    return noun


def _noun_after_of(parsed: Parsed, noun: int) -> int | None:
    """The noun after an "of" that depends on this noun."""
    for i in parsed.children[noun]:
        if parsed.lower[i] == "of" and i > noun:
            inner = parsed.child(i, "pobj")
            if inner is not None:
                return inner
    return None


def whole_phrase(parsed: Parsed, phrase: Phrase) -> Phrase | None:
    """The phrase including "of" phrases: "a bowl of soup"; None if its end is unclear."""
    last, noun = phrase.last, phrase.head
    for _ in parsed.words:
        inner = _noun_after_of(parsed, noun)
        if inner is None or parsed.lower_at(last + 1) != "of":
            return Phrase(phrase.first, last, phrase.head)
        chunk = next((c for c in parsed.chunks if c.head == inner), None)
        if chunk is None or chunk.first != last + 2 or is_joined(parsed, inner):
            return None
        last, noun = chunk.last, inner
    return None


def doer(parsed: Parsed, verb: int) -> int | None:
    """The subject noun of a verb; the noun behind measure words."""
    phrase = subject_of(parsed, verb)
    return None if phrase is None else content_of(parsed, phrase.head)


def fits(thing: ThingNoun, other: ThingNoun) -> bool:
    """Whether a noun fits the determiner of another noun: no "a dogs", no "a water"."""
    if thing.is_plural != other.is_plural:
        return False
    if thing.is_plural:
        return other.determined is not Determined.A and not (
            other.determined is Determined.MANY and thing.lemma in _PAIRED
        )
    is_mass = thing.lemma in MASS
    if other.determined in (Determined.A, Determined.MANY):
        return not is_mass
    if other.determined is Determined.THE or thing.determined is other.determined:
        return True
    return is_mass


def is_bare_count(thing: ThingNoun) -> bool:
    """Whether it is a singular count noun without an article: "Man on a horse"."""
    is_one = not thing.is_plural and thing.lemma not in MASS
    return is_one and thing.determined is Determined.BARE


def has_who_clause(parsed: Parsed, thing: ThingNoun) -> bool:
    """Whether a relative clause with "who" describes it."""
    return any(
        parsed.words[i].dep == "relcl"
        and any(parsed.lower[c] in _RELATIVES_OF_PEOPLE for c in parsed.children[i])
        for i in parsed.children[thing.head]
    )


def owner_pronoun(parsed: Parsed, noun: int) -> int | None:
    """The possessive pronoun of a noun: "his" in "his dog"."""
    tags = ((i, parsed.words[i].tag) for i in parsed.children[noun])
    return next((i for i, tag in tags if tag in ("PRP$", "WP$")), None)


def is_joined(parsed: Parsed, noun: int) -> bool:
    """Whether a noun is joined to another by "and" or "or"."""
    return parsed.child(noun, "conj", "cc") is not None
