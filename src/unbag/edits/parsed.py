"""A parsed caption: its words, nouns, noun phrases, attributes and counts, and how they relate.

Word positions are indices into `words`; character positions are documented as such. Kinds of edits
use this instead of spaCy's objects, so that rules can be tested on hand-written parses. Relations
follow dependencies, not word order: in "a man in a shirt on a bench" the man is on the bench.
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
    """Position of its first character in the caption."""
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
    """The noun."""


class Attribute(NamedTuple):
    """A word before a noun that describes it: "red" in "a red cube"."""

    word: int
    noun: int


@dataclass(frozen=True)
class Parsed:
    """A caption with its words and their dependencies."""

    text: str
    words: tuple[Word, ...]
    chunks: tuple[Phrase, ...]
    """Noun phrases from the parser, in order."""
    is_upper: bool = False
    """Whether it is in capitals: it was parsed in lower case, and edits are put in capitals."""

    @cached_property
    def lower(self) -> tuple[str, ...]:
        """The words in lower case."""
        return tuple(word.text.lower() for word in self.words)

    @cached_property
    def expressions(self) -> tuple[WordSpan, ...]:
        """Prepositions of several words, such as "in front of" and "to the left of"."""
        return tuple(WordSpan(first, last) for first, last in expressions_in(self.lower))

    @cached_property
    def end(self) -> int:
        """One after the last word, without a final full stop."""
        return len(self.words) - (self.lower[-1:] == (".",))

    @cached_property
    def bound(self) -> frozenset[int]:
        """Words inside expressions, where "front" is not a noun."""
        return frozenset(i for first, last in self.expressions for i in range(first, last + 1))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each word, the words that depend on it."""
        children: list[list[int]] = [[] for _ in self.words]
        for i, word in enumerate(self.words):
            if word.head != i:
                children[word.head].append(i)
        return tuple(map(tuple, children))

    @cached_property
    def nouns(self) -> tuple[Phrase, ...]:
        """Nouns with their compound modifiers ("fire hydrant"), without articles and adjectives.

        Nouns inside expressions and inside longer names ("New York") are excluded.
        """
        nouns: list[Phrase] = []
        for i, word in enumerate(self.words):
            if word.tag not in NOUN_TAGS or i in self.bound or self._modifies_next(i):
                continue
            first = i
            while first and self._modifies_next(first - 1) and first - 1 not in self.bound:
                first -= 1
            nouns.append(Phrase(first, i, i))
        return tuple(nouns)

    @cached_property
    def phrases(self) -> tuple[Phrase, ...]:
        """Noun phrases with a noun, without pronouns and expressions."""
        heads = {noun.head for noun in self.nouns}
        return tuple(chunk for chunk in self.chunks if chunk.head in heads)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """Adjectives and participles before their noun."""
        heads = {noun.head for noun in self.nouns}
        return tuple(
            Attribute(i, word.head)
            for i, word in enumerate(self.words)
            if word.dep == "amod"
            and word.head in heads
            and i < word.head
            and i not in self.bound
            and (word.tag in ADJECTIVE_TAGS or word.tag in _PARTICIPLES)
        )

    @cached_property
    def verbs(self) -> tuple[int, ...]:
        """Full verbs, without auxiliaries and participles before nouns."""
        return tuple(
            i
            for i, word in enumerate(self.words)
            if word.tag in VERB_TAGS
            and word.pos == "VERB"
            and word.dep not in ("amod", "aux", "auxpass", "compound")
            and i not in self.bound
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers before nouns: "two", "3"."""
        return tuple(i for i, w in enumerate(self.words) if w.tag == "CD" and w.dep == "nummod")

    @cached_property
    def articles(self) -> tuple[int, ...]:
        """Every "a" and "an" that is followed by a word."""
        return tuple(
            i
            for i, text in enumerate(self.lower[:-1])
            if text in ("a", "an") and self.words[i].tag in ("DT", "PRP")
        )

    @cached_property
    def notes(self) -> dict[str, object]:
        """A cache for rules: results about this caption by name, shared by all kinds."""
        return {}

    def lower_at(self, i: int) -> str:
        """The word at an index in lower case; empty outside the caption."""
        return self.lower[i] if 0 <= i < len(self.words) else ""

    def lemma_at(self, i: int | None) -> str:
        """The lemma of a word in lower case; empty for None."""
        return "" if i is None else self.words[i].lemma.lower()

    def child(self, i: int, *deps: str) -> int | None:
        """The first dependent of a word with one of these dependencies."""
        return next((c for c in self.children[i] if self.words[c].dep in deps), None)

    def phrase_of(self, noun: int) -> Phrase | None:
        """The noun phrase around this noun."""
        return next((phrase for phrase in self.phrases if phrase.head == noun), None)

    def text_of(self, first: int, last: int) -> str:
        """The characters from one word to another, both included."""
        return self.text[self.words[first].start : self.words[last].end]

    def change(self, first: int, last: int, new: str) -> Change:
        """A change that replaces words."""
        return Change(self.words[first].start, self.words[last].end, new)

    def insert_before(self, i: int, new: str) -> Change:
        """A change that inserts text and a space before a word."""
        start = self.words[i].start
        return Change(start, start, f"{new} ")

    def _modifies_next(self, i: int) -> bool:
        """Whether a noun is the modifier of the noun right after it."""
        if i + 1 >= len(self.words):
            return False
        word, after = self.words[i], self.words[i + 1]
        if word.tag not in NOUN_TAGS or after.tag not in NOUN_TAGS:
            return False
        return word.dep == "compound" and word.head > i


class NounRelation(NamedTuple):
    """Subject, link and object: "a dog", "chases", "a cat"."""

    subject: Phrase
    link: WordSpan
    """The verb without auxiliaries, or the preposition with all its words."""
    object: Phrase
    verb: int | None
    """The verb that is the link or governs it ("sits on"); None if a noun governs it."""
    is_direct: bool
    """Whether the link is a verb with its direct object, not a preposition."""


def relations_in(parsed: Parsed) -> list[NounRelation]:
    """All relations between two noun phrases, in the order of their objects."""
    relations = (_relation_to(parsed, phrase) for phrase in parsed.phrases)
    return [
        relation
        for relation in relations
        if relation is not None and relation.subject.head != relation.object.head
    ]


class Conjunction(NamedTuple):
    """Two things of one kind joined by a word: "a dog", "and", "a cat"."""

    first: WordSpan
    word: int
    second: WordSpan
    pos: str
    """Of their heads: NOUN, ADJ, VERB ..."""


def conjunctions_in(parsed: Parsed) -> list[Conjunction]:
    """Pairs joined by "and" or "or", each with all its dependents.

    Of a longer list these are the last two.
    """
    pairs: list[Conjunction] = []
    for word, joining in enumerate(parsed.words):
        if joining.dep != "cc" or joining.text.lower() not in ("and", "or"):
            continue
        first = joining.head
        seconds = [i for i in parsed.children[first] if parsed.words[i].dep == "conj"]
        if len(seconds) != 1 or seconds[0] < word:
            continue
        sides = _sides(parsed, first, word, seconds[0])
        if sides is not None:
            pairs.append(Conjunction(sides[0], word, sides[1], parsed.words[first].pos))
    return pairs


def subtree(parsed: Parsed, i: int) -> WordSpan | None:
    """A word with all its dependents; None if they are not contiguous."""
    reached, to_visit = {i}, [i]
    while to_visit:
        for child in parsed.children[to_visit.pop()]:
            reached.add(child)
            to_visit.append(child)
    first, last = min(reached), max(reached)
    return WordSpan(first, last) if last - first + 1 == len(reached) else None


def subject_of(parsed: Parsed, verb: int) -> Phrase | None:
    """The subject phrase of a verb.

    It is the subject of the verb, or of the verb it is joined to, or the noun that the verb
    describes, as in "a man riding".
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
    expressions = (span for span in parsed.expressions if span.first <= word.head <= span.last)
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
    """The noun or verb that governs a link."""
    i = link.last
    for _ in parsed.words:
        head = parsed.words[i].head
        if head == i:
            return None
        if not link.first <= head <= link.last and parsed.words[head].pos not in ("ADP", "ADV"):
            return head
        i = head
    return None


def _sides(parsed: Parsed, first: int, word: int, second: int) -> tuple[WordSpan, WordSpan] | None:
    """The two sides of a conjunction, each contiguous and adjacent to the joining word."""
    right = subtree(parsed, second)
    whole = subtree(parsed, first)
    if right is None or whole is None or right.first != word + 1:
        return None
    left = WordSpan(whole.first, word - 1)
    # The subject precedes both verbs and keeps its position.
    if parsed.words[first].pos in ("VERB", "AUX"):
        left = WordSpan(first, word - 1)
    if parsed.words[left.last].text == ",":
        return None
    return (left, right) if left.first <= left.last else None


def expressions_in(words: Sequence[str]) -> list[tuple[int, int]]:
    """First and last word of each expression from left to right; the longest match wins.

    Args:
        words: The caption's words in lower case.
    """
    spans: list[tuple[int, int]] = []
    table, i = _expressions(), 0
    while i < len(words):
        matches = (
            expression
            for expression in table.get(words[i], ())
            if tuple(words[i : i + len(expression)]) == expression
        )
        length = len(next(matches, ()))
        if length:
            spans.append((i, i + length - 1))
        i += length or 1
    return spans


@cache
def _expressions() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    table: dict[str, list[tuple[str, ...]]] = {}
    for text in word_lists("spatial").lines("expressions"):
        words = tuple(text.split())
        table.setdefault(words[0], []).append(words)
    # The longest first: "on the left side of" before "on the left".
    return MappingProxyType(
        {
            first: tuple(sorted(expressions, key=len, reverse=True))
            for first, expressions in table.items()
        }
    )
