"""Edits of a true caption: hard negatives, false of its scene, and hard positives, still true.

The truth of every edit is computed from the scene.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from unbag.errors import unknown_name
from unbag.world.grammar import (
    ATTRIBUTES,
    RELATION,
    And,
    Attribute,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    Slot,
    Statement,
    Style,
    holds,
    objects_of,
    value_of,
    with_objects,
    with_value,
)
from unbag.world.scenes import Scene
from unbag.world.vocabulary import INVERSE, NUMBERS, SIZES, TEXTURES, Combination, World

if TYPE_CHECKING:
    from numpy.random import Generator


class _Context(NamedTuple):
    """What an operator uses besides the caption."""

    scene: Scene
    world: World
    rng: Generator


_Operator: TypeAlias = Callable[[Statement, _Context], Statement | None]


def edit(
    kind: str,
    caption: Statement,
    scene: Scene,
    rng: Generator,
    *,
    world: World,
    withheld: frozenset[Combination] = frozenset(),
) -> Statement | None:
    """Edit a caption with one operator; None where the operator does not apply.

    The meaning of the edit is the meaning of its text; its style may contain choices that the text
    does not show.

    Args:
        kind: One of `NEGATIVES` or `POSITIVES`.
        caption: A caption that is true of the scene.
        scene: The scene that decides whether the edit is true.
        rng: Chooses among possible values and words.
        world: The vocabulary of the edit.
        withheld: (shape, colour) pairs that no edit may name.
    """
    if kind not in _OPERATORS:
        raise unknown_name("edit", kind, _OPERATORS)
    new = _OPERATORS[kind](caption, _Context(scene, world, rng))
    if new is None or holds(new.ast, scene) is not (kind in POSITIVES):
        return None
    if any((o.shape, o.colour) in withheld for o in objects_of(new.ast)):
        return None
    return None if new.text == caption.text else new


def swap_attributes(caption: Statement) -> Statement | None:
    """Exchange the colours (else textures, else sizes) of the two things; the words stay."""
    if not isinstance(caption.ast, And | Rel):
        return None
    first, second = caption.ast.first, caption.ast.second
    for attribute in ("colour", "texture", "size"):
        a, b = value_of(first, attribute), value_of(second, attribute)
        if a and b and a != b:
            pair = with_value(first, attribute, b), with_value(second, attribute, a)
            style = _move_slots(caption.style, {(i, attribute): (1 - i, attribute) for i in (0, 1)})
            return Statement(with_objects(caption.ast, pair), style)
    return None


def swap_arguments(caption: Statement) -> Statement | None:
    """Exchange the two things of a relation; the words stay."""
    match caption.ast:
        case Rel(first, relation, second):
            return Statement(Rel(second, relation, first), _exchange_slots(caption.style))
    return None


def _replace(attribute: Attribute) -> _Operator:
    """Replace a value by one that no thing of the scene has: a bag of words suffices to tell."""

    def operator(caption: Statement, context: _Context) -> Statement | None:
        vocabulary: dict[Attribute, Iterable[str]] = {
            "shape": context.world.shapes,
            "colour": context.world.colours,
            "size": SIZES,
            "texture": TEXTURES,
        }
        objects = list(objects_of(caption.ast))
        places = [i for i, obj in enumerate(objects) if value_of(obj, attribute)]
        present = {getattr(thing, attribute) for thing in context.scene.things}
        values = [value for value in vocabulary[attribute] if value not in present]
        if not places or not values or isinstance(caption.ast, Not | Has):
            return None
        place = places[context.rng.integers(len(places))]
        value = values[context.rng.integers(len(values))]
        objects[place] = with_value(objects[place], attribute, value)
        return Statement(with_objects(caption.ast, tuple(objects)), caption.style)

    return operator


def _replace_relation(caption: Statement, context: _Context) -> Statement | None:
    match caption.ast:
        case Rel(first, relation, second):
            return Statement(Rel(first, INVERSE[relation], second), caption.style)
    return None


def _replace_count(caption: Statement, context: _Context) -> Statement | None:
    match caption.ast:
        case Count(n, obj):
            numbers = [m for m in (n - 1, n + 1) if 1 <= m <= len(NUMBERS)]
            return Statement(Count(numbers[context.rng.integers(len(numbers))], obj), caption.style)
    return None


def _negate(caption: Statement, context: _Context) -> Statement | None:
    """Deny a present thing or claim an absent one: either form can be the false one."""
    match caption.ast:
        case And(first, second):
            return Statement(Has(first, Not(second)), caption.style)
        case Has(present, Not(absent)):
            return Statement(And(present, absent), caption.style)
        case Obj():
            return Statement(Not(caption.ast), caption.style)
        case Not(obj):
            return Statement(obj, caption.style)
    return None


def conjunct_swap(caption: Statement) -> Statement | None:
    """Name two things in the other order."""
    match caption.ast:
        case And(first, second):
            return Statement(And(second, first), _exchange_slots(caption.style))
    return None


def _inverse(caption: Statement, context: _Context) -> Statement | None:
    match caption.ast:
        case Rel(first, relation, second):
            return Statement(Rel(second, INVERSE[relation], first), _exchange_slots(caption.style))
    return None


def _synonym(attribute: Attribute) -> _Operator:
    """Replace a word by its synonym; a rare word becomes the common one."""

    def operator(caption: Statement, context: _Context) -> Statement | None:
        objects = objects_of(caption.ast)
        slots: list[Slot] = [
            (i, attribute) for i, o in enumerate(objects) if value_of(o, attribute)
        ]
        if not slots:
            return None
        slot = slots[context.rng.integers(len(slots))]
        return replace(caption, style=replace(caption.style, rare=caption.style.rare ^ {slot}))

    return operator


def _relation_synonym(caption: Statement, context: _Context) -> Statement | None:
    if not isinstance(caption.ast, Rel):
        return None
    return replace(caption, style=replace(caption.style, rare=caption.style.rare ^ {RELATION}))


def _digit(caption: Statement, context: _Context) -> Statement | None:
    if not isinstance(caption.ast, Count):
        return None
    return replace(caption, style=replace(caption.style, digit=not caption.style.digit))


def _double_form(caption: Statement, context: _Context) -> Statement | None:
    """Change to the longer or shorter form; after a present thing, "but no" or "without a"."""
    match caption.ast:
        case And() | Obj() | Not():
            return replace(caption, style=replace(caption.style, double=not caption.style.double))
        case Has():
            negation: Literal["no", "without"] = (
                "no" if caption.style.negation == "without" else "without"
            )
            return replace(caption, style=replace(caption.style, negation=negation))
    return None


def _from_caption(operator: Callable[[Statement], Statement | None]) -> _Operator:
    return lambda caption, context: operator(caption)


def _move_slots(style: Style, moves: dict[Slot, Slot]) -> Style:
    """Move the marks of rare words with their meaning, so that an edit keeps its words."""
    return replace(style, rare=frozenset(moves.get(slot, slot) for slot in style.rare))


def _exchange_slots(style: Style) -> Style:
    return _move_slots(style, {(i, name): (1 - i, name) for i in (0, 1) for name in ATTRIBUTES})


NEGATIVES: dict[str, _Operator] = {
    "swap_attributes": _from_caption(swap_attributes),
    "swap_arguments": _from_caption(swap_arguments),
    "replace_colour": _replace("colour"),
    "replace_shape": _replace("shape"),
    "replace_size": _replace("size"),
    "replace_texture": _replace("texture"),
    "replace_relation": _replace_relation,
    "replace_count": _replace_count,
    "negate": _negate,
}

POSITIVES: dict[str, _Operator] = {
    "conjunct_swap": _from_caption(conjunct_swap),
    "inverse": _inverse,
    "synonym_colour": _synonym("colour"),
    "synonym_shape": _synonym("shape"),
    "synonym_size": _synonym("size"),
    "synonym_texture": _synonym("texture"),
    "relation_synonym": _relation_synonym,
    "digit": _digit,
    "double_form": _double_form,
}
_OPERATORS = {**NEGATIVES, **POSITIVES}
PARTNER: dict[str, str] = dict(zip(NEGATIVES, POSITIVES, strict=True))
"""For each hard negative the hard positive of the same edit family."""
