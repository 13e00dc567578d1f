"""Edits of a true caption of a scene: hard negatives, false there, and hard positives, still true.

Both are checked against the scene, never assumed.
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
    """What an operator may look at besides the caption."""

    scene: Scene
    world: World
    rng: Generator


_Operator: TypeAlias = Callable[[Statement, _Context], Statement | None]


def edit(
    kind: str,
    said: Statement,
    scene: Scene,
    rng: Generator,
    *,
    world: World,
    withheld: frozenset[Combination] = frozenset(),
) -> Statement | None:
    """The caption changed by one operator, or None where it does not apply.

    It means what its own text would be read as; its style may hold what the text does not show.

    Args:
        kind: One of `NEGATIVES` or `POSITIVES`.
        said: A caption that holds in the scene.
        scene: Where the edit is checked.
        rng: Chooses among values and words that would do.
        world: Bounds the words.
        withheld: (shape, colour) pairs that no edit may name.
    """
    if kind not in _OPERATORS:
        raise unknown_name("edit", kind, _OPERATORS)
    new = _OPERATORS[kind](said, _Context(scene, world, rng))
    if new is None or holds(new.ast, scene) is not (kind in POSITIVES):
        return None
    if any((o.shape, o.colour) in withheld for o in objects_of(new.ast)):
        return None
    return None if new.text == said.text else new


def swap_attributes(said: Statement) -> Statement | None:
    """The colours (else textures, else sizes) of the two things exchanged, words kept."""
    if not isinstance(said.ast, And | Rel):
        return None
    first, second = said.ast.first, said.ast.second
    for attribute in ("colour", "texture", "size"):
        a, b = value_of(first, attribute), value_of(second, attribute)
        if a and b and a != b:
            pair = with_value(first, attribute, b), with_value(second, attribute, a)
            style = _moved(said.style, {(i, attribute): (1 - i, attribute) for i in (0, 1)})
            return Statement(with_objects(said.ast, pair), style)
    return None


def swap_arguments(said: Statement) -> Statement | None:
    """The two things of a relation exchanged, words kept."""
    match said.ast:
        case Rel(first, relation, second):
            return Statement(Rel(second, relation, first), _turned(said.style))
    return None


def _replace(attribute: Attribute) -> _Operator:
    """Another value, one that no thing of the scene has, so that a bag of words can tell."""

    def operator(said: Statement, around: _Context) -> Statement | None:
        known: dict[Attribute, Iterable[str]] = {
            "shape": around.world.shapes,
            "colour": around.world.colours,
            "size": SIZES,
            "texture": TEXTURES,
        }
        objects = list(objects_of(said.ast))
        places = [i for i, obj in enumerate(objects) if value_of(obj, attribute)]
        present = {getattr(thing, attribute) for thing in around.scene.things}
        values = [value for value in known[attribute] if value not in present]
        if not places or not values or isinstance(said.ast, Not | Has):
            return None
        place = places[around.rng.integers(len(places))]
        value = values[around.rng.integers(len(values))]
        objects[place] = with_value(objects[place], attribute, value)
        return Statement(with_objects(said.ast, tuple(objects)), said.style)

    return operator


def _replace_relation(said: Statement, around: _Context) -> Statement | None:
    match said.ast:
        case Rel(first, relation, second):
            return Statement(Rel(first, INVERSE[relation], second), said.style)
    return None


def _replace_count(said: Statement, around: _Context) -> Statement | None:
    match said.ast:
        case Count(n, obj):
            numbers = [m for m in (n - 1, n + 1) if 1 <= m <= len(NUMBERS)]
            return Statement(Count(numbers[around.rng.integers(len(numbers))], obj), said.style)
    return None


def _negate(said: Statement, around: _Context) -> Statement | None:
    """Deny a thing that is there, or claim one that is not: either wording can be the false one."""
    match said.ast:
        case And(first, second):
            return Statement(Has(first, Not(second)), said.style)
        case Has(present, Not(absent)):
            return Statement(And(present, absent), said.style)
        case Obj():
            return Statement(Not(said.ast), said.style)
        case Not(obj):
            return Statement(obj, said.style)
    return None


def conjunct_swap(said: Statement) -> Statement | None:
    """Two things named in the other order."""
    match said.ast:
        case And(first, second):
            return Statement(And(second, first), _turned(said.style))
    return None


def _inverse(said: Statement, around: _Context) -> Statement | None:
    match said.ast:
        case Rel(first, relation, second):
            return Statement(Rel(second, INVERSE[relation], first), _turned(said.style))
    return None


def _synonym(attribute: Attribute) -> _Operator:
    """The other word for the same value; a rare word becomes the usual one."""

    def operator(said: Statement, around: _Context) -> Statement | None:
        objects = objects_of(said.ast)
        slots: list[Slot] = [
            (i, attribute) for i, o in enumerate(objects) if value_of(o, attribute)
        ]
        if not slots:
            return None
        slot = slots[around.rng.integers(len(slots))]
        return replace(said, style=replace(said.style, rare=said.style.rare ^ {slot}))

    return operator


def _relation_synonym(said: Statement, around: _Context) -> Statement | None:
    if not isinstance(said.ast, Rel):
        return None
    return replace(said, style=replace(said.style, rare=said.style.rare ^ {RELATION}))


def _digit(said: Statement, around: _Context) -> Statement | None:
    if not isinstance(said.ast, Count):
        return None
    return replace(said, style=replace(said.style, digit=not said.style.digit))


def _double_form(said: Statement, around: _Context) -> Statement | None:
    """The longer or shorter form; for a denial beside a thing, "but no" or "without a"."""
    match said.ast:
        case And() | Obj() | Not():
            return replace(said, style=replace(said.style, double=not said.style.double))
        case Has():
            negation: Literal["no", "without"] = (
                "no" if said.style.negation == "without" else "without"
            )
            return replace(said, style=replace(said.style, negation=negation))
    return None


def _from_caption(operator: Callable[[Statement], Statement | None]) -> _Operator:
    return lambda said, around: operator(said)


def _moved(style: Style, to: dict[Slot, Slot]) -> Style:
    """Rare words stay rare where their meaning goes, so that an edit keeps its words."""
    return replace(style, rare=frozenset(to.get(slot, slot) for slot in style.rare))


def _turned(style: Style) -> Style:
    return _moved(style, {(i, name): (1 - i, name) for i in (0, 1) for name in ATTRIBUTES})


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
"""The positive of the same edit family, negative by negative."""
