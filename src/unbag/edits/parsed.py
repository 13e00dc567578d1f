"""A parsed caption: its words, nouns, noun phrases, attributes and counts, and how they relate.

Positions of words are indices into `words`; positions of characters are marked as such. Kinds of
edits read this and never spaCy's own objects, so that a rule can be tried on a caption written by
hand. Dependencies decide, not the order of words: in "a man in a shirt on a bench" the man is on
the bench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import NamedTuple

from unbag.edits.lexicon import word_lists
from unbag.types import Change

NOUN_TAGS = frozenset(("NN", "NNS", "NNP", "NNPS"))
ADJECTIVE_TAGS = frozenset(("JJ", "JJR", "JJS"))
VERB_TAGS = frozenset(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"))
BE = frozenset(("is", "are", "was", "were"))
SUBJECTS = ("nsubj", "nsubjpass")
RELATIVES = ("that", "which", "who")
_PARTICIPLES = frozenset(("VBN", "VBG"))
_CLAUSES = ("acl", "relcl")


class Word(NamedTuple):
    """A token: a word, a clitic or punctuation."""

    text: str
    start: int
    """Its first character in the caption."""
    end: int
    """One after its last character."""
    lemma: str
    tag: str
    """Penn Treebank: NN, JJ, VBG ..."""
    pos: str
    """Universal: NOUN, ADJ, VERB, AUX, ADP ..."""
    dep: str
    """Its dependency, as spaCy names it: nsubj, dobj, amod ..."""
    head: int
    """The word it depends on; itself at the root."""


class WordSpan(NamedTuple):
    """Words from `first` to `last`, both included."""

    first: int
    last: int


class Phrase(NamedTuple):
    """A noun phrase: article, number, adjectives and noun, without what follows the noun."""

    first: int
    last: int
    head: int
    """Its noun."""


class Attribute(NamedTuple):
    """A word before a noun that says how it is: "red" in "a red cube"."""

    word: int
    noun: int


@dataclass(frozen=True)
class Parsed:
    """A caption with its words and what they are to each other."""

    text: str
    words: tuple[Word, ...]
    chunks: tuple[Phrase, ...]
    """Noun phrases as the parser found them, in order."""
    is_upper: bool = False
    """Written in capitals: it was parsed in lower case, and edits go back to capitals."""

    @cached_property
    def lower(self) -> tuple[str, ...]:
        """Every word in lower case."""
        return tuple(word.text.lower() for word in self.words)

    @cached_property
    def expressions(self) -> tuple[WordSpan, ...]:
        """Relations of several words, such as "in front of" and "to the left of"."""
        return tuple(WordSpan(first, last) for first, last in expressions_in(self.lower))

    @cached_property
    def bound(self) -> frozenset[int]:
        """Words inside such expressions: "front" is no noun there."""
        return frozenset(at for first, last in self.expressions for at in range(first, last + 1))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each word, those that depend on it."""
        found: list[list[int]] = [[] for _ in self.words]
        for at, word in enumerate(self.words):
            if word.head != at:
                found[word.head].append(at)
        return tuple(map(tuple, found))

    @cached_property
    def nouns(self) -> tuple[Phrase, ...]:
        """Nouns with the nouns that specify them ("fire hydrant"), without article and adjective.

        Words of expressions and of names that go on ("New York") are not cut out of them.
        """
        found: list[Phrase] = []
        for at, word in enumerate(self.words):
            if word.tag not in NOUN_TAGS or at in self.bound or self._specifies_next(at):
                continue
            first = at
            while first and self._specifies_next(first - 1) and first - 1 not in self.bound:
                first -= 1
            found.append(Phrase(first, at, at))
        return tuple(found)

    @cached_property
    def phrases(self) -> tuple[Phrase, ...]:
        """Noun phrases around a noun; pronouns and words of expressions are none."""
        heads = {noun.head for noun in self.nouns}
        return tuple(chunk for chunk in self.chunks if chunk.head in heads)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """Adjectives and participles before the noun they belong to."""
        heads = {noun.head for noun in self.nouns}
        return tuple(
            Attribute(at, word.head)
            for at, word in enumerate(self.words)
            if word.dep == "amod"
            and word.head in heads
            and at < word.head
            and at not in self.bound
            and (word.tag in ADJECTIVE_TAGS or word.tag in _PARTICIPLES)
        )

    @cached_property
    def verbs(self) -> tuple[int, ...]:
        """Verbs that say what is done: no auxiliaries, no participles before nouns."""
        return tuple(
            at
            for at, word in enumerate(self.words)
            if word.tag in VERB_TAGS
            and word.pos == "VERB"
            and word.dep not in ("amod", "aux", "auxpass", "compound")
            and at not in self.bound
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers before nouns: "two", "3"."""
        return tuple(at for at, w in enumerate(self.words) if w.tag == "CD" and w.dep == "nummod")

    @cached_property
    def articles(self) -> tuple[int, ...]:
        """Every "a" and "an" that a word follows."""
        return tuple(
            at
            for at, text in enumerate(self.lower[:-1])
            if text in ("a", "an") and self.words[at].tag in ("DT", "PRP")
        )

    @cached_property
    def notes(self) -> dict[str, object]:
        """What rules found out about this caption, by name: found out once for all kinds."""
        return {}

    def lower_at(self, at: int) -> str:
        """A word in lower case; empty before the first and after the last."""
        return self.lower[at] if 0 <= at < len(self.words) else ""

    def lemma_at(self, at: int | None) -> str:
        """The lemma of a word in lower case; empty for None."""
        return "" if at is None else self.words[at].lemma.lower()

    def child(self, at: int, *deps: str) -> int | None:
        """The first word that depends on another in one of these ways."""
        return next((c for c in self.children[at] if self.words[c].dep in deps), None)

    def phrase_of(self, noun: int) -> Phrase | None:
        """The noun phrase around this noun."""
        return next((phrase for phrase in self.phrases if phrase.head == noun), None)

    def text_of(self, first: int, last: int) -> str:
        """The characters from one word to another, both included."""
        return self.text[self.words[first].start : self.words[last].end]

    def change(self, first: int, last: int, new: str) -> Change:
        """Put something else where these words stand."""
        return Change(self.words[first].start, self.words[last].end, new)

    def insert_before(self, at: int, new: str) -> Change:
        """Put words before a word, with a space."""
        start = self.words[at].start
        return Change(start, start, f"{new} ")

    def _specifies_next(self, at: int) -> bool:
        """Whether a noun stands right before the noun that it specifies."""
        if at + 1 >= len(self.words):
            return False
        word, after = self.words[at], self.words[at + 1]
        if word.tag not in NOUN_TAGS or after.tag not in NOUN_TAGS:
            return False
        return word.dep == "compound" and word.head > at


class NounRelation(NamedTuple):
    """Subject, what links it to the object, object: "a dog", "chases", "a cat"."""

    subject: Phrase
    link: WordSpan
    """The verb without auxiliaries, or the preposition with all its words."""
    object: Phrase
    verb: int | None
    """The verb that the link is, or hangs on ("sits on"); None between bare nouns."""
    is_direct: bool
    """Whether the link is a verb with its direct object, not a preposition."""


def relations_in(parsed: Parsed) -> list[NounRelation]:
    """Every relation between two noun phrases, by the place of its object."""
    found = (_relation_to(parsed, phrase) for phrase in parsed.phrases)
    return [one for one in found if one is not None and one.subject.head != one.object.head]


class Conjunction(NamedTuple):
    """Two things of one kind joined by a word: "a dog", "and", "a cat"."""

    first: WordSpan
    word: int
    second: WordSpan
    pos: str
    """Of their heads: NOUN, ADJ, VERB ..."""


def conjunctions_in(parsed: Parsed) -> list[Conjunction]:
    """Pairs joined by "and" or "or", each with all that depends on it, next to the word.

    Of a longer list these are the last two.
    """
    found: list[Conjunction] = []
    for word, joining in enumerate(parsed.words):
        if joining.dep != "cc" or joining.text.lower() not in ("and", "or"):
            continue
        first = joining.head
        seconds = [at for at in parsed.children[first] if parsed.words[at].dep == "conj"]
        if len(seconds) != 1 or seconds[0] < word:
            continue
        pair = _sides(parsed, first, word, seconds[0])
        if pair is not None:
            found.append(Conjunction(pair[0], word, pair[1], parsed.words[first].pos))
    return found


def subtree(parsed: Parsed, at: int) -> WordSpan | None:
    """All that depends on a word, with it; None if that is not one stretch of words."""
    reached, open_ = {at}, [at]
    while open_:
        for child in parsed.children[open_.pop()]:
            reached.add(child)
            open_.append(child)
    first, last = min(reached), max(reached)
    return WordSpan(first, last) if last - first + 1 == len(reached) else None


def subject_of(parsed: Parsed, verb: int) -> Phrase | None:
    """The noun phrase that does it.

    The verb's own subject, that of the verb it is joined to, or the noun that it describes, as in
    "a man riding".
    """
    word = parsed.words[verb]
    for child in parsed.children[verb]:
        # In "a man that rides", "that" stands for the man.
        if parsed.words[child].dep in SUBJECTS and parsed.lower[child] not in RELATIVES:
            return parsed.phrase_of(child)
    if word.dep in _CLAUSES and word.head < verb:
        return parsed.phrase_of(word.head)
    is_linked = word.dep in ("conj", "xcomp", "advcl") and word.head != verb
    if is_linked and parsed.words[word.head].tag in VERB_TAGS:
        return subject_of(parsed, word.head)
    return None


def _relation_to(parsed: Parsed, phrase: Phrase) -> NounRelation | None:
    word = parsed.words[phrase.head]
    if word.dep == "dobj" and parsed.words[word.head].tag in VERB_TAGS:
        subject = subject_of(parsed, word.head)
        if subject is None:
            return None
        return NounRelation(subject, WordSpan(word.head, word.head), phrase, word.head, True)
    if word.dep != "pobj":
        return None
    # The expression that the preposition ends ("to the left of"), or itself.
    expressions = (one for one in parsed.expressions if one.first <= word.head <= one.last)
    link = next(expressions, WordSpan(word.head, word.head))
    holder = _holder(parsed, link)
    if holder is None:
        return None
    is_verb = parsed.words[holder].tag in VERB_TAGS
    subject = subject_of(parsed, holder) if is_verb else parsed.phrase_of(holder)
    if subject is None:
        return None
    return NounRelation(subject, link, phrase, holder if is_verb else None, False)


def _holder(parsed: Parsed, link: WordSpan) -> int | None:
    """The noun or verb that the link hangs on."""
    at = link.last
    for _ in parsed.words:
        head = parsed.words[at].head
        if head == at:
            return None
        if not link.first <= head <= link.last and parsed.words[head].pos not in ("ADP", "ADV"):
            return head
        at = head
    return None


def _sides(parsed: Parsed, first: int, word: int, second: int) -> tuple[WordSpan, WordSpan] | None:
    """What stands on both sides of the joining word, each one stretch that touches it."""
    right = subtree(parsed, second)
    whole = subtree(parsed, first)
    if right is None or whole is None or right.first != word + 1:
        return None
    left = WordSpan(whole.first, word - 1)
    # A verb's subject stands before both of its verbs and stays where it is.
    if parsed.words[first].pos in ("VERB", "AUX"):
        left = WordSpan(first, word - 1)
    if parsed.words[left.last].text == ",":
        return None
    return (left, right) if left.first <= left.last else None


def expressions_in(words: Sequence[str]) -> list[tuple[int, int]]:
    """First and last word of each, from left to right, the longest that fits.

    Args:
        words: The caption's words in lower case.
    """
    found: list[tuple[int, int]] = []
    known, at = _expressions(), 0
    while at < len(words):
        some = (one for one in known.get(words[at], ()) if tuple(words[at : at + len(one)]) == one)
        length = len(next(some, ()))
        if length:
            found.append((at, at + length - 1))
        at += length or 1
    return found


@cache
def _expressions() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for text in word_lists("spatial").lines("expressions"):
        words = tuple(text.split())
        found.setdefault(words[0], []).append(words)
    # The longest first: "on the left side of" before "on the left".
    return MappingProxyType(
        {first: tuple(sorted(some, key=len, reverse=True)) for first, some in found.items()}
    )
