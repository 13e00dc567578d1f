"""From two looks to the two scenes and four statements of a quad, family by family.

Each family changes one thing between its scenes. The drafts are checked by `quads`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from numpy.random import Generator

from unbag.world.grammar import And, Attribute, Count, Has, Not, Obj, Rel, with_value
from unbag.world.place import (
    Look,
    exchange_colours,
    jittered,
    place_apart,
    place_copies,
    place_exchanged,
    remove_thing,
    sample_look,
    with_texture,
)
from unbag.world.realise import RELATION, Statement, Style
from unbag.world.scene import Scene, Thing
from unbag.world.words import INVERSE, TEXTURES, Relation, World


class Draft(NamedTuple):
    """A quad before it is checked."""

    scenes: tuple[Scene, Scene]
    first: tuple[Statement, Statement]
    second: tuple[Statement, Statement]


class Start(NamedTuple):
    """What a family begins with."""

    world: World
    rng: Generator
    a: Look
    b: Look
    relation: Relation


def placed(start: Start) -> tuple[Scene, Scene]:
    """The first thing in the relation to the second, and the same with the two exchanged."""
    b = start.b
    if start.relation in ("in front of", "behind"):
        b = replace(b, size=start.a.size)
    return place_exchanged(start.world, start.a, b, start.relation, start.rng)


def _swap(start: Start) -> Draft:
    a, b = start.a, start.b
    scene = place_apart(start.world, (a, b), start.rng)
    x, y = Obj(a.shape, a.colour), Obj(b.shape, b.colour)
    u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
    return Draft(
        (scene, exchange_colours(scene)),
        (Statement(And(x, y)), Statement(And(y, x))),
        (Statement(And(u, v)), Statement(And(v, u))),
    )


def _mentions(start: Start) -> tuple[Obj, Obj]:
    """Shapes with or without their colours, as training captions have them."""
    if start.rng.random() < 0.5:
        return Obj(start.a.shape), Obj(start.b.shape)
    return Obj(start.a.shape, start.a.colour), Obj(start.b.shape, start.b.colour)


def _relation(start: Start) -> Draft:
    scenes = placed(start)
    x, y = _mentions(start)
    r, inverse = start.relation, INVERSE[start.relation]
    return Draft(
        scenes,
        (Statement(Rel(x, r, y)), Statement(Rel(y, inverse, x))),
        (Statement(Rel(y, r, x)), Statement(Rel(x, inverse, y))),
    )


def _replace_relation(start: Start) -> Draft:
    scenes = placed(start)
    x, y = _mentions(start)
    r, inverse = start.relation, INVERSE[start.relation]
    rare = Style(rare=frozenset({RELATION}))
    return Draft(
        scenes,
        (Statement(Rel(x, r, y)), Statement(Rel(x, r, y), rare)),
        (Statement(Rel(x, inverse, y)), Statement(Rel(x, inverse, y), rare)),
    )


def _replace_colour(start: Start) -> Draft:
    scene = place_apart(start.world, (start.a, start.b), start.rng)
    present = (start.a.colour, start.b.colour)
    colour = _other(start.world.colours, present, start.rng)
    thing = replace(scene.things[0], colour=colour, rgb=jittered(colour, start.rng))
    return _replaced(start, (scene, _with_things(scene, thing, scene.things[1])), "colour")


def _replace_shape(start: Start) -> Draft:
    scene = place_apart(start.world, (start.a, start.b), start.rng)
    shape = _other(start.world.shapes, (start.a.shape, start.b.shape), start.rng)
    thing = replace(scene.things[0], shape=shape)
    return _replaced(start, (scene, _with_things(scene, thing, scene.things[1])), "shape")


def _replace_size(start: Start) -> Draft:
    """Both things change, so that the false size is true of nothing and its word alone can tell."""
    looks = replace(start.a, size="large"), replace(start.b, size="large")
    big = place_apart(start.world, looks, start.rng)
    tiny = _with_things(big, *(replace(thing, size="small") for thing in big.things))
    scenes = (tiny, big) if start.rng.random() < 0.5 else (big, tiny)
    return _replaced(start, scenes, "size")


def _replace_texture(start: Start) -> Draft:
    first, second, distractor = start.rng.permutation(list(TEXTURES))[:3].tolist()
    looks = replace(start.a, texture=first), replace(start.b, texture=distractor)
    scene = place_apart(start.world, looks, start.rng)
    return _replaced(start, (scene, with_texture(scene, 0, second)), "texture")


def _replaced(start: Start, scenes: tuple[Scene, Scene], attribute: Attribute) -> Draft:
    """The first thing with its value, usual word and rare one, beside the unchanged second."""
    x, y = _mentions(start)
    rare = Style(rare=frozenset({(0, attribute)}))
    values = [getattr(scene.things[0], attribute) for scene in scenes]
    a, b = (And(with_value(x, attribute, value), y) for value in values)
    return Draft(scenes, (Statement(a), Statement(a, rare)), (Statement(b), Statement(b, rare)))


def _count(start: Start) -> Draft:
    n = int(start.rng.integers(2, 6))
    more = place_copies(start.world, start.a, n, start.rng)
    fewer = remove_thing(more, int(start.rng.integers(n)))
    scenes = (more, fewer) if start.rng.random() < 0.5 else (fewer, more)
    x, _ = _mentions(start)
    a, b = (Count(len(scene.things), x) for scene in scenes)
    digit = Style(digit=True)
    return Draft(scenes, (Statement(a), Statement(a, digit)), (Statement(b), Statement(b, digit)))


def _negate(start: Start) -> Draft:
    """Something else lies in the place of the second thing: counting things must not answer."""
    scene = place_apart(start.world, (start.a, start.b), start.rng)
    look = sample_look(start.world, start.rng)
    rgb = jittered(look.colour, start.rng)
    other = replace(scene.things[1], shape=look.shape, colour=look.colour, rgb=rgb)
    lacking = _with_things(scene, scene.things[0], other)
    x, y = _mentions(start)
    both, denied = And(x, y), Has(x, Not(y))
    return Draft(
        (scene, lacking),
        (Statement(both), Statement(both, Style(double=True))),
        (Statement(denied), Statement(denied, Style(negation="without"))),
    )


def _other(values: Sequence[str], present: tuple[str, str], rng: Generator) -> str:
    others = [value for value in values if value not in present]
    return others[rng.integers(len(others))]


def _with_things(scene: Scene, *things: Thing) -> Scene:
    return replace(scene, things=things)


FAMILIES: dict[str, tuple[str, Callable[[Start], Draft]]] = {
    "swap": ("swap_attributes", _swap),
    "relation": ("swap_arguments", _relation),
    "replace_colour": ("replace_colour", _replace_colour),
    "replace_shape": ("replace_shape", _replace_shape),
    "replace_size": ("replace_size", _replace_size),
    "replace_texture": ("replace_texture", _replace_texture),
    "replace_relation": ("replace_relation", _replace_relation),
    "count": ("replace_count", _count),
    "negate": ("negate", _negate),
}
"""Name to (kind of the negative edit, builder)."""
