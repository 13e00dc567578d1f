"""From a syntax tree and a style to the words of a caption."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from unbag.world.grammar import And, Ast, Attribute, Count, Has, Not, Obj, Rel, objects_of
from unbag.world.words import COLOURS, NOUNS, NUMBERS, RELATIONS, SIZES, TEXTURES, THING, Relation

if TYPE_CHECKING:
    from numpy.random import Generator

Slot: TypeAlias = tuple[int, Attribute | Literal["relation"]]
"""Which word of a caption: of the first (0) or second (1) thing, or the relation (2)."""
RELATION: Slot = (2, "relation")

NOUN_OF = {noun.name: noun for noun in NOUNS}
# "hourglass" has a silent h; no other word of the vocabulary departs from its first letter.
_AN = ("a", "e", "i", "o", "u", "hour")


@dataclass(frozen=True, slots=True)
class Style:
    """The choices of wording that leave the meaning alone."""

    rare: frozenset[Slot] = frozenset()
    """Words said by their rarer synonym."""
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
    """Of the things that are there; denials and the double form always say "a"."""


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Statement:
    """What is said and how."""

    ast: Ast
    style: Style = PLAIN

    @property
    def text(self) -> str:
        """The caption."""
        return realise(self.ast, self.style)


def slots_of(ast: Ast) -> tuple[Slot, ...]:
    """Every word of it that has a synonym."""
    objects = objects_of(ast)
    first, second = objects[0], objects[-1]
    found = _slots(0, bool(first.colour), bool(first.size), bool(first.texture))
    if len(objects) == 2:
        found += _slots(1, bool(second.colour), bool(second.size), bool(second.texture))
    return (*found, RELATION) if isinstance(ast, Rel) else found


@cache
def _slots(index: int, *says: bool) -> tuple[Slot, ...]:
    """Of one thing that has a shape, and is said to have a colour, size and texture or not."""
    others: tuple[Attribute, ...] = ("colour", "size", "texture")
    said = [(index, name) for name, is_said in zip(others, says, strict=True) if is_said]
    return (index, "shape"), *said


def sample_style(ast: Ast, rng: Generator, *, p_synonym: float, p_form: float = 0.2) -> Style:
    """Draw the wording: each word rare with `p_synonym`, each less usual form with `p_form`."""
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
    """The caption: lower case, no full stop."""
    match ast:
        case Obj():
            return f"there is {_a(_say(ast, 0, style))}" if style.double else _name(ast, 0, style)
        case And(first, second):
            if style.double:
                a, b = (_a(_say(o, i, style)) for i, o in enumerate((first, second)))
                return f"there is {a} and there is {b}"
            return f"{_name(first, 0, style)} {style.joint} {_name(second, 1, style)}"
        case Rel(first, relation, second):
            form = relation_form(relation, style)
            return f"{_name(first, 0, style)} {form} {_name(second, 1, style)}"
        case Count(n, obj):
            number = str(n) if style.digit else NUMBERS[n - 1]
            return f"{number} {_say(obj, 0, style, plural=n > 1)}"
        case Not(obj):
            said = _say(obj, 0, style)
            if style.double:
                return f"there is no {said}"
            return f"no {said}" if style.negation == "no" else f"without {_a(said)}"
        case Has(present, Not(absent)):
            said = _say(absent, 1, style)
            denied = f"but no {said}" if style.negation == "no" else f"without {_a(said)}"
            return f"{_name(present, 0, style)} {denied}"
        case _:
            assert_never(ast)


def relation_form(relation: Relation, style: Style) -> str:
    """The words of a relation in this style."""
    usual, synonym = RELATIONS[relation]
    if RELATION in style.rare:
        return synonym
    return usual[-1] if style.long else usual[0]


def _name(obj: Obj, index: int, style: Style) -> str:
    said = _say(obj, index, style)
    return _a(said) if style.article == "a" else f"the {said}"


def _a(said: str) -> str:
    return f"an {said}" if said.startswith(_AN) else f"a {said}"


def _say(obj: Obj, index: int, style: Style, *, plural: bool = False) -> str:
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
