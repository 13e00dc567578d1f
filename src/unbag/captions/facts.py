"""A parsed caption comes in; whether two nouns can change places without saying the same goes out.

"A dog next to a cat" and "a cat next to a dog" are one picture, "a dog on a sofa" and "a sofa on a
dog" are two. Nouns joined by "and" take part in each other's relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from unbag.captions.attribute_lists import COLOURS, MATERIALS
from unbag.captions.parsed import Parsed
from unbag.captions.relations import Relation, relations_in, subject_of
from unbag.captions.things import Thing, content_of, things_in
from unbag.captions.word_lists import ALIVE, is_near, word_set

_EVEN = word_set(
    """
    across against along alongside amid among amongst and around as at_the_side_of on_the_side_of
    to_the_side_of beside besides between by for like near nearby next next_to of off opposite past
    than through together to toward towards with without about from
    """
)
"""Links between bare nouns that hold both ways, or whose other way could be true as well."""
_EVEN_AFTER_VERB = word_set(
    """
    across against along alongside amid among amongst as at_the_side_of on_the_side_of
    to_the_side_of beside besides between by for like near nearby next next_to opposite past than
    together with without about of
    """
)
_FILLING = word_set(
    """
    adorn cover crowd decorate dot dress equip fill garnish line litter load make pack paint pile
    serve sprinkle stack stock stuff surround top wrap
    """
)
"""With these, "with" and "by" go one way."""
_MUTUAL = word_set("attach bind chain connect hitch hook join link match resemble tie")
_MUTUAL_BETWEEN_ALIVE = word_set(
    """
    accompany approach chat compete converse dance embrace face fight follow greet have help hug
    interact kiss look meet pass play pose race see show smile speak stare talk touch visit watch
    wrestle
    """
)
_LOOSE_VERBS = word_set(
    """
    appear be display fall float fly go hang head lay lean leave lie line locate make mount move
    park pass place rest roll seat see set show sit slide stack stand stop surround travel
    """
)
"""Things do these as well as people and animals."""


class Fact(NamedTuple):
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
    things: tuple[Thing, ...]
    facts: tuple[Fact, ...]

    def differ(self, one: Thing, other: Thing, *, keep_attributes: bool) -> bool:
        """Whether the caption becomes false when the two change places.

        Args:
            one: A noun.
            other: Another.
            keep_attributes: Whether adjectives and numbers stay where they are.
        """
        if is_near(one.lemma, other.lemma):
            return False
        a, b = self.group_of(one.head), self.group_of(other.head)
        if keep_attributes and self._told_apart(one, other):
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
            if fact.object in (a, b) and not self._shared(fact, a if fact.object == b else b):
                return True
            if fact.subject in (a, b) and fact.is_direct:
                return True
        return False

    def _shared(self, fact: Fact, noun: int) -> bool:
        """Whether the subject stands in the same relation to the other noun too."""
        return any(
            f.subject == fact.subject and f.link == fact.link and f.object == noun
            for f in self.facts
        )

    def _acts_change(self, one: Thing, other: Thing) -> bool:
        """Whether a thing would do what only the living do."""
        if one.is_alive == other.is_alive:
            return False
        alive = one if one.is_alive else other
        verbs = [at for at in self.parsed.verbs if doer(self.parsed, at) == alive.head]
        return any(self.parsed.words[at].lemma not in _LOOSE_VERBS for at in verbs)

    def _told_apart(self, one: Thing, other: Thing) -> bool:
        """Whether colours, materials or numbers stay where they are while the nouns move."""
        return self._marks(one.head) != self._marks(other.head)

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
    if not isinstance(known, Facts):
        known = parsed.notes["facts"] = _found(parsed)
    return known


def _found(parsed: Parsed) -> Facts:
    facts = Facts(parsed, tuple(things_in(parsed)), ())
    found: list[Fact] = []
    for relation in relations_in(parsed):
        subject = facts.group_of(content_of(parsed, relation.subject.head))
        object_ = facts.group_of(content_of(parsed, relation.object.head))
        link = "_".join(parsed.lower[relation.link.first : relation.link.last + 1])
        is_even = _is_even(parsed, relation, link)
        found.append(Fact(subject, link, object_, relation.verb, relation.is_direct, is_even))
    return Facts(parsed, facts.things, tuple(found))


def doer(parsed: Parsed, verb: int) -> int | None:
    """The noun that does what the verb says, groups looked through."""
    phrase = subject_of(parsed, verb)
    return None if phrase is None else content_of(parsed, phrase.head)


def _is_even(parsed: Parsed, relation: Relation, link: str) -> bool:
    verb = None if relation.verb is None else parsed.words[relation.verb]
    if verb is None:
        return link in _EVEN
    if verb.lemma in _MUTUAL or (
        verb.lemma in _MUTUAL_BETWEEN_ALIVE and _both_alive(parsed, relation)
    ):
        return True
    if relation.is_direct:
        return False
    if parsed.words[relation.link.last].dep == "agent":
        return False
    return link in _EVEN_AFTER_VERB and not (verb.lemma in _FILLING and verb.tag == "VBN")


def _both_alive(parsed: Parsed, relation: Relation) -> bool:
    return all(
        parsed.words[content_of(parsed, one.head)].lemma in ALIVE
        for one in (relation.subject, relation.object)
    )
