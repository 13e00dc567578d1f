"""The grammar of captions: syntax trees, their truth in a scene, and their wording.

`holds` computes the truth of a statement, `realise` writes it as a caption, `read` and `parse` turn
a caption back into a statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never, cast

from unbag.errors import UnbagError
from unbag.world.scenes import Scene, Thing, relations
from unbag.world.vocabulary import (
    COLOURS,
    INVERSE,
    NOUNS,
    NUMBERS,
    RELATIONS,
    SIZES,
    TEXTURES,
    THING,
    Relation,
    Size,
    Texture,
)

if TYPE_CHECKING:
    from numpy.random import Generator

Attribute = Literal["shape", "colour", "size", "texture"]
ATTRIBUTES: tuple[Attribute, ...] = ("shape", "colour", "size", "texture")


@dataclass(frozen=True, slots=True)
class Obj:
    """A description of a thing. None leaves an attribute open; without a shape it reads "thing"."""

    shape: str | None = None
    colour: str | None = None
    size: Size | None = None
    texture: Texture | None = None


@dataclass(frozen=True, slots=True)
class And:
    """Two different things."""

    first: Obj
    second: Obj


@dataclass(frozen=True, slots=True)
class Rel:
    """Two different things, the first in a relation to the second."""

    first: Obj
    relation: Relation
    second: Obj


@dataclass(frozen=True, slots=True)
class Count:
    """Exactly `n` things of a description, 1 to 5."""

    n: int
    obj: Obj


@dataclass(frozen=True, slots=True)
class Not:
    """No thing of a description."""

    obj: Obj


@dataclass(frozen=True, slots=True)
class Has:
    """One thing is present, another is absent."""

    present: Obj
    absent: Not


Ast: TypeAlias = Obj | And | Rel | Count | Not | Has


def fits(obj: Obj, thing: Thing) -> bool:
    """Whether the description is true of this thing."""
    return (
        (obj.shape is None or obj.shape == thing.shape)
        and (obj.colour is None or obj.colour == thing.colour)
        and (obj.size is None or obj.size == thing.size)
        and (obj.texture is None or obj.texture == thing.texture)
    )


def holds(ast: Ast, scene: Scene) -> bool:
    """Whether the statement is true of the scene. This defines the truth of the world."""
    things = scene.things
    match ast:
        case Obj():
            return any(fits(ast, thing) for thing in things)
        case And(first, second):
            return any(
                i != j and fits(second, other)
                for i, thing in enumerate(things)
                if fits(first, thing)
                for j, other in enumerate(things)
            )
        case Rel(first, relation, second):
            return any(
                name == relation and fits(first, things[i]) and fits(second, things[j])
                for i, name, j in relations(scene)
            )
        case Count(n, obj):
            return sum(fits(obj, thing) for thing in things) == n
        case Not(obj):
            return not any(fits(obj, thing) for thing in things)
        case Has(present, absent):
            return holds(present, scene) and holds(absent, scene)
        case _:
            assert_never(ast)


def value_of(obj: Obj, attribute: Attribute) -> str | None:
    """The value of an attribute in a description; None where it is open."""
    return cast("str | None", getattr(obj, attribute))


def with_value(obj: Obj, attribute: Attribute, value: str | None) -> Obj:
    """The same description with another value of one attribute."""
    changed: dict[str, Any] = {attribute: value}
    return replace(obj, **changed)


def objects_of(ast: Ast) -> tuple[Obj, ...]:
    """The one or two descriptions of a statement, in the order of the caption."""
    match ast:
        case Obj():
            return (ast,)
        case And(first, second) | Rel(first, _, second) | Has(first, Not(second)):
            return first, second
        case Count(_, obj) | Not(obj):
            return (obj,)
        case _:
            assert_never(ast)


def with_objects(ast: Ast, objects: tuple[Obj, ...]) -> Ast:
    """The same statement with other descriptions, in the order of `objects_of`."""
    match ast:
        case Obj():
            return objects[0]
        case And() | Rel():
            return replace(ast, first=objects[0], second=objects[1])
        case Has():
            return Has(objects[0], Not(objects[1]))
        case Count() | Not():
            return replace(ast, obj=objects[0])
        case _:
            assert_never(ast)


def meaning(ast: Ast) -> Ast:
    """A canonical form: equal for statements that differ only in the order of the things."""
    match ast:
        case And(first, second):
            return And(*sorted((first, second), key=repr))
        case Rel(first, relation, second) if repr(second) < repr(first):
            return Rel(second, INVERSE[relation], first)
        case _:
            return ast


Slot: TypeAlias = tuple[int, Attribute | Literal["relation"]]
"""A word of a caption: (0 or 1, attribute) of the first or second thing, or the relation."""
RELATION: Slot = (2, "relation")
NOUN_OF = {noun.name: noun for noun in NOUNS}
# "hourglass" has a silent h; all other words follow their first letter.
_AN = ("a", "e", "i", "o", "u", "hour")


@dataclass(frozen=True, slots=True)
class Style:
    """Choices of wording that do not change the meaning."""

    rare: frozenset[Slot] = frozenset()
    """The words replaced by their rarer synonym."""
    long: bool = False
    """"to the left of" instead of "left of", where the relation has both."""
    joint: Literal["and", "with"] = "and"
    digit: bool = False
    """"3" instead of "three"."""
    negation: Literal["no", "without"] = "no"
    """"but no x" or "without a x"."""
    double: bool = False
    """"there is a x and there is a y"; also for one thing, present or absent."""
    article: Literal["a", "the"] = "a"
    """The article of present things. Negations and the double form always use "a"."""


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Statement:
    """A syntax tree and its wording."""

    ast: Ast
    style: Style = PLAIN

    @property
    def text(self) -> str:
        """The caption."""
        return realise(self.ast, self.style)


def slots_of(ast: Ast) -> tuple[Slot, ...]:
    """The words of the caption that have a synonym."""
    objects = objects_of(ast)
    first, second = objects[0], objects[-1]
    slots = _slots(0, bool(first.colour), bool(first.size), bool(first.texture))
    if len(objects) == 2:
        slots += _slots(1, bool(second.colour), bool(second.size), bool(second.texture))
    return (*slots, RELATION) if isinstance(ast, Rel) else slots


@cache
def _slots(index: int, *is_named: bool) -> tuple[Slot, ...]:
    """The words of one thing: its shape, and its colour, size and texture where they are named."""
    others: tuple[Attribute, ...] = ("colour", "size", "texture")
    named = [(index, name) for name, is_in in zip(others, is_named, strict=True) if is_in]
    return (index, "shape"), *named


def sample_style(ast: Ast, rng: Generator, *, p_synonym: float, p_form: float = 0.2) -> Style:
    """Draw the wording: each word rare with `p_synonym`, each less common form with `p_form`."""
    slots = slots_of(ast)
    draw = rng.random(len(slots) + 6).tolist()
    form = [value < p_form for value in draw[:6]]
    rare = [slot for slot, value in zip(slots, draw[6:], strict=True) if value < p_synonym]
    return _style(frozenset(rare), *form)


@cache
def _style(
    rare: frozenset[Slot],
    is_long: bool,
    is_with: bool,
    is_digit: bool,
    is_without: bool,
    is_double: bool,
    is_the: bool,
) -> Style:
    return Style(
        rare=rare,
        long=is_long,
        joint="with" if is_with else "and",
        digit=is_digit,
        negation="without" if is_without else "no",
        double=is_double,
        article="the" if is_the else "a",
    )


def realise(ast: Ast, style: Style = PLAIN) -> str:
    """The caption, in lower case without a full stop."""
    match ast:
        case Obj():
            return (
                f"there is {_with_a(_noun_phrase(ast, 0, style))}"
                if style.double
                else _with_article(ast, 0, style)
            )
        case And(first, second):
            if style.double:
                a, b = (_with_a(_noun_phrase(o, i, style)) for i, o in enumerate((first, second)))
                return f"there is {a} and there is {b}"
            return (
                f"{_with_article(first, 0, style)} {style.joint} {_with_article(second, 1, style)}"
            )
        case Rel(first, relation, second):
            forms, synonym = RELATIONS[relation]
            form = synonym if RELATION in style.rare else forms[-1 if style.long else 0]
            return f"{_with_article(first, 0, style)} {form} {_with_article(second, 1, style)}"
        case Count(n, obj):
            number = str(n) if style.digit else NUMBERS[n - 1]
            return f"{number} {_noun_phrase(obj, 0, style, plural=n > 1)}"
        case Not(obj):
            noun = _noun_phrase(obj, 0, style)
            if style.double:
                return f"there is no {noun}"
            return f"no {noun}" if style.negation == "no" else f"without {_with_a(noun)}"
        case Has(present, Not(absent)):
            noun = _noun_phrase(absent, 1, style)
            negation = f"but no {noun}" if style.negation == "no" else f"without {_with_a(noun)}"
            return f"{_with_article(present, 0, style)} {negation}"
        case _:
            assert_never(ast)


def _with_article(obj: Obj, index: int, style: Style) -> str:
    noun = _noun_phrase(obj, index, style)
    return _with_a(noun) if style.article == "a" else f"the {noun}"


def _with_a(words: str) -> str:
    return f"an {words}" if words.startswith(_AN) else f"a {words}"


def _noun_phrase(obj: Obj, index: int, style: Style, *, plural: bool = False) -> str:
    rare = style.rare
    words: list[str] = []
    if obj.size:
        words.append(SIZES[obj.size] if (index, "size") in rare else obj.size)
    if obj.colour:
        words.append(COLOURS[obj.colour][0] if (index, "colour") in rare else obj.colour)
    if obj.texture:
        words.append(TEXTURES[obj.texture] if (index, "texture") in rare else obj.texture)
    noun = NOUN_OF[obj.shape] if obj.shape else THING
    if (index, "shape") in rare:
        words.append(noun.synonym_plural if plural else noun.synonym)
    else:
        words.append(noun.plural if plural else noun.name)
    return " ".join(words)


_NUMBERS = {word: n + 1 for n, word in enumerate(NUMBERS)}
_NUMBERS |= {str(n): n for n in _NUMBERS.values()}
_FUNCTION_WORDS = ("a", "an", "the", "and", "with", "but", "no", "without", "there", "is")


@dataclass(frozen=True, slots=True)
class ContentWord:
    """The meaning of a word that describes a thing."""

    attribute: Attribute
    value: str | None
    """None for "thing" and its synonym, which leave the shape open."""
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
    attributes: dict[Attribute, Iterable[tuple[str, str]]] = {
        "colour": [(word, synonym) for word, (synonym, _) in COLOURS.items()],
        "size": SIZES.items(),
        "texture": TEXTURES.items(),
    }
    for attribute, synonyms in attributes.items():
        for word, synonym in synonyms:
            table[word] = ContentWord(attribute, word, rare=False)
            table[synonym] = ContentWord(attribute, word, rare=True)
    return table


CONTENT_WORDS = _content_words()
"""Every word that describes a thing."""
# Longest first: "on the left side of" begins with "on".
_RELATION_FORMS: list[tuple[tuple[str, ...], Relation, bool, bool]] = sorted(
    [
        (tuple(form.split()), relation, False, place > 0)
        for relation, (usual, _) in RELATIONS.items()
        for place, form in enumerate(usual)
    ]
    + [(tuple(rare.split()), relation, True, False) for relation, (_, rare) in RELATIONS.items()],
    key=lambda row: -len(row[0]),
)
"""Words of the form, relation, whether it is the rarer synonym, whether it is the longer form."""


_KNOWN = frozenset({*_FUNCTION_WORDS, *CONTENT_WORDS, *_NUMBERS}).union(
    *(form for form, *_ in _RELATION_FORMS)
)


def words() -> tuple[str, ...]:
    """Every word of the captions, sorted: the vocabulary of the tiny models."""
    return tuple(sorted(_KNOWN))


def content_words(text: str) -> tuple[ContentWord, ...]:
    """The content words of a text in any order; other words are skipped."""
    return tuple(CONTENT_WORDS[word] for word in text.split() if word in CONTENT_WORDS)


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Ast:
    """The meaning of a caption of the world."""
    return read(text).ast


def read(text: str) -> Statement:
    """Parse a caption into meaning and wording: `read(text).text == text` for every caption.

    Raises:
        UnbagError: The text has a word or a form that the world does not have.
    """
    unknown = [word for word in text.split() if word not in _KNOWN]
    if unknown or not text.strip():
        raise UnbagError(
            f"unknown word {unknown[0]!r} in {text!r}" if unknown else "an empty caption",
            expected="only words of the built-in world, such as 'a red circle and a blue square'",
            hint="unbag.world.grammar.words() lists them all",
        )
    try:
        statement = _Reader(text.split()).caption()
    except _UnreadableError:
        raise _no_caption(text, "one of the forms of its grammar") from None
    if statement.text != text:
        raise _no_caption(text, repr(statement.text))
    return statement


def _no_caption(text: str, expected: str) -> UnbagError:
    return UnbagError(
        f"{text!r} is not a caption of the built-in world",
        expected=expected,
        hint="write it like 'a red circle left of a blue square' or 'three red circles'",
    )


class _UnreadableError(Exception):
    """The words match no form of the grammar."""


class _Reader:
    """Parses from left to right. It accepts too much; `read` compares with the exact text."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.rare: set[Slot] = set()

    def caption(self) -> Statement:
        first = self.tokens[0]
        if first in _NUMBERS:
            self.position = 1
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
            joint: Literal["and", "with"] = (
                "and" if self.tokens[self.position - 1] == "and" else "with"
            )
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
        if self.position < len(self.tokens):
            raise _UnreadableError
        return Statement(ast, replace(style, rare=frozenset(self.rare)))

    def _take(self, *words: str) -> bool:
        is_next = tuple(self.tokens[self.position : self.position + len(words)]) == words
        self.position += len(words) if is_next else 0
        return is_next

    def _article(self) -> Literal["a", "the"]:
        if self._take("the"):
            return "the"
        if self._take("a") or self._take("an"):
            return "a"
        raise _UnreadableError

    def _thing(self, index: int) -> Obj:
        obj = Obj()
        while self.position < len(self.tokens):
            word = CONTENT_WORDS.get(self.tokens[self.position])
            if word is None:
                raise _UnreadableError
            self.position += 1
            if word.rare:
                self.rare.add((index, word.attribute))
            obj = with_value(obj, word.attribute, word.value)
            if word.attribute == "shape":
                return obj
        raise _UnreadableError
