"""From a statement about a scene, as a small syntax tree, to whether it holds there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never, cast

from unbag.world.scene import Scene, Thing, relations
from unbag.world.words import INVERSE, Relation, Size, Texture

Attribute = Literal["shape", "colour", "size", "texture"]
ATTRIBUTES: tuple[Attribute, ...] = ("shape", "colour", "size", "texture")


@dataclass(frozen=True, slots=True)
class Obj:
    """Some thing like this. What is None is left open; no shape at all reads as "thing"."""

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
    """Two different things, the first in this relation to the second."""

    first: Obj
    relation: Relation
    second: Obj


@dataclass(frozen=True, slots=True)
class Count:
    """Exactly `n` things like this, 1 to 5."""

    n: int
    obj: Obj


@dataclass(frozen=True, slots=True)
class Not:
    """No thing like this."""

    obj: Obj


@dataclass(frozen=True, slots=True)
class Has:
    """One thing is there, another is not."""

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
    """Whether the statement is true in the scene: the only source of truth of the world."""
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
    """What is said of this attribute."""
    return cast("str | None", getattr(obj, attribute))


def with_value(obj: Obj, attribute: Attribute, value: str | None) -> Obj:
    """The same description with another value of one attribute."""
    match attribute:
        case "shape":
            return replace(obj, shape=value)
        case "colour":
            return replace(obj, colour=value)
        case "size":
            return replace(obj, size=cast("Size | None", value))
        case "texture":
            return replace(obj, texture=cast("Texture | None", value))


def objects_of(ast: Ast) -> tuple[Obj, ...]:
    """The one or two descriptions in it, in the order in which they are said."""
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
    """The same statement about other descriptions, in the order of `objects_of`."""
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
    """One form for all statements that differ only in the order in which the things are named."""
    match ast:
        case And(first, second):
            return And(*sorted((first, second), key=repr))
        case Rel(first, relation, second) if repr(second) < repr(first):
            return Rel(second, INVERSE[relation], first)
        case _:
            return ast
