"""From the words of a caption back to its syntax tree and style: the inverse of realise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from unbag.errors import UserError
from unbag.world.grammar import And, Ast, Attribute, Count, Has, Not, Obj, Rel, with_value
from unbag.world.realise import PLAIN, RELATION, Slot, Statement, Style
from unbag.world.words import COLOURS, NOUNS, NUMBERS, RELATIONS, SIZES, TEXTURES, THING, Relation

_NUMBERS = {word: n + 1 for n, word in enumerate(NUMBERS)}
_NUMBERS |= {str(n): n for n in _NUMBERS.values()}
_FUNCTION_WORDS = ("a", "an", "the", "and", "with", "but", "no", "without", "there", "is")


@dataclass(frozen=True, slots=True)
class ContentWord:
    """What a word says of a thing."""

    attribute: Attribute
    value: str | None
    """None for the words that leave the shape open."""
    rare: bool
    plural: bool = False


def _content_words() -> dict[str, ContentWord]:
    table: dict[str, ContentWord] = {}
    for noun in (*NOUNS, THING):
        value = None if noun is THING else noun.name
        table[noun.plural] = ContentWord("shape", value, rare=False, plural=True)
        table[noun.synonym_plural] = ContentWord("shape", value, rare=True, plural=True)
        table[noun.name] = ContentWord("shape", value, rare=False)
        table[noun.synonym] = ContentWord("shape", value, rare=True)
    attributes: list[tuple[Attribute, str, str]] = []
    attributes += [("colour", word, synonym) for word, (synonym, _) in COLOURS.items()]
    attributes += [("size", word, synonym) for word, synonym in SIZES.items()]
    attributes += [("texture", word, synonym) for word, synonym in TEXTURES.items()]
    for attribute, word, synonym in attributes:
        table[word] = ContentWord(attribute, word, rare=False)
        table[synonym] = ContentWord(attribute, word, rare=True)
    return table


CONTENT_WORDS = _content_words()
"""Every word that says something of a thing."""
# Longest first: "on the left side of" begins with "on".
_RELATION_FORMS: tuple[tuple[tuple[str, ...], Relation, bool, bool], ...] = tuple(
    sorted(
        [
            (tuple(form.split()), relation, False, place > 0)
            for relation, (usual, _) in RELATIONS.items()
            for place, form in enumerate(usual)
        ]
        + [
            (tuple(rare.split()), relation, True, False)
            for relation, (_, rare) in RELATIONS.items()
        ],
        key=lambda row: -len(row[0]),
    )
)


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Every word any caption can hold, sorted: the vocabulary of the tiny models."""
    found = {*_FUNCTION_WORDS, *CONTENT_WORDS, *_NUMBERS}
    return tuple(sorted(found.union(*(form for form, *_ in _RELATION_FORMS))))


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    return frozenset(words())


def content_words(text: str) -> tuple[ContentWord, ...]:
    """What the words of a text, in whatever order, say of things; other words are passed over."""
    return tuple(CONTENT_WORDS[word] for word in text.split() if word in CONTENT_WORDS)


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Ast:
    """The meaning of a caption of the world."""
    return read(text).ast


def read(text: str) -> Statement:
    """Meaning and wording of a caption; `read(text).text == text` for every caption of the world.

    Raises:
        UserError: for a word or a form that the world does not have.
    """
    unknown = [word for word in text.split() if word not in _known()]
    if unknown or not text.strip():
        raise UserError(
            f"unknown word {unknown[0]!r} in {text!r}" if unknown else "an empty caption",
            expected="only words of the built-in world, such as 'a red circle and a blue square'",
            way_out="unbag.world.parse.words() lists them all",
        )
    try:
        statement = _Reader(text.split()).caption()
    except _UnreadableError:
        raise _no_caption(text, "one of the forms of its grammar") from None
    if statement.text != text:
        raise _no_caption(text, repr(statement.text))
    return statement


def _no_caption(text: str, expected: str) -> UserError:
    return UserError(
        f"{text!r} is not a caption of the built-in world",
        expected=expected,
        way_out="write it like 'a red circle left of a blue square' or 'three red circles'",
    )


class _UnreadableError(Exception):
    """No form of the grammar begins or goes on like this."""


class _Reader:
    """Reads left to right; what it accepts too kindly fails the comparison in `read`."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.rare: set[Slot] = set()

    def caption(self) -> Statement:
        first = self.tokens[0]
        if first in _NUMBERS:
            self.at = 1
            ast = Count(_NUMBERS[first], self._thing(0))
            return self._end(ast, Style(digit=first.isdigit()))
        if self._take("there", "is"):
            return self._double()
        if self._take("no"):
            return self._end(Not(self._thing(0)))
        if self._take("without"):
            self._article()
            return self._end(Not(self._thing(0)), Style(negation="without"))
        return self._two(Style(article=self._article()), self._thing(0))

    def _double(self) -> Statement:
        double = Style(double=True)
        if self._take("no"):
            return self._end(Not(self._thing(0)), double)
        self._article()
        obj = self._thing(0)
        if self._take("and", "there", "is"):
            self._article()
            return self._end(And(obj, self._thing(1)), double)
        return self._end(obj, double)

    def _two(self, style: Style, obj: Obj) -> Statement:
        if self._take("and") or self._take("with"):
            joint: Literal["and", "with"] = "and" if self.tokens[self.at - 1] == "and" else "with"
            self._article()
            return self._end(And(obj, self._thing(1)), replace(style, joint=joint))
        if self._take("but", "no"):
            return self._end(Has(obj, Not(self._thing(1))), style)
        if self._take("without"):
            self._article()
            return self._end(Has(obj, Not(self._thing(1))), replace(style, negation="without"))
        for form, relation, is_rare, is_long in _RELATION_FORMS:
            if self._take(*form):
                self.rare |= {RELATION} if is_rare else set()
                self._article()
                return self._end(Rel(obj, relation, self._thing(1)), replace(style, long=is_long))
        return self._end(obj, style)

    def _end(self, ast: Ast, style: Style = PLAIN) -> Statement:
        if self.at < len(self.tokens):
            raise _UnreadableError
        return Statement(ast, replace(style, rare=frozenset(self.rare)))

    def _take(self, *wanted: str) -> bool:
        found = tuple(self.tokens[self.at : self.at + len(wanted)]) == wanted
        self.at += len(wanted) if found else 0
        return found

    def _article(self) -> Literal["a", "the"]:
        if self._take("the"):
            return "the"
        if self._take("a") or self._take("an"):
            return "a"
        raise _UnreadableError

    def _thing(self, index: int) -> Obj:
        obj = Obj()
        while self.at < len(self.tokens):
            word = CONTENT_WORDS.get(self.tokens[self.at])
            if word is None:
                raise _UnreadableError
            self.at += 1
            if word.rare:
                self.rare.add((index, word.attribute))
            obj = with_value(obj, word.attribute, word.value)
            if word.attribute == "shape":
                return obj
        raise _UnreadableError
