"""What is known of a caption after parsing: words, nouns, noun phrases, attributes, counts.

Positions of words are indices into `words`; positions of characters are marked as such. Kinds of
edits read this and never spaCy's own objects, so that a rule can be tried on a caption written by
hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from unbag.captions.expressions import expressions_in
from unbag.types import Change

NOUN_TAGS = frozenset(("NN", "NNS", "NNP", "NNPS"))
ADJECTIVE_TAGS = frozenset(("JJ", "JJR", "JJS"))
VERB_TAGS = frozenset(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"))
_PARTICIPLES = frozenset(("VBN", "VBG"))


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


class Span(NamedTuple):
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
    def expressions(self) -> tuple[Span, ...]:
        """Relations of several words, such as "in front of" and "to the left of"."""
        return tuple(Span(first, last) for first, last in expressions_in(self.lower))

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
