"""Quads, 2 x 2 tests without a leak: two scenes, each with two captions of its own.

Every caption is an original, a hard positive and a hard negative equally often, so that a scorer
that ignores the image ranks originals above negatives in exactly half of all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.random import Generator

from unbag.errors import unknown_name
from unbag.world.edits import PARTNER
from unbag.world.grammar import (
    RELATION,
    And,
    Attribute,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    Statement,
    Style,
    holds,
    with_value,
)
from unbag.world.placement import (
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
from unbag.world.scenes import Scene, Thing, is_clear
from unbag.world.vocabulary import INVERSE, TEXTURES, Relation, World

Accept: TypeAlias = Callable[[Look, Look], bool]
"""Whether two looks may appear together in a scene of two things."""
FLAT: tuple[Relation, ...] = ("left of", "right of", "above", "below")


@dataclass(frozen=True)
class Quad:
    """Two scenes and four captions: two true in the first only, two in the second only."""

    family: str
    scenes: tuple[Scene, Scene]
    captions: tuple[tuple[str, str], tuple[str, str]]
    """The captions of the first and of the second scene; equal positions have the same form."""
    negative: str
    """The kind of edit between captions of the same form in the two scenes."""
    positive: str
    """The kind of edit between the two captions of one scene."""
    relation: Relation | None = None
    """The tested relation, in the relation families."""


@dataclass(frozen=True)
class Triple:
    """A caption, a hard negative and a hard positive of one scene."""

    scene: Scene
    caption: str
    negative: str
    positive: str
    order: Literal["kept", "reversed"]
    """Whether the negative has the form of the caption or that of the positive."""


@dataclass(frozen=True)
class Orbit:
    """Four scenes and four captions of the same words; caption i is true of scene i only."""

    scenes: tuple[Scene, Scene, Scene, Scene]
    captions: tuple[str, str, str, str]
    relation: Relation


def quads(
    family: str,
    world: World,
    *,
    n: int,
    seed: int,
    relations: Sequence[Relation] = FLAT,
    accept: Accept | None = None,
) -> tuple[Quad, ...]:
    """Make `n` quads. Quad i does not depend on n; relations alternate, so they are balanced."""
    items = []
    for i in range(n):
        rng = np.random.default_rng((seed, crc32(family.encode()), i))
        relation = relations[i % len(relations)]
        items.append(quad(family, world, rng, relation=relation, accept=accept))
    return tuple(items)


def quad(
    family: str,
    world: World,
    rng: Generator,
    *,
    relation: Relation = "left of",
    accept: Accept | None = None,
) -> Quad:
    """Make one quad of a family; every caption is checked against both scenes."""
    if family not in FAMILIES:
        raise unknown_name("quad family", family, FAMILIES, hint="see unbag.world.quads.FAMILIES")
    kind, build = FAMILIES[family]
    is_relational = kind in ("swap_arguments", "replace_relation")
    for looks in _pairs_of_looks(world, rng, accept):
        draft = build(_QuadParts(world, rng, *looks, relation))
        if _is_valid(draft, accept):
            (a, b), (c, d) = draft.first, draft.second
            return Quad(
                family,
                draft.scenes,
                ((a.text, b.text), (c.text, d.text)),
                negative=kind,
                positive=PARTNER[kind],
                relation=relation if is_relational else None,
            )
    raise AssertionError("looks never run out")


def triples(quad: Quad) -> tuple[Triple, ...]:
    """The eight triples of a quad: each true caption of each scene against each false one."""
    return tuple(
        Triple(
            quad.scenes[side],
            quad.captions[side][own],
            quad.captions[1 - side][other],
            quad.captions[side][1 - own],
            "kept" if own == other else "reversed",
        )
        for side in (0, 1)
        for own in (0, 1)
        for other in (0, 1)
    )


def orbit(world: World, rng: Generator, *, relation: Relation = "left of") -> Orbit:
    """Make an orbit: colours exchanged or not x things exchanged or not, in scenes and captions."""
    for a, b in _pairs_of_looks(world, rng, None):
        pair = _placed(_QuadParts(world, rng, a, b, relation))
        scenes = (*pair, *map(exchange_colours, pair))
        x, y = Obj(a.shape, a.colour), Obj(b.shape, b.colour)
        u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
        asts = [Rel(p, relation, q) for p, q in ((x, y), (y, x), (u, v), (v, u))]
        exact = [[holds(ast, scene) for ast in asts] for scene in scenes]
        if exact == np.eye(4, dtype=bool).tolist() and all(map(is_clear, scenes)):
            t0, t1, t2, t3 = (Statement(ast).text for ast in asts)
            return Orbit((*pair, scenes[2], scenes[3]), (t0, t1, t2, t3), relation)
    raise AssertionError("looks never run out")


def _pairs_of_looks(
    world: World, rng: Generator, accept: Accept | None
) -> Iterator[tuple[Look, Look]]:
    while True:
        a, b = sample_look(world, rng), sample_look(world, rng)
        if a.shape != b.shape and a.colour != b.colour and (accept is None or accept(a, b)):
            yield a, b


def _is_valid(draft: _Draft, accept: Accept | None) -> bool:
    first, second = draft.scenes
    for scene in draft.scenes:
        looks = [Look(t.shape, t.colour, t.size, t.texture) for t in scene.things]
        if not is_clear(scene) or (accept and len(looks) == 2 and not accept(looks[0], looks[1])):
            return False
    texts = {statement.text for statement in (*draft.first, *draft.second)}
    return (
        len(texts) == 4
        and all(holds(s.ast, first) and not holds(s.ast, second) for s in draft.first)
        and all(holds(s.ast, second) and not holds(s.ast, first) for s in draft.second)
    )


class _Draft(NamedTuple):
    """A quad before `quad` checks it; each family changes one thing between its scenes."""

    scenes: tuple[Scene, Scene]
    first: tuple[Statement, Statement]
    second: tuple[Statement, Statement]


class _QuadParts(NamedTuple):
    """The input of a family builder."""

    world: World
    rng: Generator
    a: Look
    b: Look
    relation: Relation


def _placed(parts: _QuadParts) -> tuple[Scene, Scene]:
    """The scene of the relation, and the scene with the two things exchanged."""
    b = parts.b
    if parts.relation in ("in front of", "behind"):
        b = replace(b, size=parts.a.size)
    return place_exchanged(parts.world, parts.a, b, parts.relation, parts.rng)


def _swap(parts: _QuadParts) -> _Draft:
    a, b = parts.a, parts.b
    scene = place_apart(parts.world, (a, b), parts.rng)
    x, y = Obj(a.shape, a.colour), Obj(b.shape, b.colour)
    u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
    return _Draft(
        (scene, exchange_colours(scene)),
        (Statement(And(x, y)), Statement(And(y, x))),
        (Statement(And(u, v)), Statement(And(v, u))),
    )


def _mentions(parts: _QuadParts) -> tuple[Obj, Obj]:
    """Descriptions with or without colours, as in training captions."""
    if parts.rng.random() < 0.5:
        return Obj(parts.a.shape), Obj(parts.b.shape)
    return Obj(parts.a.shape, parts.a.colour), Obj(parts.b.shape, parts.b.colour)


def _relation(parts: _QuadParts) -> _Draft:
    scenes = _placed(parts)
    x, y = _mentions(parts)
    r, inverse = parts.relation, INVERSE[parts.relation]
    return _Draft(
        scenes,
        (Statement(Rel(x, r, y)), Statement(Rel(y, inverse, x))),
        (Statement(Rel(y, r, x)), Statement(Rel(x, inverse, y))),
    )


def _replace_relation(parts: _QuadParts) -> _Draft:
    scenes = _placed(parts)
    x, y = _mentions(parts)
    r, inverse = parts.relation, INVERSE[parts.relation]
    rare = Style(rare=frozenset({RELATION}))
    return _Draft(
        scenes,
        (Statement(Rel(x, r, y)), Statement(Rel(x, r, y), rare)),
        (Statement(Rel(x, inverse, y)), Statement(Rel(x, inverse, y), rare)),
    )


def _replace_colour(parts: _QuadParts) -> _Draft:
    scene = place_apart(parts.world, (parts.a, parts.b), parts.rng)
    present = (parts.a.colour, parts.b.colour)
    colour = _other(parts.world.colours, present, parts.rng)
    thing = replace(scene.things[0], colour=colour, rgb=jittered(colour, parts.rng))
    return _draft_replaced(parts, (scene, _with_things(scene, thing, scene.things[1])), "colour")


def _replace_shape(parts: _QuadParts) -> _Draft:
    scene = place_apart(parts.world, (parts.a, parts.b), parts.rng)
    shape = _other(parts.world.shapes, (parts.a.shape, parts.b.shape), parts.rng)
    thing = replace(scene.things[0], shape=shape)
    return _draft_replaced(parts, (scene, _with_things(scene, thing, scene.things[1])), "shape")


def _replace_size(parts: _QuadParts) -> _Draft:
    """Both things change size: the false size is true of no thing, so its word alone can tell."""
    looks = replace(parts.a, size="large"), replace(parts.b, size="large")
    big = place_apart(parts.world, looks, parts.rng)
    tiny = _with_things(big, *(replace(thing, size="small") for thing in big.things))
    scenes = (tiny, big) if parts.rng.random() < 0.5 else (big, tiny)
    return _draft_replaced(parts, scenes, "size")


def _replace_texture(parts: _QuadParts) -> _Draft:
    first, second, distractor = parts.rng.permutation(list(TEXTURES))[:3].tolist()
    looks = replace(parts.a, texture=first), replace(parts.b, texture=distractor)
    scene = place_apart(parts.world, looks, parts.rng)
    return _draft_replaced(parts, (scene, with_texture(scene, 0, second)), "texture")


def _draft_replaced(parts: _QuadParts, scenes: tuple[Scene, Scene], attribute: Attribute) -> _Draft:
    """The first thing with its value, by the common and by the rare word, and the second thing."""
    x, y = _mentions(parts)
    rare = Style(rare=frozenset({(0, attribute)}))
    values = [getattr(scene.things[0], attribute) for scene in scenes]
    a, b = (And(with_value(x, attribute, value), y) for value in values)
    return _Draft(scenes, (Statement(a), Statement(a, rare)), (Statement(b), Statement(b, rare)))


def _count(parts: _QuadParts) -> _Draft:
    n = int(parts.rng.integers(2, 6))
    more = place_copies(parts.world, parts.a, n, parts.rng)
    fewer = remove_thing(more, int(parts.rng.integers(n)))
    scenes = (more, fewer) if parts.rng.random() < 0.5 else (fewer, more)
    x, _ = _mentions(parts)
    a, b = (Count(len(scene.things), x) for scene in scenes)
    digit = Style(digit=True)
    return _Draft(scenes, (Statement(a), Statement(a, digit)), (Statement(b), Statement(b, digit)))


def _negate(parts: _QuadParts) -> _Draft:
    """Another thing replaces the second one, so that counting things does not suffice."""
    scene = place_apart(parts.world, (parts.a, parts.b), parts.rng)
    look = sample_look(parts.world, parts.rng)
    rgb = jittered(look.colour, parts.rng)
    other = replace(scene.things[1], shape=look.shape, colour=look.colour, rgb=rgb)
    other_scene = _with_things(scene, scene.things[0], other)
    x, y = _mentions(parts)
    both, negated = And(x, y), Has(x, Not(y))
    return _Draft(
        (scene, other_scene),
        (Statement(both), Statement(both, Style(double=True))),
        (Statement(negated), Statement(negated, Style(negation="without"))),
    )


def _other(values: Sequence[str], present: tuple[str, str], rng: Generator) -> str:
    others = [value for value in values if value not in present]
    return others[rng.integers(len(others))]


def _with_things(scene: Scene, *things: Thing) -> Scene:
    return replace(scene, things=things)


FAMILIES: dict[str, tuple[str, Callable[[_QuadParts], _Draft]]] = {
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
"""Name to (kind of the hard negative, builder)."""
