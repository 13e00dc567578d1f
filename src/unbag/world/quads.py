"""2 x 2 tests without a leak: two scenes, each with two captions of its own.

Every caption is an original, a hard positive and a hard negative equally often, so that a scorer
that never looks at the image ranks originals above negatives in exactly half of all cases.
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
"""Whether two looks may be shown together; asked of every scene of two things."""
FLAT: tuple[Relation, ...] = ("left of", "right of", "above", "below")


@dataclass(frozen=True)
class Quad:
    """Two scenes and four captions: two true in the first only, two in the second only."""

    family: str
    scenes: tuple[Scene, Scene]
    captions: tuple[tuple[str, str], tuple[str, str]]
    """Those of the first scene, those of the second; equal places have the same form."""
    negative: str
    """Kind of edit that leads from a caption to the one of the same form in the other scene."""
    positive: str
    """Kind of edit that leads from a caption to the other one of its scene."""
    relation: Relation | None = None
    """What is asked about, in the relation families."""


@dataclass(frozen=True)
class Triple:
    """A caption, a false one and another true one, of one scene."""

    scene: Scene
    caption: str
    negative: str
    positive: str
    order: Literal["kept", "reversed"]
    """Whether the negative has the form of the caption or that of the positive."""


@dataclass(frozen=True)
class Orbit:
    """Four scenes and four captions of exactly the same words, caption i true in scene i only."""

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
    """`n` quads, number i the same whatever n is; relations take turns, so they are balanced."""
    found = []
    for i in range(n):
        rng = np.random.default_rng((seed, crc32(family.encode()), i))
        relation = relations[i % len(relations)]
        found.append(quad(family, world, rng, relation=relation, accept=accept))
    return tuple(found)


def quad(
    family: str,
    world: World,
    rng: Generator,
    *,
    relation: Relation = "left of",
    accept: Accept | None = None,
) -> Quad:
    """One quad of a family, every caption checked against both scenes."""
    if family not in FAMILIES:
        raise unknown_name("quad family", family, FAMILIES, hint="see unbag.world.quads.FAMILIES")
    kind, build = FAMILIES[family]
    says_relation = kind in ("swap_arguments", "replace_relation")
    for looks in _pairs_of_looks(world, rng, accept):
        draft = build(_Start(world, rng, *looks, relation))
        if _is_right(draft, accept):
            (a, b), (c, d) = draft.first, draft.second
            return Quad(
                family,
                draft.scenes,
                ((a.text, b.text), (c.text, d.text)),
                negative=kind,
                positive=PARTNER[kind],
                relation=relation if says_relation else None,
            )
    raise AssertionError("looks never run out")


def triples(quad: Quad) -> tuple[Triple, ...]:
    """All eight: each true caption of each scene against each false one."""
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
    """Colours exchanged or not x things exchanged or not, in the scene and in the caption alike."""
    for a, b in _pairs_of_looks(world, rng, None):
        pair = _placed(_Start(world, rng, a, b, relation))
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


def _is_right(draft: _Draft, accept: Accept | None) -> bool:
    first, second = draft.scenes
    for scene in draft.scenes:
        looks = [Look(t.shape, t.colour, t.size, t.texture) for t in scene.things]
        if not is_clear(scene) or (accept and len(looks) == 2 and not accept(looks[0], looks[1])):
            return False
    texts = {said.text for said in (*draft.first, *draft.second)}
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


class _Start(NamedTuple):
    """What the builder of a family is given."""

    world: World
    rng: Generator
    a: Look
    b: Look
    relation: Relation


def _placed(start: _Start) -> tuple[Scene, Scene]:
    """The first thing in the relation to the second, and the same with the two exchanged."""
    b = start.b
    if start.relation in ("in front of", "behind"):
        b = replace(b, size=start.a.size)
    return place_exchanged(start.world, start.a, b, start.relation, start.rng)


def _swap(start: _Start) -> _Draft:
    a, b = start.a, start.b
    scene = place_apart(start.world, (a, b), start.rng)
    x, y = Obj(a.shape, a.colour), Obj(b.shape, b.colour)
    u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
    return _Draft(
        (scene, exchange_colours(scene)),
        (Statement(And(x, y)), Statement(And(y, x))),
        (Statement(And(u, v)), Statement(And(v, u))),
    )


def _mentions(start: _Start) -> tuple[Obj, Obj]:
    """Shapes with or without their colours, as training captions have them."""
    if start.rng.random() < 0.5:
        return Obj(start.a.shape), Obj(start.b.shape)
    return Obj(start.a.shape, start.a.colour), Obj(start.b.shape, start.b.colour)


def _relation(start: _Start) -> _Draft:
    scenes = _placed(start)
    x, y = _mentions(start)
    r, inverse = start.relation, INVERSE[start.relation]
    return _Draft(
        scenes,
        (Statement(Rel(x, r, y)), Statement(Rel(y, inverse, x))),
        (Statement(Rel(y, r, x)), Statement(Rel(x, inverse, y))),
    )


def _replace_relation(start: _Start) -> _Draft:
    scenes = _placed(start)
    x, y = _mentions(start)
    r, inverse = start.relation, INVERSE[start.relation]
    rare = Style(rare=frozenset({RELATION}))
    return _Draft(
        scenes,
        (Statement(Rel(x, r, y)), Statement(Rel(x, r, y), rare)),
        (Statement(Rel(x, inverse, y)), Statement(Rel(x, inverse, y), rare)),
    )


def _replace_colour(start: _Start) -> _Draft:
    scene = place_apart(start.world, (start.a, start.b), start.rng)
    present = (start.a.colour, start.b.colour)
    colour = _other(start.world.colours, present, start.rng)
    thing = replace(scene.things[0], colour=colour, rgb=jittered(colour, start.rng))
    return _replaced(start, (scene, _with_things(scene, thing, scene.things[1])), "colour")


def _replace_shape(start: _Start) -> _Draft:
    scene = place_apart(start.world, (start.a, start.b), start.rng)
    shape = _other(start.world.shapes, (start.a.shape, start.b.shape), start.rng)
    thing = replace(scene.things[0], shape=shape)
    return _replaced(start, (scene, _with_things(scene, thing, scene.things[1])), "shape")


def _replace_size(start: _Start) -> _Draft:
    """Both things change, so that the false size is true of nothing and its word alone can tell."""
    looks = replace(start.a, size="large"), replace(start.b, size="large")
    big = place_apart(start.world, looks, start.rng)
    tiny = _with_things(big, *(replace(thing, size="small") for thing in big.things))
    scenes = (tiny, big) if start.rng.random() < 0.5 else (big, tiny)
    return _replaced(start, scenes, "size")


def _replace_texture(start: _Start) -> _Draft:
    first, second, distractor = start.rng.permutation(list(TEXTURES))[:3].tolist()
    looks = replace(start.a, texture=first), replace(start.b, texture=distractor)
    scene = place_apart(start.world, looks, start.rng)
    return _replaced(start, (scene, with_texture(scene, 0, second)), "texture")


def _replaced(start: _Start, scenes: tuple[Scene, Scene], attribute: Attribute) -> _Draft:
    """The first thing with its value, usual word and rare one, beside the unchanged second."""
    x, y = _mentions(start)
    rare = Style(rare=frozenset({(0, attribute)}))
    values = [getattr(scene.things[0], attribute) for scene in scenes]
    a, b = (And(with_value(x, attribute, value), y) for value in values)
    return _Draft(scenes, (Statement(a), Statement(a, rare)), (Statement(b), Statement(b, rare)))


def _count(start: _Start) -> _Draft:
    n = int(start.rng.integers(2, 6))
    more = place_copies(start.world, start.a, n, start.rng)
    fewer = remove_thing(more, int(start.rng.integers(n)))
    scenes = (more, fewer) if start.rng.random() < 0.5 else (fewer, more)
    x, _ = _mentions(start)
    a, b = (Count(len(scene.things), x) for scene in scenes)
    digit = Style(digit=True)
    return _Draft(scenes, (Statement(a), Statement(a, digit)), (Statement(b), Statement(b, digit)))


def _negate(start: _Start) -> _Draft:
    """Something else lies in the place of the second thing: counting things must not answer."""
    scene = place_apart(start.world, (start.a, start.b), start.rng)
    look = sample_look(start.world, start.rng)
    rgb = jittered(look.colour, start.rng)
    other = replace(scene.things[1], shape=look.shape, colour=look.colour, rgb=rgb)
    lacking = _with_things(scene, scene.things[0], other)
    x, y = _mentions(start)
    both, denied = And(x, y), Has(x, Not(y))
    return _Draft(
        (scene, lacking),
        (Statement(both), Statement(both, Style(double=True))),
        (Statement(denied), Statement(denied, Style(negation="without"))),
    )


def _other(values: Sequence[str], present: tuple[str, str], rng: Generator) -> str:
    others = [value for value in values if value not in present]
    return others[rng.integers(len(others))]


def _with_things(scene: Scene, *things: Thing) -> Scene:
    return replace(scene, things=things)


FAMILIES: dict[str, tuple[str, Callable[[_Start], _Draft]]] = {
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
