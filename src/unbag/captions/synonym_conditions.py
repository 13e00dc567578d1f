"""Where a synonym could stand and a condition come in; whether it holds goes out.

The conditions of the table, with the words that may follow their names:

    c / m                nouns: another noun may stand before it / it may stand before another noun
    det, bare            the noun has an article or owner / no adjective
    end, early           the last word / among the first seven
    followed, preceded   by one of these words; notfollowed, notpreceded: by none of them
    then, notthen        the next noun phrase has (has not) this noun, or starts with this word
    with, without        one (none) of these words stands in the caption
    object               the noun is the object of one of these verbs
    obj, noobj, notobj   the verb has an object (one of these), none, or none of these
    by                   the verb has a subject (one of these)
    of, notof            the noun that the adjective or preposition belongs to is (not) one of these
    on, noton            the verb that it hangs on is (not) one of these
    prep, adv, clause    used as a preposition, as an adverb, before a clause with a
                         subject that belongs to a verb
    acl, predicate       right after its noun / not before a noun
    attributive          before a noun
    plain                a present verb of a plural subject
    worn                 "in" between a person and clothes
    nns                  the next noun phrase is plural
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from unbag.captions.parsed import NOUN_TAGS, VERB_TAGS, Parsed, Phrase
from unbag.captions.relations import subject_of
from unbag.captions.synonym_verbs import GROUPS

_EARLY = 7
_PLURALS = frozenset(("NNS", "NNPS"))


class Place(NamedTuple):
    """Words of a caption that could be replaced."""

    parsed: Parsed
    first: int
    last: int

    def after(self, step: int = 1) -> str:
        """A word after them in lower case; empty at the end."""
        at = self.last + step
        return self.parsed.lower[at] if at < len(self.parsed.words) else ""

    def before(self) -> str:
        """The word before them in lower case; empty at the start."""
        return self.parsed.lower[self.first - 1] if self.first else ""

    def is_one(self, at: int, words: frozenset[str]) -> bool:
        """Whether a word of the caption is one of these, as it stands or as lemma."""
        return self.parsed.lower[at] in words or self.parsed.words[at].lemma.lower() in words

    def child(self, at: int, *deps: str) -> int | None:
        """The first word that depends on another in this way."""
        found = (c for c in self.parsed.children[at] if self.parsed.words[c].dep in deps)
        return next(found, None)


Check: TypeAlias = Callable[[Place, frozenset[str]], bool]


def next_phrase(place: Place) -> Phrase | None:
    """The noun phrase that goes on after the words, "of" aside."""
    start = place.last + 1 + (place.after() == "of")
    found = (chunk for chunk in place.parsed.chunks if chunk.head >= start)
    chunk = next(found, None)
    return chunk if chunk is not None and chunk.first <= start else None


def _then(place: Place, words: frozenset[str]) -> bool:
    phrase = next_phrase(place)
    if phrase is None:
        return False
    start = place.last + 1 + (place.after() == "of")
    return place.is_one(phrase.head, words) or place.parsed.lower[start] in words


def _noun(place: Place) -> int | None:
    """The noun that an adjective or a preposition belongs to."""
    word = place.parsed.words[place.last]
    if word.dep == "prep" or place.child(place.last, "pobj") is not None:
        return place.child(place.last, "pobj")
    head = place.parsed.words[place.first].head
    return head if place.parsed.words[head].tag in NOUN_TAGS else None


def _of(place: Place, words: frozenset[str]) -> bool:
    noun = _noun(place)
    return noun is not None and place.is_one(noun, words)


def _object(place: Place) -> int | None:
    return place.child(place.first, "dobj")


def _obj(place: Place, words: frozenset[str]) -> bool:
    found = _object(place)
    return found is not None and (not words or place.is_one(found, words))


def _by(place: Place, words: frozenset[str]) -> bool:
    subject = subject_of(place.parsed, place.first)
    return subject is not None and (not words or place.is_one(subject.head, words))


def _is_object(place: Place, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.last]
    return word.dep == "dobj" and place.is_one(word.head, words)


def _on(place: Place, words: frozenset[str]) -> bool:
    return place.is_one(place.parsed.words[place.first].head, words)


def _det(place: Place, words: frozenset[str]) -> bool:
    noun = place.last
    if place.parsed.words[noun].tag not in NOUN_TAGS:
        noun = place.parsed.words[noun].head
    return place.child(noun, "det", "poss") is not None


def _number(place: Place) -> str:
    """Tag of the noun: of itself, or of the one that the adjective belongs to."""
    at = place.last
    if place.parsed.words[at].tag not in NOUN_TAGS:
        at = place.parsed.words[at].head
    return place.parsed.words[at].tag


def _prep(place: Place, words: frozenset[str]) -> bool:
    found = place.child(place.last, "pobj")
    return found is not None and found > place.last


def _adv(place: Place, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    after = place.last + 1
    is_before_noun = after < len(place.parsed.words) and (
        place.parsed.words[after].tag in NOUN_TAGS or place.parsed.words[after].pos == "ADP"
    )
    return word.dep == "advmod" and not place.parsed.children[place.first] and not is_before_noun


def _clause(place: Place, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    verb = place.parsed.words[word.head]
    is_told = verb.dep == "advcl" and place.parsed.words[verb.head].tag in VERB_TAGS
    return word.dep == "mark" and is_told and place.child(word.head, "nsubj") is not None


def _acl(place: Place, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    return word.dep == "acl" and word.head == place.first - 1


def _predicate(place: Place, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    is_bound = word.dep in ("amod", "compound", "pcomp", "nsubj", "conj")
    return word.tag in ("VBG", "VBN") and not is_bound and _object(place) is None


def _worn(place: Place, words: frozenset[str]) -> bool:
    word, garment = place.parsed.words[place.first], place.child(place.first, "pobj")
    if garment is None or word.head != place.first - 1:
        return False
    is_worn = place.is_one(garment, GROUPS["@clothes"])
    return is_worn and place.is_one(word.head, GROUPS["@people"])


def _nns(place: Place, words: frozenset[str]) -> bool:
    phrase = next_phrase(place)
    return phrase is not None and place.parsed.words[phrase.head].tag in _PLURALS


def _attributive(place: Place, words: frozenset[str]) -> bool:
    return place.parsed.words[place.last].dep == "amod"


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        # Read by the rule itself, or when forms are made.
        "c": lambda place, words: True,
        "m": lambda place, words: True,
        "active": lambda place, words: True,
        "passive": lambda place, words: _object(place) is None,
        "plural": lambda place, words: _number(place) in _PLURALS,
        "singular": lambda place, words: _number(place) == "NN",
        "det": _det,
        "bare": lambda place, words: place.child(place.last, "amod", "compound") is None,
        "end": lambda place, words: place.after() in ("", "."),
        "early": lambda place, words: place.first < _EARLY,
        "followed": lambda place, words: place.after() in words,
        "notfollowed": lambda place, words: place.after() not in words,
        "preceded": lambda place, words: place.before() in words,
        "notpreceded": lambda place, words: place.before() not in words,
        "then": _then,
        "notthen": lambda place, words: not _then(place, words),
        "with": lambda place, words: not words.isdisjoint(place.parsed.lower),
        "without": lambda place, words: words.isdisjoint(place.parsed.lower),
        "object": _is_object,
        "obj": _obj,
        "noobj": lambda place, words: _object(place) is None,
        "notobj": lambda place, words: not _obj(place, words),
        "by": _by,
        "of": _of,
        "notof": lambda place, words: not _of(place, words),
        "on": _on,
        "noton": lambda place, words: not _on(place, words),
        "prep": _prep,
        "adv": _adv,
        "clause": _clause,
        "acl": _acl,
        "predicate": _predicate,
        "plain": lambda place, words: place.parsed.words[place.first].tag == "VBP",
        "worn": _worn,
        "nns": _nns,
        "attributive": _attributive,
    }
)
